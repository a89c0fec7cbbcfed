"""Artifacts in a bucket, against a real server of the S3 API that nobody here wrote (moto), on loopback (W30, W25)."""

import hashlib
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sereno.app.keeping import build_artifacts
from sereno.app.parts import Outside
from sereno.core.artifact import Artifact
from sereno.core.errors import NotFound, SetupError, Unavailable
from sereno.outside.artifacts.files import FileArtifacts
from sereno.outside.artifacts.s3 import Bucket, S3Artifacts
from sereno.outside.egress.gate import Gate
from sereno.ports import ArtifactStore, CredentialConfig, Fetch, SecretPlace
from sereno.settings import parse_settings
from tests.outside.rawserver import RawServer, make_gate, ok

KEY, SECRET = "AKIACNRY0123456789AB", "cnry-s3-secret-0123456789abcdefghijklmno"
AWS4 = "AWS4-HMAC-SHA256"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """moto's server in a thread of its own."""
    from moto.server import ThreadedMotoServer

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def gate_to(endpoint: str, value: str = f"{KEY}:{SECRET}") -> Gate:
    """A gate with the one credential that signs for it."""
    place = CredentialConfig(endpoint, SecretPlace(env="S"), scheme=AWS4)
    return make_gate(endpoint.partition("//")[2], credentials={"s3": place}, environment={"S": value})


@pytest.fixture
async def gate(endpoint: str) -> AsyncIterator[Gate]:
    """The way out, and a bucket that is there."""
    found = gate_to(endpoint)
    bucket = Bucket(endpoint, "kept", "s3")
    made = await found.fetch(Fetch(f"{endpoint}/kept", method="PUT", credential="s3", signer=bucket.sign))
    assert getattr(made, "status", None) in (200, 409), made
    yield found
    await found.close()


def store(gate: Gate, endpoint: str, tmp_path: Path, **more: str) -> S3Artifacts:
    """The store under test."""
    return S3Artifacts(gate, Bucket(endpoint, more.pop("bucket", "kept"), "s3", **more), FileArtifacts(tmp_path))


async def keep(kept: ArtifactStore, content: bytes, kind: str = "text/plain") -> Artifact:
    """Takes one artifact in."""
    incoming = await kept.incoming(max_bytes=10_000_000)
    assert incoming.begin(200, [("content-type", kind)])
    await incoming.write(content)
    return await incoming.finish()


async def content(kept: ArtifactStore, digest: str) -> bytes:
    """Reads one whole."""
    return b"".join([piece async for piece in kept.read(digest)])


def files(folder: Path) -> list[Path]:
    """What is left in the local folder."""
    return [path for path in folder.rglob("*") if not path.is_dir()]


@pytest.mark.parametrize("whole", [b"", b"small", bytes(range(256)) * 2_000], ids=["empty", "small", "large"])
async def test_W30_what_is_kept_in_a_bucket_is_read_back(gate: Gate, endpoint: str, tmp_path: Path, whole: bytes) -> None:
    """Under its hash, with its type; no local copy stays."""
    kept = store(gate, endpoint, tmp_path, prefix="sereno/results/")
    artifact = await keep(kept, whole, "image/png")
    assert artifact == Artifact(hashlib.sha256(whole).hexdigest(), len(whole), "image/png")
    assert await content(kept, artifact.digest) == whole
    assert files(tmp_path) == []
    bucket = Bucket(endpoint, "kept", "s3", "sereno/results/")
    head = await gate.fetch(Fetch(bucket.url(artifact.digest), method="HEAD", credential="s3", signer=bucket.sign))
    assert head.status == 200 and head.header("content-type") == "image/png"  # type: ignore[union-attr]


async def test_what_is_not_in_the_bucket_is_not_found(gate: Gate, endpoint: str, tmp_path: Path) -> None:
    """And nothing stays behind of the try."""
    with pytest.raises(NotFound):
        await content(store(gate, endpoint, tmp_path), "0" * 64)
    with pytest.raises(NotFound):
        await content(store(gate, endpoint, tmp_path), "../" * 3)
    assert files(tmp_path) == []


async def test_a_bucket_that_is_missing_is_said(gate: Gate, endpoint: str, tmp_path: Path) -> None:
    """With the word of the service, for both directions."""
    kept = store(gate, endpoint, tmp_path, bucket="missing")
    with pytest.raises(Unavailable, match="written.*404 NoSuchBucket"):
        await keep(kept, b"x")
    with pytest.raises(Unavailable, match="read.*404 NoSuchBucket"):
        await content(kept, "0" * 64)
    assert files(tmp_path) == []


async def test_a_damaged_object_is_never_taken_for_the_result(gate: Gate, endpoint: str, tmp_path: Path) -> None:
    """Nothing of it is handed out."""
    kept, bucket = store(gate, endpoint, tmp_path), Bucket(endpoint, "kept", "s3")
    artifact = await keep(kept, b"right")
    wrong = {"X-Amz-Content-SHA256": hashlib.sha256(b"wrong").hexdigest()}
    put = Fetch(bucket.url(artifact.digest), method="PUT", headers=wrong, body=b"wrong", credential="s3", signer=bucket.sign)
    assert (await gate.fetch(put)).status == 200
    pieces = []
    with pytest.raises(Unavailable, match="damaged"):
        async for piece in kept.read(artifact.digest):
            pieces.append(piece)
    assert pieces == [] and files(tmp_path) == []


