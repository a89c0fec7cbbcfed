"""Incidents of others with pace: floods at a host that is down, Retry-After gone round or read wrong. Numbers:
tests/incidents.toml."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from sereno.core.change import FailedReading, ReadFailure, Reading
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.observation import HttpReply
from sereno.core.values import Json
from sereno.core.work import LeaseTimes
from sereno.outside.clock import LONGEST_SLEEP, SystemClock
from sereno.ports import Guarded
from sereno.testing.books import burst_over
from sereno.testing.virtual import VirtualClock, run_virtual
from tests.drivers.stage import HOUR, Book, ScriptedAction, ScriptedSource, ScriptedTransport, Stage
from tests.engine.desk import Desk, answer
from tests.engine.starting import KEYED, cancel, document, says, submit

RATE, BURST = 1.0, 5
WAIT_S = 600.0
SLOW = LeaseTimes(tick=timedelta(seconds=10))
"""For worlds that last for hours."""


class Down(ScriptedSource):
    """A source that is unreachable for a while."""

    def __init__(self, stage: Stage, down_s: float) -> None:
        super().__init__(stage.book, stage.clock)
        self._down_s = down_s

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Counts every request, answered or not."""
        found = await super().read(options, cursor, guarded)
        if self._clock.monotonic() < self._down_s:
            return FailedReading(ReadFailure.UNREACHABLE, "connection refused", requests=1)
        return found


@pytest.mark.parametrize(("clients", "down_s"), [(150, 600.0), pytest.param(1_000, 3_600.0, marks=pytest.mark.full)])
def test_I7_a_thousand_clients_of_a_stream_that_is_down_keep_the_hosts_rate(clients: int, down_s: float) -> None:
    """incident 15: a thousand polls of every ten seconds, the host down for an hour: requests ≤ burst + rate·Δ in it and after
    it."""

    async def main() -> None:
        stage = Stage()
        stage.source = Down(stage, down_s)
        await stage.polls(clients, every=timedelta(seconds=10))
        await stage.drive(down_s + 300, stage.driver(slots=64))
        sent = stage.book.sent_at()
        down = [at for at in sent if at < down_s]
        assert burst_over(sent, rate=RATE, burst=BURST) <= 1e-6
        assert clients <= len(down) <= BURST + RATE * down_s
        assert len({name for _, name in stage.book.reads}) == clients, "each of them was heard"

    run_virtual(main)


def test_I7_one_client_of_a_host_that_is_down_asks_ever_more_rarely() -> None:
    """incident 15: without any limit on the host, a poll of every second backs off: a dozen requests in an hour, not 3,600."""

    async def main() -> None:
        stage = Stage(times=SLOW)
        stage.source = Down(stage, 3_600)
        await stage.limits(rate=None, burst=1)
        await stage.polls(1, every=timedelta(seconds=1))
        await stage.drive(3_600, stage.driver())
        assert 8 <= len(stage.book.reads) <= 20, len(stage.book.reads)

    run_virtual(main)


# --- what a provider asks for holds for every request of an operation, whichever call it was said at


def later(status: int, **body: Json) -> HttpReply:
    """An answer of a call with Retry-After: 600."""
    reply = says(status, **body)
    return replace(reply, headers=(*reply.headers, ("retry-after", str(int(WAIT_S)))))


async def at_the_look(desk: Desk) -> str:
    """The status call says it."""
    operation = await at_a_job(desk)
    desk.wire.gives = answer("running", ("retry-after", str(int(WAIT_S))), status=429)
    await run_due(desk, 120)
    return operation


async def at_the_submit(desk: Desk) -> str:
    """The submit was throttled; it has a key, so it is sent again."""
    operation = await submit(desk, document({"idempotency": KEYED}))
    desk.wire.gives = later(429, error="slow")
    await desk.perform()
    return operation


async def at_the_accepted_submit(desk: Desk) -> str:
    """The submit was taken on and says when to look first."""
    operation = await submit(desk, document())
    desk.wire.gives = replace(later(202), body=says().body)
    await desk.perform()
    return operation


async def at_the_cancel(desk: Desk) -> str:
    """The cancel was throttled: neither it nor a look before that."""
    operation = await at_a_job(desk)
    await cancel(desk, operation, document())
    desk.wire.gives = later(429, error="slow")
    await run_due(desk, 120)
    return operation


async def at_the_taken_cancel(desk: Desk) -> str:
    """The cancel was taken and says when to look."""
    operation = await at_a_job(desk)
    await cancel(desk, operation, document())
    desk.wire.gives = later(202, ok=True)
    await run_due(desk, 120)
    return operation


async def at_a_job(desk: Desk) -> str:
    """A job that runs, and is due for its first look."""
    operation = await submit(desk, document())
    desk.wire.gives = says()
    await desk.perform()
    desk.wire.sent.clear()
    return operation


