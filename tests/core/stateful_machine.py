"""The state machine of one operation's decisions: a provider, people and a clock that jumps, against `stateful_model.Wait`."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sereno.core.budget import Allowance, Spend
from sereno.core.call import CallKind, CallOutcome, CallState
from sereno.core.contract import Contract, Delays, Keep, KeepFrom
from sereno.core.errors import InvariantBroken, NotAllowed, NotNow
from sereno.core.escalation import Category, Verb
from sereno.core.observation import DelaySource, ObservationKind
from sereno.core.operation import KEEP_RESULT, AnswerDecision, Ask, Close, Operation, OperationDecision, Pushed, Send
from sereno.core.waiting import calling, changing, choice, deciding, ending, lifecycle
from sereno.core.waiting import next as steps
from tests.core.stateful_model import ANSWERED, TERMINAL, Wait, backoff_bounds, steep_bounds
from tests.core.waiting import (
    CANCEL,
    KEYED,
    NOON,
    SUBMIT,
    answered,
    apply,
    make_contract,
    make_operation,
    poll_hint,
    retry_after,
    saw,
    submitting,
    with_call,
)

T = TypeVar("T")
ESC = 7_200.0
SECONDS = st.sampled_from([0, 0, 1, 2, 15, 90, 1_000, 4_000, 90_000])
WAITS = st.sampled_from([None, None, None, 0, 1, 45, 500, 9_000])
KINDS = st.sampled_from([ObservationKind.PENDING] * 8 + list(ObservationKind))
OUTCOMES = st.sampled_from([CallOutcome.ACCEPTED] * 3 + list(CallOutcome))
START = st.fixed_dictionaries(
    {
        "life": st.sampled_from([3_600, 30, 400, 100_000]),
        "business": st.sampled_from([None, None, 20, 3_000]),
        "requests": st.sampled_from([12, 1, 2, 3]),
        "failures": st.sampled_from([3, 0, 1]),
        "throttles": st.sampled_from([3, 0, 1]),
        "gap": st.sampled_from([1, 3, 60]),
        "base": st.sampled_from([5, 1, 40]),
        "submits": st.booleans(),
        "keyed": st.booleans(),
        "cancel": st.sampled_from(["no", "once", "repeatable"]),
        "keep": st.booleans(),
    }
)
SEEN = st.fixed_dictionaries(
    {
        "kind": KINDS,
        "word": st.sampled_from(["running", "odd"]),
        "waits": st.tuples(WAITS, WAITS),
        "outcome": OUTCOMES,
        "seed": st.integers(0, 5),
    }
)
FROM_PROVIDER = (DelaySource.PROVIDER_RETRY_AFTER, DelaySource.PROVIDER_POLL_HINT)


def pure(fn: Callable[..., T], *given: Any, seed: int | None = None, **named: Any) -> T:
    """Decides twice from equal input, which has to stay as it was, and has to be told the same."""
    before = deepcopy((given, named))
    dice = named.get("rng")
    first = fn(*given, *([] if seed is None else [Random(seed)]), **named)
    again = fn(*before[0], *([] if seed is None else [Random(seed)]), **before[1])
    assert first == again, f"{fn.__name__} decided two things from the same input"
    assert (given, {**named, "rng": dice}) == (before[0], {**before[1], "rng": dice}), f"{fn.__name__} changed its input"
    return first


class OperationMachine(RuleBasedStateMachine):
    """One operation from its registration until it has ended, and after."""

    @initialize(start=START)
    def register(self, start: dict[str, Any]) -> None:
        self.now, self.number, self.keys = NOON, 0, set[str]()
        self.contract = self._contract(start)
        business = None if start["business"] is None else NOON + timedelta(seconds=start["business"])
        limits = Allowance(
            NOON + timedelta(seconds=start["life"]), business, start["requests"], start["failures"], start["throttles"]
        )
        base = (
            submitting(with_call(state=CallState.QUEUED, attempts=0))
            if start["submits"]
            else make_operation(Spend(), last_state=None)
        )
        self.operation: Operation = replace(
            base, allowance=limits, created_at=NOON, reserved=False, delay_source=DelaySource.CONTRACT_SCHEDULE, next_poll_at=None
        )
        self.due: datetime | None = NOON
        self.model = Wait(str(base.state), limits.deadline_at, business, start["requests"], start["failures"], start["throttles"])

    def _contract(self, start: dict[str, Any]) -> Contract:
        delays = Delays(
            base=timedelta(seconds=start["base"]), maximum=timedelta(seconds=120), min_gap=timedelta(seconds=start["gap"])
        )
        cancel = None if start["cancel"] == "no" else replace(CANCEL, repeatable=start["cancel"] == "repeatable")
        keep = Keep(KeepFrom.ANSWER) if start["keep"] else None
        return make_contract(delays, submit=KEYED if start["keyed"] else SUBMIT, cancel=cancel, keep=keep)

    @property
    def gap(self) -> timedelta:
        return self.contract.delays.min_gap

    def asking(self) -> dict[str, Any]:
        self.number += 1
        return {"escalation_id": f"esc_{self.number}", "answer_within_s": ESC}

    def hints(self, retry: int | None, hint: int | None) -> list[Any]:
        asked = [] if retry is None else [retry_after(self.now + timedelta(seconds=retry))]
        return asked + ([] if hint is None else [poll_hint(self.now + timedelta(seconds=hint))])

    # Steps

    def claim(self) -> Any:
        """What a claim hands out at `now`: a request is reserved only for what will ask (W33); an open call is tried once more."""
        operation = self.operation
        call = operation.call
        room = operation.spend.status_requests < operation.allowance.max_status_requests
        inside = self.now < operation.allowance.stops_at()[0]
        reserved = str(operation.state) == "waiting" and call is None and room and inside
        if reserved:
            spend = replace(operation.spend, status_requests=operation.spend.status_requests + 1)
            operation = replace(operation, spend=spend)
        if call is not None and inside and str(operation.state) in ("waiting", "submitting"):
            tried = replace(call, attempts=call.attempts + 1, first_sent_at=call.first_sent_at or self.now)
            operation = replace(
                operation, call=replace(tried, interrupted=call.state is CallState.SENDING, state=CallState.SENDING)
            )
        self.operation = replace(operation, reserved=reserved)
        return pure(steps.next_call, self.operation, self.contract, self.now)

    @precondition(lambda self: self.due is not None)
    @rule(late=SECONDS, took=SECONDS, seen=SEEN)
    def step(self, late: int, took: int, seen: dict[str, Any]) -> None:
        """Claims when it is due, or hours later, and takes what comes back."""
        assert self.due is not None
        self.now = max(self.now, self.due) + timedelta(seconds=late)
        action = self.claim()
        if self.model.state == "escalated":
            assert isinstance(action, Close), "W35: what waits for a person sends nothing"
            return self.silence(action)
        if isinstance(action, Close):
            return self.close(action)
        assert self.now < self.model.stops_at, "W32: past the deadline nothing is sent"
        assert self.model.wait_until is None or self.now >= self.model.wait_until, (
            "W35: inside a wait that the provider asked for"
        )
        assert action.deadline_at == self.model.stops_at
        at = self.now
        self.now += timedelta(seconds=took)
        if isinstance(action, Send):
            return self.called(seen["outcome"], seen["waits"], seen["seed"])
        assert isinstance(action, Ask) and self.model.step(at) is None, "W33: asked past a deadline or a budget"
        assert self.model.last_answer is None or at >= self.model.last_answer + self.gap, "I6: under the smallest gap"
        self.model.requests += 1
        self.looked(seen["kind"], seen["word"], seen["waits"], seen["seed"])

    def looked(self, kind: ObservationKind, word: str, waits: Any, seed: int) -> None:
        silent = kind in (ObservationKind.TRANSPORT, ObservationKind.NOT_SENT)
        hints = [] if silent else self.hints(*waits)
        seen = saw(kind, *hints, state=word)
        decision = pure(deciding.decide_operation, self.operation, self.contract, seen, self.now, seed=seed, **self.asking())
        before, answered_before = self.model.wait_until, self.model.answered
        self.model.look(str(kind), word, self.now, http=not silent)
        self.model.hear([hint.until for hint in hints], self.now)
        if self.model.state == "waiting":
            self.planned(decision, kind, [hint for hint in hints if hint.until > self.now])
        elif before is not None and before > self.now:
            self.model.wait_until = max(before, self.model.wait_until or before)
        assert decision.spend.answered == self.model.answered >= answered_before
        self.take(decision)

    def planned(self, decision: OperationDecision, kind: ObservationKind, hints: list[Any]) -> None:
        """W06, W07, W13, W14, W26: when the next look is, and who said so."""
        delays, at, stops = self.contract.delays, self.now, self.model.stops_at
        n = self.model.answered + (self.model.failures if kind in (ObservationKind.TRANSPORT, ObservationKind.NOT_SENT) else 0)
        retry = any(hint.source is DelaySource.PROVIDER_RETRY_AFTER for hint in hints)
        steep = kind is ObservationKind.THROTTLED and not retry
        low, high = steep_bounds(delays, n, self.model.throttles) if steep else backoff_bounds(delays, n)
        wait = max((hint.until for hint in hints), default=at)
        assert decision.due is not None and at < decision.due <= stops
        last = stops - self.contract.answer_within
        earliest, latest = max(at + low, wait), max(at + high, wait)
        if decision.due < stops:
            assert decision.due >= max(at + self.gap, wait), "earlier than the gap or the provider allows"
            assert min(earliest, last) <= decision.due <= latest, "outside the backoff"
            assert decision.next_poll_at == decision.due
        else:
            assert latest >= min(stops, last), "put off to the end without a reason"
        longer = retry and max(hint.until for hint in hints if hint.source is DelaySource.PROVIDER_RETRY_AFTER) > at + self.gap
        if longer or (hints and wait > at + high):
            assert decision.delay_source in FROM_PROVIDER, "W35: a wait of the provider's keeps its name"
        if not hints:
            assert decision.delay_source in (DelaySource.LOCAL_BACKOFF, DelaySource.CONTRACT_SCHEDULE)
        # A hint is a wait of its own only where it is the longest (W35); a Retry-After always is.
        asked = [hint.until for hint in hints if hint.source is DelaySource.PROVIDER_RETRY_AFTER]
        self.model.wait_until = wait if decision.delay_source in FROM_PROVIDER and hints else max(asked, default=None)

    def close(self, action: Close) -> None:
        """Deadline and budgets, without a request; what was reserved is given back."""
        call = self.operation.call
        expected = self.model.step(self.now)
        if call is not None and (call.interrupted or call.state is CallState.SENDING) and self.now < self.model.stops_at:
            expected = "submit_unknown" if call.kind is CallKind.SUBMIT else "ambiguous_delivery"
        elif call is not None and call.interrupted and call.kind is CallKind.SUBMIT:
            expected = "submit_unknown"
        assert expected is not None and action.category == expected, (expected, action)
        decision = pure(ending.close_operation, self.operation, self.contract, action, self.now, **self.asking())
        self.model.ask(expected)
        self.take(decision)

    def silence(self, action: Close) -> None:
        """W19: nobody answered in time, which means stop; before that nothing moves."""
        question = self.operation.open_escalation
        assert question is not None
        late = self.now >= question.answer_by
        decision = pure(ending.close_operation, self.operation, self.contract, action, self.now, **self.asking())
        self.model.state = "stopped" if late else "escalated"
        assert late or (decision.due == question.answer_by and not decision.effects)
        self.take(decision)

    # Calls

    def called(self, outcome: CallOutcome, waits: Any, seed: int) -> None:
        call = self.operation.call
        assert call is not None
        unsent = outcome in (CallOutcome.NOT_SENT, CallOutcome.UNKNOWN)
        hints = [] if unsent else self.hints(*waits)
        answer = answered(outcome, hints=tuple(hints))
        decision = pure(calling.decide_call, self.operation, self.contract, answer, self.now, seed=seed, **self.asking())
        self.model.failures += unsent
        self.model.throttles += outcome is CallOutcome.THROTTLED
        (self.submitted if call.kind is CallKind.SUBMIT else self.cancelled)(decision, outcome, call.interrupted)
        ahead = [hint.until for hint in hints if hint.until > self.now]
        if decision.delay_source in FROM_PROVIDER and decision.next_poll_at is not None:
            assert decision.next_poll_at >= max(ahead, default=self.now), "W13: earlier than the provider asked for"
        self.model.wait_until = decision.next_poll_at if decision.delay_source in FROM_PROVIDER else None
        self.take(decision)

    def submitted(self, decision: OperationDecision, outcome: CallOutcome, doubt: bool) -> None:
        """W21, W31: a submit that may have been taken on is repeated only under a key; what names its job is waited for."""
        model, state = self.model, str(decision.state)
        model.state = state
        if outcome in (CallOutcome.ACCEPTED, CallOutcome.DUPLICATE):
            assert decision.job is not None
            model.last_answer = self.now
            late = self.now >= model.stops_at
            assert state == ("escalated" if late else "waiting")
            model.category = model.deadline_category if late else None
            assert late or (decision.due is not None and decision.due >= min(self.now + self.gap, model.stops_at))
            return
        assert decision.job is None and state in ("submitting", "escalated")
        keyed = self.contract.submit is not None and self.contract.submit.idempotency is not None
        unclear = doubt or outcome in (CallOutcome.UNKNOWN, CallOutcome.UNREADABLE)
        if state == "submitting":
            assert outcome in (CallOutcome.NOT_SENT, CallOutcome.THROTTLED, CallOutcome.UNKNOWN)
            assert keyed or not unclear, "W21: repeated in doubt without a key"
            assert model.spent() in (None, "request_budget_exhausted") and self.now < model.stops_at
            return
        model.category = str(decision.category)
        if unclear:
            assert model.category == "submit_unknown", "what may have been taken on is not shown as refused"
        elif outcome is CallOutcome.DENIED:
            assert model.category == "authorization_denied"

    def cancelled(self, decision: OperationDecision, outcome: CallOutcome, doubt: bool) -> None:
        """W24: a cancel never ends the wait; the next look tells. Only doubt, a deadline or a budget asks a person."""
        model, state = self.model, str(decision.state)
        assert state in ("waiting", "escalated")
        model.state = state
        settled = decision.call
        assert settled is not None
        repeated = settled.state in (CallState.QUEUED, CallState.SENDING)
        documented = self.contract.cancel is not None and self.contract.cancel.repeatable
        assert not (repeated and outcome is CallOutcome.UNKNOWN) or documented, "asked twice without the contract's word"
        if state == "escalated":
            model.category = str(decision.category)
            unclear = outcome is CallOutcome.UNKNOWN
            spent = model.spent() in ("rate_limited", "provider_unreachable") or self.now >= model.stops_at
            assert spent or unclear
        else:
            assert decision.due is not None and decision.due <= model.stops_at

    # People, call-backs, another contract

    @precondition(lambda self: self.model.state == "escalated")
    @rule(later=SECONDS, number=st.integers(0, 5))
    def answer(self, later: int, number: int) -> None:
        """W20, W40."""
        self.now += timedelta(seconds=later)
        asked = self.operation.open_escalation
        assert asked is not None
        option = asked.options[number % len(asked.options)]
        if self.now >= asked.answer_by:
            return self.refused(NotNow, choice.decide_answer, self.operation, asked, option, self.now, contract=self.contract)
        foreign = replace(option, key="more", minutes=option.minutes + 1)
        self.refused(NotAllowed, choice.decide_answer, self.operation, asked, foreign, self.now, contract=self.contract)
        decision = pure(choice.decide_answer, self.operation, asked, option, self.now, contract=self.contract)
        word = asked.statement.get("last_state")
        self.model.answer(option.verb, option.minutes, option.checks, self.now)
        if option.verb is Verb.TREAT_AS_PENDING:
            self.model.granted[str(word)] = option.checks
        if option.verb not in ANSWERED or option.verb is Verb.SUBMIT_AGAIN:
            self.goes_on(decision, option.verb)
        self.change(decision)

    def goes_on(self, decision: AnswerDecision, verb: Verb) -> None:
        """The next look keeps the gap, a pause and the provider's wait, and says that a person gave it."""
        floor = self.model.gap_ends(self.now, self.gap)
        floor = max(floor, self.now + timedelta(minutes=60)) if verb is Verb.PAUSE else floor
        floor = max(floor, self.model.wait_until or floor)
        assert decision.due is not None and decision.next_poll_at is not None
        assert decision.next_poll_at >= floor and decision.due == min(decision.next_poll_at, self.model.stops_at)
        kept = self.model.wait_until is not None and decision.next_poll_at >= self.model.stops_at
        assert kept or decision.delay_source is DelaySource.MANUAL_EXTENSION
        if not kept:
            assert decision.next_poll_at <= floor + self.gap, "later than the question said"

    @rule(share=st.floats(0, 1), what=st.sampled_from(["push", "push", "cancel", "repin"]))
    def meddle(self, share: float, what: str) -> None:
        """W35: before the next step something arrives."""
        if self.due is not None and self.due > self.now:
            self.now += (self.due - self.now) * share
        before, state = self.operation, self.model.state
        try:
            if what == "push":
                decision = pure(
                    changing.decide_push, before, self.contract, Pushed(b"{}", "application/json", self.now), self.now
                )
            elif what == "cancel":
                decision = pure(changing.decide_cancel, before, self.contract, self.now)
            else:
                decision = pure(changing.decide_repin, before, self.now)
        except (NotNow, NotAllowed):
            assert what != "push", "a call-back is always noted"
            return
        assert decision.allowance == before.allowance, "nothing that arrives widens a limit"
        given_up = what == "cancel" and state == "submitting"
        assert given_up or str(decision.state) == state
        self.model.state = "stopped" if given_up else state
        assert what != "cancel" or given_up or (self.contract.cancel is not None and state == "waiting")
        if decision.due is not None and self.due is not None and decision.due < self.due and state == "waiting":
            floor = self.model.gap_ends(self.now, self.gap)
            assert decision.due >= max(floor, self.model.wait_until or floor), "hurried inside a gap or a wait of the provider's"
            local = before.delay_source in (DelaySource.LOCAL_BACKOFF, DelaySource.CONTRACT_SCHEDULE)
            assert what == "cancel" or local, "only a wait of ours is shortened"
        self.change(decision)

    def refused(self, kind: type[Exception], fn: Callable[..., Any], *given: Any, **named: Any) -> None:
        try:
            fn(*given, **named)
        except kind:
            return
        raise AssertionError(f"{fn.__name__} was to refuse it with {kind.__name__}")

    @precondition(lambda self: self.model.state in TERMINAL)
    @rule(kind=KINDS)
    def nothing_moves_what_has_ended(self, kind: ObservationKind) -> None:
        """I11."""
        ended, contract = self.operation, self.contract
        self.refused(InvariantBroken, steps.next_call, ended, contract, self.now)
        self.refused(
            InvariantBroken, deciding.decide_operation, ended, contract, saw(kind), self.now, Random(1), escalation_id="esc_x"
        )
        close = Close(lifecycle.Event.HIT_LIMIT, Category.DEADLINE_EXCEEDED, "late")
        self.refused(InvariantBroken, ending.close_operation, ended, contract, close, self.now, escalation_id="esc_x")
        self.refused(NotNow, changing.decide_cancel, ended, contract, self.now)
        self.refused(NotNow, changing.decide_repin, ended, self.now)

    # What a store does with decisions, and what holds of each

    def take(self, decision: OperationDecision) -> None:
        before = self.operation
        assert (before.state, decision.event) in lifecycle.TRANSITIONS, "I12"
        assert decision.state is lifecycle.TRANSITIONS[before.state, decision.event]
        assert str(decision.state) == self.model.state, (decision.state, self.model.state, decision.reason)
        spend, model = decision.spend, self.model
        assert (spend.status_requests, spend.transport_failures, spend.throttles) == (
            model.requests,
            model.failures,
            model.throttles,
        )
        self.told(decision.effects, moved=decision.state is not before.state)
        self.check_question(decision)
        self.operation, self.due = apply(before, decision), decision.due
        if str(decision.state) != "escalated":
            self.operation = replace(self.operation, open_escalation=None)
        if (
            decision.call is not None
            and decision.call.state is CallState.QUEUED
            and self.operation.call is not None
            and before.call
        ):
            doubt = before.call.interrupted
            self.operation = replace(
                self.operation, call=replace(self.operation.call, attempts=before.call.attempts, interrupted=False)
            )
            if doubt and self.operation.call is not None:
                self.operation = replace(self.operation, call=replace(self.operation.call, state=CallState.SENDING))

    def check_question(self, decision: OperationDecision) -> None:
        """W19, W40: a question has its category, bounded options that end in stop, and an end."""
        asked = decision.escalation
        if asked is None:
            assert str(decision.state) != "escalated" or self.operation.open_escalation is not None
            return
        assert asked.category == decision.category == self.model.category
        assert asked.answer_by == decision.received_at + timedelta(seconds=ESC) == decision.due
        verbs = [option.verb for option in asked.options]
        assert verbs[-1] is Verb.STOP and len(set(verbs)) == len(verbs)
        assert Verb.CANCEL not in verbs or self.contract.cancel is not None
        assert asked.statement["requests_used"] == self.model.requests

    def told(self, effects: Any, *, moved: bool) -> None:
        """I17, I18: each action is told once of each move, under a key of its own."""
        messages = [effect for effect in effects if effect.action.type != KEEP_RESULT]
        asked_or_ended = self.model.state in (*TERMINAL, "escalated")
        assert len(messages) == (moved and asked_or_ended), [effect.dedupe_key for effect in effects]
        copies = [effect for effect in effects if effect.action.type == KEEP_RESULT]
        assert len(copies) == (moved and self.model.state == "succeeded" and self.contract.keep is not None)
        keys = [effect.dedupe_key for effect in effects]
        assert not self.keys & set(keys) and len(set(keys)) == len(keys), "one key for two effects"
        self.keys |= set(keys)

    def change(self, decision: AnswerDecision) -> None:
        before = self.operation
        if str(before.state) in TERMINAL:
            assert (decision.state, decision.due, decision.effects) == (before.state, None, ()), "I11: only noted"
            return
        assert decision.state is lifecycle.move(before.state, decision.event)
        assert str(decision.state) == self.model.state
        moved = decision.state is not before.state
        self.told(decision.effects, moved=moved and self.model.state in TERMINAL)
        call = None if decision.drop_call else before.call
        if decision.new_call is CallKind.CANCEL:
            call = with_call(CallKind.CANCEL, state=CallState.QUEUED, attempts=0)
        if str(decision.state) == "submitting" and call is None:
            call = with_call(state=CallState.QUEUED, attempts=0)
        self.operation = replace(
            before, state=decision.state, allowance=decision.allowance, next_poll_at=decision.next_poll_at,
            delay_source=decision.delay_source, grants=decision.grants, call=call,
            open_escalation=before.open_escalation if str(decision.state) == "escalated" else None,
        )  # fmt: skip
        self.due = decision.due

    @invariant()
    def limits_are_what_people_allowed(self) -> None:
        """I22, W42."""
        if not hasattr(self, "model"):
            return
        limits, model = self.operation.allowance, self.model
        assert (limits.deadline_at, limits.business_deadline_at) == (model.deadline, model.business)
        assert (limits.max_status_requests, limits.max_transport_failures, limits.max_throttles) == (
            model.max_requests, model.max_failures, model.max_throttles,
        )  # fmt: skip
        assert model.requests <= model.max_requests, "I1"
        assert (self.due is None) == (model.state in TERMINAL), "I10: what is open is due some day"
        assert model.state not in ("waiting", "submitting") or (self.due is not None and self.due <= model.stops_at)
