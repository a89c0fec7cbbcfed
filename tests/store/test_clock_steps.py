"""Steps of the host's clock: every wait keeps its length, each step is found once, and a machine that sleeps is no step (I4, I6, I7, I23)."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.core.errors import Unavailable
from sereno.core.escalation import Verb
from sereno.core.observation import DelaySource
from sereno.core.operation import Event, OperationState
from sereno.core.poll import PollState
from sereno.core.reviewing.checking import check_journal
from sereno.core.work import OperationWork, PollWork
from sereno.ports import Boot
from sereno.store.reads import Reads
from sereno.store.work.clock.instant import HostTime
from tests.store.seeding import ANNA, START, HandClock
from tests.store.stage import LEASE, MINUTE, Stage, done, effect, pending, question, unchanged, us

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
YEARS = timedelta(days=3653)
STEPS = (HOUR, YEARS, -DAY, timedelta(seconds=3), timedelta(seconds=-3))


@dataclass
class Host(HandClock):
    """The clock of one host. `set` is somebody setting it; where only `at` moves, time passes, asleep or not."""

    put: timedelta = timedelta(0)
    start: str = "first"

    def set(self, by: timedelta) -> None:
        self.at += by
        self.put += by

    def boot(self) -> Boot:
        return Boot(self.start, (self.at - self.put - START).total_seconds() + 5_000)


class Set(Stage):
    """A stage on a host whose clock can be set."""

    def __init__(self, path: str | Path = ":memory:", host: Host | None = None, first: int = 1) -> None:
        self.host = host or Host()
        super().__init__(path, clock=self.host, first=first)

    async def steps(self) -> list[float]:
        """The steps that moved what was open, as the journal has them."""
        rows = await self.sql("SELECT facts FROM journal WHERE subject = 'clock' ORDER BY seq")
        return [facts["seconds"] for row in rows if (facts := json.loads(row["facts"]))["moved"]]

    async def looks_after(self, wait: timedelta) -> None:
        """Nothing is handed out until `wait` has passed, then the one thing is."""
        passed = timedelta(0)
        while passed + MINUTE < wait:
            assert await self.claim() == [], passed
            self.later(10 * MINUTE if wait - passed > 11 * MINUTE else MINUTE)
            passed += 10 * MINUTE if wait - passed > 11 * MINUTE else MINUTE
        self.later(wait - passed - timedelta(microseconds=1))
        assert await self.claim() == []
        self.later(timedelta(microseconds=1))
        assert len(await self.claim()) == 1

    async def faults(self, operation: str) -> list[str]:
        """What the check of the journal finds."""
        reads = Reads(self.store.executor, clock=self.host)
        clock = await reads.journal(ANNA, "clock") if await self.steps() else []
        return [fault.name for fault in check_journal(await reads.journal(ANNA, operation), {}, clock)]


async def waiting(stage: Set, wait: timedelta = 2 * HOUR, **changes: Any) -> str:
    """An operation that the provider asked to leave alone for a while."""
    operation = await stage.operation(deadline_at=stage.now + 3 * YEARS)
    work = await stage.claim_operation()
    asked = {"delay_source": DelaySource.PROVIDER_RETRY_AFTER, **changes}
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + wait, **asked))
    return operation


@pytest.mark.parametrize("step", STEPS)
async def test_W04_I4_a_step_inside_a_retry_after_brings_no_look_forward(step: timedelta) -> None:
    """Two hours asked for are two hours, whatever the wall clock does meanwhile; the journal's own check says the same."""
    stage = Set()
    operation = await waiting(stage)
    stage.later(HOUR / 2)
    assert await stage.claim() == []
    stage.host.set(step)
    await stage.looks_after(1.5 * HOUR)
    assert await stage.steps() == [step.total_seconds()]
    assert await stage.faults(operation) == []


