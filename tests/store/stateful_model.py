"""The model of the store: plain rows in plain dicts, written from the docstrings of `ports.py` and the requirements, not from the SQL.

Every method says what the store has to hold after a call. Where the contract leaves room (how far past its lease a claimed row is due)
the model takes over what the store chose, after checking that it lies inside that room.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import floor

from sereno.core.budget import Allowance
from sereno.core.call import CallOutcome, CallSettled, CallState
from sereno.core.change import KnownObject
from sereno.core.delivery import DeliveryDecision
from sereno.core.effect import Effect
from sereno.core.observation import DelaySource
from sereno.core.operation import AnswerDecision, OperationDecision
from sereno.core.poll import PollDecision
from sereno.core.work import Kind, PollWork, Work
from sereno.ports import Only, PoolLimits

LIVE = ("submitting", "waiting")
TERMINAL = ("succeeded", "failed", "cancelled", "expired", "stopped")
LOCAL = (DelaySource.LOCAL_BACKOFF, DelaySource.CONTRACT_SCHEDULE)
FAR = datetime.max
STEP_BACK = timedelta(seconds=2)
"""A step of the clock by more than this is seen."""
UNANSWERED_PAUSE = timedelta(hours=1)


@dataclass
class Row:
    """What every claimable row has. `run` is the fence; `served` is the due instant that a claim serves."""

    id: str
    kind: Kind
    pool: str
    state: str
    due: datetime | None
    created: datetime
    run: int = 0
    revision: int = 1
    lease_until: datetime | None = None
    served: datetime | None = None
    attempt: int = 0
    parked: int = 0


@dataclass
class PollRow(Row):
    """A poll: what it has read, and how often it fired."""

    name: str = ""
    version: int = 1
    cursor: str | None = None
    baselined: bool = False
    failures: int = 0
    runs: int = 0
    matches: int = 0
    objects: dict[str, KnownObject] = field(default_factory=dict)


@dataclass
class CallRow:
    """The open call of an operation."""

    kind: str
    state: str = "queued"
    attempts: int = 0


@dataclass
class OperationRow(Row):
    """An operation: its limits and counters, its call, what may wake it."""

    job: str = ""
    fingerprint: str = ""
    limits: Allowance | None = None
    min_gap: timedelta = timedelta(seconds=1)
    used: int = 0
    failures: int = 0
    throttles: int = 0
    next_look: datetime | None = None
    source: DelaySource = DelaySource.CONTRACT_SCHEDULE
    escalations: int = 0
    call: CallRow | None = None
    woken: datetime | None = None
    unread: datetime | None = None

    @property
    def stops_at(self) -> datetime:
        """The earlier of the two deadlines (W10)."""
        assert self.limits is not None
        return min(
            self.limits.deadline_at, self.limits.business_deadline_at or FAR.replace(tzinfo=self.limits.deadline_at.tzinfo)
        )

    def asks(self, now: datetime) -> bool:
        """W33: a status request is reserved only where one is sent."""
        assert self.limits is not None
        room = self.used < self.limits.max_status_requests
        return self.state == "waiting" and self.call is None and now < self.stops_at and room

    def calls(self, now: datetime) -> bool:
        """Whether a step makes the open call."""
        return self.call is not None and self.state in LIVE and now < self.stops_at

    def closes_at(self) -> datetime | None:
        """From when it is claimed to be closed, with no request and past the limits of its pool."""
        assert self.limits is not None
        if self.due is None or self.state == "escalated":
            return self.due
        if self.call is None and self.used >= self.limits.max_status_requests:
            return self.due
        return max(self.stops_at, self.lease_until or self.stops_at)


@dataclass
class DeliveryRow(Row):
    """One row of the outbox."""

    key: str = ""
    max_attempts: int = 30


@dataclass
class PoolBook:
    """What was taken from a pool: each claim that sends, and what ran up beside it. `sure_from`: a lower bound holds from then on."""

    limits: PoolLimits
    claims: list[datetime] = field(default_factory=list)
    spent: list[datetime] = field(default_factory=list)
    sure_from: datetime | None = None

    def available(self, now: datetime, log: Sequence[datetime]) -> int:
        """How many may be sent at `now` so that no window of the log holds more than `burst + rate·Δ`."""
        limits = self.limits
        if limits.rate is None:
            return 1 << 30
        left = float(limits.burst)
        for number, at in enumerate(log):
            window = (now - at).total_seconds()
            left = min(left, limits.burst + limits.rate * window - (len(log) - number))
        return max(0, floor(left + 1e-4))

    def next_at(self, now: datetime) -> datetime:
        """The instant at which one may be sent at the latest."""
        rate = self.limits.rate
        if rate is None or self.available(now, self.spent) > 0:
            return now
        debts = [
            at + timedelta(seconds=(len(self.spent) - number - self.limits.burst + 1) / rate)
            for number, at in enumerate(self.spent)
        ]
        return max([now, *debts])

    def shift(self, step: timedelta) -> None:
        """The clock was set: what was spent keeps its age."""
        self.claims = [at + step for at in self.claims]
        self.spent = [at + step for at in self.spent]
        self.sure_from = None if self.sure_from is None else self.sure_from + step


@dataclass
class Question:
    """One question to a person."""

    operation: str
    digest: str
    answer_by: datetime
    state: str = "open"


@dataclass
class Model:
    """All that the store has to hold."""

    polls: dict[str, PollRow] = field(default_factory=dict)
    operations: dict[str, OperationRow] = field(default_factory=dict)
    deliveries: dict[str, DeliveryRow] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """Every dedupe key, with the one row that it has."""
    wanted: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """Keys of this step, whose rows have to be there after it: pool and due instant."""
    questions: dict[str, Question] = field(default_factory=dict)
    pools: dict[str, PoolBook] = field(default_factory=dict)
    runs: dict[tuple[str, int], str] = field(default_factory=dict)
    purged: set[tuple[str, int]] = field(default_factory=set)
    suppressed: int = 0
    moved: timedelta = timedelta(0)
    """By how much a clock that was set has moved the open waits."""
    marks: list[datetime] = field(default_factory=list)
    """The instants of claims since the clock was set back last."""

    def rows(self) -> Iterable[Row]:
        """Every claimable row."""
        return [*self.polls.values(), *self.operations.values(), *self.deliveries.values()]

    def row(self, subject: str) -> Row:
        """One row by id."""
        return next(row for row in self.rows() if row.id == subject)

    def book(self, pool: str) -> PoolBook:
        """A pool that nobody gave limits has 1/s with burst 5; what is local has none."""
        limits = PoolLimits(rate=None) if pool.startswith("local") else PoolLimits()
        return self.pools.setdefault(pool, PoolBook(limits))

    # Claims

    def is_open(self, row: Row) -> bool:
        """A row that work can still be done on."""
        return row.state in ("active", *LIVE, "escalated", "queued", "sending")

    def ready_at(self, row: Row) -> datetime | None:
        """From when a row may be claimed, its pool aside."""
        if not self.is_open(row) or row.due is None:
            return None
        closes = row.closes_at() if isinstance(row, OperationRow) else None
        return row.due if closes is None else min(row.due, closes)

    def closing(self, row: Row, now: datetime) -> bool:
        """An operation that is claimed to be closed unasked."""
        at = row.closes_at() if isinstance(row, OperationRow) and self.is_open(row) else None
        return at is not None and at <= now

    def sends(self, row: Row, now: datetime) -> bool:
        """Whether a claim of this row takes a token: it sends something."""
        return not isinstance(row, OperationRow) or row.asks(now) or row.calls(now)

    def held(self, pool: str, now: datetime) -> int:
        """Rows of a pool under a live lease."""
        return sum(1 for row in self.rows() if row.pool == pool and row.lease_until is not None and row.lease_until > now)

    def places(self, pool: str, now: datetime) -> int:
        """What `in_flight` leaves."""
        limit = self.book(pool).limits.in_flight
        return 1 << 30 if limit is None else max(0, limit - self.held(pool, now))

    def due(self, now: datetime, only: Only | None) -> list[Row]:
        """The rows that a claim may hand out, limits aside."""
        found = []
        for row in self.rows():
            at = self.ready_at(row)
            if at is None or at > now or (only is not None and not _inside(row, at, only)):
                continue
            found.append(row)
        return found

    def earliest(self, now: datetime, only: Only | None = None) -> datetime | None:
        """The instant at which a claim has to find something at the latest, if nothing else happens."""
        instants = []
        for row in self.rows():
            at = self.ready_at(row)
            if at is None or (only is not None and only.subject not in (None, row.id)):
                continue
            closes = row.closes_at() if isinstance(row, OperationRow) else None
            book = self.book(row.pool)
            opens = max(at, book.next_at(now), book.sure_from or at, self._place_at(row.pool, now))
            instants.append(opens if closes is None else min(opens, closes))
        return min(instants, default=None)

    def _place_at(self, pool: str, now: datetime) -> datetime:
        if self.places(pool, now) > 0:
            return now
        ends = [
            row.lease_until for row in self.rows() if row.pool == pool and row.lease_until is not None and row.lease_until > now
        ]
        limit = self.book(pool).limits.in_flight or 0
        return sorted(ends)[len(ends) - limit]

    def take(self, row: Row, work: Work, due: datetime) -> None:
        """A row was claimed: fence + 1, attempt + 1, lease, due past the lease, and what the step will send is counted before it is sent."""
        now, lease = work.lease.claimed_at, work.lease
        if row.lease_until is not None:
            self.runs[row.id, row.run] = "abandoned"
        if row.kind is not Kind.POLL and (row.served is None or row.lease_until is None):
            row.served = row.due
        sends = self.sends(row, now)
        row.run += 1
        row.attempt += 1
        if isinstance(row, OperationRow):
            taken = row.calls(now)
            row.used += row.asks(now)
            if taken and row.call is not None:
                row.call.state, row.call.attempts = "sending", row.call.attempts + 1
        elif isinstance(row, DeliveryRow):
            row.state = "sending"
        row.lease_until, row.due = lease.until, due
        self.runs[row.id, row.run] = "running"
        if sends:
            self.book(row.pool).claims.append(now)
            self.spend(row.pool, 1, now)

    def spend(self, pool: str, count: int, now: datetime) -> None:
        """Takes tokens. After other limits were set, what was spent before counts first."""
        book = self.book(pool)
        book.spent += [max(now, book.sure_from or now)] * count

    def fence_holds(self, work: Work, row: Row) -> bool:
        """I8: a commit goes through only under the present fence, and only while nobody took the lease away."""
        return row.run == work.lease.run and row.lease_until is not None

    def shift(self, step: timedelta) -> None:
        """The clock was set: every open wait keeps its length. A deadline, and the end of a question, is an instant that somebody was
        told: it stays, no plan is put behind it, and what was due at it alone stays due at it. While a person is asked, a wait that the
        provider asked for goes on."""
        self.moved += step
        for row in self.rows():
            if row.state == "escalated" and isinstance(row, OperationRow):
                row.next_look = None if row.next_look is None else row.next_look + step
            if not self.is_open(row) or row.due is None or row.state == "escalated":
                continue
            row.lease_until = None if row.lease_until is None else row.lease_until + step
            row.served = None if row.served is None else row.served + step
            if isinstance(row, OperationRow):
                row.next_look = None if row.next_look is None else row.next_look + step
                row.woken = None if row.woken is None else row.woken + step
                row.due = _shifted(row, step)
            else:
                row.due += step
        for book in self.pools.values():
            book.shift(step)

    # Ends of work

    def release(self, work: Work, row: Row, now: datetime) -> None:
        """Gives back what was not sent: due as before, the reserved request returned. After a hop the smallest gap holds."""
        due = row.served or row.due
        if isinstance(row, OperationRow):
            operation = work.operation  # type: ignore[union-attr]
            hopped = row.used > operation.spend.status_requests
            row.used -= operation.reserved
            assert due is not None
            due = max(due, now + row.min_gap) if hopped else due
            call = operation.call
            sent = (
                call is not None and call.state is CallState.SENDING and work.lease.claimed_at < operation.allowance.stops_at()[0]
            )
            if row.call is not None and call is not None and sent:
                row.call.attempts -= 1
                row.call.state = "sending" if call.interrupted else "queued"
        elif isinstance(row, DeliveryRow):
            row.state = "sending" if work.delivery.interrupted else "queued"  # type: ignore[union-attr]
        row.attempt -= 1
        row.due, row.lease_until = due, None
        row.served = row.served if row.kind is Kind.POLL else None
        self.runs[row.id, row.run] = "released"

    def park(self, row: Row, now: datetime) -> None:
        """Takes work out of the claim. A live operation is claimed once more at its deadline, one that waits for an answer at the end of its
        question or a while later; a delivery is ambiguous from now on."""
        row.lease_until = None
        self.runs[row.id, row.run] = "failed"
        if isinstance(row, OperationRow):
            assert row.limits is not None
            again = row.state in LIVE and row.parked == 0 and row.limits.deadline_at > now
            row.due, row.call = row.stops_at if again else None, None
            if row.state == "escalated":
                ends = [
                    asked.answer_by for asked in self.questions.values() if asked.operation == row.id and asked.state == "open"
                ]
                row.due = ends[0] if ends and ends[0] > now else now + UNANSWERED_PAUSE
        elif isinstance(row, DeliveryRow):
            row.state, row.due = "ambiguous", None
        else:
            row.due = None
        row.parked += 1

    def commit_poll(self, work: PollWork, row: PollRow, decision: PollDecision, now: datetime) -> None:
        """Under an edited definition: the facts count, nothing fires, it is due at once, and no change is passed that fired nothing."""
        edited = row.revision != work.lease.revision
        found = decision.effects or decision.remember or decision.forget or decision.changed or decision.matched
        takes = not edited or (row.version == work.poll.condition_version and not found)
        row.runs += 1
        row.failures = decision.failures
        if takes:
            row.cursor, row.baselined = decision.cursor, decision.baselined
            row.objects = {**row.objects, **decision.remember}
            for gone in decision.forget:
                row.objects.pop(gone, None)
        row.matches += 0 if edited else decision.matched
        row.state = row.state if edited else str(decision.state)
        row.due = (now if row.state == "active" else None) if edited else decision.due
        row.lease_until, row.parked = None, 0
        if row.due is not None and row.due <= now:
            row.served, row.attempt = work.scheduled_for, work.attempt
        else:
            row.served, row.attempt = row.due, 0
        self.runs[row.id, row.run] = decision.status
        self.spend(row.pool, max(0, decision.requests - 1), now)
        if not edited:
            self.want(decision.effects, now)

    def commit_delivery(self, row: DeliveryRow, decision: DeliveryDecision) -> None:
        """The outcome of one attempt."""
        row.state, row.due = str(decision.state), decision.due
        row.lease_until = row.served = None
        self.runs[row.id, row.run] = "ok" if decision.outcome.kind == "done" else "failed"

    def commit_operation(self, row: OperationRow, work: Work, decision: OperationDecision, now: datetime) -> bool:
        """One step; answers whether it was decided on a definition that was changed meanwhile: then only its facts count, and when it is
        due is left to the caller to check."""
        operation = work.operation  # type: ignore[union-attr]
        edited = row.revision != work.lease.revision and decision.call is None
        given_back = operation.spend.status_requests - decision.spend.status_requests
        row.used -= max(0, min(given_back, int(operation.reserved)))
        row.failures, row.throttles = decision.spend.transport_failures, decision.spend.throttles
        row.source, row.next_look = decision.delay_source, decision.next_poll_at
        row.lease_until, row.served, row.attempt, row.parked = None, None, 0, 0
        self.runs[row.id, row.run] = "ok"
        if not edited:
            row.state = str(decision.state)
            row.due = decision.due
            self.want(decision.effects, now)
            self._ask(row, decision)
        if decision.job is not None:
            row.job = decision.job.job_id
        self._settle_call(row, operation.call, decision.call)
        if operation.pushed is not None and decision.observation is not None and not edited:
            row.unread = None if row.unread == operation.pushed.received_at else row.unread
        row.unread = None if row.state in TERMINAL else row.unread
        if not edited:
            self._wake(row, work, decision, now)
        row.woken = None
        return edited

    def _wake(self, row: OperationRow, work: Work, decision: OperationDecision, now: datetime) -> None:
        """W35: a call-back that came while the step was under way is read next, or shortens a wait of ours, inside the smallest gap."""
        if row.state not in LIVE or row.due is None or row.call is not None:
            return
        if row.unread is not None:
            row.due = min(row.due, now)
        elif row.woken is not None and row.woken >= work.lease.claimed_at and row.source in LOCAL:
            early = max(now, decision.received_at) + row.min_gap
            row.due, row.next_look = min(row.due, early), min(row.next_look or early, early)

    def _ask(self, row: OperationRow, decision: OperationDecision) -> None:
        if decision.escalation is not None or decision.state != "escalated":
            self.close_questions(row.id, "expired")
        if decision.escalation is not None:
            asked = decision.escalation
            row.escalations += 1
            self.questions[asked.id] = Question(row.id, asked.digest, asked.answer_by)

    def close_questions(self, operation: str, state: str) -> None:
        """No question stays open that the operation has moved past."""
        for question in self.questions.values():
            if question.operation == operation and question.state == "open":
                question.state = state

    def _settle_call(self, row: OperationRow, call: object, settled: CallSettled | None) -> None:
        """A doubt stays: what may have been sent is found interrupted by the next claim."""
        if row.call is not None and settled is not None:
            row.call.state = str(settled.state)
            doubt = getattr(call, "interrupted", False) or (
                settled.answer is not None and settled.answer.outcome is CallOutcome.UNKNOWN
            )
            if settled.state is CallState.QUEUED and doubt:
                row.call.state = "sending"
        if row.call is not None and (row.call.state not in ("queued", "sending") or row.state in TERMINAL):
            row.call = None

    def want(self, effects: Sequence[Effect], now: datetime) -> None:
        """I17, I18: one row for each key, whoever wants it and how often."""
        for effect in effects:
            if effect.dedupe_key in self.keys or effect.dedupe_key in self.wanted:
                self.suppressed += 1
            else:
                self.wanted[effect.dedupe_key] = (effect.pool, max(now, effect.not_before or now))

    # Decisions beside the steps

    def revoke(self, row: Row) -> None:
        """Takes the lease away: the run under way is refused."""
        if row.lease_until is not None:
            self.runs[row.id, row.run] = "abandoned"
            row.lease_until, row.run = None, row.run + 1

    def change(self, row: OperationRow, decision: AnswerDecision, now: datetime, *, keeps_lease: bool) -> None:
        """An answer, a cancel, another contract."""
        was_live = row.state in LIVE
        state = str(decision.state)
        if row.state == "escalated" and state != "escalated":
            self.close_questions(row.id, "expired")
        planned = state in LIVE and was_live and decision.due is not None and row.call is not None
        sooner = planned and row.due is not None and decision.due is not None and row.due < decision.due
        row.due = row.due if keeps_lease or sooner else decision.due
        row.state, row.limits = state, decision.allowance
        row.next_look, row.source = decision.next_poll_at, decision.delay_source
        row.call = None if decision.drop_call or state in TERMINAL else row.call
        if decision.new_call is not None:
            row.call = CallRow(str(decision.new_call))
        row.min_gap = row.min_gap if decision.min_gap is None else decision.min_gap
        row.revision += 1
        row.parked = 0
        row.attempt = row.attempt if keeps_lease else 0
        row.unread = None if state in TERMINAL else row.unread
        self.want(decision.effects, now)

    def pushed(self, row: OperationRow, decision: AnswerDecision, now: datetime) -> None:
        """A call-back: it wakes a look that is ours to shorten and decides nothing."""
        if decision.pushed is not None and row.state not in TERMINAL:
            # A newer one replaces it, and is told from it by its instant: a step may be reading the older one.
            came = decision.pushed.received_at
            row.unread = came if row.unread is None else max(came, row.unread + timedelta(microseconds=1))
        if row.lease_until is not None:
            row.woken = now
        elif row.state in LIVE and not row.parked and row.call is None:
            row.due = row.due if decision.due is None or row.due is None else min(row.due, decision.due)
            row.next_look = decision.next_poll_at


def _inside(row: Row, at: datetime, only: Only) -> bool:
    if only.subject is not None:
        return row.id == only.subject
    if row.kind not in only.kinds:
        return False
    return only.due_by is None or at <= only.due_by


def _shifted(row: OperationRow, step: timedelta) -> datetime:
    assert row.due is not None
    if row.lease_until is not None:
        # One that was taken at its deadline, and whose process is gone, is not taken over before that, or its plan, comes again.
        return row.due + step if row.next_look is None else max(row.due + step, min(row.next_look, row.stops_at))
    if row.due > row.stops_at:
        return row.due + step
    if row.due < row.stops_at:
        return min(row.due + step, row.stops_at)
    if row.parked or row.next_look is None:
        return row.due
    return min(row.due, row.next_look)
