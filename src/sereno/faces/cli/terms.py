"""The flags that `wait` and `submit` share, and what they mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from sereno.core.errors import Fault
from sereno.core.values import parse_duration

_STATES = ("success", "failure", "pending", "cancelled", "expired")


@Parameter(name="*")
@dataclass(frozen=True)
class LimitFlags:
    """The limits of one wait; what is left out comes from the contract (W41)."""

    deadline: Annotated[str | None, Parameter(name="--deadline", help="Longest wait from now: 90s, 2h.")] = None
    business_deadline: Annotated[
        str | None,
        Parameter(name="--business-deadline", help="When the result is of no use any more: 2h, or 2026-12-01T18:00:00Z."),
    ] = None
    max_requests: Annotated[int | None, Parameter(name="--max-requests", help="Most status requests.")] = None
    max_failures: Annotated[int | None, Parameter(name="--max-failures", help="Most requests that got no answer.")] = None
    max_throttles: Annotated[int | None, Parameter(name="--max-throttles", help="Most answers that said: too many requests.")] = (
        None
    )


@Parameter(name="*")
@dataclass(frozen=True)
class JobFlags:
    """Where the job is and how its answers are read."""

    credential: Annotated[
        str | None,
        Parameter(
            name="--credential", help="Name of the [credentials.NAME] of the account; '' for none. Default: the contract's own."
        ),
    ] = None
    param: Annotated[
        tuple[str, ...], Parameter(name="--param", help="Another parameter of the contract, as name=value; may be repeated.")
    ] = ()
    base: Annotated[
        str | None, Parameter(name="--base", help="Base URL of the service, for contracts without an address of their own.")
    ] = None
    state_path: Annotated[
        str | None, Parameter(name="--state-path", help="JMESPath to the state word, for generic contracts.")
    ] = None
    error_path: Annotated[
        str | None, Parameter(name="--error-path", help="JMESPath to the provider's error text, for generic contracts.")
    ] = None
    success: Annotated[str | None, Parameter(name="--success", help="State words that mean success, with commas.")] = None
    failure: Annotated[str | None, Parameter(name="--failure", help="State words that mean failure.")] = None
    pending: Annotated[str | None, Parameter(name="--pending", help="State words that mean: still at it.")] = None
    cancelled: Annotated[str | None, Parameter(name="--cancelled", help="State words that mean cancelled.")] = None
    expired: Annotated[str | None, Parameter(name="--expired", help="State words that mean expired.")] = None
    allow_unproven_status: Annotated[
        bool,
        Parameter(name="--allow-unproven-status", help="Grant status requests although nothing proves that they only observe."),
    ] = False

    def states(self) -> Mapping[str, Sequence[str]] | None:
        """The state words that were given, by meaning; None where none were."""
        given = {name: getattr(self, name) for name in _STATES}
        return {name: [word.strip() for word in words.split(",")] for name, words in given.items() if words} or None


@Parameter(name="*")
@dataclass(frozen=True)
class TellFlags:
    """Who is told, and whether this command stays."""

    action: Annotated[
        tuple[str, ...],
        Parameter(
            name="--action", help="Action that carries the end or a question; may be repeated. Default: [waiting] actions."
        ),
    ] = ()
    task_id: Annotated[str | None, Parameter(name="--task-id", help="Id of the assistant's task that this wait belongs to.")] = (
        None
    )
    detach: Annotated[bool, Parameter(name="--detach", help="Only register it; `sereno up` or `sereno wait op_…` drives it.")] = (
        False
    )


LIMITS, JOB, TELL = LimitFlags(), JobFlags(), TellFlags()
AllFlags = tuple[LimitFlags, JobFlags, TellFlags]


def terms_of(flags: AllFlags, now: datetime, faults: list[Fault]) -> dict[str, Any]:
    """The arguments of `Wanted` and `WantedSubmit` that these flags mean; what cannot be read is noted in `faults`."""
    limits, job, tell = flags
    return {
        "deadline": _span("--deadline", limits.deadline, faults),
        "business_deadline_at": _instant("--business-deadline", limits.business_deadline, now, faults),
        "parameters": _pairs("--param", job.param, faults),
        "account": job.credential,
        "base": job.base,
        "states": job.states(),
        "state_path": job.state_path,
        "error_path": job.error_path,
        "max_status_requests": limits.max_requests,
        "max_transport_failures": limits.max_failures,
        "max_throttles": limits.max_throttles,
        "assistant_task_id": tell.task_id,
        "actions": tell.action or None,
        "allow_unproven_status": job.allow_unproven_status,
    }


def _span(flag: str, text: str | None, faults: list[Fault]) -> timedelta | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        faults.append(Fault(flag, str(error)))
        return None


def _instant(flag: str, text: str | None, now: datetime, faults: list[Fault]) -> datetime | None:
    """A duration from now, or an instant with its zone (without one: the system's)."""
    if text is None:
        return None
    try:
        return now + parse_duration(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        faults.append(Fault(flag, f"{text[:80]!r} is neither a duration nor an instant", "write 2h or 2026-12-01T18:00:00Z"))
        return None


def _pairs(flag: str, pairs: Sequence[str], faults: list[Fault]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name and equals:
            found[name] = value
        else:
            faults.append(Fault(flag, "is not name=value", f"write for example {flag} repo=name"))
    return found
