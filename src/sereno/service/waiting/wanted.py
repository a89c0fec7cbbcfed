"""What a caller may say about a wait or a submit, and what is wrong with it: words, credential, limits and their arithmetic (W41)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sereno.core.budget import Allowance, Limits
from sereno.core.contract import Contract, check_limits, origin_of, with_states
from sereno.core.errors import Fault, NotAllowed, RequestError, SetupError, nearest
from sereno.core.reading.address import origin_or_none, plain_base
from sereno.core.reading.calls import Via
from sereno.core.values import Json, format_duration
from sereno.service.address import refusal_hint
from sereno.service.deps import Deps

MOST = 1_000_000_000
"""No limit of a wait is higher: requests, failures, throttles, seconds."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a wait and a submit have in common; what is None comes from the contract (W41)."""

    contract: str
    account: str | None = field(default=None, kw_only=True)
    """Credential NAME; '' = none; None = the contract's own where the settings have it."""
    parameters: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    base: str | None = field(default=None, kw_only=True)
    states: Mapping[str, Sequence[str]] | None = field(default=None, kw_only=True)
    state_path: str | None = field(default=None, kw_only=True)
    error_path: str | None = field(default=None, kw_only=True)
    deadline: timedelta | None = field(default=None, kw_only=True)
    business_deadline_at: datetime | None = field(default=None, kw_only=True)
    max_status_requests: int | None = field(default=None, kw_only=True)
    max_transport_failures: int | None = field(default=None, kw_only=True)
    max_throttles: int | None = field(default=None, kw_only=True)
    assistant_task_id: str | None = field(default=None, kw_only=True)
    actions: Sequence[str] | None = field(default=None, kw_only=True)
    allow_unproven_status: bool = field(default=False, kw_only=True)
    """Grants status requests of a contract without evidence that they only observe (W12)."""

    def __post_init__(self) -> None:
        """One way to write `base`, since it is a part of what names a job (W39)."""
        if self.base is not None:
            object.__setattr__(self, "base", plain_base(self.base))


@dataclass(frozen=True, slots=True)
class Wanted(Terms):
    """A wait for a job that is there already."""

    job_id: str


@dataclass(frozen=True, slots=True)
class WantedSubmit(Terms):
    """A job to be started first, and then waited for (W31)."""

    input: Json = field(default_factory=dict)
    """What the contract's `{input}` stands for; at most 1 MB as JSON."""
    key: str | None = field(default=None, kw_only=True)
    """The same key in the same contract, account and parameters gives the first operation back; None = a new one."""


def read_document(deps: Deps, wanted: Terms) -> Mapping[str, Json]:
    """The contract's document, with the caller's words where the contract leaves them open. Raises NotFound, SetupError, RequestError."""
    document = deps.plugins.contracts.document(wanted.contract)
    if document.get("states_from_caller") is True:
        _need_states(document, wanted)
    elif not (wanted.states or wanted.state_path or wanted.error_path):
        return document
    try:
        return with_states(document, wanted.states or {}, wanted.state_path, error_path=wanted.error_path)
    except ValueError as error:
        raise RequestError(
            str(error), subject=wanted.contract, hint="leave out the state words, --state-path and --error-path"
        ) from error


def _need_states(document: Mapping[str, Json], wanted: Terms) -> None:
    """A generic contract knows no words and no place of its own: what is missing is named at once."""
    state = document.get("state")
    known = isinstance(state, dict) and (state.get("path") is not None or state.get("from") == "http")
    faults = []
    if not (wanted.states or {}).get("success"):
        faults.append(Fault("wait.success", "is missing", "name the state words that mean success: --success done,finished"))
    if wanted.state_path is None and not known:
        faults.append(Fault("wait.state_path", "is missing", "name the field that holds the state: --state-path status"))
    if faults:
        if "limits" not in document and (missing := _missing_limits(_given_limits(wanted), wanted.contract)):
            faults.append(missing)
        raise SetupError(f"contract {wanted.contract} leaves the states to you; nothing was stored", faults)


def texts_of(wanted: Terms) -> Mapping[str, object]:
    """What a caller wrote, by the names of the flags; none of it may be a secret."""
    return {
        "base": wanted.base,
        "param": wanted.parameters,
        "credential": wanted.account,
        "states": wanted.states,
        "state_path": wanted.state_path,
        "error_path": wanted.error_path,
        "task_id": wanted.assistant_task_id,
    }


