"""Operations as people and agents use them: register, submit, wait, look, explain, change. Looking never sends anything (W36)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sereno.core.budget import Allowance, Limits
from sereno.core.contract import Contract, status_url
from sereno.core.delay import first_delay
from sereno.core.effect import ActionRef
from sereno.core.errors import Fault, SetupError
from sereno.core.operation import TERMINAL, fingerprint
from sereno.core.reading.calls import Via
from sereno.core.record import CallRecord, DeliveryRecord, JournalEntry, OperationRecord
from sereno.core.values import Json
from sereno.core.waiting.lifecycle import LIVE
from sereno.ports import NewOperation, NewSubmit, Page
from sereno.service.actions import resolve_actions
from sereno.service.deps import Deps
from sereno.service.guess import own_secrets_of
from sereno.service.waiting import changes, submits
from sereno.service.waiting.changes import ContractChange, Proposal
from sereno.service.waiting.doubts import doubts_of
from sereno.service.waiting.pools import hold_pools
from sereno.service.waiting.wanted import (
    Terms,
    Wanted,
    WantedSubmit,
    account_of,
    address_hint,
    allowance_of,
    carrier_faults,
    credential_faults,
    limits_of,
    pool_of,
    read_document,
    refuse_address,
    refuse_naive,
    refuse_unproven,
    texts_of,
    unsigned_faults,
    unsigned_warnings,
    warnings_of,
)

__all__ = ["ContractChange", "Operations", "Proposal", "Registered", "Story", "Wanted", "WantedSubmit"]

COPIES = "keep_result"
"""The action that copies a result to own storage."""
STORY_PAGE = 1000
"""Journal entries that are read at once."""


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


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What was checked of a caller's terms: nothing is wrong with it."""

    contract: Contract
    document: Mapping[str, Json]
    account: str
    pool: str
    limits: Limits
    actions: Sequence[ActionRef]
    warnings: Sequence[str]