async def test_W25_the_key_signs_and_never_travels(tmp_path: Path) -> None:
    """The request holds a signature over hash and address; the secret is nowhere in it."""
    async with RawServer(ok(b"")) as server:
        gate = gate_to(server.url, f"{KEY}:{SECRET}:a-session-token-of-cnry")
        artifact = await keep(store(gate, server.url, tmp_path, region="eu-west-3"), b"content")
        await gate.close()
    (request,) = server.requests
    head = request.partition(b"\r\n\r\n")[0].decode()
    assert head.startswith(f"PUT /kept/{artifact.digest[:2]}/{artifact.digest[2:]} HTTP/1.1")
    assert f"Authorization: AWS4-HMAC-SHA256 Credential={KEY}/" in head and "/eu-west-3/s3/aws4_request" in head
    assert f"X-Amz-Content-SHA256: {artifact.digest}" in head and "X-Amz-Security-Token: a-session-token-of-cnry" in head
    assert "x-amz-content-sha256" in head.partition("SignedHeaders=")[2].partition(",")[0]
    assert SECRET not in request.decode("latin-1")


@pytest.mark.parametrize("value", ["only-a-key-without-secret", ":no-key-0123456789"])
async def test_a_credential_that_cannot_sign_is_said(tmp_path: Path, value: str) -> None:
    """Nothing leaves, and the value is not repeated."""
    async with RawServer(ok(b"")) as server:
        gate = gate_to(server.url, value)
        with pytest.raises(Unavailable, match="ACCESS_KEY_ID:SECRET") as caught:
            await keep(store(gate, server.url, tmp_path), b"x")
        await gate.close()
    assert value not in str(caught.value) and server.requests == [] and files(tmp_path) == []


async def test_a_service_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    """What came in is not lost silently: the copy is tried again later."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        gate = gate_to(url)
        with pytest.raises(Unavailable, match="cannot be written"):
            await keep(store(gate, url, tmp_path), b"x")
        await gate.close()
    assert files(tmp_path) == []


def settings(endpoint: str) -> str:
    """A deployment that keeps results in the bucket."""
    place = endpoint.partition("//")[2]
    credential = f'[credentials.store]\norigin = "{endpoint}"\nscheme = "{AWS4}"\nvalue = {{ env = "RESULT_STORE_KEY" }}\n'
    return f'[egress]\nallow = ["{place}"]\n{credential}[artifacts.s3]\nendpoint = "{endpoint}"\nbucket = "kept"\ncredential = "store"\n'


async def test_W30_the_settings_name_the_bucket(
    gate: Gate, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is put together from them keeps and reads, with a key from the environment."""
    monkeypatch.setenv("RESULT_STORE_KEY", f"{KEY}:{SECRET}")
    loaded = parse_settings(settings(endpoint), tmp_path / "sereno.toml")
    outside = Outside.build(loaded.settings, loaded)
    kept = build_artifacts(loaded, outside.gate)
    assert isinstance(kept, S3Artifacts)
    artifact = await keep(kept, b"from the settings")
    assert await content(kept, artifact.digest) == b"from the settings" and kept.trouble() is None
    await outside.close()
    assert files(tmp_path) == []


def test_without_the_extra_the_settings_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started, and the fault has its line."""
    loaded = parse_settings(settings("https://s3.example.com"), tmp_path / "sereno.toml")
    monkeypatch.setitem(sys.modules, "sereno.outside.artifacts.s3", None)
    with pytest.raises(SetupError, match="aws"):
        build_artifacts(loaded, make_gate())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ".sereno/artifacts"),
        ('[database]\npath = "db/x.db"\n', "db/artifacts"),
        ('[artifacts]\nfolder = "results"\n', "results"),
        ('[artifacts]\nfolder = "/var/results"\n', "/var/results"),
    ],
)
def test_the_folder_is_beside_the_database_unless_it_is_named(tmp_path: Path, text: str, place: str) -> None:
    """A relative name counts from the settings file."""
    loaded = parse_settings(text, tmp_path / "sereno.toml")
    kept = build_artifacts(loaded, make_gate())
    assert isinstance(kept, FileArtifacts) and kept.root == (tmp_path / place).resolve() and not kept.root.exists()


@pytest.mark.parametrize(
    "wrong", ['bucket = "A_B"', 'bucket = "a"', 'prefix = "../x/"', 'prefix = "x"', 'region = "eu west"', 'more = "x"']
)
def test_settings_that_would_change_the_address_are_refused(tmp_path: Path, wrong: str) -> None:
    """Bucket, prefix and region are words that need no encoding."""
    name = wrong.partition(" ")[0]
    lines = [line for line in settings("https://s3.example.com").splitlines() if not line.startswith(name)]
    with pytest.raises(SetupError, match=name):
        parse_settings("\n".join([*lines, wrong]), tmp_path / "sereno.toml")


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ('endpoint = "https://s3.example.com"', 'endpoint = "https://s3.example.com/path"', "without path"),
        ('endpoint = "https://s3.example.com"', 'endpoint = "s3.example.com"', "without path"),
        ('endpoint = "https://s3.example.com"', 'endpoint = "https://other.example.com"', "does not sign for"),
        ('credential = "store"', 'credential = "stone"', "did you mean store"),
        (f'scheme = "{AWS4}"\n', "", "does not sign for"),
    ],
)
def test_a_bucket_that_could_never_be_written_is_refused_at_the_start(tmp_path: Path, was: str, becomes: str, says: str) -> None:
    """Not at the first result, when nobody looks."""
    text = settings("https://s3.example.com").replace(was, becomes)
    assert text != settings("https://s3.example.com")
    with pytest.raises(SetupError, match=says):
        build_artifacts(parse_settings(text, tmp_path / "sereno.toml"), make_gate())
