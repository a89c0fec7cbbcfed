"""Choices: what a person's answer to a question changes, never more than the option said (W20, W40)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sereno.core.budget import Allowance, with_extension, with_room
from sereno.core.call import CallKind
from sereno.core.contract import Contract
from sereno.core.effect import Effect
from sereno.core.errors import NotAllowed, NotNow
from sereno.core.escalation import PAUSE_MINUTES, Escalation, Option, Verb
from sereno.core.observing.seen import DelaySource
from sereno.core.waiting.asking import tell_end
from sereno.core.waiting.ending import keep_result
from sereno.core.waiting.lifecycle import Event, Grant, Operation, OperationState, Pushed, move
from sereno.core.waiting.look import HELD


@dataclass(frozen=True, slots=True)
class Repin:
    """What an operation takes over from the contract that it moves to."""

    min_gap: timedelta
    url: str | None = None
    """The status address that the new contract gives for the same job and parameters; None where there is no job yet."""
    old_url: str | None = None
    """The one that the old contract gives: an operation under another address was handed over to it, and stays there."""

    def address(self, operation: Operation) -> str | None:
        """The address to take up, or None where it stays."""
        return self.url if self.url is not None and operation.url == self.old_url and self.url != operation.url else None


@dataclass(frozen=True, slots=True)
class AnswerDecision:
    """What a person's answer changes, bounded by the option shown (W20)."""

    state: OperationState
    event: Event
    allowance: Allowance
    due: datetime | None
    next_poll_at: datetime | None
    delay_source: DelaySource
    grants: Sequence[Grant]
    reason: str
    effects: Sequence[Effect] = ()
    """Messages of an end, to be written in the same transaction."""
    new_call: CallKind | None = None
    """A call to queue: the store gives it its id, its dedupe key `OPERATION:KIND-n` and its statement."""
    drop_call: bool = False
    """The open call is given up, unsent (`dropped`) or unknown."""
    pushed: Pushed | None = None
    """A call-back to keep for the next step."""
    repin: bool = False
    """The contract document handed over with the answer is pinned from now on."""
    url: str | None = None
    """The status address from now on; None = as it is."""
    min_gap: timedelta | None = None
    """The smallest gap between two looks from now on; None = as it is."""


_ANSWERS: Mapping[Verb, Event] = {
    Verb.EXTEND: Event.ANSWERED_GO_ON,
    Verb.TREAT_AS_PENDING: Event.ANSWERED_GO_ON,
    Verb.CHECK_AGAIN: Event.ANSWERED_GO_ON,
    Verb.PAUSE: Event.ANSWERED_GO_ON,
    Verb.UPDATE_CONTRACT: Event.ANSWERED_GO_ON,
    Verb.CANCEL: Event.ANSWERED_GO_ON,
    Verb.SUBMIT_AGAIN: Event.ANSWERED_SUBMIT,
    Verb.TREAT_AS_FAILED: Event.ANSWERED_FAILED,
    Verb.ACCEPT_PARTIAL: Event.ANSWERED_ACCEPT,
    Verb.STOP: Event.ANSWERED_STOP,
}


def decide_answer(
    operation: Operation,
    escalation: Escalation,
    option: Option,
    now: datetime,
    *,
    contract: Contract | None = None,
    to: Repin | None = None,
) -> AnswerDecision:
    """Applies an option: extends by stated minutes and checks, grants a word, pauses, follows another contract, cancels, lets a
    submit be sent again, fails, accepts or stops.

    The next look has delay source `manual_extension` and is never sooner than the minimum gap, a provider's own wait or what an earlier
    answer planned (`operation.next_poll_at` where its delay source says so). `contract` is the operation's pinned one; without it a
    result that is accepted is not copied. `to` is what a change of the contract brings.

    Raises NotAllowed for an option that was not shown, NotNow for a question that is closed or too old.
    """
    if escalation.operation != operation.id or option not in escalation.options:
        raise NotAllowed(f"{option.key} is not an option of this question", subject=escalation.id)
    if escalation.state != "open" or now >= escalation.answer_by:
        raise NotNow("this question is closed", subject=escalation.id, hint="ask for the operation's present state")
    event = _ANSWERS[option.verb]
    state = move(operation.state, event)
    if state in (OperationState.WAITING, OperationState.SUBMITTING):
        follows = to if option.verb is Verb.UPDATE_CONTRACT else None
        return _go_on(operation, escalation, option, now, contract=contract, to=follows)
    reason = f"a person chose {option.key}: {option.says}"
    wait = operation.next_poll_at if operation.delay_source in HELD else None
    kept = keep_result(operation, contract, now, not_before=wait) if state is OperationState.SUCCEEDED else ()
    return AnswerDecision(
        state=state,
        event=event,
        allowance=operation.allowance,
        due=None,
        next_poll_at=None,
        delay_source=operation.delay_source,
        grants=operation.grants,
        reason=reason,
        effects=(*tell_end(operation, state, escalation.category, reason, None), *kept),
        drop_call=operation.call is not None,
    )