def account_of(deps: Deps, contract: Contract, wanted: Terms, url: str) -> str:
    """The credential NAME of the wait: the caller's, else the contract's own where the settings have it for this address, else ''."""
    if wanted.account is not None:
        return wanted.account
    model = deps.loaded.settings.credentials.get(contract.credential or "")
    if contract.credential is None or model is None:
        return ""
    return contract.credential if not url or _same_origin(model.origin, url) else ""


def _same_origin(origin: str, url: str) -> bool:
    try:
        return origin_of(origin) == origin_of(url)
    except ValueError:
        return False


def credential_faults(deps: Deps, account: str) -> list[Fault]:
    """Names an unknown credential, with the nearest."""
    known = deps.loaded.settings.credentials
    if not account or account in known:
        return []
    near = nearest(account, list(known))
    hint = f"did you mean `{near}`?" if near else f"add [credentials.{account}] to the settings"
    return [Fault("wait.credential", f"no credential named `{account}`", hint)]


def unsigned_faults(contract: Contract, wanted: Terms, account: str) -> list[Fault]:
    """A call to AWS that nothing can sign is refused before anything is stored; '' as account says that none is wanted."""
    if contract.via is not Via.AWS or account or wanted.account is not None:
        return []
    name = contract.credential or "aws"
    hint = f'add [credentials.{name}] with scheme = "AWS4-HMAC-SHA256" and the origin of this service, or name another: --credential NAME'
    return [Fault("wait.credential", "requests to AWS are signed, and no credential for this address is set", hint)]


def unsigned_warnings(deps: Deps, contract: Contract, wanted: Terms) -> list[str]:
    """Warns where the contract names a credential, none of that name is set, and the caller says nothing about it."""
    name = contract.credential
    if name is None or wanted.account is not None or name in deps.loaded.settings.credentials:
        return []
    none = 'account=""' if deps.origin == "api" else "--credential ''"
    says = f"this contract usually needs [credentials.{name}]; none is set, so requests go out unsigned"
    return [f"{says}: add it, or {none} if none is needed"]


def refuse_naive(wanted: Terms) -> None:
    """Raises RequestError for a deadline that names no instant."""
    until = wanted.business_deadline_at
    if until is not None and until.utcoffset() is None:
        raise RequestError(
            "business_deadline_at has no time zone",
            subject=wanted.contract,
            hint="give an aware datetime: datetime(2026, 3, 1, 12, tzinfo=UTC)",
            code="naive_datetime",
        )


def address_hint(deps: Deps, wanted: Terms, says: str) -> str | None:
    """The fix for an address that cannot be made, in the words of whoever asks: flags, or the fields of Python."""
    form = 'base="https://host"' if deps.origin == "api" else "--base https://host"
    if wanted.base is not None and origin_or_none(wanted.base) is None:
        return f"write {form}"
    if "give the base URL" in says:
        return f"add {form}"
    return "write the whole status URL: https://host/path" if "URL" in says else None


def refuse_unproven(contract: Contract, wanted: Terms) -> None:
    """Raises RequestError for a status request that nothing proves to only observe (W12)."""
    if contract.observational is None and contract.via is not Via.PUSH and not wanted.allow_unproven_status:
        raise RequestError(
            f"contract {contract.name} gives no evidence that its status request only observes",
            subject=contract.name,
            hint="grant it for this operation with --allow-unproven-status, or state the evidence in the contract",
            code="not_observational",
        )


def refuse_address(deps: Deps, url: str) -> None:
    """An address that the gate would refuse is refused before anything is stored or counted. Raises NotAllowed."""
    if url and (problem := deps.address_check(url)) is not None:
        hint = refusal_hint(deps, url, problem)
        raise NotAllowed(f"the address of the job is refused: {problem}", subject=url[:200], hint=hint, code="egress_refused")


def limits_of(contract: Contract, wanted: Terms, faults: list[Fault]) -> Limits | None:
    """The limits of this wait, or None with the faults noted: what the caller says, else what the contract says (W41)."""
    given = _given_limits(wanted)
    beyond = _out_of_bounds(given)
    faults += beyond
    if contract.via is Via.PUSH:
        return _deadline_alone(contract, given, faults)
    if contract.limits is not None:
        limits = replace(contract.limits, **given)
    elif (missing := _missing_limits(given, contract.name)) is not None:
        faults.append(missing)
        return None
    else:
        limits = Limits(**given)
    for fault in () if beyond else check_limits(contract, limits):
        if fault.where == "limits.deadline":
            faults.append(Fault("wait.deadline_s", fault.message, fault.hint or "give a shorter --deadline"))
    return limits


