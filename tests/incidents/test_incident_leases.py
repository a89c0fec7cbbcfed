"""Incidents of others with leases: rescuers, late winners, work taken up twice. The numbers are those of tests/incidents.toml."""

import asyncio
import sqlite3
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import ActionRef, Policy
from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, Reply
from sereno.core.operation import Event, OperationState
from sereno.core.work import LeaseTimes, OperationWork
from sereno.engine.guard import Moment
from sereno.engine.perform import perform, send_guard
from sereno.ports import Fetch, Guarded
from sereno.store.executor import ThreadExecutor
from sereno.store.open import open_store
from sereno.testing.virtual import START, SeededIds, run_virtual
from tests.drivers.stage import HOUR, ScriptedAction, ScriptedTransport
from tests.drivers.stage import Stage as DriverStage
from tests.engine.desk import Desk
from tests.store.stage import LEASE, Stage, pending

LEASE_S = LeaseTimes().lease.total_seconds()
SLOW = LeaseTimes(tick=timedelta(seconds=10))
"""For worlds that last for hours."""
TABLES = ("operation", "run", "journal", "escalation", "delivery", "provider_call")


async def rows_of(stage: Stage) -> dict[str, list[dict[str, Any]]]:
    """All that is kept of operations and runs: states, errors, times."""
    return {table: await stage.sql(f"SELECT * FROM {table} ORDER BY rowid") for table in TABLES}


def ended(work: OperationWork, stage: Stage) -> Any:
    """The decision of a worker that saw the job succeed."""
    done = {"state": OperationState.SUCCEEDED, "event": Event.SAW_SUCCESS, "due": None, "next_poll_at": None}
    return replace(pending(work, stage.now, stage.now + LEASE), **done)


async def two(path: Path) -> tuple[Stage, Stage, OperationWork]:
    """A worker whose lease on an operation ran out, and the process of a rescuer on the same file."""
    worker = Stage(path)
    rescuer = Stage(path, clock=worker.clock, first=1 << 40)
    await worker.operation("job-1")
    work = await worker.claim_operation()
    worker.later(LEASE + timedelta(seconds=1))
    return worker, rescuer, work


async def test_I8_I11_a_finish_between_a_rescues_read_and_its_write_stands(tmp_path: Path) -> None:
    """incident 1: the rescuer saw the job as stale, its worker finished it meanwhile: the claim takes nothing, and no field
    moves."""
    worker, rescuer, work = await two(tmp_path / "s.db")
    due = await rescuer.work.next_due()
    assert due is not None and due <= rescuer.now, "the rescuer's read: there is something to rescue"
    await worker.work.commit_operation(work, ended(work, worker))
    before = await rows_of(worker)
    assert before["operation"][0]["state"] == "succeeded"
    worker.later(timedelta(minutes=5))
    assert await rescuer.claim() == []
    assert await rows_of(worker) == before


async def test_I8_I11_a_finish_at_any_statement_of_a_rescue_is_refused_whole(tmp_path: Path) -> None:
    """incident 1: the worker tries to commit at every single statement of the claim that rescues its job; what the rescue wrote
    stays."""
    worker, rescuer, work = await two(tmp_path / "s.db")
    late = sqlite3.connect(tmp_path / "s.db", isolation_level=None, timeout=0)
    tried: list[str] = []

    def commit_meanwhile(statement: str) -> None:
        if statement.startswith("BEGIN") and not tried:
            tried.append("before it began")
            return
        try:
            late.execute("BEGIN IMMEDIATE")
            late.execute("ROLLBACK")
            tried.append(f"let in at {statement[:40]}")
        except sqlite3.OperationalError:
            tried.append("refused")

    connection = rescuer.store.executor.connection  # type: ignore[attr-defined]  # the inline executor of tests
    connection.set_trace_callback(commit_meanwhile)
    (taken,) = await rescuer.claim(worker="rescuer")
    connection.set_trace_callback(None)
    assert isinstance(taken, OperationWork) and taken.lease.run == 2
    assert tried.count("refused") >= 4 and not [said for said in tried if said.startswith("let in")], tried
    before = await rows_of(rescuer)
    with pytest.raises(LeaseLost):
        await worker.work.commit_operation(work, ended(work, worker))
    assert await rows_of(rescuer) == before, "nothing of the late commit"
    late.close()