@pytest.mark.parametrize("step", STEPS)
async def test_I6_a_step_leaves_the_smallest_gap(step: timedelta) -> None:
    """The gap of an operation whose look was due in five seconds, and of one that is retried after a lost answer (I4)."""
    stage = Set()
    await waiting(stage, timedelta(seconds=5), delay_source=DelaySource.LOCAL_BACKOFF)
    stage.host.set(step)
    assert await stage.claim() == []
    stage.later(timedelta(seconds=5))
    assert len(await stage.claim()) == 1
    stage.host.set(step)
    assert await stage.claim() == [], "its lease keeps its length too: nobody takes over"
    stage.later(LEASE)
    (again,) = await stage.claim()
    assert isinstance(again, OperationWork)


async def test_I23_a_step_and_its_way_back_leave_everything_as_it_was() -> None:
    """A year ahead and back: plans, leases and pools stand where they stood."""
    stage = Set()
    await waiting(stage)
    await stage.poll(due=stage.now + HOUR)
    tables = ("SELECT due, next_poll_at, last_checked_at FROM operation", "SELECT due FROM poll", "SELECT tat, wake FROM pool")
    before = [await stage.sql(table) for table in tables]
    for step in (365 * DAY, -365 * DAY):
        stage.host.set(step)
        assert await stage.claim() == []
    assert [await stage.sql(table) for table in tables] == before
    assert await stage.steps() == [31_536_000.0, -31_536_000.0]


async def test_I7_ten_years_forward_cause_no_burst() -> None:
    """Polls keep their distance: none is due for the step, and nothing was missed."""
    stage = Set()
    for number in range(30):
        await stage.poll(f"p{number:02}", due=stage.now + number * MINUTE + MINUTE)
    assert await stage.claim() == []
    stage.host.set(YEARS)
    for minute in range(30):
        assert await stage.claim() == [], minute
        stage.later(MINUTE)
        (work,) = await stage.claim()
        assert isinstance(work, PollWork)
        assert work.scheduled_for == stage.now
        await stage.work.commit_poll(work, unchanged(work, stage.now + DAY))


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Callable[[], Set]]:
    """Makes processes of one host on one database file."""
    made: list[Set] = []

    def process() -> Set:
        made.append(Set(tmp_path / "s.db", made[0].host if made else None, 1000 * len(made) + 1))
        return made[-1]

    yield process
    for stage in made:
        await stage.close()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_I23_several_processes_see_one_step(processes: Callable[[], Set], step: timedelta) -> None:
    """Whoever writes first moves what is open; the others find that done, and one that starts after it too."""
    first, second = processes(), processes()
    await waiting(first)
    for stage in (first, second):
        await stage.claim()
    first.host.set(step)
    await second.claim()
    await first.limits("host:other", rate=1.0)
    third = processes()
    for stage in (first, second, third, first):
        assert await stage.claim() == []
    assert await third.steps() == [step.total_seconds()]
    assert (await third.one("SELECT value FROM meta WHERE key = 'clock_steps'"))["value"] == "1"
    await third.looks_after(2 * HOUR)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_I23_a_step_while_no_process_runs_is_found_by_the_next(processes: Callable[[], Set], step: timedelta) -> None:
    """Time since the start of the host went on meanwhile: the hour away counts, the step does not."""
    await waiting(processes())
    host = (later := processes()).host
    host.at += HOUR
    host.set(step)
    await later.looks_after(HOUR)
    assert await later.steps() == [step.total_seconds()]


async def test_I7_a_machine_that_sleeps_is_no_step() -> None:
    """Wall clock and time since the start go on together: what was due meanwhile is due."""
    stage = Set()
    await waiting(stage)
    stage.later(8 * HOUR)
    assert len(await stage.claim()) == 1
    assert await stage.steps() == []


@pytest.mark.parametrize("drift", [timedelta(milliseconds=30), timedelta(milliseconds=-30)])
async def test_drift_moves_nothing_however_much_it_becomes(drift: timedelta) -> None:
    """One part in two thousand is drift, and the next look counts from there."""
    stage = Set()
    await waiting(stage, DAY)
    before = await stage.one("SELECT due FROM operation")
    for _ in range(200):
        stage.later(MINUTE)
        stage.host.set(drift)
        assert await stage.claim() == []
    assert await stage.steps() == []
    assert await stage.one("SELECT due FROM operation") == before


