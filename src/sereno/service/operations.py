"""Operations as people and agents use them: register, wait, look, explain. Looking never sends anything (W36)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sereno.core.budget import Allowance, Limits
from sereno.core.contract import Contract, status_url, with_states
from sereno.core.errors import Fault, NotAllowed, RequestError, SetupError, nearest
from sereno.core.operation import OperationState, fingerprint
from sereno.core.record import JournalEntry, OperationRecord
from sereno.core.values import Json, format_duration
from sereno.ports import NewOperation, Page
from sereno.service.actions import resolve_actions
from sereno.service.address import refusal_hint
from sereno.service.deps import Deps
from sereno.service.guess import secrets_of

STORY_PAGE = 1000
"""Journal entries that are read at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller may say about a wait; what is None comes from the contract (W41)."""

    contract: str
    job_id: str
    account: str = ""
    """Credential NAME."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None
    states: Mapping[str, Sequence[str]] | None = None
    state_path: str | None = None
    error_path: str | None = None
    deadline: timedelta | None = None
    business_deadline_at: datetime | None = None
    max_status_requests: int | None = None
    max_transport_failures: int | None = None
    max_throttles: int | None = None
    assistant_task_id: str | None = None
    actions: Sequence[str] | None = None
    allow_unproven_status: bool = False
    """Grants status requests of a contract without evidence that they only observe (W12)."""


@dataclass(frozen=True, slots=True)
class Registered:
    """An operation, whether it is new, and warnings with their arithmetic."""

    record: OperationRecord
    is_new: bool
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """The timeline of one operation, from the journal alone (W26)."""

    record: OperationRecord
    entries: Sequence[JournalEntry]


MOST = 1_000_000_000
"""No limit of a wait is higher: requests, failures, throttles, seconds."""


class Operations:
    """The use cases of operations, for one principal."""

    def __init__(self, deps: Deps):
        self._deps = deps

    async def register(self, wanted: Wanted) -> Registered:
        """Stores limits and first look; sends nothing. The same contract, account and job gives the open operation back (W39).

        Raises NotFound (contract), SetupError (limits, parameters), RequestError (no evidence), NotNow (another request's job).
        """
        deps = self._deps
        document = self._document(wanted)
        contract = deps.plugins.contracts.contract(document)
        faults = _credential_faults(deps, wanted)
        faults += secrets_of(deps, _texts(wanted), "wait")
        url = _url(contract, wanted, faults)
        limits = _limits(contract, wanted, faults)
        names = deps.loaded.settings.waiting.actions if wanted.actions is None else wanted.actions
        actions, more = resolve_actions(deps, names, where="wait", origin=deps.origin)
        faults += more
        if faults or limits is None:
            raise SetupError("this wait is not right; nothing was stored", faults)
        _refuse_unproven(contract, wanted)
        _refuse_address(deps, url)
        now = await deps.definitions.now()
        new = NewOperation(
            contract=contract.name,
            document=document,
            account=wanted.account,
            job_id=wanted.job_id,
            url=url,
            parameters=dict(wanted.parameters),
            fingerprint=fingerprint(contract.name, wanted.account, wanted.job_id, url),
            allowance=_allowance(limits, wanted, now),
            pool=_pool(contract, wanted, url),
            first_look_at=now + contract.delays.first,
            user=deps.who.user,
            assistant_task_id=wanted.assistant_task_id,
            actions=tuple(actions),
            min_gap=contract.delays.min_gap,
        )
        record, is_new = await deps.definitions.register(deps.who, new)
        deps.ring()
        return Registered(record, is_new, _arithmetic(contract, limits) if is_new else ())

    def _document(self, wanted: Wanted) -> Mapping[str, Json]:
        document = self._deps.plugins.contracts.document(wanted.contract)
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

    async def wait(self, operation: str) -> OperationRecord:
        """Drives this one operation until it stops waiting: a result, an end, or a question for a person."""
        record = await self.get(operation)
        if record.operation.state is OperationState.WAITING:
            await self._deps.drive_one(record.operation.id)
        return await self.get(operation)

    async def get(self, operation: str) -> OperationRecord:
        """Reads the record; causes no request (W36). Raises NotFound."""
        return await self._deps.reads.operation(self._deps.who, operation)

    async def list(self, *, state: str | None = None, limit: int = 100, before: str | None = None) -> Sequence[OperationRecord]:
        """Operations, newest first."""
        return await self._deps.reads.operations(self._deps.who, Page(limit=limit, before=before, state=state))

    async def explain(self, operation: str) -> Story:
        """The story of every decision, oldest first."""
        record = await self.get(operation)
        entries: tuple[JournalEntry, ...] = ()
        while page := await self._deps.reads.journal(
            self._deps.who, record.operation.id, after=entries[-1].seq if entries else 0, limit=STORY_PAGE
        ):
            entries += tuple(page)
        return Story(record, entries)


