"""Walks: whole lives of operations with hostile answers, lost calls, call-backs, cancels and answers of people at any instant."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.budget import Spend
from sereno.core.call import CallKind, CallOutcome, CallState, ProviderCall
from sereno.core.contract import Contract, Delays, Via
from sereno.core.errors import NotAllowed, NotNow
from sereno.core.observation import DelaySource, ObservationKind, ReadHint
from sereno.core.operation import (
    TERMINAL,
    AnswerDecision,
    Ask,
    Close,
    Operation,
    OperationDecision,
    OperationState,
    Pushed,
    Read,
    close_operation,
    decide_answer,
    decide_cancel,
    decide_push,
    decide_repin,
    move,
    next_call,
)
from tests.core.waiting import (
    ALLOWANCE,
    CANCEL,
    KEYED,
    NOON,
    SUBMIT,
    answered,
    apply,
    decide,
    decide_answered,
    make_contract,
    make_operation,
    poll_hint,
    reserve,
    retry_after,
    saw,
    submitting,
    with_call,
)

S, O = OperationState, CallOutcome  # noqa: E741
GAP = timedelta(seconds=3)
MOST_ANSWERS = 3


@dataclass
class Walk:
    """One operation with the books of its provider: when each request came, and before when none was wanted."""

    contract: Contract
    operation: Operation
    now: datetime
    due: datetime
    dice: Random
    looks: list[datetime] = field(default_factory=list)
    submits: list[bool] = field(default_factory=list)
    """For each submit that the provider saw: whether its answer was lost."""
    unwanted: datetime = NOON
    answers: int = 0
    calm: int = 20
    """How many pending answers come for each other one, about."""

    def hints(self) -> tuple[ReadHint, ...]:
        """Sometimes the provider wants to be left alone for a while."""
        wait = self.now + timedelta(seconds=self.dice.choice([1, 40, 400, 9000]))
        asked = retry_after(wait)
        found = self.dice.choice([(), (), (asked,), (poll_hint(wait),)])
        if asked in found:
            self.unwanted = max(self.unwanted, wait)
        return found

    def step(self) -> None:
        """Claims at the due instant, performs what may be performed, commits."""
        self.now = max(self.now, self.due)
        call = self.operation.call
        wants_look = self.operation.state is S.WAITING and call is None
        if wants_look and self.operation.spend.status_requests < self.operation.allowance.max_status_requests:
            self.operation = reserve(self.operation)
        action = next_call(self.operation, self.contract, self.now)
        before = self.operation.state
        if isinstance(action, Close):
            decision = close_operation(self.operation, self.contract, action, self.now, escalation_id="esc_1")
        elif isinstance(action, Ask):
            self.look_is_allowed()
            kind = self.dice.choice(list(ObservationKind) + [ObservationKind.PENDING] * self.calm)
            if kind is not ObservationKind.NOT_SENT:
                self.looks.append(self.now)
            hints = () if kind in (ObservationKind.TRANSPORT, ObservationKind.NOT_SENT) else self.hints()
            self.now += timedelta(seconds=self.dice.choice([0, 1, 20]))
            decision = decide(self.operation, saw(kind, *hints), self.now, contract=self.contract, seed=self.dice.randrange(999))
        elif isinstance(action, Read):
            kind = self.dice.choice(list(ObservationKind))
            decision = decide(self.operation, saw(kind, requests=0), self.now, contract=self.contract)
        else:
            decision = self.send(action.call)
        assert decision.state is move(before, decision.event)
        self.operation = apply(self.operation, decision)
        if decision.due is not None:
            self.due = decision.due
        if decision.delay_source is DelaySource.PROVIDER_POLL_HINT and decision.next_poll_at is not None:
            # A hint is a wait of its own only where it is the longest (W35).
            self.unwanted = max(self.unwanted, decision.next_poll_at)

    def look_is_allowed(self) -> None:
        """Inside the deadline and the budget, outside the provider's wait and the minimum gap."""
        allowance = self.operation.allowance
        assert self.now < allowance.stops_at()[0]
        assert len(self.looks) < allowance.max_status_requests
        assert self.now >= self.unwanted
        assert not self.looks or self.now - self.looks[-1] >= GAP

    def send(self, call: ProviderCall) -> OperationDecision:
        """The provider sees a call; its answer may be lost."""
        assert self.now < self.operation.allowance.stops_at()[0] and self.now >= self.unwanted
        outcome = self.dice.choice([*CallOutcome, O.UNKNOWN, O.ACCEPTED])
        if call.kind is CallKind.SUBMIT:
            keyed = self.contract.submit is not None and self.contract.submit.idempotency is not None
            assert keyed or not any(self.submits), "a submit in doubt was repeated without a key"
            if outcome is not O.NOT_SENT:
                self.submits.append(outcome is O.UNKNOWN)
        hints = () if outcome in (O.NOT_SENT, O.UNKNOWN) else self.hints()
        self.now += timedelta(seconds=self.dice.choice([0, 1, 20]))
        return decide_answered(
            self.operation, answered(outcome, hints=hints), self.now, contract=self.contract, seed=self.dice.randrange(999)
        )

    def meddle(self) -> None:
        """A call-back, a wish to cancel, or another contract, at an instant before the next step."""
        if self.due <= self.now or self.operation.state in TERMINAL:
            return
        self.now += (self.due - self.now) * self.dice.random()
        what = self.dice.choice(["push", "cancel", "repin"])
        try:
            if what == "push":
                change = decide_push(self.operation, self.contract, Pushed(b"{}", "application/json", self.now), self.now)
            elif what == "cancel":
                change = decide_cancel(self.operation, self.contract, self.now)
            else:
                change = decide_repin(self.operation, self.now)
        except (NotNow, NotAllowed):
            return
        assert change.allowance == self.operation.allowance
        self.take(change)

    def answer(self) -> None:
        """A person answers somewhere before the question ends, a few times."""
        asked = self.operation.open_escalation
        if self.operation.state is not S.ESCALATED or asked is None or self.answers >= MOST_ANSWERS:
            return
        self.answers += 1
        self.now += timedelta(seconds=self.dice.choice([1, 600, 20_000]))
        if self.now >= asked.answer_by:
            return
        self.take(decide_answer(self.operation, asked, self.dice.choice(list(asked.options)), self.now, contract=self.contract))

    def take(self, change: AnswerDecision) -> None:
        """Does to the record what a store does with a change."""
        call = self.operation.call
        if change.new_call is not None:
            call = with_call(change.new_call, state=CallState.QUEUED)
        self.operation = replace(
            self.operation,
            state=change.state,
            allowance=change.allowance,
            next_poll_at=change.next_poll_at,
            delay_source=change.delay_source,
            grants=change.grants,
            open_escalation=self.operation.open_escalation if change.state is S.ESCALATED else None,
            call=None if change.drop_call else call,
            pushed=change.pushed or self.operation.pushed,
        )
        if change.due is not None:
            self.due = change.due


