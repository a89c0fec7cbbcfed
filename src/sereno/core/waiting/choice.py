"""Choices: what a person's answer to a question changes, never more than the option said (W20, W40)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sereno.core.budget import Allowance, with_extension, with_room
from sereno.core.call import CallKind
from sereno.core.effect import Effect
from sereno.core.errors import NotAllowed, NotNow
from sereno.core.escalation import Escalation, Option, Verb
from sereno.core.observation import DelaySource
from sereno.core.waiting.asking import tell_end
from sereno.core.waiting.lifecycle import Event, Grant, Operation, OperationState, Pushed, move
from sereno.core.waiting.look import FROM_PROVIDER


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


_ANSWERS: Mapping[Verb, Event] = {
    Verb.EXTEND: Event.ANSWERED_GO_ON,
    Verb.TREAT_AS_PENDING: Event.ANSWERED_GO_ON,
    Verb.CHECK_AGAIN: Event.ANSWERED_GO_ON,
    Verb.TREAT_AS_FAILED: Event.ANSWERED_FAILED,
    Verb.ACCEPT_PARTIAL: Event.ANSWERED_ACCEPT,
    Verb.STOP: Event.ANSWERED_STOP,
}


def decide_answer(operation: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
    """Applies an option: extends by stated minutes and checks, grants a word, fails, accepts or stops.

    The next look has delay source `manual_extension` and is never sooner than the minimum gap or a provider's own wait
    (`operation.next_poll_at` where its delay source is the provider's).

    Raises NotAllowed for an option that was not shown, NotNow for a question that is closed or too old.
    """
    if escalation.operation != operation.id or option not in escalation.options:
        raise NotAllowed(f"{option.key} is not an option of this question", subject=escalation.id)
    if escalation.state != "open" or now >= escalation.answer_by:
        raise NotNow("this question is closed", subject=escalation.id, hint="ask for the operation's present state")
    event = _ANSWERS[option.verb]
    state = move(operation.state, event)
    if state is OperationState.WAITING:
        return _go_on(operation, escalation, option, now)
    reason = f"a person chose {option.key}: {option.says}"
    return AnswerDecision(
        state=state,
        event=event,
        allowance=operation.allowance,
        due=None,
        next_poll_at=None,
        delay_source=operation.delay_source,
        grants=operation.grants,
        reason=reason,
        effects=tell_end(operation, state, escalation.category, reason, None),
    )


def _go_on(operation: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
    room = with_extension if option.verb is Verb.EXTEND else with_room
    allowance = room(operation.allowance, operation.spend, now, minutes=option.minutes, checks=option.checks)
    stops_at, _ = allowance.stops_at()
    wait = operation.next_poll_at if operation.delay_source in FROM_PROVIDER else None
    look = max(now, _not_before(escalation), *([wait] if wait is not None else []))
    # Where the provider's wait outlasts the new deadline no look follows, and the wait keeps its name for the next question.
    outlasts = look >= stops_at
    return AnswerDecision(
        state=OperationState.WAITING,
        event=Event.ANSWERED_GO_ON,
        allowance=allowance,
        due=min(look, stops_at),
        next_poll_at=look,
        delay_source=operation.delay_source if outlasts and wait is not None else DelaySource.MANUAL_EXTENSION,
        grants=_granted(operation.grants, escalation, option),
        reason=f"a person chose {option.key}: {option.says}",
    )


def _not_before(escalation: Escalation) -> datetime:
    shown = escalation.statement.get("not_before")
    return datetime.fromisoformat(shown) if isinstance(shown, str) else escalation.created_at


def _granted(grants: Sequence[Grant], escalation: Escalation, option: Option) -> Sequence[Grant]:
    """Adds the word of the question with its checks; an older grant for the same word is replaced."""
    word = escalation.statement.get("last_state")
    if option.verb is not Verb.TREAT_AS_PENDING or not isinstance(word, str):
        return grants
    return (*(grant for grant in grants if grant.word != word), Grant(word, option.checks))