def _texts(wanted: Wanted) -> Mapping[str, object]:
    """What a caller wrote, by the names of the flags; none of it may be a secret."""
    return {
        "job": wanted.job_id,
        "base": wanted.base,
        "param": wanted.parameters,
        "credential": wanted.account,
        "states": wanted.states,
        "state_path": wanted.state_path,
        "error_path": wanted.error_path,
        "task_id": wanted.assistant_task_id,
    }


def _need_states(document: Mapping[str, Json], wanted: Wanted) -> None:
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


def _credential_faults(deps: Deps, wanted: Wanted) -> list[Fault]:
    known = deps.loaded.settings.credentials
    if not wanted.account or wanted.account in known:
        return []
    near = nearest(wanted.account, list(known))
    hint = f"did you mean `{near}`?" if near else f"add [credentials.{wanted.account}] to the settings"
    return [Fault("wait.credential", f"no credential named `{wanted.account}`", hint)]


def _url(contract: Contract, wanted: Wanted, faults: list[Fault]) -> str:
    try:
        return status_url(contract, job_id=wanted.job_id, parameters=dict(wanted.parameters), base=wanted.base)
    except ValueError as error:
        hint = "write the whole status URL: https://host/path" if "URL" in str(error) else None
        faults.append(Fault("wait", str(error), hint))
        return ""


def _refuse_unproven(contract: Contract, wanted: Wanted) -> None:
    """Raises RequestError for a status request that nothing proves to only observe (W12)."""
    if contract.observational is None and not wanted.allow_unproven_status:
        raise RequestError(
            f"contract {contract.name} gives no evidence that its status request only observes",
            subject=contract.name,
            hint="grant it for this operation with --allow-unproven-status, or state the evidence in the contract",
            code="not_observational",
        )


def _refuse_address(deps: Deps, url: str) -> None:
    """An address that the gate would refuse is refused before anything is stored or counted. Raises NotAllowed."""
    if (problem := deps.address_check(url)) is not None:
        hint = refusal_hint(deps, url, problem)
        raise NotAllowed(f"the address of the job is refused: {problem}", subject=url[:200], hint=hint, code="egress_refused")


def _limits(contract: Contract, wanted: Wanted, faults: list[Fault]) -> Limits | None:
    given = _given_limits(wanted)
    for name, least in (("deadline_s", 1), ("max_status_requests", 1), ("max_transport_failures", 0), ("max_throttles", 0)):
        if name in given and given[name] < least:
            faults.append(Fault(f"wait.{name}", f"must be at least {least}, not {given[name]:g}"))
        elif name in given and given[name] > MOST:
            faults.append(Fault(f"wait.{name}", f"must be at most {MOST:,}"))
    if contract.limits is not None:
        return replace(contract.limits, **given)
    if (missing := _missing_limits(given, contract.name)) is not None:
        faults.append(missing)
        return None
    return Limits(**given)


def _given_limits(wanted: Wanted) -> dict[str, Any]:
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


def _missing_limits(given: Mapping[str, Any], contract: str) -> Fault | None:
    missing = [flag for name, flag in _LIMIT_FLAGS.items() if name not in given]
    if not missing:
        return None
    example = "for example --deadline 2h --max-requests 100 --max-failures 10 --max-throttles 10"
    return Fault("wait", f"contract {contract} has no limits of its own; give {', '.join(missing)}", example)


def _allowance(limits: Limits, wanted: Wanted, now: datetime) -> Allowance:
    return Allowance(
        deadline_at=now + timedelta(seconds=limits.deadline_s),
        business_deadline_at=wanted.business_deadline_at,
        max_status_requests=limits.max_status_requests,
        max_transport_failures=limits.max_transport_failures,
        max_throttles=limits.max_throttles,
    )


def _pool(contract: Contract, wanted: Wanted, url: str) -> str:
    """One shared limit per provider and credential (W29); generic contracts share by host."""
    host = url.split("/")[2] if "//" in url else contract.name
    return f"provider:{host}" + (f":{wanted.account}" if wanted.account else "")


def _arithmetic(contract: Contract, limits: Limits) -> list[str]:
    """Warns where the numbers cannot work together, with the arithmetic (W41)."""
    warnings = []
    deadline = timedelta(seconds=limits.deadline_s)
    shortest = contract.delays.first + (limits.max_status_requests - 1) * contract.delays.min_gap
    if shortest > deadline:
        warnings.append(
            f"{limits.max_status_requests} requests need at least {format_duration(shortest)} (first look {format_duration(contract.delays.first)}"
            f" + {limits.max_status_requests - 1} x {format_duration(contract.delays.min_gap)}), but the deadline is {format_duration(deadline)}"
        )
    if contract.retention is not None and deadline > contract.retention:
        warnings.append(
            f"the deadline of {format_duration(deadline)} is later than the provider keeps a result ({format_duration(contract.retention)})"
        )
    return warnings
