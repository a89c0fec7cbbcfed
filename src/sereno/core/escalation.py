"""Escalations: a question to a person with bounded options, a deadline and what silence means (W19, W20, W40)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from sereno.core.budget import Allowance, Spend, exhausted, second_wind
from sereno.core.delay import quoted
from sereno.core.values import Json, canonical, digest


class Category(StrEnum):
    """The closed list of W19."""

    DEADLINE_EXCEEDED = "deadline_exceeded"
    REQUEST_BUDGET_EXHAUSTED = "request_budget_exhausted"
    RATE_LIMITED = "rate_limited"
    UNKNOWN_STATE = "unknown_state"
    CONTRADICTION = "contradiction"
    AUTHORIZATION_DENIED = "authorization_denied"
    PROVIDER_FAILURE = "provider_failure"
    PROVIDER_UNREACHABLE = "provider_unreachable"
    INTEGRATION_FAILURE = "integration_failure"
    BUSINESS_DEADLINE_EXCEEDED = "business_deadline_exceeded"
    AMBIGUOUS_DELIVERY = "ambiguous_delivery"
    SUBMIT_UNKNOWN = "submit_unknown"
    PROVIDER_CANCELLED = "provider_cancelled"
    PROVIDER_EXPIRED = "provider_expired"
    UNKNOWN_OPERATION = "unknown_operation"
    RESULT_EXPIRED = "result_expired"
    NEEDS_INPUT = "needs_input"
    PARTIAL_RESULT = "partial_result"


class Verb(StrEnum):
    """What a person can choose; each changes bounded things only."""

    EXTEND = "extend"
    """Stated minutes and checks, once; a second extension is a new decision."""
    TREAT_AS_PENDING = "treat_as_pending"
    """This word counts as pending for n checks of this operation."""
    TREAT_AS_FAILED = "treat_as_failed"
    CHECK_AGAIN = "check_again"
    """One more look after the cause was mended (access reviewed, contract updated). A limit is lifted only where it would forbid
    that look, by the minutes and checks that the option states."""
    ACCEPT_PARTIAL = "accept_partial"
    PAUSE = "pause"
    """No request for stated minutes, then one look: time to review what the provider changed."""
    UPDATE_CONTRACT = "update_contract"
    """This operation follows the contract of that name as it stands when the answer is given, and looks once more."""
    CANCEL = "cancel"
    """Cancel at the provider, where the contract documents how; then stated checks to see it end."""
    SUBMIT_AGAIN = "submit_again"
    """Send a submit once more that certainly was not taken on."""
    STOP = "stop"
    """Stop waiting and keep the handle: the safe default of every category."""


@dataclass(frozen=True, slots=True)
class Option:
    """One allowed answer: a key to type (the verb's own word), its verb, its bounds, and the sentence that shows its effect."""

    key: str
    verb: Verb
    says: str
    minutes: int = 0
    checks: int = 0


def _option(verb: Verb, says: str, minutes: int = 0, checks: int = 0) -> Option:
    return Option(verb.value, verb, says, minutes, checks)


_ROOM = (
    "Requests used: {used} of {maximum}; the limit is then {raised}. "
    "A deadline ({deadline}) that has passed when you answer moves to {minutes} minutes after your answer."
)


def _look(after: str) -> Option:
    return _option(Verb.CHECK_AGAIN, f"Look once more, after {after}. {_ROOM}", 15, 1)


PAUSE_MINUTES = 60
"""How long PAUSE sends nothing. Its option states 15 minutes more, in which the look can be answered."""
_EXTEND = _option(
    Verb.EXTEND,
    "Extend {minutes} minutes with {checks} checks, after a look at the job in the provider's console. The time counts from your "
    "answer, or from the deadline ({deadline}) if that is later. Requests used: {used} of {maximum}; the limit is then {granted}.",
    15,
    4,
)
_PAUSE = _option(
    Verb.PAUSE,
    f"Send nothing for {PAUSE_MINUTES} minutes, while you review what the provider changed; then look once. "
    "Requests used: {used} of {maximum}; the limit is then {raised}. "
    "A deadline ({deadline}) that comes before that look moves to {minutes} minutes after your answer.",
    PAUSE_MINUTES + 15,
    1,
)
_PENDING = _option(
    Verb.TREAT_AS_PENDING, "Count the state {word} as pending for {checks} checks of this operation. " + _ROOM, 15, 5
)
_UPDATE = _option(
    Verb.UPDATE_CONTRACT,
    "Follow the contract of this name as it stands when you answer, and look once more. Change the contract first. " + _ROOM,
    15,
    1,
)
_CANCEL = _option(
    Verb.CANCEL,
    "Cancel job {job} at the provider: {effects}. Then up to {checks} checks see how it ends. " + _ROOM,
    15,
    4,
)
_FAILED = _option(
    Verb.TREAT_AS_FAILED, "Close this operation as failed. Nothing is sent; the provider may still be at job {job}."
)
_ACCEPT = _option(
    Verb.ACCEPT_PARTIAL,
    "Take what is there as the result and close this operation as succeeded. "
    "Nothing is sent but what copies the result, where the contract says how.",
)
_STOP = _option(
    Verb.STOP,
    "Stop waiting and keep the handle of job {job}. Nothing is sent; the provider may still be at it. "
    "The same happens when nobody answers.",
)

OPTIONS: Mapping[Category, Sequence[Option]] = {
    Category.DEADLINE_EXCEEDED: (_EXTEND, _CANCEL, _STOP),
    Category.REQUEST_BUDGET_EXHAUSTED: (_EXTEND, _CANCEL, _STOP),
    Category.RATE_LIMITED: (_EXTEND, _CANCEL, _STOP),
    Category.UNKNOWN_STATE: (_PAUSE, _PENDING, _FAILED, _UPDATE, _CANCEL, _STOP),
    Category.CONTRADICTION: (_look("you have looked at the job at the provider"), _UPDATE, _FAILED, _CANCEL, _STOP),
    Category.AUTHORIZATION_DENIED: (_look("access, rotation, account scope and gateway have been reviewed"), _STOP),
    Category.PROVIDER_FAILURE: (_STOP,),
    Category.PROVIDER_UNREACHABLE: (_EXTEND, _CANCEL, _STOP),
    Category.INTEGRATION_FAILURE: (_look("the provider has been mended"), _UPDATE, _FAILED, _CANCEL, _STOP),
    Category.BUSINESS_DEADLINE_EXCEEDED: (_EXTEND, _CANCEL, _STOP),
    Category.AMBIGUOUS_DELIVERY: (_look("you have looked whether the cancel reached the provider"), _CANCEL, _STOP),
    Category.SUBMIT_UNKNOWN: (_FAILED, _STOP),
    Category.PROVIDER_CANCELLED: (_STOP,),
    Category.PROVIDER_EXPIRED: (_STOP,),
    Category.UNKNOWN_OPERATION: (_look("you have checked that the job exists in this account"), _UPDATE, _FAILED, _STOP),
    Category.RESULT_EXPIRED: (_FAILED, _STOP),
    Category.NEEDS_INPUT: (_look("the provider has been given what it asks for"), _FAILED, _CANCEL, _STOP),
    Category.PARTIAL_RESULT: (_ACCEPT, _look("the provider has had time for the rest"), _FAILED, _STOP),
}
"""The tested table of W40: what may be answered to what. Every category has STOP, last. The sentences are templates: `options_for`
fills in the numbers. CANCEL is shown only where the contract documents cancelling. Categories that end an operation without a
question (`provider_failure` …) have STOP alone."""


def _again(after: str) -> Option:
    room = (
        "It is sent with the same input and the same key. "
        "A deadline ({deadline}) that has passed when you answer moves to {minutes} minutes after your answer."
    )
    return _option(Verb.SUBMIT_AGAIN, f"Send the submit once more, after {after}. It was certainly not taken on. {room}", 15, 2)


_FAILED_UNSUBMITTED = _option(Verb.TREAT_AS_FAILED, "Close this operation as failed. Nothing is sent.")
_STOP_UNSUBMITTED = _option(
    Verb.STOP, "Give the submit up and close this operation as stopped. Nothing is sent. The same happens when nobody answers."
)
_RESUBMIT = (
    "If the provider's console shows no job, a person can submit anew with `sereno operation resubmit`: "
    "that is a new operation with a new key."
)
_FAILED_UNKNOWN = _option(
    Verb.TREAT_AS_FAILED,
    f"Close this operation as failed. Nothing is sent; a job that nobody waits for may run at the provider. {_RESUBMIT}",
)
_STOP_UNKNOWN = _option(
    Verb.STOP,
    "Close this operation as stopped. Nothing is sent; a job that nobody waits for may run at the provider. "
    f"{_RESUBMIT} The same happens when nobody answers.",
)

UNSUBMITTED: Mapping[Category, Sequence[Option]] = {
    Category.DEADLINE_EXCEEDED: (_again("you have checked that it is still wanted"), _STOP_UNSUBMITTED),
    Category.BUSINESS_DEADLINE_EXCEEDED: (_again("you have checked that it is still wanted"), _STOP_UNSUBMITTED),
    Category.RATE_LIMITED: (_again("the limits of this account have been reviewed"), _STOP_UNSUBMITTED),
    Category.PROVIDER_UNREACHABLE: (_again("you have checked that the provider can be reached"), _STOP_UNSUBMITTED),
    Category.AUTHORIZATION_DENIED: (
        _again("access, rotation, account scope and gateway have been reviewed"),
        _STOP_UNSUBMITTED,
    ),
    Category.INTEGRATION_FAILURE: (_FAILED_UNSUBMITTED, _STOP_UNSUBMITTED),
    Category.CONTRADICTION: (_FAILED_UNSUBMITTED, _STOP_UNSUBMITTED),
    Category.SUBMIT_UNKNOWN: (_FAILED_UNKNOWN, _STOP_UNKNOWN),
}
"""The same for an operation that has no job yet: there is nothing to look at, and a submit is sent again only where it certainly was
not taken on (W21)."""


_LOOKS = (Verb.EXTEND, Verb.CHECK_AGAIN, Verb.PAUSE, Verb.TREAT_AS_PENDING, Verb.UPDATE_CONTRACT)
_WAIT_ON = _option(
    Verb.EXTEND,
    "Wait {minutes} minutes more for the provider to call back, after a look at the job in its console. The time counts from your "
    "answer, or from the deadline ({deadline}) if that is later. Nothing is sent.",
    15,
)
_CANCEL_UNSEEN = _option(
    Verb.CANCEL,
    "Cancel job {job} at the provider: {effects}. Then wait for the provider to call back. "
    "A deadline ({deadline}) that has passed when you answer moves to {minutes} minutes after your answer.",
    15,
)


def _called_back(options: Sequence[Option]) -> Sequence[Option]:
    """The same where the provider calls back and is never asked: whatever would look waits for another call-back instead."""
    waits = [_WAIT_ON] if any(option.verb in _LOOKS for option in options) else []
    kept = [_CANCEL_UNSEEN if option.verb is Verb.CANCEL else option for option in options if option.verb not in _LOOKS]
    return (*waits, *kept)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an operation stands when the question is asked: what the sentences of its options need."""

    job_id: str
    """Empty where the submit was not answered with a job."""
    word: str | None
    spend: Spend
    allowance: Allowance
    provider_wait: datetime | None = None
    """An instant before which the provider does not want to be asked."""
    cancel_effects: str | None = None
    """What cancelling does, as the contract documents it; None = not documented."""
    planned: datetime | None = None
    """An instant that an earlier answer put the next look to, and that is still ahead."""


def options_for(category: Category, standing: Standing) -> Sequence[Option]:
    """The options of a category with their real numbers. A word that was not seen cannot be counted as pending, and what is not
    documented cannot be cancelled."""
    if not standing.job_id:
        options = UNSUBMITTED.get(category, (_FAILED_UNSUBMITTED, _STOP_UNSUBMITTED))
    elif standing.allowance.max_status_requests == 0:
        options = _called_back(OPTIONS[category])
    else:
        options = OPTIONS[category]
    return tuple(replace(option, says=_sentence(option, standing)) for option in options if _possible(option, standing))


def _possible(option: Option, standing: Standing) -> bool:
    if option.verb is Verb.TREAT_AS_PENDING:
        return standing.word is not None
    return option.verb is not Verb.CANCEL or standing.cancel_effects is not None


def _sentence(option: Option, standing: Standing) -> str:
    spend, allowance = standing.spend, standing.allowance
    granted = spend.status_requests + option.checks
    says = option.says.format(
        job=quoted(standing.job_id, 200),
        word=quoted(standing.word, 200),
        minutes=option.minutes,
        checks=option.checks,
        used=spend.status_requests,
        maximum=allowance.max_status_requests,
        granted=granted,
        raised=max(allowance.max_status_requests, granted),
        deadline=at_text(allowance.deadline_at),
        effects=(standing.cancel_effects or "").strip().rstrip("."),
    )
    return says if option.minutes == 0 else " ".join([says, *_small_print(option, standing)])


def _small_print(option: Option, standing: Standing) -> Sequence[str]:
    """What else an option that looks again changes, or cannot change."""
    spend, allowance, business = standing.spend, standing.allowance, standing.allowance.business_deadline_at
    lines = []
    if business is not None:
        passes = "comes before that look" if option.verb is Verb.PAUSE else "has passed when you answer"
        lines.append(
            f"A business deadline ({at_text(business)}) that {passes} moves to {option.minutes} minutes after your answer."
        )
    if option.checks and exhausted(spend.throttles, allowance.max_throttles):
        lines.append(_more(second_wind(option.checks), "rate-limit answer"))
    if option.checks and exhausted(spend.transport_failures, allowance.max_transport_failures):
        lines.append(_more(second_wind(option.checks), "failed request"))
    what = "Nothing is sent" if option.verb is Verb.SUBMIT_AGAIN else "No look"
    if standing.provider_wait is not None:
        lines.append(f"{what} before {at_text(standing.provider_wait)}: the provider asked to wait.")
    if standing.planned is not None:
        lines.append(f"{what} before {at_text(standing.planned)}: an earlier answer planned it for then.")
    return lines


def _more(count: int, what: str) -> str:
    return f"{count} more {what} is allowed." if count == 1 else f"{count} more {what}s are allowed."


def at_text(instant: datetime) -> str:
    """Writes an instant for a sentence: `2026-11-30 12:00:05 UTC`."""
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Escalation:
    """A question that waits for a person.

    `statement` is exactly what was shown (state, elapsed, calls, extra budget, effect; never a secret); `digest` covers
    statement, options and subject; `answer_by` is when silence counts as `stop`.
    """

    id: str
    workspace: str
    operation: str
    category: Category
    statement: Mapping[str, Json]
    options: Sequence[Option]
    digest: str
    created_at: datetime
    answer_by: datetime
    state: str = "open"
    """open, answered, expired"""
    answer: Mapping[str, Json] | None = None


def option_rows(options: Sequence[Option]) -> list[object]:
    """The options as JSON, in the order shown."""
    return [
        {"key": option.key, "verb": option.verb.value, "says": option.says, "minutes": option.minutes, "checks": option.checks}
        for option in options
    ]


def escalation_digest(operation: str, statement: Mapping[str, Json], options: Sequence[Option], answer_by: datetime) -> str:
    """SHA-256 over the canonical JSON of everything a person decides on."""
    return digest(
        canonical(
            {
                "operation": operation,
                "statement": dict(statement),
                "options": option_rows(options),
                "answer_by": answer_by.isoformat(),
            }
        )
    )