class Operations:
    """The use cases of operations, for one principal."""

    def __init__(self, deps: Deps):
        self._deps = deps

    async def register(self, wanted: Wanted) -> Registered:
        """Stores limits and first look; sends nothing. The same contract, account, parameters and job gives the open operation back (W39).

        Raises NotFound (contract), SetupError (limits, parameters), RequestError (no evidence), NotNow (another request's job).
        """
        deps = self._deps
        document = read_document(deps, wanted)
        contract = deps.plugins.contracts.contract(document)
        faults = own_secrets_of(deps, {"job": wanted.job_id}, "wait")
        url = _url(deps, contract, wanted, faults)
        agreed = self._agree(wanted, document, url, faults)
        new = _new_wait(deps, wanted, agreed=agreed, url=url, now=await deps.definitions.now())
        return await self._store(new, agreed)

    async def submit(self, wanted: WantedSubmit) -> Registered:
        """Stores a job that is to be started, with its key and its limits; the first step sends it. The same key gives the first
        operation back, whatever its state (W31).

        Raises NotFound, SetupError, RequestError (no [submit], no evidence), TooMuch (input), NotNow (the key had another input).
        """
        deps = self._deps
        document = read_document(deps, wanted)
        contract = deps.plugins.contracts.contract(document)
        submit = submits.submit_of(contract)
        wanted = wanted if wanted.key is not None else replace(wanted, key=submits.new_key(deps, submit))
        faults = submits.check_submit(contract, submit, wanted)
        faults += own_secrets_of(deps, {"input": wanted.input, "key": wanted.key}, "submit")
        url = submits.submit_url(deps, contract, submit, wanted, faults) if not faults else ""
        agreed = self._agree(wanted, document, url, faults)
        return await self._store(_new_submit(deps, wanted, agreed, await deps.definitions.now()), agreed)

    def _agree(self, wanted: Terms, document: Mapping[str, Json], url: str, faults: list[Fault]) -> _Agreed:
        """Checks what a wait and a submit have in common; every fault is listed at once. Raises SetupError, RequestError, NotAllowed."""
        deps = self._deps
        contract = deps.plugins.contracts.contract(document)
        url = url or wanted.base or ""
        refuse_naive(wanted)
        account = account_of(deps, contract, wanted, url)
        faults += credential_faults(deps, account) + unsigned_faults(contract, wanted, account)
        faults += own_secrets_of(deps, texts_of(wanted), "wait")
        faults += carrier_faults(deps, contract, wanted)
        limits = limits_of(contract, wanted, faults)
        names = deps.loaded.settings.waiting.actions if wanted.actions is None else wanted.actions
        actions, more = resolve_actions(deps, names, where="wait", origin=deps.origin)
        faults += more
        if faults or limits is None:
            raise SetupError("this wait is not right; nothing was stored", faults)
        refuse_unproven(contract, wanted)
        refuse_address(deps, url)
        warnings = (*warnings_of(contract, limits, wanted), *unsigned_warnings(deps, contract, wanted))
        return _Agreed(contract, document, account, pool_of(contract, account, url), limits, actions, warnings)

    async def _store(self, new: NewOperation, agreed: _Agreed) -> Registered:
        await hold_pools(self._deps, [new.pool])
        record, is_new = await self._deps.definitions.register(self._deps.who, new)
        self._deps.ring()
        return Registered(record, is_new, agreed.warnings if is_new else ())

    async def wait(self, operation: str) -> OperationRecord:
        """Drives this one operation until it stops waiting: a result, an end, or a question for a person."""
        record = await self.get(operation)
        if record.operation.state in LIVE:
            await self._deps.drive_one(record.operation.id)
        return await self.get(operation)

    async def get(self, operation: str) -> OperationRecord:
        """Reads the record; causes no request (W36). Raises NotFound."""
        return await self._deps.reads.operation(self._deps.who, operation)

    async def list(self, *, state: str | None = None, limit: int = 100, before: str | None = None) -> Sequence[OperationRecord]:
        """Operations, newest first."""
        return await self._deps.reads.operations(self._deps.who, Page(limit=limit, before=before, state=state))

    async def calls(self, operation: str) -> Sequence[CallRecord]:
        """The submit and the cancels, oldest first; causes no request."""
        return await self._deps.reads.calls(self._deps.who, operation)

    async def copies(self, operation: str) -> Sequence[DeliveryRecord]:
        """The copies of the result to own storage, as deliveries: queued, delivered, or why not (W30)."""
        found = await self._deps.reads.deliveries(self._deps.who, Page(limit=100, subject=operation))
        return [record for record in found if record.delivery.effect.action.type == COPIES]

    async def next_of(self, record: OperationRecord) -> str | None:
        """The id of the operation that the job was submitted anew with, among the newest 1,000; None where there is none."""
        if record.operation.state not in TERMINAL:
            return None
        newer = await self._deps.reads.operations(self._deps.who, Page(limit=1000))
        return next((one.operation.id for one in newer if one.operation.previous == record.operation.id), None)

    async def explain(self, operation: str) -> Story:
        """The story of every decision, oldest first."""
        record = await self.get(operation)
        entries: tuple[JournalEntry, ...] = ()
        while page := await self._deps.reads.journal(
            self._deps.who, record.operation.id, after=entries[-1].seq if entries else 0, limit=STORY_PAGE
        ):
            entries += tuple(page)
        return Story(record, entries)

    async def propose_cancel(self, operation: str) -> Proposal:
        """What cancelling at the provider would do. Raises NotNow where the contract does not document it."""
        return await changes.propose_cancel(self._deps, await self.get(operation))

    async def cancel(self, operation: str, *, shown: Proposal | None = None) -> OperationRecord:
        """Has the job cancelled at the provider, where the contract documents how: the next step sends it. A person's decision (W20).

        `shown` is what the person saw; without it the present state counts as seen. Raises NotNow, NotAllowed (not a person).
        """
        proposal = shown or await self.propose_cancel(operation)
        return await changes.cancel(self._deps, await self.get(operation), proposal.statement)

    async def propose_resubmit(self, operation: str) -> Proposal:
        """What submitting anew would do. Raises NotNow (not ended, or not submitted here), NotAllowed (not a person)."""
        deps, record = self._deps, await self.get(operation)
        submits.refuse_resubmit(deps, record.operation)
        await submits.first_submit(deps, record.operation)
        submit = submits.submit_of(await changes.pinned_contract(deps, record.operation))
        title = f"Submit the job of {record.operation.id} anew at {record.operation.contract}"
        effects = submits.effects_anew(record.operation, submit)
        return changes.proposal(record.operation, title, effects, await deps.definitions.now())

    async def resubmit(self, operation: str, *, shown: Proposal | None = None) -> Registered:
        """Starts the same job anew: a new operation with a new key, the first one's input, parameters, contract and limits (W21)."""
        proposal = shown or await self.propose_resubmit(operation)
        deps, record = self._deps, await self.get(operation)
        submits.refuse_resubmit(deps, record.operation)
        contract = await changes.pinned_contract(deps, record.operation)
        new = await submits.again(deps, record.operation, contract, proposal.statement)
        await hold_pools(deps, [new.pool])
        stored, is_new = await deps.definitions.register(deps.who, new)
        deps.ring()
        return Registered(stored, is_new)

    async def push(self, operation: str, body: bytes = b"", content_type: str = "application/json") -> OperationRecord:
        """Takes a provider's call-back: it wakes a look and never decides there; without a status call it is read (W35).

        Raises NotNow where nothing is waited for, TooMuch beyond 1 MB.
        """
        return await changes.push(self._deps, await self.get(operation), body, content_type)

    async def push_doubts(self, operation: str, body: bytes = b"", content_type: str = "application/json") -> Sequence[str]:
        """Says, before a call-back is handed in, why it will not do what was meant: the operation has ended, the body is no JSON."""
        return doubts_of((await self.get(operation)).operation, body, content_type)

    async def contract_change(self, operation: str) -> ContractChange:
        """What differs between the operation's contract and the present one of that name."""
        return await changes.contract_change(self._deps, await self.get(operation))

    async def update_contract(self, operation: str, *, shown: ContractChange | None = None) -> OperationRecord:
        """Lets the operation follow the present contract of that name. A person's decision."""
        record = await self.get(operation)
        return await changes.update_contract(self._deps, record, shown or await changes.contract_change(self._deps, record))