def after_gap(operation: Operation, min_gap: timedelta, now: datetime) -> datetime:
    """The earliest instant that keeps the minimum gap to the last answer: of a look, or of the submit."""
    sent = [at for at in (operation.last_checked_at, operation.submitted_at) if at is not None]
    return max([now, *(at + min_gap for at in sent)])


def _go_on(
    operation: Operation, escalation: Escalation, option: Option, now: datetime, *, contract: Contract | None, to: Repin | None
) -> AnswerDecision:
    wait = operation.next_poll_at if operation.delay_source in HELD else None
    paused = [now + timedelta(minutes=PAUSE_MINUTES)] if option.verb is Verb.PAUSE else []
    # The question showed the gap of the contract that it was asked under; a person may have moved the operation to another since.
    own = timedelta(0) if contract is None else contract.delays.min_gap
    gap_ends = after_gap(operation, own if to is None else to.min_gap, now)
    look = max(gap_ends, _not_before(escalation), *paused, *([wait] if wait is not None else []))
    allowance = _room(operation, option, now, paused)
    stops_at, _ = allowance.stops_at()
    # Where the provider's wait outlasts the new deadline no look follows, and the wait keeps its name for the next question.
    outlasts = look >= stops_at
    event = _ANSWERS[option.verb]
    return AnswerDecision(
        state=move(operation.state, event),
        event=event,
        allowance=allowance,
        due=min(look, stops_at),
        next_poll_at=look,
        delay_source=operation.delay_source if outlasts and wait is not None else DelaySource.MANUAL_EXTENSION,
        grants=_granted(operation.grants, escalation, option),
        reason=f"a person chose {option.key}: {option.says}",
        new_call=CallKind.CANCEL if option.verb is Verb.CANCEL else None,
        repin=option.verb is Verb.UPDATE_CONTRACT,
        url=None if to is None else to.address(operation),
        min_gap=None if to is None else to.min_gap,
    )


def _room(operation: Operation, option: Option, now: datetime, paused: Sequence[datetime]) -> Allowance:
    """The limits after the answer. A submit counts no status request, so it gets none."""
    old, spend = operation.allowance, operation.spend
    if option.verb is Verb.EXTEND:
        return with_extension(old, spend, now, minutes=option.minutes, checks=option.checks)
    room = with_room(old, spend, now, minutes=option.minutes, checks=option.checks, look_at=max(paused, default=now))
    if option.verb is Verb.SUBMIT_AGAIN:
        return replace(room, max_status_requests=old.max_status_requests)
    return room


def _not_before(escalation: Escalation) -> datetime:
    shown = escalation.statement.get("not_before")
    return datetime.fromisoformat(shown) if isinstance(shown, str) else escalation.created_at


def _granted(grants: Sequence[Grant], escalation: Escalation, option: Option) -> Sequence[Grant]:
    """Adds the word of the question with its checks; an older grant for the same word is replaced."""
    word = escalation.statement.get("last_state")
    if option.verb is not Verb.TREAT_AS_PENDING or not isinstance(word, str):
        return grants
    return (*(grant for grant in grants if grant.word != word), Grant(word, option.checks))
