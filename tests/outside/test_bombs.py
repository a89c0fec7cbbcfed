"""Response bombs: a child process fetches each of them; its memory, its time and the stall of its loop stay bounded (I28, G21)."""

import asyncio
import contextlib
import gzip
import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.observation import HttpReply
from sereno.core.values import BadJson, parse_json
from sereno.ports import Fetch
from tests.outside.corpus import follow
from tests.outside.rawserver import RawServer, make_gate, ok

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
GZIP = HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n"
ANY = "any"


@dataclass(frozen=True)
class Bomb:
    """`first` is said once, `then` for ever (with `pause` seconds between); `kinds` are the right outcomes."""

    name: str
    kinds: tuple[str, ...]
    first: bytes = b""
    then: bytes = b""
    pause: float = 0.0
    deadline: float = 60.0
    cap: int = 10_000_000


def packed(size: int, level: int = 9, wbits: int = 31) -> bytes:
    """Zeros, compressed about 1000:1."""
    packer = zlib.compressobj(level, wbits=wbits)
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(size >> 20)) + packer.flush()


def bombs() -> list[Bomb]:
    """All bombs. Those that only hang, or may, have a short deadline; the others end by themselves, long before theirs."""
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    laughs = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lol">{entities}]><x>&l11;</x>'.encode()
    big = packed(100 << 20)
    return [
        Bomb("gzip 1000:1", ("too_large",), GZIP + big),
        Bomb("gzip of gzip, both declared", ("bad_encoding",), ok(gzip.compress(big), headers=b"Content-Encoding: gzip, gzip\r\n")),
        Bomb("gzip of gzip, one declared", ("200",), ok(gzip.compress(big), headers=b"Content-Encoding: gzip\r\n")),
        Bomb("2,000 encodings in one header", ("bad_encoding",), ok(big, headers=b"Content-Encoding: " + b"gzip, " * 2000 + b"\r\n")),
        Bomb("2,000 encoding headers", ("too_large",), HEAD + b"Content-Encoding: gzip\r\n" * 2000 + b"\r\n"),
        Bomb("deflate 1000:1", ("too_large",), ok(packed(100 << 20, wbits=15), headers=b"Content-Encoding: deflate\r\n")),
        Bomb("a million gzip members", ("bad_encoding",), GZIP, gzip.compress(b"") * 3000),
        Bomb("a gzip header that never ends", ("too_large", "timeout"), GZIP + b"\x1f\x8b\x08\x08\0\0\0\0\0\3", b"a" * 60_000, deadline=3.0),
        Bomb("empty deflate blocks for ever", ("too_large", "timeout"), GZIP + gzip.compress(b"")[:10], b"\0\0\0\xff\xff" * 12_000, deadline=3.0),
        Bomb("gzip to exactly the cap", ("200",), ok(gzip.compress(bytes(10_000_000)), headers=b"Content-Encoding: gzip\r\n")),
        Bomb("100 MB, declared", ("too_large",), HEAD + b"Content-Length: 104857600\r\n\r\n", bytes(65_536)),
        Bomb("endless, to the close", ("too_large", "timeout"), HEAD + b"\r\n", bytes(65_536), deadline=3.0),
        Bomb("endless chunks", ("too_large", "timeout"), CHUNKED, b"10000\r\n" + bytes(65_536) + b"\r\n", deadline=3.0),
        Bomb("endless chunks of one byte", ("too_large", "timeout", "too_slow"), CHUNKED, b"1\r\nx\r\n" * 12_000, deadline=1.0),
        Bomb("chunk extensions without end", (ANY,), CHUNKED + b"1;", b"a=b;" * 16_000, deadline=0.7),
        Bomb("trailers without end", (ANY,), CHUNKED + b"0\r\n", b"A: b\r\n" * 10_000, deadline=0.7),
        Bomb("a body one byte at a time", ("timeout",), HEAD + b"Content-Length: 9999\r\n\r\n", b"x", 0.02, 0.7),
        Bomb("a header one byte at a time", ("timeout",), HEAD + b"A: ", b"x", 0.02, 0.7),
        Bomb("one header line without end", ("too_large",), HEAD + b"A: ", b"x" * 65_536),
        Bomb("headers without end", ("too_large",), HEAD, b"Abc: def\r\n" * 6_000),
        Bomb("a status line without end", ("too_large", "protocol"), b"HTTP/1.1 200 ", b"x" * 65_536),
        Bomb("empty lines before the answer", (ANY,), b"", b"\r\n" * 30_000, deadline=0.7),
        Bomb("interim answers without end", (ANY,), b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_500, deadline=0.7),
        Bomb("thousands of answers to one request", (ANY,), b"", ok(b"") * 1_500, deadline=0.7),
        Bomb("JSON 9.9 million deep", ("200 and refused by the parser",), ok(b"[" * 9_900_000)),
        Bomb("XML entities", ("200",), ok(laughs, headers=b"Content-Type: application/xml\r\n")),
        Bomb("a redirect with an endless body to itself", ("redirect",), MOVED, bytes(65_536)),
    ]  # fmt: skip