async def run_due(desk: Desk, seconds: float, *, step: float = 1.0) -> list[float]:
    """Performs whatever falls due, until something was sent or the time is over; answers when something was sent."""
    end, sent = desk.hand.monotonic() + seconds, list[float]()
    while desk.hand.monotonic() < end:
        for work in (await desk.store.work.claim(worker="w", limit=5, times=desk.times)).works:
            before = len(desk.wire.sent)
            await desk.perform(work)
            sent += [desk.hand.monotonic()] * (len(desk.wire.sent) - before)
        if sent:
            return sent
        desk.hand.advance(step)
    return sent


async def nothing(desk: Desk, operation: str) -> None:
    """Nobody does anything meanwhile."""


async def asks_to_cancel(desk: Desk, operation: str) -> None:
    """A person wants the job cancelled: another address of the same host."""
    await cancel(desk, operation, document())


ENDPOINTS = [at_the_look, at_the_submit, at_the_accepted_submit, at_the_cancel, at_the_taken_cancel]


@pytest.mark.parametrize("meanwhile", [nothing, asks_to_cancel])
@pytest.mark.parametrize("said_at", ENDPOINTS)
async def test_I4_what_one_endpoint_asks_for_holds_at_each(
    said_at: Callable[[Desk], Awaitable[str]], meanwhile: Callable[[Desk, str], Awaitable[None]]
) -> None:
    """incident 16: ten minutes were asked for at one call: no call of that operation goes to the host before, and one goes
    then."""
    if meanwhile is asks_to_cancel and said_at in (at_the_submit, at_the_cancel):
        said_at, meanwhile = at_the_taken_cancel, nothing  # no cancel of what has no job, or of what is being cancelled
    desk = Desk()
    operation = await said_at(desk)
    told = desk.hand.monotonic()
    assert desk.wire.sent, "the provider was asked, and said so"
    await meanwhile(desk, operation)
    desk.wire.gives = answer("running")
    sent = await run_due(desk, 3 * WAIT_S)
    assert sent and WAIT_S <= sent[0] - told <= 2 * WAIT_S, (sent, told)


# --- Retry-After beyond all sense

FAR = {
    "two to the 31st": str(2**31),
    "one more than a 32-bit timer holds": str(2_147_484),
    "ten nines": "9999999999",
    "the year 2035": "Mon, 01 Jan 2035 00:00:00 GMT",
    "the year 9999": "Fri, 31 Dec 9999 23:59:59 GMT",
}
SENSELESS = {
    "inf": "inf", "nan": "nan", "1e400": "1e400", "minus": "-5", "digits of Arabic": "٣", "full width": "１２０", "an underscore": "1_0",
    "a comma": "120, 240", "a fraction": "12.5", "twenty digits": "9" * 20, "five thousand digits": "9" * 5_000, "empty": "",
    "a word": "soon", "a date in the past": "Sun, 06 Nov 1994 08:49:37 GMT", "nought": "0", "half a date": "Sun, 06 Nov 1994 08:49:37",
}  # fmt: skip


class Telling(ScriptedTransport):
    """A status that carries one Retry-After."""

    def __init__(self, book: Book, clock: VirtualClock, value: str) -> None:
        super().__init__(book, clock)
        self.value = value

    async def fetch(self, request: Any) -> Any:
        """Running, and when to come back."""
        reply = await super().fetch(request)
        assert isinstance(reply, HttpReply)
        return replace(reply, headers=(*reply.headers, ("retry-after", self.value)))


class Claims:
    """Counts the turns of a driver: how often it asks the store for work."""

    def __init__(self, stage: Stage) -> None:
        self._store, self.count = stage.store.work, 0

    def __getattr__(self, name: str) -> Any:
        if name == "claim":
            self.count += 1
        return getattr(self._store, name)


async def drive_counted(stage: Stage, seconds: float) -> int:
    """Drives for so long; answers the number of claims."""
    driver, claims = stage.driver(), Claims(stage)
    driver._kit = replace(driver._kit, store=claims)  # type: ignore[arg-type]  # a proxy of the same methods
    task = asyncio.get_running_loop().create_task(driver.run())
    await stage.clock.sleep(seconds)
    driver.stop()
    await task
    return claims.count


@pytest.mark.parametrize("value", FAR.values(), ids=FAR.keys())
def test_I5_a_wait_longer_than_any_timer_is_no_tight_loop_at_a_look(value: str) -> None:
    """incident 17, incident 18: one request, no second one before; the wait ends at its deadline with a question, and nothing
    spins."""

    async def main() -> None:
        stage = Stage()
        stage.transport = Telling(stage.book, stage.clock, value)
        await stage.operation("job", deadline=timedelta(minutes=10))
        claims = await drive_counted(stage, 900)
        assert len(stage.book.reads) == 1
        (row,) = await stage.sql("SELECT state, category FROM operation")
        assert (row["state"], row["category"]) == ("escalated", "deadline_exceeded")
        assert claims <= 900 / stage.times.tick.total_seconds() + 20, claims

    run_virtual(main)


