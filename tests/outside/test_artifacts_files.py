"""Artifacts in a folder: whole or not there, once, private, and never outside (W30, reliability-security 4.3)."""

import asyncio
import errno
import hashlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sereno.core.artifact import Artifact
from sereno.core.errors import NotFound, Unavailable
from sereno.outside.artifacts import files
from sereno.outside.artifacts.files import FileArtifacts, IncomingFile

PNG = [("Content-Type", "image/png")]


async def keep(store: FileArtifacts, *chunks: bytes) -> Artifact:
    """Takes one artifact in."""
    incoming = await store.incoming(max_bytes=1_000_000)
    assert incoming.begin(200, PNG)
    for chunk in chunks:
        await incoming.write(chunk)
    return await incoming.finish()


async def content(store: FileArtifacts, digest: str) -> bytes:
    """Reads one whole."""
    return b"".join([piece async for piece in store.read(digest)])


def everything(root: Path) -> list[str]:
    """All files below, by their place."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


async def test_W30_an_artifact_stands_under_its_hash_with_size_and_type(tmp_path: Path) -> None:
    """The digest is the SHA-256 of the content, however it came in pieces, and reading gives the same bytes."""
    store = FileArtifacts(tmp_path / "kept")
    artifact = await keep(store, b"abc", b"", b"d" * 200_000)
    whole = b"abc" + b"d" * 200_000
    digest = hashlib.sha256(whole).hexdigest()
    assert artifact == Artifact(digest, len(whole), "image/png")
    assert everything(store.root) == [f"{digest[:2]}/{digest[2:]}"]
    assert await content(store, digest) == whole


async def test_W30_the_same_content_is_kept_once(tmp_path: Path) -> None:
    """Two deliveries of the same bytes end as one file, and two at once do not disturb each other."""
    store = FileArtifacts(tmp_path / "kept")
    first, second = await asyncio.gather(keep(store, b"same"), keep(store, b"sa", b"me"))
    assert first.digest == second.digest
    assert len(everything(store.root)) == 1


async def test_nobody_else_may_read_what_is_kept(tmp_path: Path) -> None:
    """Files have mode 0600 and folders 0700, whatever the umask."""
    before = os.umask(0)
    try:
        store = FileArtifacts(tmp_path / "deep" / "kept")
        await keep(store, b"private")
    finally:
        os.umask(before)
    for path in store.root.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700


async def test_an_abandoned_artifact_leaves_nothing(tmp_path: Path) -> None:
    """What was given up is removed, and giving up after the end is no harm."""
    store = FileArtifacts(tmp_path)
    incoming = await store.incoming(max_bytes=100)
    incoming.begin(200, PNG)
    await incoming.write(b"half")
    await incoming.abandon()
    assert everything(tmp_path) == []
    done = await store.incoming(max_bytes=100)
    done.begin(200, PNG)
    artifact = await done.finish()
    await done.abandon()
    assert await content(store, artifact.digest) == b""


@pytest.mark.parametrize("status", [199, 206, 301, 404, 410, 500])
async def test_only_a_whole_good_answer_is_taken(tmp_path: Path, status: int) -> None:
    """An error page or a part of something is no result."""
    incoming = await FileArtifacts(tmp_path).incoming(max_bytes=10)
    assert not incoming.begin(status, PNG)
    await incoming.abandon()


@pytest.mark.parametrize(
    ("types", "said", "taken"),
    [
        ((), "text/html", True),
        (("image/png",), "image/png", True),
        (("image/*",), "IMAGE/PNG; q=1", True),
        (("*/*",), "", True),
        (("image/*",), "text/html", False),
        (("image/*",), "imagex/png", False),
        (("image/png",), "", False),
        (("application/json",), "application/json-seq", False),
    ],
)
async def test_W30_media_types_are_judged(tmp_path: Path, types: tuple[str, ...], said: str, taken: bool) -> None:
    """What the contract does not accept is not taken, a missing type neither where one is asked for."""
    incoming = await FileArtifacts(tmp_path).incoming(types=types, max_bytes=10)
    assert incoming.begin(200, [("content-type", said)] if said else []) is taken
    await incoming.abandon()


async def test_W30_the_cap_is_kept_and_nothing_over_it_is_written(tmp_path: Path) -> None:
    """The chunk that would pass the cap raises EFBIG; the file is no longer than before."""
    incoming = await FileArtifacts(tmp_path).incoming(max_bytes=10)
    incoming.begin(200, PNG)
    await incoming.write(b"1234567890")
    with pytest.raises(OSError) as caught:
        await incoming.write(b"x")
    assert caught.value.errno == errno.EFBIG
    assert [path.stat().st_size for path in (tmp_path / "incoming").iterdir()] == [10]
    await incoming.abandon()


WRITER = """
import asyncio, sys
from pathlib import Path
from sereno.outside.artifacts.files import FileArtifacts

