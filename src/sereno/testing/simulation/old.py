"""A seeded world: the real core, engine, store and drivers between a simulated provider, source and receiver that keep their own books.

One seed is one world: workers crash at named points, stall past their leases and come back; the provider is slow, busy, lying or
silent; the receiver loses answers. Checks read the books of the others, never Sereno's own, except for what it persisted.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import TypeVar

from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.core.budget import Allowance
from sereno.core.contract import Via, with_states
from sereno.core.delivery import DeliveryState
from sereno.core.effect import ActionRef, Policy
from sereno.core.operation import KEEP_RESULT, TERMINAL, Operation, OperationState, fingerprint
from sereno.core.poll import PollSpec
from sereno.core.reviewing.checking import check_journal
from sereno.core.reviewing.replay import Verdict, replay
from sereno.core.schedule import Interval
from sereno.core.values import Json, digest
from sereno.core.work import LeaseTimes, Principal
from sereno.drivers.loop import Driver
from sereno.engine.kit import Kit
from sereno.outside.cel import CelConditions
from sereno.outside.logs import quiet_logs
from sereno.outside.redaction import Redaction
from sereno.ports import NewOperation, Page, Plugins, PoolLimits
from sereno.store.definitions import Definitions
from sereno.store.open import Store, open_store
from sereno.store.reads import Reads
from sereno.store.work.store import SqliteWork
from sereno.testing.outside_world import Books, Job, SimulatedCrash, SimulatedReceiver, SimulatedSource, SimulatedTransport
from sereno.testing.simulated_orders import HOST
from sereno.testing.simulated_people import SimulatedPeople, kept_once
from sereno.testing.virtual import START, SeededIds, VirtualClock, run_virtual

T = TypeVar("T")
WHO = Principal(user="sim")
TIMES = LeaseTimes(
    lease=timedelta(seconds=20),
    total_deadline=timedelta(seconds=10),
    guard=timedelta(seconds=1),
    commit_time=timedelta(seconds=2),
    tick=timedelta(seconds=10),
)
LONGEST = 25
"""Minutes of the longest deadline."""
FINISH = timedelta(seconds=2 * 20 + 61)
"""How long after its deadline an operation may still be open (I10)."""

_UNDELIVERED = (DeliveryState.QUEUED, DeliveryState.SENDING)


@dataclass(frozen=True)
class Options:
    """What one world is made of, drawn from its seed."""

    seed: int
    workers: int
    operations: int
    polls: int
    hours: float
    crash_share: float
    fault_share: float
    stall_share: float
    orders: int = 0
    """Jobs that are submitted, with and without keys; people cancel some and call back."""

    @classmethod
    def draw(cls, seed: int) -> "Options":
        """Draws the options; printed with every failure."""
        dice = Random(f"options:{seed}")
        return cls(
            seed=seed,
            workers=dice.randint(2, 4),
            operations=dice.randint(3, 8),
            polls=dice.randint(1, 4),
            hours=dice.choice((0.2, 0.4)),
            crash_share=dice.choice((0.0, 0.01, 0.05)),
            fault_share=dice.choice((0.0, 0.1, 0.3)),
            stall_share=dice.choice((0.0, 0.05)),
            orders=dice.randint(2, 6),
        )


@dataclass(frozen=True)
class Outcomes:
    """What a world came to: violations (none is right), the journal's digest, and how much happened."""

    options: Options
    violations: Sequence[str]
    journal_digest: str
    crashes: int
    points: Mapping[str, int]
    faults: Mapping[str, int]
    requests: int
    wasted: int
    steps: int