@pytest.mark.parametrize(
    "small", [timedelta(seconds=1.9), timedelta(seconds=-1.9), timedelta(seconds=59), timedelta(seconds=-20)]
)
@pytest.mark.parametrize("works", [True, False])
async def test_I4_I6_small_steps_add_up(small: timedelta, works: bool) -> None:
    """Each alone is too small to be told from drift, or as large as the network sets a clock right: a wait keeps its length to two seconds
    and what a clock may drift, also while each claim that finds work writes down how the clock stands."""
    stage = Set()
    operation = await waiting(stage, DAY)
    for number in range(60):
        if works:
            await stage.poll(f"p{number:02}", due=stage.now)
        stage.host.set(small)
        stage.later(timedelta(seconds=3))
        assert len(await stage.claim()) >= works
    row = await stage.one("SELECT due FROM operation WHERE id = ?", operation)
    off = row["due"] - us(stage.now + DAY - timedelta(seconds=180))
    assert abs(off) <= 2_100_000, off
    assert await stage.faults(operation) == []


@pytest.mark.parametrize("leap", [timedelta(seconds=1), timedelta(seconds=-1)])
async def test_a_leap_second_is_no_step(leap: timedelta) -> None:
    """It is forgotten again as quickly as a clock may drift."""
    stage = Set()
    await waiting(stage, 100 * DAY)
    for _ in range(10):
        stage.host.set(leap)
        for _ in range(40):
            stage.later(MINUTE)
            assert await stage.claim() == []
    assert await stage.steps() == []


async def test_two_small_steps_are_two_on_record() -> None:
    """What the loop of a driver notes of the first is the same step; the next that moves the waits is another."""
    stage = Set()
    await waiting(stage)
    stage.host.set(timedelta(seconds=61))
    await stage.claim()
    await stage.work.note_clock_step(60.8)
    stage.host.set(timedelta(seconds=5))
    await stage.claim()
    assert await stage.steps() == [61.0, 5.0]
    assert (await stage.one("SELECT value FROM meta WHERE key = 'clock_steps'"))["value"] == "2"


@pytest.mark.parametrize(("step", "moved"), [(HOUR, []), (-HOUR, [-3600.0])])
async def test_after_a_new_start_only_a_step_back_is_seen(step: timedelta, moved: list[float]) -> None:
    """Nobody knows how long the host was off: the high-water mark is all there is. From then on steps are seen again."""
    stage = Set()
    await waiting(stage, DAY)
    stage.host.start = "second"
    stage.host.set(step)
    assert await stage.claim() == []
    assert await stage.steps() == moved
    stage.host.set(HOUR)
    assert await stage.claim() == []
    assert await stage.steps() == [*moved, 3600.0]


_NUMBERS = ("9" * 19, "-" + "9" * 18, "9" * 18, "1_0", "\u0663" * 16, "+5", "253402300800000000")
_ODD = ("", "nonsense", "first", "first x", "first " + "9" * 40, "\x00 \x00", "first 5", "first 1 x")