def _url(deps: Deps, contract: Contract, wanted: Wanted, faults: list[Fault]) -> str:
    """The status address; '' for a provider that calls back."""
    if contract.via is Via.PUSH:
        return ""
    try:
        return status_url(contract, job_id=wanted.job_id, parameters=dict(wanted.parameters), base=wanted.base)
    except ValueError as error:
        faults.append(Fault("wait", str(error), address_hint(deps, wanted, str(error))))
        return ""


def _new_submit(deps: Deps, wanted: WantedSubmit, agreed: _Agreed, now: datetime) -> NewOperation:
    """The operation that starts with its submit; the first look is planned when the submit is answered."""
    contract, parameters = agreed.contract, _parameters(wanted)
    submit = NewSubmit(wanted.input, wanted.key or "", submits.statement_of(submits.submit_of(contract)))
    return NewOperation(
        contract=contract.name,
        document=agreed.document,
        account=agreed.account,
        job_id="",
        url="",
        parameters=parameters,
        fingerprint=submits.submit_fingerprint(contract.name, agreed.account, parameters, submit),
        allowance=allowance_of(agreed.limits, wanted, now),
        pool=agreed.pool,
        first_look_at=now,
        user=deps.who.user,
        assistant_task_id=wanted.assistant_task_id,
        actions=tuple(agreed.actions),
        min_gap=contract.delays.min_gap,
        submit=submit,
        pushed_only=contract.via is Via.PUSH,
    )


def _parameters(wanted: Terms) -> Mapping[str, str]:
    """The caller's values; `base` among them where it replaces the contract's own address."""
    return {**wanted.parameters, **({"base": wanted.base} if wanted.base is not None else {})}


def _new_wait(deps: Deps, wanted: Wanted, *, agreed: _Agreed, url: str, now: datetime) -> NewOperation:
    contract = agreed.contract
    allowance = allowance_of(agreed.limits, wanted, now)
    pushed_only = contract.via is Via.PUSH
    request = fingerprint(contract.name, agreed.account, wanted.job_id, url)
    draw = deps.ids.random(f"first look {request}").random()
    return NewOperation(
        contract=contract.name,
        document=agreed.document,
        account=agreed.account,
        job_id=wanted.job_id,
        url=url,
        parameters=_parameters(wanted),
        fingerprint=request,
        allowance=allowance,
        pool=agreed.pool,
        first_look_at=allowance.stops_at()[0] if pushed_only else _first_look(contract, allowance, now=now, draw=draw),
        user=deps.who.user,
        assistant_task_id=wanted.assistant_task_id,
        actions=tuple(agreed.actions),
        min_gap=contract.delays.min_gap,
        pushed_only=pushed_only,
    )


def _first_look(contract: Contract, allowance: Allowance, *, now: datetime, draw: float) -> datetime:
    """Spread by a draw, so that waits registered together do not look together (W29); never so late that its answer could not come
    before the end, where the contract's own first look is not (W32)."""
    stops_at, _ = allowance.stops_at()
    latest = max(now + contract.delays.first, stops_at - contract.answer_within)
    return min(now + first_delay(contract.delays, draw), latest)