def _out_of_bounds(given: Mapping[str, Any]) -> list[Fault]:
    faults = []
    for name, least in (("deadline_s", 1), ("max_status_requests", 1), ("max_transport_failures", 0), ("max_throttles", 0)):
        if name in given and given[name] < least:
            faults.append(Fault(f"wait.{name}", f"must be at least {least}, not {given[name]:g}", _limit_hint(name)))
        elif name in given and given[name] > MOST:
            faults.append(Fault(f"wait.{name}", f"must be at most {MOST:,}", _limit_hint(name)))
    return faults


def _deadline_alone(contract: Contract, given: Mapping[str, Any], faults: list[Fault]) -> Limits | None:
    """A provider that calls back is never asked: only the deadline counts."""
    for name, flag in _LIMIT_FLAGS.items():
        if name != "deadline_s" and name in given:
            says = f"contract {contract.name} never asks: the provider calls back, so {flag} limits nothing"
            faults.append(Fault(f"wait.{name}", says, f"leave out {flag}"))
    deadline = given.get("deadline_s", contract.limits.deadline_s if contract.limits is not None else None)
    if deadline is None:
        faults.append(Fault("wait.deadline_s", "is missing", "say how long to wait for the call-back: --deadline 2h"))
        return None
    return Limits(deadline_s=deadline, max_status_requests=0, max_transport_failures=0, max_throttles=0)


def _given_limits(wanted: Terms) -> dict[str, Any]:
    given: dict[str, Any] = {
        "deadline_s": wanted.deadline.total_seconds() if wanted.deadline is not None else None,
        "max_status_requests": wanted.max_status_requests,
        "max_transport_failures": wanted.max_transport_failures,
        "max_throttles": wanted.max_throttles,
    }
    return {name: value for name, value in given.items() if value is not None}


_LIMIT_FLAGS = {
    "deadline_s": "--deadline",
    "max_status_requests": "--max-requests",
    "max_transport_failures": "--max-failures",
    "max_throttles": "--max-throttles",
}


def _limit_hint(name: str) -> str:
    """Which flag, and which field of Python, gives a limit."""
    return f"give another {_LIMIT_FLAGS[name]} (in Python: {name.removesuffix('_s')})"


def _missing_limits(given: Mapping[str, Any], contract: str) -> Fault | None:
    missing = [flag for name, flag in _LIMIT_FLAGS.items() if name not in given]
    if not missing:
        return None
    example = "for example --deadline 2h --max-requests 100 --max-failures 10 --max-throttles 10"
    example += f" (in Python: {', '.join(name.removesuffix('_s') for name in _LIMIT_FLAGS if name not in given)})"
    return Fault("wait", f"contract {contract} has no limits of its own; give {', '.join(missing)}", example)


def carrier_faults(deps: Deps, contract: Contract, wanted: Terms) -> list[Fault]:
    """What keeps the contract's calls from being carried here: a missing extra, a service or region that nobody knows."""
    provider = deps.plugins.providers.get(contract.via)
    problem = provider.problem(contract, wanted.parameters) if provider is not None else None
    return [Fault("wait", problem)] if problem is not None else []


def allowance_of(limits: Limits, wanted: Terms, now: datetime) -> Allowance:
    """The limits as instants and counts, from now."""
    return limits.starting(now, wanted.business_deadline_at)


def pool_of(contract: Contract, account: str, url: str) -> str:
    """One shared limit per provider and credential (W29); generic contracts share by host."""
    host = url.split("/")[2] if "//" in url else contract.name
    return f"provider:{host}" + (f":{account}" if account else "")


def warnings_of(contract: Contract, limits: Limits, wanted: Terms) -> list[str]:
    """Warns where numbers that the caller gave cannot work together, with the arithmetic (W41); a contract's own were checked with it."""
    if contract.via is Via.PUSH or (wanted.deadline is None and wanted.max_status_requests is None):
        return []
    warnings = []
    deadline = timedelta(seconds=limits.deadline_s)
    shortest = contract.delays.first + (limits.max_status_requests - 1) * contract.delays.min_gap
    if shortest > deadline:
        warnings.append(
            f"{limits.max_status_requests} requests need at least {format_duration(shortest)} (first look {format_duration(contract.delays.first)}"
            f" + {limits.max_status_requests - 1} x {format_duration(contract.delays.min_gap)}), but the deadline is {format_duration(deadline)}"
        )
    if wanted.deadline is not None and contract.retention is not None and deadline > contract.retention:
        warnings.append(
            f"the deadline of {format_duration(deadline)} is later than the provider keeps a result ({format_duration(contract.retention)})"
        )
    return warnings