class World:
    """One world, to be run once on a virtual loop."""

    def __init__(self, options: Options, *, wrap_store: Callable[[SqliteWork], object] | None = None):
        self._options = options
        self._dice = Random(f"world:{options.seed}")
        self.books = Books()
        self._calm = False
        self._crashes: Counter[str] = Counter()
        self._wrap: Callable[[SqliteWork], object] = wrap_store or (lambda store: store)
        self._violations: list[str] = []
        self._ids = SeededIds(options.seed)

    def run(self) -> Outcomes:
        """Safety phase under faults, then faults off until everything must have ended, then the books are checked."""
        return run_virtual(self._run, self._options.seed)

    async def _run(self) -> Outcomes:
        asyncio.get_running_loop().set_exception_handler(_quiet)
        clock = VirtualClock()
        self._ids = ids = SeededIds(self._options.seed, clock.now)
        store = open_store(":memory:", clock=clock, ids=ids)
        definitions = Definitions(store.executor, clock=clock, ids=ids)
        reads = Reads(store.executor, clock=clock)
        await self._populate(definitions, clock)
        people = SimulatedPeople(definitions, reads, self._provider(clock, _survives), clock=clock, ids=ids)
        await people.order(self._options.orders, self._dice)
        disturbing = asyncio.get_running_loop().create_task(people.disturb(Random(f"people:{self._options.seed}")), name="people")
        hands = [
            asyncio.get_running_loop().create_task(self._worker(n, store, reads), name=f"w{n}")
            for n in range(self._options.workers)
        ]
        await clock.sleep(self._options.hours * 3600)
        self._calm = True
        disturbing.cancel()
        await clock.sleep(LONGEST * 60 + FINISH.total_seconds())
        for hand in hands:
            hand.cancel()
        for hand in hands:
            (error,) = await asyncio.gather(hand, return_exceptions=True)
            if not isinstance(error, asyncio.CancelledError):
                raise RuntimeError("a simulated worker ended by itself") from error
        for record in await reads.operations(WHO, Page(limit=1000)):
            await self._read_back(reads, record.operation.id)
        operations = [record.operation for record in await reads.operations(WHO, Page(limit=1000))]
        self._violations += [*people.violations(operations, self.books), *kept_once(operations, self.books.kept)]
        return await self._judge(store, reads, clock)

    async def _populate(self, definitions: Definitions, clock: VirtualClock) -> None:
        document = with_states(
            Catalogue().document("generic-status"),
            {"success": ["done"], "failure": ["broken"], "pending": ["running", "queued"]},
            "status",
        )
        await definitions.set_pool(WHO, f"host:{HOST}", PoolLimits(rate=5.0, burst=5))
        action = ActionRef("tell", "sim", {}, Policy.KEYED, pool="local:sim")
        for number in range(self._options.operations):
            job = Job(f"job{number}", self._words())
            self.books.jobs[job.id] = job
            url = f"https://{HOST}/jobs/{job.id}"
            now = clock.now()
            await definitions.register(
                WHO,
                NewOperation(
                    contract="generic-status",
                    document=document,
                    account="",
                    job_id=job.id,
                    url=url,
                    parameters={},
                    fingerprint=fingerprint("generic-status", "", job.id, url),
                    allowance=Allowance(
                        now + timedelta(minutes=self._dice.choice((5, 15, LONGEST))), None, self._dice.choice((3, 10, 40)), 5, 5
                    ),
                    pool=f"provider:{HOST}",
                    first_look_at=now + timedelta(seconds=2),
                    actions=[action],
                ),
            )
        for number in range(self._options.polls):
            spec = PollSpec(
                f"poll{number}", "sim", {"url": f"https://{HOST}/n"}, Interval(timedelta(seconds=60), START), actions=[action]
            )
            await definitions.add_poll(WHO, spec, pool=f"host:{HOST}", due=clock.now(), managed_by="user")

    def _words(self) -> Sequence[str]:
        ending = self._dice.choice(("done", "done", "broken", "running", "awaiting_review"))
        return ["queued"] * self._dice.randint(0, 2) + ["running"] * self._dice.randint(1, 4) + [ending]

    async def _worker(self, number: int, store: Store, reads: Reads) -> None:
        """A process that is started again each time it dies."""
        clock, life = VirtualClock(), 0
        while True:
            life += 1
            await self._life(f"w{number}.{life}", clock, store, reads)
            await clock.sleep(self._dice.uniform(0.1, 30.0))

    async def _life(self, name: str, clock: VirtualClock, store: Store, reads: Reads) -> None:
        died = asyncio.get_running_loop().create_future()
        crash = self._crash_point(died)
        driver = Driver(self._kit(clock, store, reads, crash, died), worker=name, slots=8)
        running = asyncio.get_running_loop().create_task(driver.run(), name=name)
        running.add_done_callback(lambda task: None if died.done() else died.set_result(None))
        try:
            await died
        finally:
            # What the dead process had in hand meets its end at its next crash point: it neither sends nor commits any more.
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            self._expect_no_bug(running)

    def _expect_no_bug(self, running: "asyncio.Task[object]") -> None:
        error = None if running.cancelled() else running.exception()
        self._expect(error is None or isinstance(error, SimulatedCrash), f"a driver ended with {error!r}")

    def _crash_point(self, died: "asyncio.Future[None]") -> Callable[[str], None]:
        def crash(point: str) -> None:
            if died.done():
                raise SimulatedCrash(point)
            if not self._calm and self._dice.random() < self._options.crash_share:
                self._crashes[point] += 1
                died.set_result(None)
                raise SimulatedCrash(point)

        return crash

    def _faults(self) -> bool:
        return not self._calm and self._dice.random() < self._options.fault_share

    def _provider(self, clock: VirtualClock, crash: Callable[[str], None]) -> SimulatedTransport:
        return SimulatedTransport(self.books, clock, self._dice, faults=self._faults, crash=crash)

    def _kit(
        self, clock: VirtualClock, store: Store, reads: Reads, crash: Callable[[str], None], died: "asyncio.Future[None]"
    ) -> Kit:
        async def pinned(wanted: str) -> Mapping[str, Json]:
            return await reads.contract(wanted)

        receiver = SimulatedReceiver(self.books, clock, self._dice, faults=self._faults, crash=crash)
        plugins = Plugins(
            sources={"sim": SimulatedSource(self.books, clock, self._dice, faults=self._faults)},
            actions={"sim": receiver, KEEP_RESULT: receiver},
            providers={Via.HTTP: HttpProvider()},
            contracts=Catalogue(),
            conditions=CelConditions(),
        )
        return Kit(
            store=MortalStore(self._wrap(store.work), crash, self._stall(clock)),  # type: ignore[arg-type]  # a proxy of the same methods
            plugins=plugins,
            transport=self._provider(clock, crash),
            clock=clock,
            ids=self._ids,
            times=TIMES,
            pinned_contract=pinned,
            crash_point=crash,
        )

    def _stall(self, clock: VirtualClock) -> Callable[[], "asyncio.Future[None] | None"]:
        def stall() -> "asyncio.Future[None] | None":
            if self._calm or self._dice.random() >= self._options.stall_share:
                return None
            self.books.faults["stall"] += 1
            seconds = self._dice.choice((5.0, 25.0, 120.0))
            return asyncio.ensure_future(clock.sleep(seconds))

        return stall

    def _judge_looks(self, operation: Operation) -> int:
        """Compares one operation with the provider's book of its job; answers how many counts were wasted."""
        ended = operation.state in TERMINAL or operation.state is OperationState.ESCALATED
        self._expect(ended, f"I10 {operation.id}: still {operation.state} long after its deadline")
        job = self.books.jobs.get(operation.job_id)
        if job is None:
            return 0
        on_wire, counted, allowed = len(job.sent_at), operation.spend.status_requests, operation.allowance.max_status_requests
        self._expect(on_wire <= counted <= allowed, f"I1 {job.id}: {on_wire} on the wire, {counted} counted, {allowed} allowed")
        in_time = all(at < operation.allowance.deadline_at for at in job.sent_at)
        self._expect(in_time, f"W32 {job.id}: a request after the deadline")
        for received, until in job.not_before:
            early = [at for at in job.sent_at if received < at < until]
            self._expect(not early or self._was_lost(operation.id), f"I4 {job.id}: a request inside a Retry-After")
        return counted - on_wire

    async def _judge(self, store: Store, reads: Reads, clock: VirtualClock) -> Outcomes:
        records = await reads.operations(WHO, Page(limit=1000))
        wasted = sum(self._judge_looks(record.operation) for record in records)
        for key, count in self.books.effects.items():
            self._expect(count == 1, f"I17 {key}: {count} effects")
        # One that failed many times, killed workers among them, may wait for its next try for longer than this world goes on.
        open_ones = [one for one in await reads.deliveries(WHO, Page(limit=1000)) if one.delivery.state in _UNDELIVERED]
        undelivered = [one for one in open_ones if one.due is None or one.due <= clock.now() or one.delivery.attempts < 8]
        self._expect(not undelivered, f"I31: {len(undelivered)} deliveries still open")
        journal = await store.executor.read(
            lambda c: c.execute("SELECT subject, run, kind, at, facts FROM journal ORDER BY seq").fetchall()
        )
        text = json.dumps([list(row) for row in journal])
        loop = asyncio.get_running_loop()
        return Outcomes(
            options=self._options,
            violations=list(self._violations),
            journal_digest=digest(text.encode()),
            crashes=sum(self._crashes.values()),
            points=dict(self._crashes),
            faults=dict(self.books.faults),
            requests=sum(len(job.sent_at) for job in self.books.jobs.values()),
            wasted=wasted,
            steps=getattr(loop, "steps", 0),
        )

    async def _read_back(self, reads: Reads, operation: str) -> None:
        """The journal alone gives the same decisions, and shows no fault (W28, W44)."""
        steps, changes = await reads.steps(WHO, operation), await reads.changes(WHO, operation)
        pinned = {step.operation.contract_digest for step in steps if step.operation is not None}
        contracts = {found: Catalogue().contract(await reads.contract(found)) for found in pinned}
        for step in replay(steps, changes, contracts).steps:
            self._expect(step.verdict is Verdict.SAME, f"W28 {operation} run {step.run}: {step.why or step.differences}")
        entries, clock = await reads.journal(WHO, operation), await reads.journal(WHO, "clock")
        for fault in check_journal(entries, contracts, clock):
            self._expect(False, f"W44 {operation} run {fault.run}: {fault.name}: {fault.says}")

    def _was_lost(self, operation: str) -> bool:
        """A wait that a crash or a stall lost with its answer is excused: the stored cool-down holds instead (I4)."""
        return bool(self._crashes) or self.books.faults["stall"] > 0

    def _expect(self, holds: bool, violation: str) -> None:
        if not holds:
            self._violations.append(violation)


def _survives(point: str) -> None:
    """People send nothing themselves: no crash point of theirs is met."""


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """A task that died with its process is no news; anything else is."""
    if not isinstance(context.get("exception"), SimulatedCrash):
        loop.default_exception_handler(context)


class MortalStore:
    """The store as a worker sees it that may die or stall around every commit."""

    def __init__(self, inner: object, crash: Callable[[str], None], stall: Callable[[], "asyncio.Future[None] | None"]):
        self._inner = inner
        self._crash = crash
        self._stall = stall

    def __getattr__(self, name: str) -> object:
        method = getattr(self._inner, name)

        async def around(*arguments: object, **named: object) -> object:
            self._crash(f"{name}.before")
            if (stalled := self._stall()) is not None:
                await stalled
            done = await method(*arguments, **named)
            self._crash(f"{name}.after")
            return done

        return around


def run_world(seed: int, **changes: object) -> Outcomes:
    """Runs the world of one seed; `changes` replace drawn options (for shrinking)."""
    quiet_logs(Redaction())
    return World(replace(Options.draw(seed), **changes)).run()  # type: ignore[arg-type]  # names of Options
