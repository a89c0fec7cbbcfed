"""Incidents of others at the edge: keys in log lines, bombs behind redirects and in streams. Numbers: tests/incidents.toml."""

import asyncio
import gzip
import io
import logging
import tracemalloc
import zlib
from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest

from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.outside.redaction import Redaction, RedactionFilter
from sereno.ports import CredentialConfig, Fetch, SecretPlace
from tests.outside.corpus import follow
from tests.outside.rawserver import RawServer, make_gate, ok
from tests.outside.test_redaction import ENCODINGS, leaks

CANARIES = {"bearer": "cnry22-bearer/with+plus==", "header": "cnry22'apos&amp;%25", "basic": "ada:cnry22 pass word&<x>"}
MOST_MEMORY = 32 << 20


@pytest.fixture
def everything() -> Iterator[io.StringIO]:
    """A sink of every record of every logger at any level, libraries and ones that do not exist yet included; no filter of ours
    on it."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    names = ["httpx", "httpcore", "urllib3", "aiohttp.client", "aiohttp.internal", "asyncio", *logging.Logger.manager.loggerDict]
    loggers = [root, *(logging.getLogger(name) for name in names)]
    before = [(logger, logger.level, logger.disabled) for logger in loggers]
    for logger in loggers:
        logger.setLevel(1)
        logger.disabled = False
    root.addHandler(handler)
    yield said
    root.removeHandler(handler)
    for kept in root.handlers:
        for added in [found for found in kept.filters if isinstance(found, RedactionFilter)]:
            kept.removeFilter(added)
    for logger, level, disabled in before:
        logger.setLevel(level)
        logger.disabled = disabled


async def test_I27_no_library_writes_a_key_into_a_log_at_any_level(everything: io.StringIO) -> None:
    """incident 22: every logger at its lowest level, the loop in debug mode: requests that succeed, move on, break and fail
    hold no key."""
    asyncio.get_running_loop().set_debug(True)

    async def echo(request: bytes, writer: asyncio.StreamWriter) -> None:
        sent = request.split(b"\r\nX-Key: ")[1].split(b"\r\n")[0]
        path = request.split(b" ")[1]
        echoed = b"X-Echo: " + sent + b"\r\n"
        if path == b"/moves":
            writer.write(
                ok(b"", headers=echoed + b"Location: /there?key=" + sent.replace(b" ", b"+") + b"\r\n", status=b"302 Found")
            )
        elif path == b"/breaks":
            writer.write(b"HTTP/1.1 200 OK\r\n" + echoed + b"Content-Length: 99\r\n\r\n" + sent)
            writer.close()
        elif path == b"/nonsense":
            writer.write(b"HTTP/9.9 " + sent + b"\r\n\r\n")
        else:
            writer.write(ok(sent, headers=echoed, status=b"401 " + sent))

    async with RawServer(echo) as server:
        configs = {
            name: CredentialConfig(server.url, SecretPlace(env=name), header="X-Key", scheme="Basic" if name == "basic" else "")
            for name in CANARIES
        }
        gate = make_gate(f"127.0.0.1:{server.port}", credentials=configs, environment=dict(CANARIES))
        for name in CANARIES:
            for path in ("/said", "/moves", "/breaks", "/nonsense"):
                await gate.fetch(Fetch(server.url + path, credential=name, before_hop=follow))
        await gate.close()
        assert len(server.requests) >= 12
    logging.getLogger("httpx").info("the sink hears every library")
    said = everything.getvalue()
    assert "the sink hears every library" in said
    assert [canary for canary in (*CANARIES.values(), "cnry22 pass word&<x>") if leaks(said, canary)] == []


def test_I27_a_library_that_does_write_it_is_cleaned_and_silenced(everything: io.StringIO) -> None:
    """incident 22: a request line with the key in its query, as HTTP clients write it at INFO: gone with the quiet level,
    masked without."""
    redaction = Redaction()
    redaction.learn(CANARIES["bearer"])
    redaction.install()
    line = 'HTTP Request: GET https://api.example/v1?api_key=%s "HTTP/1.1 200 OK"'
    for encode in ENCODINGS.values():
        logging.getLogger("httpx").info(line, encode(CANARIES["bearer"]))
    assert "HTTP Request" not in everything.getvalue(), "INFO of HTTP libraries is off"
    for name in ("httpx", "urllib3", "aiohttp.client", "a.library.of.tomorrow"):
        for encode in ENCODINGS.values():
            logging.getLogger(name).warning(line, encode(CANARIES["bearer"]))
    said = everything.getvalue()
    assert said.count("HTTP Request") == 4 * len(ENCODINGS) and "[secret]" in said
    assert not leaks(said, CANARIES["bearer"])


def packed(size: int) -> bytes:
    """Zeros, compressed about 1000:1."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


