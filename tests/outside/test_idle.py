"""Tests of the connections that wait between two requests: lent to one request at a time, and only while they are as they were left."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

import pytest
from aiohttp.connector import Connection

from sereno.outside.egress.idle import MOST_IDLE, Idle
from tests.outside.hands import Hands

KEEP = 4.0
HERE = "http://here.example"


@dataclass
class Protocol:
    should_close: bool = False
    connected: bool = True

    def is_connected(self) -> bool:
        return self.connected


@dataclass(eq=False)
class Line:
    """A connection as the library makes it, as far as it matters here."""

    protocol: Protocol | None = field(default_factory=Protocol)
    end: str | None = None

    def close(self) -> None:
        self.end = "closed"

    def release(self) -> None:
        self.end = "released"


class Bench:
    def __init__(self) -> None:
        self.hands = Hands()
        self.idle = Idle(KEEP, cast("asyncio.AbstractEventLoop", self.hands))

    def put(self, line: Line | None = None, origin: str = HERE) -> Line:
        line = line or Line()
        self.idle.put(origin, cast("Connection", line))
        return line

    def take(self, origin: str = HERE) -> Line | None:
        return cast("Line | None", self.idle.take(origin))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_connection_is_lent_once_and_only_to_its_own_origin(bench: Bench) -> None:
    """Two requests never share one, and none goes to another scheme, host or port."""
    line = bench.put()
    assert bench.take("https://here.example") is None
    assert (bench.take(), bench.take(), line.end) == (line, None, None)


@pytest.mark.parametrize("protocol", [Protocol(connected=False), Protocol(should_close=True), None])
def test_a_connection_that_closed_or_spoke_while_nobody_asked_is_not_lent(bench: Bench, protocol: Protocol | None) -> None:
    """What a server sends unasked is never taken for the answer to the next request; the next good one is lent instead."""
    spoiled, good = bench.put(), bench.put()
    spoiled.protocol = protocol
    assert (bench.take(), spoiled.end) == (good, "closed")


def test_a_connection_that_must_close_is_not_kept(bench: Bench) -> None:
    """`Connection: close`, or bytes left over: it goes back to the library, which closes it."""
    assert bench.put(Line(Protocol(should_close=True))).end == "released"
    assert bench.take() is None


async def test_a_connection_is_lent_no_later_than_its_time_and_then_closed(bench: Bench) -> None:
    """A server may close an idle connection at any moment; one that waited too long is not tried."""
    early, late = bench.put(), bench.put()
    await bench.hands.move(KEEP - 1)
    assert bench.take() is early
    bench.hands.now = KEEP + 0.1
    assert (bench.take(), late.end) == (None, "closed")


async def test_what_nobody_asks_for_again_is_closed_and_no_timer_stays(bench: Bench) -> None:
    """Origins that are asked once do not pile up."""
    lines = [bench.put(origin=f"http://{number}.example") for number in range(5)]
    await bench.hands.move(2 * KEEP)
    assert {line.end for line in lines} == {"closed"}
    assert (bench.idle._waiting, bench.hands.timers) == ({}, {})


def test_no_more_than_the_bound_wait_here(bench: Bench) -> None:
    """The rest goes back to the library's own pool; taking one makes room again."""
    kept = [bench.put() for _ in range(MOST_IDLE)]
    assert bench.put().end == "released"
    assert bench.take() is kept[0]
    assert bench.put().end is None


def test_at_the_end_all_are_closed(bench: Bench) -> None:
    """Also those whose time is not over."""
    lines = [bench.put(), bench.put(origin="http://there.example")]
    bench.idle.close()
    assert ([line.end for line in lines], bench.take(), bench.hands.timers) == (["closed", "closed"], None, {})
