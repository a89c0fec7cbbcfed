"""The state machine of the store, first part: clocks, a database that goes away, and what people define, on any ground."""

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sereno.core.contract import Contract, Delays, Via
from sereno.core.errors import AlreadyExists, NotAllowed, NotFound, NotNow, SerenoError, Unavailable
from sereno.core.observation import ObservationKind
from sereno.core.poll import PollState
from sereno.core.schedule import Interval
from sereno.core.work import Kind, LeaseTimes, Work, subject_of
from sereno.ports import NewOperation, Only, PoolLimits
from tests.core.waiting import CANCEL, KEYED, SUBMIT, make_contract
from tests.store.calling import new_submit
from tests.store.seeding import ANNA, BOT, START, action, allowance, new_operation, spec
from tests.store.stateful_ground import AFTER, BEFORE, Ground, Opened, in_memory
from tests.store.stateful_model import (
    LIVE,
    CallRow,
    Model,
    OperationRow,
    PollRow,
    PoolBook,
    Row,
)

TIMES = LeaseTimes()
EVERYTHING = 400
"""A limit that no claim here reaches."""
POOLS = ("host:a.example", "host:b.example", "local")
ANSWER_WITHIN = 7200.0
CONTRACTS = {
    "plain": make_contract(Delays(min_gap=timedelta(seconds=1)), submit=SUBMIT, cancel=CANCEL),
    "keyed": make_contract(Delays(min_gap=timedelta(seconds=5)), submit=KEYED, cancel=replace(CANCEL, repeatable=True)),
    "called": make_contract(Delays(min_gap=timedelta(seconds=1)), submit=KEYED, cancel=None, via=Via.PUSH),
}
SECONDS = st.sampled_from([0, 1, 3, 10, 59, 60, 61, 130, 600, 3_600, 90_000, 260_000])
PICK = st.integers(0, 7)
WAITS = st.sampled_from([None, None, None, 0, 2, 40, 400, 9_000])
OBSERVED = st.sampled_from([ObservationKind.PENDING] * 8 + list(ObservationKind))


@dataclass
class Handed:
    """Work as it was handed out, and the worker's own clock at that moment."""

    work: Work
    at: float
    moved: timedelta
    """By how much the open waits had been moved until then, with a clock that was set."""


REGISTERED = st.fixed_dictionaries(
    {
        "job": st.sampled_from(["j1", "j2", "j3"]),
        "kind": st.sampled_from(["plain", "keyed", "called"]),
        "submits": st.booleans(),
        "other": st.sampled_from([False, False, False, True]),
        "pool": st.sampled_from(POOLS),
        "most": st.sampled_from([12, 4, 2, 1]),
        "life": st.sampled_from([600, 60, 7_200, 400_000]),
        "business": st.booleans(),
        "later": WAITS,
        "anew": st.sampled_from(["", "", "", "person", "person", "bot", "nothing"]),
    }
)