async def test_I8_I11_a_finish_after_rescue_and_end_by_another_changes_nothing(tmp_path: Path) -> None:
    """incident 1: re-claimed and finished by another in between: the first worker's commit, release, extension and parking
    write nothing."""
    worker, rescuer, work = await two(tmp_path / "s.db")
    (taken,) = await rescuer.claim(worker="rescuer")
    assert isinstance(taken, OperationWork)
    await rescuer.work.commit_operation(taken, ended(taken, rescuer))
    before = await rows_of(rescuer)
    worker.later(timedelta(minutes=1))
    for late in (
        worker.work.commit_operation(work, pending(work, worker.now, worker.now + LEASE)),
        worker.work.park(work, reason="late"),
        worker.work.release(work),
        worker.work.extend(work, LeaseTimes()),
    ):
        with pytest.raises(LeaseLost):
            await late
    assert not await worker.work.reserve_hop(work, "https://example.com")
    assert await rows_of(rescuer) == before
    assert await rescuer.claim() == []


class Patient(ScriptedTransport):
    """Asks to be left alone for ten leases, then says done."""

    async def fetch(self, request: Fetch) -> Reply:
        """Running with Retry-After, the second time done."""
        if self._book.reads_of()["job"]:
            self.word = "done"
        reply = await super().fetch(request)
        assert isinstance(reply, HttpReply)
        return replace(reply, headers=(*reply.headers, ("retry-after", str(int(10 * LEASE_S)))))


class Postponing(ScriptedAction):
    """Its receiver wants the first attempt again ten leases later."""

    def __init__(self, stage: DriverStage) -> None:
        super().__init__(stage.book, stage.clock)
        self.at: list[float] = []

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Busy once, then done."""
        self.at.append(self._clock.monotonic())
        outcome = await super().perform(delivery, guarded)
        return Outcome(OutcomeKind.RETRY, "later", not_before=guarded.now + 10 * LEASE) if delivery.attempts == 1 else outcome


def test_P16_what_is_due_in_ten_leases_runs_once_then(tmp_path: Path) -> None:
    """incident 2: a poll, a look and a delivery planned ten leases ahead, three drivers: each runs once, at its time, by one of
    them."""

    async def main() -> None:
        stage = DriverStage(tmp_path / "s.db")
        stage.transport = Patient(stage.book, stage.clock)
        stage.action = receiver = Postponing(stage)
        await stage.operation("job", deadline=5 * HOUR)
        await stage.polls(1, actions=(stage.tell(),), every=timedelta(days=1))
        await stage.polls(5, first=1, every=timedelta(days=1), due=START + 10 * LEASE)
        others = [stage.open(), stage.open()]
        drivers = [stage.driver("a"), *(stage.driver(f"b{n}", store=store) for n, store in enumerate(others))]
        await stage.drive(12 * LEASE_S, *drivers)
        read = {name: [at for at, found in stage.book.reads if found == name] for name in stage.book.reads_of()}
        assert {name: len(at) for name, at in read.items()} == {"job": 2, **{f"p{n}": 1 for n in range(6)}}
        assert all(10 * LEASE_S <= at[-1] < 10 * LEASE_S + 10 for name, at in read.items() if name != "p0"), read
        assert len(stage.book.acts) == 2 and len({*stage.book.acts}) == 1
        assert 10 * LEASE_S <= receiver.at[1] - receiver.at[0] < 10 * LEASE_S + 10, receiver.at
        runs = await stage.sql("SELECT subject, count(*) AS n FROM run WHERE status <> 'ok' GROUP BY subject")
        assert [row["n"] for row in runs] == [1], "the one attempt that was to be made again"
        for store in (*others, stage.store):
            await store.close()

    run_virtual(main)


class Receiver(ScriptedAction):
    """A receiver that honours keys: the first request under a key takes effect, the others are answered alike."""

    def __init__(self, stage: DriverStage) -> None:
        super().__init__(stage.book, stage.clock)
        self.accepted: list[str] = []
        self.asked: list[str] = []

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Takes as long as it takes, then accepts."""
        assert guarded.before_first_byte is not None
        await guarded.before_first_byte()
        key = delivery.effect.dedupe_key
        self.asked.append(key)
        if key not in self.accepted:
            self.accepted.append(key)
        return await super().perform(delivery, guarded)


