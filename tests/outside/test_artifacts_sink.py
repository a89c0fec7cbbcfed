"""Bodies that go to a sink as they come: the bounds of the gate hold as for collected ones (W30, I27, I28)."""

import asyncio
import errno
import gzip
import zlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.outside.artifacts.files import FileArtifacts
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.sinking import Scrubbed
from sereno.outside.redaction import Redaction
from sereno.ports import CredentialConfig, Fetch, SecretPlace, Sink
from tests.outside.rawserver import RawServer, make_gate, ok

SECRET = "cnry-sink-0123456789"
GZIP = b"Content-Encoding: gzip\r\n"


class Bucket:
    """A sink that keeps the pieces; raises what it is told at the byte it is told."""

    def __init__(self, *, takes: bool = True, full_at: int | None = None, error: OSError | None = None):
        self.takes, self.full_at, self.error = takes, full_at, error
        self.pieces: list[bytes] = []
        self.begun: list[tuple[int, Sequence[tuple[str, str]]]] = []

    def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        self.begun.append((status, headers))
        return self.takes

    async def write(self, chunk: bytes) -> None:
        assert chunk, "no empty pieces"
        if self.full_at is not None and len(self.whole) + len(chunk) > self.full_at:
            assert self.error is not None
            raise self.error
        self.pieces.append(chunk)

    @property
    def whole(self) -> bytes:
        return b"".join(self.pieces)


async def fetch(answer: bytes, sink: Sink, *, seconds: float = 60.0, max_bytes: int = 5_000_000, **named: object) -> Reply:
    """One GET whose body goes to the sink."""
    async with RawServer(answer) as server:
        gate = make_gate(f"127.0.0.1:{server.port}", **named)  # type: ignore[arg-type]
        try:
            return await gate.fetch(Fetch(server.url, sink=sink, max_bytes=max_bytes, total_deadline=timedelta(seconds=seconds)))
        finally:
            await gate.close()


def chunked(*pieces: bytes, headers: bytes = b"") -> bytes:
    """An answer in chunks."""
    body = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in (*pieces, b""))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + headers + b"\r\n" + body


BODY = bytes(range(256)) * 4_000


@pytest.mark.parametrize(
    "answer",
    [
        ok(BODY),
        ok(gzip.compress(BODY), headers=GZIP),
        ok(zlib.compress(BODY), headers=b"Content-Encoding: deflate\r\n"),
        chunked(BODY[:1000], BODY[1000:]),
        chunked(gzip.compress(BODY), headers=GZIP),
        b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
    ],
    ids=["plain", "gzip", "deflate", "chunks", "gzip in chunks", "to the close"],
)
async def test_W30_the_decoded_body_goes_to_the_sink_and_the_reply_has_none(answer: bytes) -> None:
    """Nothing is collected; the sink sees status and headers first."""
    closes = answer.startswith(b"HTTP/1.1 200 OK\r\n\r\n")

    async def say(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        if closes:
            writer.close()

    bucket = Bucket()
    async with RawServer(say) as server:
        gate = make_gate(f"127.0.0.1:{server.port}")
        reply = await gate.fetch(Fetch(server.url, sink=bucket))
        await gate.close()
    assert isinstance(reply, HttpReply) and (reply.status, reply.body) == (200, b"")
    assert bucket.whole == BODY and max(map(len, bucket.pieces)) < len(BODY)
    assert [status for status, _ in bucket.begun] == [200]


async def test_a_sink_that_declines_gets_nothing_and_the_page_is_collected() -> None:
    """An error page is read as usual."""
    bucket = Bucket(takes=False)
    reply = await fetch(ok(b"gone", status=b"410 Gone"), bucket)
    assert isinstance(reply, HttpReply) and (reply.status, reply.body) == (410, b"gone") and not bucket.pieces


async def test_what_was_meant_for_a_sink_is_never_collected_whole() -> None:
    """A declined body has a small cap, however much the sink would have been allowed."""
    reply = await fetch(ok(bytes(1_000_001), status=b"500 Oops"), Bucket(takes=False), max_bytes=100_000_000)
    assert isinstance(reply, NoReply) and (reply.kind, reply.status) == (NoReplyKind.TOO_LARGE, 500)


@pytest.mark.parametrize(
    "answer",
    [
        ok(bytes(5_001)),
        chunked(bytes(5_001)),
        ok(gzip.compress(bytes(5_001)), headers=GZIP),
        ok(gzip.compress(bytes(90_000_000)), headers=GZIP),
    ],
    ids=["declared", "undeclared", "packed", "bomb"],
)
async def test_W30_the_cap_of_the_request_holds_for_decoded_bytes(answer: bytes) -> None:
    """Too much ends as TOO_LARGE, and the sink never saw more than the cap."""
    bucket = Bucket()
    reply = await fetch(answer, bucket, max_bytes=5_000)
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent, reply.status) == (NoReplyKind.TOO_LARGE, True, 200)
    assert len(bucket.whole) <= 5_000