class Counted:
    """A sink that counts what it is handed, and keeps none of it."""

    def __init__(self) -> None:
        self.bytes = 0
        self.begun: list[int] = []

    def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        """Takes whatever comes."""
        self.begun.append(status)
        return True

    async def write(self, chunk: bytes) -> None:
        """Adds up."""
        self.bytes += len(chunk)


GZIP = b"Content-Encoding: gzip\r\n"
MOVED = b"Location: /end\r\n"
BOMB = packed(200 << 20)
ANSWERS = {
    "the body of the redirect": (ok(BOMB, headers=GZIP + MOVED, status=b"302 Found"), ok(b"small")),
    "the redirect, packed twice": (ok(gzip.compress(BOMB), headers=b"Content-Encoding: gzip, gzip\r\n" + MOVED, status=b"307 T"), ok(b"small")),
    "the page behind the redirect": (ok(b"", headers=MOVED, status=b"302 Found"), ok(BOMB, headers=GZIP)),
    "both": (ok(BOMB, headers=GZIP + MOVED, status=b"308 P"), ok(BOMB, headers=GZIP)),
    "no redirect": (ok(BOMB, headers=GZIP), ok(b"small")),
}  # fmt: skip


async def fetched(case: str, *, sink: Counted | None, max_bytes: int) -> tuple[Reply, int]:
    """One request into a case; answers with the reply and the most memory it took."""
    first, last = ANSWERS[case]

    async def say(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(last if b" /end " in request else first)

    async with RawServer(say) as server:
        gate = make_gate(f"127.0.0.1:{server.port}")
        tracemalloc.start()
        try:
            request = Fetch(server.url, before_hop=follow, sink=sink, max_bytes=max_bytes, total_deadline=timedelta(seconds=30))
            return await gate.fetch(request), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            await gate.close()


@pytest.mark.parametrize("streams", [False, True], ids=["collected", "streamed"])
@pytest.mark.parametrize("case", ANSWERS)
async def test_I28_a_bomb_behind_a_redirect_or_in_a_stream_stops_at_the_cap(case: str, streams: bool) -> None:
    """incident 34: 200 MB packed into 200 KB, in the redirect's own body and behind it, collected and streamed: nothing is
    unpacked past
    the cap, and a redirect's body not at all."""
    sink, cap = (Counted() if streams else None), 1_000_000
    reply, memory = await fetched(case, sink=sink, max_bytes=cap)
    assert memory <= MOST_MEMORY, memory
    if case in ("the page behind the redirect", "both", "no redirect"):
        assert isinstance(reply, NoReply) and reply.kind is NoReplyKind.TOO_LARGE, reply
        assert sink is None or sink.bytes <= cap
    else:
        assert isinstance(reply, HttpReply) and reply.status == 200, reply
        assert (reply.body == b"small") if sink is None else (sink.bytes, sink.begun) == (5, [200])


async def test_I28_the_memory_of_a_bomb_would_be_seen() -> None:
    """incident 34, control: with a cap beyond the bomb the same request takes more memory than the tests above allow."""
    reply, memory = await fetched("no redirect", sink=None, max_bytes=1 << 30)
    assert isinstance(reply, HttpReply) and len(reply.body) == 200 << 20 and memory > 2 * MOST_MEMORY