def test_I8_I17_an_effect_longer_than_its_lease_is_accepted_once(tmp_path: Path) -> None:
    """incident 3: the worker of an effect of half an hour stalls, so that its lease runs out: the key is the same, one effect,
    one ending."""

    async def main() -> None:
        stage = DriverStage(tmp_path / "s.db", times=SLOW)
        stage.action = receiver = Receiver(stage)
        receiver.seconds = 30 * 60
        other = stage.open()
        await stage.polls(1, actions=(stage.tell(),), every=timedelta(days=2))
        stalled = stage.driver("stalled", slots=1)

        async def no_beat() -> None:
            """Prolongs nothing."""

        stalled._beats = no_beat  # type: ignore[method-assign]  # a worker that hangs
        frozen = asyncio.get_running_loop().create_task(stalled.run())
        await stage.clock.sleep(5)
        assert len(receiver.asked) == 1
        rescuer = stage.driver("rescuer", store=other, slots=1)
        task = asyncio.get_running_loop().create_task(rescuer.run())
        await stage.clock.sleep(70 * 60)
        assert receiver.asked == receiver.accepted * 2 and len(receiver.accepted) == 1
        rows = await stage.sql("SELECT state, run FROM delivery")
        assert rows == [{"state": "delivered", "run": 2}]
        assert stalled.tally.lost == 1, "the end of the first attempt was refused"
        runs = await stage.sql("SELECT status, claimed_by FROM run WHERE kind = 'delivery' ORDER BY number")
        assert [(run["status"], run["claimed_by"]) for run in runs] == [("abandoned", "stalled"), ("ok", "rescuer")]
        for driver in (stalled, rescuer):
            driver.stop()
        await asyncio.gather(frozen, task)
        for store in (other, stage.store):
            await store.close()

    run_virtual(main)


def test_P16_tasks_that_wait_unstarted_are_each_begun_once(tmp_path: Path) -> None:
    """incident 4: ten effects of ten minutes, two workers with one slot each: who waits longer than a lease is held by nobody,
    and acts once."""

    async def main() -> None:
        stage = DriverStage(tmp_path / "s.db", times=SLOW)
        other = stage.open()
        stage.action.seconds = 600
        await stage.polls(10, actions=(stage.tell(),), every=timedelta(days=2))
        await stage.drive(3600, stage.driver("a", slots=1), stage.driver("b", store=other, slots=1))
        assert Counter(Counter(stage.book.acts).values()) == Counter({1: 10})
        assert sorted(stage.book.acts) == sorted(stage.book.finished)
        runs = await stage.sql("SELECT status, count(*) AS n FROM run WHERE kind = 'delivery' GROUP BY status")
        assert runs == [{"status": "ok", "n": 10}]
        await other.close()
        await stage.store.close()

    run_virtual(main)


async def held() -> tuple[Desk, Any]:
    """An operation that was claimed, and whose first look is to be sent."""
    desk = Desk()
    await desk.operation(deadline=timedelta(hours=1))
    return desk, await desk.claim()