class Defining(RuleBasedStateMachine):
    """One store with its model. `opened` makes the ground: a second dialect brings another one."""

    opened: ClassVar[Opened] = staticmethod(in_memory)
    met: ClassVar[Counter[str]] = Counter()
    """What the histories met: a machine that never gets anywhere finds nothing either."""

    def __init__(self) -> None:
        super().__init__()
        self.ground: Ground = type(self).opened()
        self.model = Model()
        self.handed: list[Handed] = []
        self.contracts: dict[str, Contract] = {}
        self.small_steps = 0
        self.asked = 0
        self.anew = set[str]()
        self.trouble: str | int | None = None
        self.seen_states: dict[str, str] = {}
        self.journals: dict[str, list[Any]] = {}
        self.pages: tuple[list[str], set[str]] | None = None
        self.anna = ANNA

    def teardown(self) -> None:
        self.ground.close()

    @initialize(plan=REGISTERED, pool=st.sampled_from(POOLS))
    def begin(self, plan: dict[str, Any], pool: str) -> None:
        """Every history begins with something to do."""
        self.add_poll("x", pool, 60, 0, 1)
        self.register(plan)

    # What rules share

    @property
    def now(self) -> datetime:
        return self.ground.clock.at

    def do(self, asked: Coroutine[Any, Any, Any]) -> Any:
        return self.ground.do(asked)

    def told(self, asked: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
        """Runs a write that may meet trouble. Answers whether it was done, and what it answered or would have."""
        kind, self.trouble = self.trouble, None
        self.ground.trouble(kind)
        try:
            return True, self.do(asked)
        except Unavailable:
            assert kind is not None, "the database went away by itself"
            self.met[f"database gone {kind if isinstance(kind, str) else 'inside'}"] += 1
            return (True, self.ground.lost()) if kind == AFTER else (False, None)
        finally:
            self.ground.trouble(None)

    def picked(self, number: int) -> tuple[Handed, Row]:
        """Mostly work that is still held, else what was handed out last, late or not."""
        live = [handed for handed in self.handed if self.model.fence_holds(handed.work, self.model.row(subject_of(handed.work)))]
        some = live if live and number % 4 else self.handed[-8:]
        handed = some[-1 - number % len(some)]
        return handed, self.model.row(subject_of(handed.work))

    def some(self, rows: dict[str, Any], number: int) -> Any:
        return list(rows.values())[number % len(rows)]

    def receipt(self, handed: Handed) -> datetime:
        """W32: the claim's instant of the database plus what the worker's own clock measured since."""
        return handed.work.lease.claimed_at + timedelta(seconds=self.ground.clock.seconds - handed.at)

    def refused(self, asked: Callable[[], Any], *kinds: type[SerenoError]) -> None:
        """It has to be refused; that nothing changed is checked after each step."""
        try:
            asked()
        except kinds as refusal:
            self.met[type(refusal).__name__] += 1
            return
        raise AssertionError(f"it was to be refused with {[kind.__name__ for kind in kinds]}")

    # Time and trouble

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.ground.clock.seconds += seconds
        self.ground.clock.at += timedelta(seconds=seconds)

    @rule(seconds=st.sampled_from([-1, -300, -4_000, 900, 100_000]), told=st.sampled_from([None, None, None, -900.5, 5.0]))
    def the_clock_is_set(self, seconds: int, told: float | None) -> None:
        """The wall clock is set against the worker's own; a driver claims at once. A second small step could add up to one that is seen.
        Or a worker tells what its own clock did: that goes on record, and moves nothing."""
        if told is not None:
            self.told(self.ground.work.note_clock_step(told))
            self.met["step told"] += 1
            return
        if abs(seconds) < 2 and self.small_steps:
            return
        self.small_steps += abs(seconds) < 2
        self.ground.clock.at += timedelta(seconds=seconds)
        self.trouble = None
        self.claim_as("w1", 1, Only(subject="op_none"))

    def claim_as(self, worker: str, limit: int, only: Only | None) -> None:
        raise NotImplementedError

    @rule(kind=st.sampled_from([BEFORE, AFTER, 0, 1, 2, 4, 7, 12, "end"]))
    def the_database_will_go_away(self, kind: str | int) -> None:
        """Or the process ends at once: what was handed out is forgotten by nobody, a late worker still holds it."""
        self.trouble = None if kind == "end" else kind
        if kind == "end":
            self.ground.reopen()

    # Definitions

    @rule(
        name=st.sampled_from("xyz"),
        pool=st.sampled_from(POOLS),
        every=st.sampled_from([60, 3_600]),
        later=WAITS,
        priority=st.integers(0, 2),
    )
    def add_poll(self, name: str, pool: str, every: int, later: int | None, priority: int) -> None:
        due = self.now + timedelta(seconds=later or 0)
        wanted = spec(name, schedule=Interval(timedelta(seconds=every), START), priority=priority, actions=(action(),))
        asked = lambda: self.told(self.ground.definitions.add_poll(ANNA, wanted, pool=pool, due=due, managed_by="user"))  # noqa: E731
        if any(row.name == name and row.state != "removed" for row in self.model.polls.values()):
            self.trouble = None
            return self.refused(asked, AlreadyExists)
        done, record = asked()
        if done:
            poll = record.poll.id
            self.model.book(pool)
            self.model.polls[poll] = PollRow(poll, Kind.POLL, pool, "active", due, self.now, name=name, served=due)

    @precondition(lambda self: self.model.polls)
    @rule(number=PICK, what=st.sampled_from(["same", "condition", "schedule", "source", "reconsider"]), later=WAITS)
    def edit_poll(self, number: int, what: str, later: int | None) -> None:
        row = self.some(self.model.polls, number)
        if row.state == "removed":
            return
        before = self.do(self.ground.reads.poll(ANNA, row.id)).poll.spec
        due = self.now + timedelta(seconds=later or 0)
        wanted = replace(before, **self._edit(before, what))
        done, _ = self.told(
            self.ground.definitions.edit_poll(
                ANNA, row.id, wanted, pool=row.pool, due=due, managed_by="user", reconsider=what == "reconsider"
            )
        )
        if not done or what == "same":
            return
        anew = what in ("source", "reconsider")
        if anew:
            self.model.revoke(row)
            row.cursor, row.baselined, row.failures = None, what == "reconsider", 0
            row.objects = (
                {}
                if what == "source"
                else {name: replace(known, content_hash="", present=False, matching=None) for name, known in row.objects.items()}
            )
        row.revision += 1
        row.version += what in ("condition", "source", "reconsider")
        if (anew or what == "schedule" or row.due is None) and row.state == "active" and row.lease_until is None:
            row.due = row.served = due
            row.attempt = row.parked = 0

    def _edit(self, before: Any, what: str) -> dict[str, Any]:
        self.asked += 1
        return {
            "condition": {"condition": f"change == 'new' || {self.asked} < 0"},
            "schedule": {"schedule": Interval(timedelta(seconds=120 + self.asked), START)},
            "source": {"source": {**before.source, "n": self.asked}},
        }.get(what, {})

    @precondition(lambda self: self.model.polls)
    @rule(number=PICK, state=st.sampled_from([PollState.PAUSED, PollState.ACTIVE, PollState.REMOVED]), later=WAITS)
    def set_poll_state(self, number: int, state: PollState, later: int | None) -> None:
        row = self.some(self.model.polls, number)
        if row.state == "removed":
            return
        due = None if later is None else self.now + timedelta(seconds=later)
        done, _ = self.told(self.ground.definitions.set_poll_state(ANNA, row.id, state, due=due))
        if not done or (row.state == state.value and (row.due is not None or state is not PollState.ACTIVE)):
            return
        if state is PollState.ACTIVE:
            row.due = row.served = due or self.now
            row.failures = row.parked = 0
        else:
            self.model.revoke(row)
            row.due = row.served = None
        row.attempt, row.state, row.revision = 0, state.value, row.revision + 1
        row.objects = {} if state is PollState.REMOVED else row.objects

    @precondition(lambda self: self.model.polls)
    @rule(number=PICK)
    def run_poll_now(self, number: int) -> None:
        row = self.some(self.model.polls, number)
        if row.state == "removed":
            return
        asked = lambda: self.told(self.ground.definitions.poll_due_now(ANNA, row.id))  # noqa: E731
        if row.state != "active" or (row.lease_until is not None and row.lease_until > self.now):
            self.trouble = None
            return self.refused(asked, NotNow)
        if asked()[0] and (row.due is None or row.due > self.now):
            row.due = row.served = self.now
            row.attempt = row.parked = 0

    @rule(plan=REGISTERED)
    def register(self, plan: dict[str, Any]) -> None:
        contract, life, later = CONTRACTS[plan["kind"]], plan["life"], plan["later"]
        limits = allowance(
            deadline_at=self.now + timedelta(seconds=life),
            business_deadline_at=self.now + timedelta(seconds=life - 20) if plan["business"] else None,
            max_status_requests=plan["most"],
        )
        changes: dict[str, Any] = {
            "contract": plan["kind"],
            "allowance": limits,
            "pool": plan["pool"],
            "actions": (action(),),
            "min_gap": contract.delays.min_gap,
            "pushed_only": contract.via is Via.PUSH,
        }
        job, first = plan["job"], self.now + timedelta(seconds=later or 0)
        if plan["submits"] and plan["anew"] and self.model.operations:
            return self._submit_anew(plan["anew"], changes, contract)
        new = new_submit(f"key-{job}", **changes) if plan["submits"] else new_operation(job, first_look_at=first, **changes)
        self._register(replace(new, fingerprint="another") if plan["other"] and not plan["submits"] else new, contract)

    def _submit_anew(self, who: str, changes: dict[str, Any], contract: Contract) -> None:
        """W21: the job of an operation that is known, under another key, by a person alone, and once."""
        self.asked += 1
        known = "op_none" if who == "nothing" else self.some(self.model.operations, self.asked)
        previous = known if isinstance(known, str) else known.id
        new = new_submit(f"anew-{self.asked}", previous=previous, **changes)
        if who == "person" and previous not in self.anew:
            count = len(self.model.operations)
            self._register(new, contract)
            self.anew |= {previous} if len(self.model.operations) > count else set()
            self.met["submitted anew"] += 1
            return
        self.trouble = None
        if who == "person":
            return self.refused(lambda: self.do(self.ground.definitions.register(ANNA, new)), NotNow)
        asker = BOT if who == "bot" else ANNA
        self.refused(lambda: self.do(self.ground.definitions.register(asker, new)), NotAllowed if who == "bot" else NotFound)

    def _register(self, new: NewOperation, contract: Contract) -> None:
        known = self._same(new)
        asked = lambda: self.told(self.ground.definitions.register(ANNA, new))  # noqa: E731
        if known is not None and known.fingerprint != new.fingerprint:
            self.trouble = None
            return self.refused(asked, NotNow)
        done, answer = asked()
        if not done:
            return
        record, is_new = answer
        identifier = record.operation.id
        assert is_new == (known is None) and (known is None or known.id == identifier), "W39: one operation for one job"
        if known is not None:
            return
        pushed, submits = contract.via is Via.PUSH, new.submit is not None
        limits = replace(new.allowance, max_status_requests=0) if pushed else new.allowance
        stops_at = limits.stops_at()[0]
        look = None if pushed or submits else min(new.first_look_at, stops_at)
        row = OperationRow(
            identifier, Kind.OPERATION, new.pool, "submitting" if submits else "waiting",
            self.now if submits else look or stops_at, self.now, job=new.job_id, fingerprint=new.fingerprint, limits=limits,
            min_gap=new.min_gap, next_look=look,
        )  # fmt: skip
        row.call = CallRow("submit") if submits else None
        self.model.book(new.pool)
        self.model.operations[identifier] = row
        self.contracts[identifier] = contract

    def _same(self, new: NewOperation) -> OperationRow | None:
        for row in self.model.operations.values():
            same_kind = self.contracts[row.id] is CONTRACTS[new.contract]
            if not same_kind:
                continue
            if new.submit is not None and row.fingerprint == new.fingerprint:
                return row
            if new.submit is None and row.job == new.job_id and (row.state in LIVE or row.state == "escalated"):
                return row
        return None

    @rule(
        pool=st.sampled_from([*POOLS, "host:hooks.example.com"]),
        rate=st.sampled_from([None, 0.1, 0.5, 10.0]),
        burst=st.sampled_from([1, 2, 6]),
        in_flight=st.sampled_from([None, None, 1, 2]),
    )
    def set_pool(self, pool: str, rate: float | None, burst: int, in_flight: int | None) -> None:
        limits = PoolLimits(rate, burst, in_flight)
        done, _ = self.told(self.ground.definitions.set_pool(ANNA, pool, limits))
        old = self.model.pools.get(pool)
        if not done or (old is not None and old.limits == limits):
            return
        sure = None
        if old is not None and old.limits.rate is not None:
            # What was spent stays spent: under the new limits that may take as long as the old debt took.
            debt = (len(old.spent) + 1) / old.limits.rate
            # A clock that was set back by less than a minute moved nothing: what was spent may lie ahead.
            sure = max(old.sure_from or self.now, max([self.now, *old.spent]) + timedelta(seconds=debt))
        self.model.pools[pool] = PoolBook(limits, sure_from=sure)