def memory(field: str) -> int:
    """A figure of this process from the kernel, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


class Ticker:
    """Ticks every 5 ms; what a machine that is busy or stalls takes away is not blamed on us.

    `longest` is the longest gap, the smaller of wall and CPU time; `passed` the seconds that went by, each gap counted as `MOST_GAP`
    at most: how long something took while the loop was allowed to run.
    """

    MOST_GAP = 0.05

    def __init__(self) -> None:
        self.longest = self.passed = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        wall, cpu = time.monotonic(), time.process_time()
        while True:
            await asyncio.sleep(0.005)
            now_wall, now_cpu = time.monotonic(), time.process_time()
            self.longest = max(self.longest, min(now_wall - wall, now_cpu - cpu))
            self.passed += min(now_wall - wall, self.MOST_GAP)
            wall, cpu = now_wall, now_cpu


async def child(port: int, plan: list[tuple[str, float, int]]) -> list[dict[str, object]]:
    """Fetches every bomb of the plan (name, deadline, size cap) in order and measures itself against its state before the first."""
    gate = make_gate("127.0.0.1")
    await gate.fetch(Fetch(f"http://127.0.0.1:{port}/warm"))
    ticker = Ticker()
    ticking = asyncio.ensure_future(ticker.run())
    start = memory("VmRSS")
    facts: list[dict[str, object]] = []
    for number, (name, deadline, cap) in enumerate(plan):
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        ticker.longest = ticker.passed = 0.0
        url = f"http://127.0.0.1:{port}/{number}"
        reply = await gate.fetch(Fetch(url, total_deadline=timedelta(seconds=deadline), max_bytes=cap, before_hop=follow))
        kind = str(reply.status) if isinstance(reply, HttpReply) else reply.kind.value
        if isinstance(reply, HttpReply) and name.startswith("JSON"):
            with contextlib.suppress(BadJson):
                parse_json(reply.body)
                kind = "parsed"
            kind += "" if kind == "parsed" else " and refused by the parser"
        await asyncio.sleep(0)
        growth = memory("VmHWM") - start
        facts.append({"name": name, "kind": kind, "growth": growth, "took": ticker.passed, "stall": ticker.longest})
        del reply
    ticking.cancel()
    await gate.close()
    return facts


def speak(all_bombs: list[Bomb]) -> Callable[[bytes, asyncio.StreamWriter], object]:
    """Answers `/N` with bomb N."""

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        path = request.split(b" ")[1]
        if path == b"/warm":
            writer.write(ok())
            return
        bomb = all_bombs[int(path[1:] or str(len(all_bombs) - 2))]
        writer.write(bomb.first)
        await writer.drain()
        while bomb.then:
            writer.write(bomb.then)
            await writer.drain()
            await asyncio.sleep(bomb.pause)

    return answer


@pytest.mark.timeout(600)
async def test_I28_bombs_stay_within_memory_time_and_stall() -> None:
    """At least 20 bombs: memory at most 32 MB over the start, over within the deadline + 0.5 s, loop stall at most 250 ms
    (incident 34)."""
    all_bombs = bombs()
    assert len(all_bombs) >= 20
    control = Bomb("control: the meter sees 100 MB", ("200",), all_bombs[5].first, deadline=100.0, cap=1 << 30)
    async with RawServer(speak([*all_bombs, control])) as server:  # type: ignore[arg-type]
        plan = json.dumps([(bomb.name, bomb.deadline, bomb.cap) for bomb in (*all_bombs, control)])
        environment = {**os.environ, "PYTHONPATH": f"{Path.cwd()}{os.pathsep}{Path.cwd() / 'src'}"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, str(server.port), plan, stdout=asyncio.subprocess.PIPE, env=environment
        )
        out, _ = await asyncio.wait_for(process.communicate(), 580)
    facts = json.loads(out)
    assert facts.pop()["growth"] > 64 << 20  # else the next lines would prove nothing
    assert len(facts) == len(all_bombs)
    for bomb, fact in zip(all_bombs, facts, strict=True):
        assert ANY in bomb.kinds or fact["kind"] in bomb.kinds, fact
        assert fact["growth"] <= 32 << 20, fact
        assert fact["took"] <= bomb.deadline + 0.5, fact
        assert fact["stall"] <= 0.25, fact


if __name__ == "__main__":
    print(json.dumps(asyncio.run(child(int(sys.argv[1]), json.loads(sys.argv[2])))))