@pytest.mark.parametrize("waits_in", ["check", "reserve_hop"])
async def test_I24_a_lease_that_runs_out_while_the_database_is_locked_sends_nothing(waits_in: str) -> None:
    """incident 5: the worker waits for the database's lock between its claim and its bytes, for longer than its lease lasts."""
    desk, work = await held()

    class Locked:
        """The store; one of its calls takes longer than a lease."""

        def __getattr__(self, name: str) -> Any:
            real = getattr(desk.store.work, name)
            if name != waits_in:
                return real

            async def waited(*arguments: Any) -> Any:
                answered = await real(*arguments)
                desk.hand.advance(LEASE_S)
                return answered

            return waited

    desk.changes["store"] = Locked()
    sender = desk.sender(work)
    guarded = sender.guarded(total_deadline=timedelta(seconds=30))
    assert guarded.before_hop is not None and guarded.before_first_byte is not None
    if waits_in == "reserve_hop":
        assert await guarded.before_hop("https://example.com")
        with pytest.raises(LeaseLost):
            await guarded.before_first_byte()
    else:
        desk.hand.advance(2)
        await perform(desk.kit(), work, sender)
        (row,) = await desk.sql("SELECT status_requests_used AS used, due FROM operation")
        assert row["used"] == 0, "nothing left, so nothing is counted"
    assert desk.wire.sent == []


async def test_I24_a_claim_that_waited_for_the_lock_longer_than_a_lease_sends_nothing(tmp_path: Path) -> None:
    """incident 5: another process holds the lock while this one claims: what the claim hands out is given back and taken anew."""
    desk = Desk()
    desk.store = open_store(
        tmp_path / "s.db", clock=desk.hand, ids=SeededIds(7), executor=lambda path: ThreadExecutor(path, busy_timeout_s=60)
    )
    desk.definitions = desk.store.definitions
    await desk.operation(deadline=timedelta(hours=1))
    foreign = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    before = Moment.of(desk.hand)
    claiming = asyncio.ensure_future(desk.claim())
    await desk.store.executor.read(lambda connection: connection.execute("SELECT 1").fetchone())
    assert not claiming.done()
    desk.hand.advance(LEASE_S)
    foreign.execute("ROLLBACK")
    foreign.close()
    work = await claiming
    await perform(desk.kit(), work, send_guard(desk.kit(), work, before))
    assert desk.wire.sent == []
    assert (await desk.one("SELECT status_requests_used AS used FROM operation"))["used"] == 0
    again = await desk.claim()
    await perform(desk.kit(), again, desk.sender(again))
    assert len(desk.wire.sent) == 1, "the next one sends"
    await desk.store.close()


@pytest.mark.parametrize("seed", range(8))
def test_P16_start_and_recovery_in_one_instant_are_one_execution(tmp_path: Path, seed: int) -> None:
    """incident 12: registered, started and looked for by a second process in the same microsecond: one run, whatever the
    order."""

    async def main() -> None:
        stage = DriverStage(tmp_path / "s.db", seed=seed)
        stage.source.seconds = 1.0
        other = stage.open()
        await stage.operation("job")
        await stage.polls(3, actions=(stage.tell(),))
        await stage.drive(1.5, stage.driver("starts"), stage.driver("recovers", store=other))
        assert stage.book.reads_of() == Counter({"job": 1, **{f"p{n}": 1 for n in range(3)}})
        assert len(stage.book.acts) == len({*stage.book.acts}) == 3
        runs = await stage.sql("SELECT subject, max(number) AS n FROM run GROUP BY subject")
        assert [row["n"] for row in runs] == [1] * 7
        for store in (other, stage.store):
            await store.close()

    run_virtual(main, seed)


@pytest.mark.parametrize(
    ("micros", "sends"), [(-1_000_001, (True, False)), (-1, (False, False)), (0, (False, True)), (1, (False, True))]
)
async def test_I9_at_the_very_end_of_a_lease_one_of_two_sends(micros: int, sends: tuple[bool, bool]) -> None:
    """incident 12: at the instant at which a lease ends, and a microsecond to both sides of it, owner and rescuer never both
    send."""
    desk, work = await held()
    owner = desk.sender(work)
    # The host slept, so the stopwatch of this worker stood still: time since boot ends its trust, a second before the lease ends.
    desk.hand.suspend((work.lease.until - desk.hand.now()).total_seconds())
    desk.hand.suspend(micros / 1e6)
    may_send = await owner.may_act()
    rescued = (await desk.store.work.claim(worker="rescuer", limit=5, times=desk.times)).works
    assert (may_send, len(rescued) == 1) == sends