def test_I4_a_wait_of_years_is_kept_where_the_wait_lasts_longer() -> None:
    """incident 17: a wait of forty years is told to come back in 2035: it is asked then, not in a millisecond and not in 24.8
    days."""

    async def main() -> None:
        stage = Stage()
        stage.transport = Telling(stage.book, stage.clock, FAR["the year 2035"])
        await stage.operation("job", deadline=timedelta(days=40 * 365))
        await stage.drive(120, stage.driver())
        for days in (0, 24, 1, 300, 2_000, 700):
            await stage.clock.sleep(days * 86_400.0)
            await stage.drive(60, stage.driver())
        assert stage.clock.now().year == 2034 and len(stage.book.reads) == 1
        await stage.clock.sleep((datetime(2035, 1, 1, tzinfo=stage.clock.now().tzinfo) - stage.clock.now()).total_seconds())
        await stage.drive(60, stage.driver())
        assert len(stage.book.reads) >= 2

    run_virtual(main)


@pytest.mark.parametrize("value", [2**31, 9_999_999_999, 2_147_484])
def test_I5_a_source_that_wants_68_years_of_rest_gets_a_week(value: int) -> None:
    """incident 17: a wait beyond any timer is no tight loop: a poll of every ten seconds is quiet for a week, and goes on
    then."""

    async def main() -> None:
        stage = Stage()
        stage.source = Wishing(stage, stage.clock.now() + timedelta(seconds=value))
        await stage.polls(1, every=timedelta(seconds=10))
        claims = await drive_counted(stage, 900)
        assert len(stage.book.reads) == 1
        assert claims <= 900 / stage.times.tick.total_seconds() + 20, claims
        await stage.clock.sleep(7 * 86_400.0 - 900 - 60)
        await stage.drive(30, stage.driver())
        assert len(stage.book.reads) == 1, "not before the week is over"
        await stage.clock.sleep(60)
        await stage.drive(60, stage.driver())
        assert len(stage.book.reads) == 2, "and then it is"

    run_virtual(main)


@pytest.mark.parametrize("value", [2**31, 9_999_999_999, 2_147_484])
def test_I5_I17_a_receiver_that_wants_68_years_of_rest_is_given_up_in_sight(value: int) -> None:
    """incident 17: the receiver would have forgotten the key by then: one attempt, dead with its reason, and no loop."""

    async def main() -> None:
        stage = Stage()
        stage.action = Postponing(stage, stage.clock.now() + timedelta(seconds=value))
        await stage.polls(1, every=timedelta(days=1), actions=(stage.tell(),))
        claims = await drive_counted(stage, 900)
        assert len(stage.book.acts) == 1
        assert claims <= 900 / stage.times.tick.total_seconds() + 20, claims
        (row,) = await stage.sql("SELECT state, last_outcome FROM delivery")
        assert (row["state"], row["last_outcome"]) == ("dead", "retry: later")

    run_virtual(main)


class Wishing(ScriptedSource):
    """A source that names the instant of its next read."""

    def __init__(self, stage: Stage, wished: datetime) -> None:
        super().__init__(stage.book, stage.clock)
        self._wished = wished

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Reads once, and wishes."""
        found = await super().read(options, cursor, guarded)
        assert isinstance(found, Reading)
        return replace(found, minimum_wait_until=self._wished)


class Postponing(ScriptedAction):
    """A receiver that names the instant of the next attempt."""

    def __init__(self, stage: Stage, wished: datetime) -> None:
        super().__init__(stage.book, stage.clock)
        self._wished = wished

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Not now."""
        await super().perform(delivery, guarded)
        return Outcome(OutcomeKind.RETRY, "later", not_before=self._wished)


@pytest.mark.parametrize("value", SENSELESS.values(), ids=SENSELESS.keys())
def test_I5_a_wait_that_is_none_neither_parks_nor_spins(value: str) -> None:
    """incident 18: what no number and no date is leaves the contract's own pace: looks go on, none within its smallest gap."""

    async def main() -> None:
        stage = Stage()
        stage.transport = Telling(stage.book, stage.clock, value)
        await stage.operation("job", deadline=HOUR, requests=1_000)
        claims = await drive_counted(stage, 600)
        at = stage.book.sent_at()
        assert 5 <= len(at) <= 200, "it is asked again and again, at the contract's pace"
        assert min(after - before for before, after in zip(at, at[1:], strict=False)) >= 1.0
        (row,) = await stage.sql("SELECT state, parked FROM operation")
        assert (row["state"], row["parked"]) == ("waiting", None)
        assert claims <= 2 * 600 / stage.times.tick.total_seconds() + 2 * len(at)

    run_virtual(main)


@pytest.mark.parametrize("seconds", [2.0**31, 9_999_999_999.0, float("inf"), float("nan"), -1.0])
async def test_I5_no_number_overflows_the_hosts_timer(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """incident 17: the clock itself never hands a loop more than a day, and nought for what is no number."""
    asked: list[float] = []

    async def sleep(delay: float) -> None:
        asked.append(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await SystemClock().sleep(seconds)
    assert asked == [LONGEST_SLEEP if seconds > 0 else 0]