async def test_a_packed_body_comes_in_small_pieces() -> None:
    """A thousand to one is never in memory whole."""
    bucket = Bucket()
    await fetch(ok(gzip.compress(bytes(4_000_000)), headers=GZIP), bucket)
    assert len(bucket.whole) == 4_000_000 and max(map(len, bucket.pieces)) <= 65_536


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (OSError(errno.EFBIG, "x"), NoReplyKind.TOO_LARGE, "over the size cap"),
        (OSError(errno.ENOSPC, "/secret/place"), NoReplyKind.CANCELLED, "No space left on device"),
        (OSError("/secret/place"), NoReplyKind.CANCELLED, "could not be kept"),
    ],
    ids=["its own cap", "full disk", "no number"],
)
async def test_W30_a_sink_that_cannot_go_on_ends_the_fetch(error: OSError, kind: NoReplyKind, says: str) -> None:
    """The reason is a value; a text of the system that names a place is not repeated."""
    reply = await fetch(ok(BODY), Bucket(full_at=10, error=error))
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (kind, True)
    assert says in reply.message and "/secret" not in reply.message


async def test_a_cut_body_is_no_reply() -> None:
    """What came is with the sink, and the caller knows that it is not whole."""

    async def say(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    bucket = Bucket()
    async with RawServer(say) as server:
        gate = make_gate(f"127.0.0.1:{server.port}")
        reply = await gate.fetch(Fetch(server.url, sink=bucket))
        await gate.close()
    assert isinstance(reply, NoReply) and reply.kind is NoReplyKind.RESET


@pytest.mark.parametrize(
    ("limits", "seconds", "kind"),
    [(GateLimits(grace=1000.0), 0.5, NoReplyKind.TIMEOUT), (GateLimits(grace=0.1), 1000.0, NoReplyKind.TOO_SLOW)],
)
async def test_the_total_deadline_and_the_least_rate_hold(limits: GateLimits, seconds: float, kind: NoReplyKind) -> None:
    """A body that stops coming ends the fetch."""

    async def say(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    async with RawServer(say) as server:
        gate = make_gate(f"127.0.0.1:{server.port}", limits=limits)
        reply = await gate.fetch(Fetch(server.url, sink=Bucket(), total_deadline=timedelta(seconds=seconds)))
        await gate.close()
    assert isinstance(reply, NoReply) and reply.kind is kind


@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
async def test_I27_an_echoed_secret_is_taken_out_wherever_the_pieces_end(cut: int) -> None:
    """A value that comes in two pieces, or letter by letter, is found as if it came in one."""
    redaction = Redaction()
    redaction.learn(SECRET)
    whole = f"before {SECRET} after {SECRET}".encode()
    at = whole.index(SECRET.encode()) + cut
    for pieces in ((whole[:at], whole[at:]), [whole[index : index + 1] for index in range(len(whole))]):
        bucket = Bucket()
        scrubbed = Scrubbed(bucket, redaction)
        for piece in pieces:
            await scrubbed.write(piece)
        await scrubbed.finish()
        assert bucket.whole == b"before [secret] after [secret]"


async def test_I27_a_provider_that_echoes_the_credential_has_it_taken_out() -> None:
    """On the way into the sink, like out of a collected body."""
    bucket = Bucket()
    async with RawServer(ok(f"you sent {SECRET}.".encode())) as server:
        place = CredentialConfig(server.url, SecretPlace(env="S"))
        gate = make_gate(f"127.0.0.1:{server.port}", credentials={"own": place}, environment={"S": SECRET})
        reply = await gate.fetch(Fetch(server.url, sink=bucket, credential="own"))
        await gate.close()
    assert isinstance(reply, HttpReply) and bucket.whole == b"you sent [secret]."
    assert SECRET.encode() in server.requests[0]


async def test_W30_a_download_ends_in_the_store(tmp_path: Path) -> None:
    """Gate and folder together: the file is what was sent."""
    store = FileArtifacts(tmp_path)
    incoming = await store.incoming(types=["image/*"], max_bytes=2_000_000)
    reply = await fetch(ok(gzip.compress(BODY), headers=GZIP + b"Content-Type: image/png\r\n"), incoming)
    assert isinstance(reply, HttpReply)
    artifact = await incoming.finish()
    assert artifact.size == len(BODY) and b"".join([piece async for piece in store.read(artifact.digest)]) == BODY