class Raced:
    """The desk's store; another worker takes the work over right before one of its calls. `said` are the calls, in order."""

    def __init__(self, desk: Desk, before: str) -> None:
        self._desk, self._before = desk, before
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._desk.store.work, name)

        async def told(*arguments: Any, **named: Any) -> Any:
            self.said.append(name)
            if name == self._before:
                for table in ("poll", "operation", "delivery"):
                    await self._desk.sql(f"UPDATE {table} SET run = run + 1")
            return await real(*arguments, **named)

        return told


@pytest.mark.parametrize("refuses", ["check", "snapshot", "commit_poll", "commit_operation", "commit_delivery", "reserve_hop"])
async def test_I8_the_loser_of_a_race_stops_at_the_first_refusal(refuses: str) -> None:
    """incident 13: from the first call that finds the fence moved on, the loser neither writes nor sends anything more."""
    desk = Desk()
    if refuses == "commit_delivery":
        await desk.delivery()
        desk.wire.sent.clear()
    elif refuses in ("snapshot", "commit_poll"):
        await desk.polls(1, actions=(ActionRef("tell", "scripted", {}, Policy.KEYED, pool="local:scripted"),))
    else:
        await desk.operation()
    work = await desk.claim()
    sender = desk.sender(work)
    desk.changes["store"] = raced = Raced(desk, refuses)
    racing = send_guard(desk.kit(), work, sender.claimed)
    if refuses == "check":
        desk.hand.advance(2)
    before = await desk.sql("SELECT count(*) AS n FROM journal")
    if refuses == "reserve_hop":
        hop = racing.guarded(total_deadline=timedelta(seconds=5)).before_hop
        assert hop is not None and not await hop("https://example.com"), "so the gate does not follow"
    else:
        with pytest.raises(LeaseLost):
            await perform(desk.kit(), work, racing)
    after = raced.said[raced.said.index(refuses) + 1 :]
    assert {*after} <= {"release"}, after
    assert await desk.sql("SELECT count(*) AS n FROM journal") == before
    assert await desk.sql("SELECT 1 FROM run WHERE status = 'ok' AND kind <> 'poll'") == []
    assert (desk.wire.sent == []) is (refuses not in ("commit_operation",))


@pytest.mark.parametrize("seed", range(3))
def test_P16_four_processes_make_each_effect_once(tmp_path: Path, seed: int) -> None:
    """incident 14: four schedulers on one database, none of them told of the others: each mail is sent once, each round has one
    run."""

    async def main() -> None:
        stage = DriverStage(tmp_path / "s.db", seed=seed)
        stage.source.news, stage.source.seconds, stage.action.seconds = True, 0.3, 2.0
        await stage.limits(rate=None, burst=1)
        await stage.limits("local:scripted", rate=None, burst=1)
        await stage.polls(12, actions=(stage.tell(),), every=timedelta(minutes=1))
        stores = [stage.open() for _ in range(3)]
        drivers = [
            stage.driver("w0", slots=2),
            *(stage.driver(f"w{n}", store=store, slots=2) for n, store in enumerate(stores, start=1)),
        ]
        await stage.drive(200, *drivers)
        assert stage.book.reads_of() == Counter({f"p{n}": 4 for n in range(12)})
        keys = await stage.sql("SELECT id, dedupe_key FROM delivery")
        assert len(keys) == len({row["dedupe_key"] for row in keys}) == 48
        assert sorted(stage.book.acts) == sorted(row["id"] for row in keys), "each effect once"
        assert len(await stage.sql("SELECT DISTINCT claimed_by FROM run")) == 4
        for store in (*stores, stage.store):
            await store.close()

    run_virtual(main, seed)