async def main():
    incoming = await FileArtifacts(Path(sys.argv[1])).incoming(max_bytes=100)
    incoming.begin(200, [])
    await incoming.write(b"half a result")
    print("written", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


async def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    """Temporary files go with the next artifact once their writer died, and only then."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"written\n"
        store = FileArtifacts(tmp_path)
        first = await keep(store, b"first")
        assert len(everything(tmp_path)) == 2, "the other process still writes"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    second = await keep(store, b"second")
    assert everything(tmp_path) == sorted(f"{one.digest[:2]}/{one.digest[2:]}" for one in (first, second))


async def test_a_temporary_name_that_is_taken_is_not_reused(tmp_path: Path) -> None:
    """Another process of the same number, in another container, loses nothing."""
    (tmp_path / "incoming").mkdir()
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "incoming" / f"{os.getpid()}-0").symlink_to(tmp_path / "outside")
    await keep(FileArtifacts(tmp_path), b"new")
    assert (tmp_path / "outside").read_text() == "precious"


class Full:
    """A disk that takes a number of bytes and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, at: str = "write"):
        self.room, real = room, os.write

        def write(descriptor: int, data: bytes) -> int:
            taken = real(descriptor, bytes(data)[: self.room])
            self.room -= taken
            if taken == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return taken

        def fsync(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(files.os, at, write if at == "write" else fsync)


async def test_W30_a_full_disk_while_writing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is ENOSPC, and no part of a result stands under a hash."""
    incoming = await FileArtifacts(tmp_path).incoming(max_bytes=100)
    incoming.begin(200, PNG)
    Full(monkeypatch, 4)
    with pytest.raises(OSError) as caught:
        await incoming.write(b"more than four")
    assert caught.value.errno == errno.ENOSPC
    await incoming.abandon()
    assert everything(tmp_path) == []


async def test_W30_a_disk_that_fills_at_the_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that did not reach the disk is not named; the temporary file goes."""
    incoming = await FileArtifacts(tmp_path).incoming(max_bytes=100)
    incoming.begin(200, PNG)
    await incoming.write(b"all")
    Full(monkeypatch, 0, "fsync")
    with pytest.raises(Unavailable, match="No space left") as caught:
        await incoming.finish()
    assert str(tmp_path) not in str(caught.value)
    monkeypatch.undo()
    assert everything(tmp_path) == []


async def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file in the place of the folder is no crash."""
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(Unavailable, match="cannot be written"):
        await FileArtifacts(tmp_path / "kept").incoming(max_bytes=10)


async def test_a_damaged_artifact_is_never_taken_for_the_result(tmp_path: Path) -> None:
    """Content that is not what its name says ends in an error, not in a normal end."""
    store = FileArtifacts(tmp_path)
    artifact = await keep(store, b"right")
    (tmp_path / artifact.digest[:2] / artifact.digest[2:]).write_bytes(b"wrong")
    with pytest.raises(Unavailable, match="damaged"):
        await content(store, artifact.digest)
    assert (await keep(store, b"right")).digest == artifact.digest
    assert await content(store, artifact.digest) == b"right", "the next copy heals it"


async def test_links_below_the_folder_are_not_followed(tmp_path: Path) -> None:
    """Neither for reading nor for writing, in the place of a file or of a folder."""
    away = tmp_path / "away"
    away.mkdir()
    (away / "secret").write_bytes(b"secret")
    store = FileArtifacts(tmp_path / "kept")
    artifact = await keep(store, b"x")
    place = store.root / artifact.digest[:2] / artifact.digest[2:]
    place.unlink()
    place.symlink_to(away / "secret")
    with pytest.raises((NotFound, Unavailable)):
        await content(store, artifact.digest)
    await keep(store, b"x")
    assert not place.is_symlink() and (away / "secret").read_bytes() == b"secret", "the link was replaced, not written through"
    place.unlink()
    place.parent.rmdir()
    place.parent.symlink_to(away)
    with pytest.raises(Unavailable):
        await keep(store, b"x")
    with pytest.raises((NotFound, Unavailable)):
        await content(store, artifact.digest)
    assert sorted(path.name for path in away.iterdir()) == ["secret"]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
async def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    """A pipe in the place of a file would hang the reader for ever."""
    store = FileArtifacts(tmp_path)
    artifact = await keep(store, b"x")
    place = tmp_path / artifact.digest[:2] / artifact.digest[2:]
    place.unlink()
    place.mkdir() if kind == "folder" else os.mkfifo(place)
    with pytest.raises(NotFound):
        await content(store, artifact.digest)


async def test_a_file_that_comes_in_is_whole_even_where_writes_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take a part of a write only."""
    real = os.write
    monkeypatch.setattr(files.os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:3]))
    store = FileArtifacts(tmp_path)
    artifact = await keep(store, b"0123456789")
    assert await content(store, artifact.digest) == b"0123456789"


async def test_the_port_is_what_is_built(tmp_path: Path) -> None:
    """The folder gives what the port promises."""
    incoming = await FileArtifacts(tmp_path).incoming(max_bytes=1)
    assert isinstance(incoming, IncomingFile)
    await incoming.abandon()


async def test_a_folder_that_cannot_be_used_is_seen_without_touching_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is made, once it is there, where a file is in its place, where nobody may write, and on a full disk."""
    store = FileArtifacts(tmp_path / "deep" / "kept")
    assert store.trouble() is None and not store.root.parent.exists()
    await keep(store, b"x")
    assert store.trouble() is None
    monkeypatch.setattr(files, "LEAST_ROOM", 1 << 80)
    assert "no room" in (store.trouble() or "")
    (tmp_path / "file").write_text("x")
    assert "no folder" in (FileArtifacts(tmp_path / "file" / "kept").trouble() or "")
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    assert "no folder that can be written" in (store.trouble() or "")