@pytest.mark.parametrize("value", [*_ODD, *_NUMBERS, *(f"first {number} 5" for number in _NUMBERS)])
async def test_a_value_that_cannot_be_read_counts_as_never_written(value: str) -> None:
    """Nothing is moved by it, and it is put right at once."""
    stage = Set()
    await waiting(stage)
    for key in ("boot", "high_water", "clock_moved"):
        await stage.sql("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value)
    assert await stage.claim() == []
    assert await stage.steps() == []
    stage.host.set(HOUR)
    await stage.looks_after(2 * HOUR)
    assert await stage.steps() == [3600.0]


@pytest.mark.parametrize("key", ["boot", "high_water", "clock_moved"])
async def test_I23_a_number_that_was_never_true_blocks_no_claim(key: str) -> None:
    """The latest that is read at all: what is open moves by nonsense, and can be claimed."""
    stage = Set()
    await waiting(stage)
    value = "first 253370764800000000 5000000000" if key == "boot" else "253370764800000000"
    await stage.sql("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value)
    taken = 0
    for _ in range(3):
        taken += len(await stage.claim())
        stage.host.set(HOUR)
    stage.later(2 * HOUR)
    taken += len(await stage.claim())
    assert taken


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_where_the_host_names_no_start_a_process_that_lived_sees_the_step(
    processes: Callable[[], Set], step: timedelta
) -> None:
    """Two of them, once."""
    first, second = processes(), processes()
    first.host.start = ""
    await waiting(first)
    for stage in (first, second):
        await stage.claim()
    first.host.set(step)
    for stage in (second, first, second):
        await stage.claim()
    assert await first.steps() == [step.total_seconds()]
    await first.looks_after(2 * HOUR)


async def test_where_the_host_names_no_start_a_new_process_does_not_guess(processes: Callable[[], Set]) -> None:
    """It may be a new start of the host: nothing is moved forward, and later steps are seen."""
    first = processes()
    first.host.start = ""
    await waiting(first, DAY)
    first.host.set(HOUR)
    new = processes()
    for _ in range(2):
        assert await new.claim() == []
    assert await new.steps() == []
    new.host.set(HOUR)
    assert await new.claim() == []
    assert await new.steps() == [3600.0]


@pytest.mark.parametrize("step", [-HOUR, -DAY])
async def test_I4_where_the_host_names_no_start_a_new_process_moves_for_all(
    processes: Callable[[], Set], step: timedelta
) -> None:
    """It finds the clock before the mark and moves what is open; the process that lived through the step does not move it again."""
    first = processes()
    first.host.start = ""
    await waiting(first)
    await first.claim()
    first.host.set(step)
    new = processes()
    for stage in (new, first, new, first):
        assert await stage.claim() == []
    assert await first.steps() == [step.total_seconds()]
    first.host.set(2 * HOUR)
    assert await first.claim() == []
    assert await first.steps() == [step.total_seconds(), 7200.0], "later steps are seen again"


class HeldUp(Host):
    """A host whose process is stopped for a while between two readings."""

    stops = 0
    held: timedelta = 8 * HOUR

    def boot(self) -> Boot:
        if self.stops:
            self.stops -= 1
            self.at += self.held
        return super().boot()


@pytest.mark.parametrize("stops", [1, 2, 50])
async def test_I4_a_process_stopped_between_its_readings_sees_no_step(stops: int) -> None:
    """The clocks are read again; where that never succeeds, nothing is concluded."""
    host = HeldUp()
    stage = Set(host=host)
    await waiting(stage, 1000 * DAY)
    before = await stage.one("SELECT due FROM operation")
    host.stops = stops
    await stage.claim()
    host.stops = 0
    await stage.claim()
    assert await stage.steps() == []
    assert await stage.one("SELECT due FROM operation") == before


@pytest.mark.parametrize("step", [HOUR, -HOUR])
@pytest.mark.parametrize("noticed", [True, False])
async def test_I4_a_step_while_a_look_is_under_way_moves_its_plan_too(step: timedelta, noticed: bool) -> None:
    """The answer was received by the clock of the claim; the plan is kept by the clock as it was set, whoever noticed it first."""
    stage = Set()
    operation = await stage.operation(deadline_at=stage.now + YEARS)
    work = await stage.claim_operation()
    received = stage.now
    stage.host.set(step)
    if noticed:
        assert await stage.claim() == []
    asked = pending(work, received, received + 2 * HOUR, delay_source=DelaySource.PROVIDER_RETRY_AFTER)
    await stage.work.commit_operation(work, asked)
    assert (await stage.one("SELECT due FROM operation"))["due"] == us(stage.now + 2 * HOUR)
    await stage.looks_after(2 * HOUR)
    assert await stage.faults(operation) == []


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_I7_a_step_while_a_poll_or_an_attempt_is_under_way_moves_its_plan_too(step: timedelta) -> None:
    """The next run and the next attempt keep their distance."""
    stage = Set()
    await stage.poll()
    work = await stage.claim_poll()
    planned = unchanged(work, stage.now + HOUR, effects=(effect("k"),), changed=1)
    stage.host.set(step)
    await stage.claim()
    await stage.work.commit_poll(work, planned)
    assert await stage.one("SELECT due, scheduled_for FROM poll") == dict.fromkeys(("due", "scheduled_for"), us(stage.now + HOUR))
    attempt = await stage.claim_delivery()
    again = done(due=stage.now + MINUTE, state=attempt.delivery.state)
    stage.host.set(step)
    await stage.claim()
    await stage.work.commit_delivery(attempt, again)
    assert (await stage.one("SELECT due FROM delivery"))["due"] == us(stage.now + MINUTE)


async def test_W13_a_deadline_stays_and_no_plan_is_put_behind_it() -> None:
    """Half an hour of a wait of one hour: after an hour forward the deadline has passed, and the wait ends at once."""
    stage = Set()
    operation = await stage.operation(deadline_at=stage.now + 2 * HOUR)
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + 1.5 * HOUR))
    stage.host.set(HOUR)
    assert await stage.claim() == []
    row = await stage.one("SELECT due, next_poll_at, deadline_at FROM operation WHERE id = ?", operation)
    assert row == {"due": us(START + 2 * HOUR), "next_poll_at": us(START + 2.5 * HOUR), "deadline_at": us(START + 2 * HOUR)}
    stage.later(HOUR)
    (closing,) = await stage.claim()
    assert isinstance(closing, OperationWork) and not closing.operation.reserved, "closed without a request"