def walk_of(seed: int, *, keyed: bool, submitted: bool, repeatable: bool, via: Via = Via.HTTP) -> Walk:
    """A walk from its first step."""
    dice = Random(seed)
    delays = Delays(min_gap=GAP, base=timedelta(seconds=dice.choice([1, 30, 600])), maximum=timedelta(seconds=900))
    contract = make_contract(delays, submit=KEYED if keyed else SUBMIT, cancel=replace(CANCEL, repeatable=repeatable), via=via)
    operation = submitting() if submitted else make_operation(Spend())
    # A few requests only, so that the budget is met as often as the deadline.
    few = replace(operation.allowance, max_status_requests=0 if via is Via.PUSH else dice.choice([2, 5, 12]))
    return Walk(contract, replace(operation, reserved=False, allowance=few), NOON, NOON, dice, calm=dice.choice([10, 40, 400]))


@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    keyed=st.booleans(),
    submitted=st.booleans(),
    repeatable=st.booleans(),
    via=st.sampled_from([Via.HTTP, Via.HTTP, Via.PUSH]),
)
def test_I10_every_life_ends_within_its_limits(seed: int, keyed: bool, submitted: bool, repeatable: bool, via: Via) -> None:
    """Whatever comes: no look past a limit, inside a provider's wait or under the gap; no submit repeated in doubt without a key;
    pending never stays past its deadline; and at last a final state, which nothing moves."""
    walk = walk_of(seed, keyed=keyed, submitted=submitted, repeatable=repeatable, via=via)
    for _ in range(400):
        if walk.dice.random() < 0.3:
            walk.meddle()
        walk.answer()
        if walk.operation.state in TERMINAL:
            break
        if walk.operation.state in (S.WAITING, S.SUBMITTING):
            assert walk.due <= walk.operation.allowance.stops_at()[0]
        walk.step()
    assert walk.operation.state in TERMINAL
    assert walk.operation.spend.status_requests == len(walk.looks) <= walk.operation.allowance.max_status_requests
    assert via is Via.HTTP or not walk.looks
    assert walk.operation.allowance.max_status_requests <= ALLOWANCE.max_status_requests + 5 * MOST_ANSWERS
    ended = decide_push(walk.operation, walk.contract, Pushed(b"{}", "application/json", walk.now), walk.now)
    assert (ended.state, ended.due) == (walk.operation.state, None)


def test_walks_reach_every_end() -> None:
    """Five hundred seeds: each final state, questions, repeated submits and cancels are all met, so that the property says something."""
    ends, repeats = set(), 0
    for seed in range(500):
        walk = walk_of(seed, keyed=seed % 2 == 0, submitted=seed % 3 == 0, repeatable=True)
        for _ in range(400):
            if walk.dice.random() < 0.3:
                walk.meddle()
            walk.answer()
            if walk.operation.state in TERMINAL:
                break
            walk.step()
        ends.add(walk.operation.state)
        repeats += len(walk.submits) > 1
    assert ends == TERMINAL and repeats > 10