async def test_I4_a_claim_that_would_close_leaves_no_look_inside_a_wait_when_the_clock_goes_back() -> None:
    """A process that took an operation at its deadline dies, and the clock is set back: until the deadline comes again, nothing is sent."""
    stage = Set()
    operation = await stage.operation(deadline_at=stage.now + HOUR)
    work = await stage.claim_operation()
    asked = pending(work, stage.now, stage.now + 5 * HOUR, delay_source=DelaySource.PROVIDER_RETRY_AFTER)
    await stage.work.commit_operation(work, replace(asked, due=stage.now + HOUR))
    stage.later(HOUR)
    (lost,) = await stage.claim()
    assert isinstance(lost, OperationWork) and not lost.operation.reserved, "it only closes"
    stage.host.set(-HOUR / 2)
    stage.later(LEASE + MINUTE)
    assert await stage.claim() == [], "its lease is over, and its deadline is half an hour away"
    stage.later(HOUR / 2)
    (closing,) = await stage.claim()
    assert isinstance(closing, OperationWork) and not closing.operation.reserved
    assert await stage.faults(operation) == []


async def test_W35_a_question_ends_when_it_was_told_to_and_the_wait_behind_it_moves() -> None:
    """The end of a question was told to a person; the provider's wait is a length, which the answer will still have to keep."""
    stage = Set()
    await stage.operation(deadline_at=stage.now + YEARS)
    work = await stage.claim_operation()
    asked = question(work, stage.now, stage.now + DAY)
    assert asked.options[0].verb is Verb.STOP
    state = {"state": OperationState.ESCALATED, "event": Event.SAW_TROUBLE, "due": stage.now + DAY, "escalation": asked}
    later = {"next_poll_at": stage.now + 2 * HOUR, "delay_source": DelaySource.PROVIDER_RETRY_AFTER}
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now, **{**state, **later}))
    stage.host.set(HOUR)
    assert await stage.claim() == []
    row = await stage.one("SELECT state, due, next_poll_at, last_checked_at FROM operation")
    moved = {"next_poll_at": us(START + 3 * HOUR), "last_checked_at": us(START + HOUR)}
    assert row == {"state": "escalated", "due": us(START + DAY), **moved}
    assert (await stage.one("SELECT answer_by FROM escalation"))["answer_by"] == us(START + DAY)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_wait_that_is_registered_right_after_a_step_is_not_moved_by_it(step: timedelta) -> None:
    """Every write looks at the clock first, so what is new was planned by the clock as it stands."""
    stage = Set()
    await stage.claim()
    stage.host.set(step)
    await stage.operation(first_look=stage.now + MINUTE)
    assert await stage.claim() == []
    assert (await stage.one("SELECT due FROM operation"))["due"] == us(stage.now + MINUTE)
    assert await stage.steps() == [step.total_seconds()]


async def test_an_idle_process_does_not_write_each_second() -> None:
    """The mark and the offset are written twice a minute while nothing is due."""
    stage = Set()
    await stage.claim()
    written = set()
    for _ in range(120):
        stage.later(timedelta(seconds=1))
        stage.host.set(timedelta(milliseconds=3))
        assert await stage.claim() == []
        written.add(tuple(row["value"] for row in await stage.sql("SELECT value FROM meta WHERE key IN ('boot', 'high_water')")))
    assert 3 <= len(written) <= 5


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_I4_a_step_that_could_not_be_measured_moves_once(step: timedelta) -> None:
    """While both clocks cannot be read at one moment nothing is concluded, by the mark neither."""
    host = HeldUp()
    host.held = timedelta(seconds=0.6)
    stage = Set(host=host)
    await waiting(stage, DAY)
    host.set(step)
    host.stops = 10
    await stage.claim()
    host.stops = 0
    await stage.claim()
    assert await stage.steps() == [step.total_seconds()]


@pytest.mark.parametrize("year", [1, 9999])
async def test_a_clock_at_the_end_of_time_is_said_and_blocks_nothing(year: int) -> None:
    """No instant can be reckoned from there: nothing is claimed or moved, and the store works again once the clock is right."""
    stage = Set()
    await waiting(stage)
    away = datetime(year, 12 if year > 1 else 1, 31, tzinfo=START.tzinfo) - stage.now
    stage.host.set(away)
    with pytest.raises(Unavailable, match=r"clock .* set the clock"):
        await stage.claim()
    stage.host.set(-away)
    assert await stage.steps() == []
    await stage.looks_after(2 * HOUR)


@pytest.mark.parametrize("to", [datetime(1969, 12, 31), datetime(1970, 1, 1), datetime(2, 1, 2), datetime(2038, 1, 19, 3, 14, 8)])
async def test_I7_I23_a_clock_before_1970_and_back_leaves_the_pools_as_they_were(to: datetime) -> None:
    """The level of a pool is an instant too: cut off at 1970 it would come back years ahead, and nothing would be sent until then."""
    stage = Set()
    await waiting(stage)
    await stage.limits("host:idle", rate=1.0)
    before = await stage.sql("SELECT due, next_poll_at FROM operation")
    away = to.replace(tzinfo=START.tzinfo) - stage.now
    for step in (away, -away):
        stage.host.set(step)
        assert await stage.claim() == []
    assert await stage.sql("SELECT due, next_poll_at FROM operation") == before
    (idle,) = await stage.sql("SELECT tat FROM pool WHERE name = 'host:idle'")
    assert idle["tat"] <= us(stage.now)
    await stage.looks_after(2 * HOUR)


async def test_the_highest_year_is_borne() -> None:
    """A clock at the end of time moves plans to the last instant there is, and reading them back works."""
    stage = Set()
    poll = await stage.poll(due=stage.now + 100 * YEARS)
    stage.host.set(datetime(9998, 1, 1, tzinfo=START.tzinfo) - stage.now)
    assert await stage.claim() == []
    reads = Reads(stage.store.executor, clock=stage.host)
    record = await reads.poll(ANNA, poll)
    assert record.poll.state is PollState.ACTIVE


async def test_the_instant_without_a_write_is_the_wall_clock() -> None:
    """What only reads moves nothing."""
    host = Host()
    assert HostTime(host).now() == us(START)
