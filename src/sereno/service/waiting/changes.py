"""Changes that a person asks for beside any question: cancel, call-back, another contract (W20, W24, W35)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sereno.core.contract import Contract, with_states
from sereno.core.errors import NotNow, RequestError, TooMuch
from sereno.core.operation import (
    TERMINAL,
    AnswerDecision,
    Operation,
    OperationState,
    Pushed,
    Repin,
    decide_cancel,
    decide_push,
    decide_repin,
)
from sereno.core.reading.address import status_url
from sereno.core.reading.calls import Via
from sereno.core.record import OperationRecord
from sereno.core.values import BadJson, Json, canonical, digest, format_duration, parse_json
from sereno.ports import Change
from sereno.service.deps import Deps
from sereno.service.waiting.wanted import refuse_address

MAX_PUSH = 1_000_000
"""Bytes of one call-back."""
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}( ?;[\x20-\x7e]{1,100})?", re.ASCII)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is to be decided, as it is shown before: `statement` is stored with the decision (W20)."""

    operation: str
    title: str
    effects: str
    statement: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ContractChange:
    """How the contract of an operation differs from the present one of that name; `lines` is empty where it does not."""

    operation: str
    contract: str
    pinned: str
    present: str
    document: Mapping[str, Json]
    lines: tuple[str, ...]


async def pinned_contract(deps: Deps, operation: Operation) -> Contract:
    """The contract that the operation was registered with, or was moved to since."""
    return deps.plugins.contracts.contract(await deps.reads.contract(operation.contract_digest))


def present_document(deps: Deps, name: str, pinned: Mapping[str, Json]) -> Mapping[str, Json]:
    """The catalogue's contract of that name; a generic one with the words that the pinned one was filled with. Raises NotFound."""
    document = deps.plugins.contracts.document(name)
    states, state, error = (pinned.get(key) for key in ("states", "state", "error"))
    if document.get("states_from_caller") is not True or not isinstance(states, dict):
        return document
    path = state.get("path") if isinstance(state, dict) else None
    text = error.get("text") if isinstance(error, dict) else None
    words = {str(meaning): [str(word) for word in found] for meaning, found in states.items() if isinstance(found, list)}
    return with_states(
        document,
        words,
        path if isinstance(path, str) else None,
        error_path=text if isinstance(text, str) else None,
    )


def standing_of(operation: Operation, now: datetime) -> dict[str, Json]:
    """Where the operation stands: state, elapsed, calls. A part of the statement; the store adds who asked (W20)."""
    spend, allowance = operation.spend, operation.allowance
    return {
        "operation": operation.id,
        "contract": operation.contract,
        "job": operation.job_id,
        "state": operation.state.value,
        "last_state": operation.last_state,
        "elapsed": format_duration((now - operation.created_at) // _SECOND * _SECOND),
        "requests_used": spend.status_requests,
        "requests_max": allowance.max_status_requests,
    }


async def propose_cancel(deps: Deps, record: OperationRecord) -> Proposal:
    """What cancelling would do, as the contract documents it. Raises NotNow where it documents none, and what deciding it would raise
    now: nobody is asked for a decision that cannot be taken."""
    operation, now = record.operation, await deps.definitions.now()
    contract = await pinned_contract(deps, operation)
    if operation.state is OperationState.SUBMITTING:
        decide_cancel(operation, contract, now)
        return proposal(operation, f"Give up the submit to {contract.name}", _GIVE_UP, now)
    if contract.cancel is None and operation.state not in TERMINAL:
        raise NotNow(
            f"contract {contract.name} does not document how a job is cancelled; nothing was sent",
            subject=operation.id,
            hint="cancel it at the provider yourself; the next look sees it",
            code="no_cancel",
        )
    decide_cancel(operation, contract, now)
    effects = contract.cancel.effects if contract.cancel is not None else ""
    return proposal(operation, f"Cancel job {operation.job_id} at {contract.name}", effects, now)


_GIVE_UP = "the submit is dropped and never sent; one that is on its way already cannot be given up"


def proposal(operation: Operation, title: str, effects: str, now: datetime) -> Proposal:
    """A proposal with the statement that is stored: where the operation stands, and what the decision does."""
    return Proposal(operation.id, title, effects, {**standing_of(operation, now), "effects": effects})


async def cancel(deps: Deps, record: OperationRecord, statement: Mapping[str, Json]) -> OperationRecord:
    """Asks for the cancel; the next step sends it, once."""
    contract = await pinned_contract(deps, record.operation)

    def decide(operation: Operation, now: datetime) -> AnswerDecision:
        return decide_cancel(operation, contract, now)

    return await _changed(deps, record, Change("cancel_requested", decide, statement))


async def push(deps: Deps, record: OperationRecord, body: bytes, content_type: str) -> OperationRecord:
    """Takes a call-back. Raises TooMuch beyond 1 MB, RequestError for a media type that is none."""
    if not _MEDIA_TYPE.fullmatch(content_type):
        raise RequestError(
            f"{content_type[:80]!r} is no media type", subject=record.operation.id, hint="write for example application/json"
        )
    if len(body) > MAX_PUSH:
        raise TooMuch(f"the call-back has {len(body):,} bytes; at most {MAX_PUSH:,} are taken", subject=record.operation.id)
    contract, body = await pinned_contract(deps, record.operation), _without_credential(deps, record.operation, body)

    def decide(operation: Operation, now: datetime) -> AnswerDecision:
        return decide_push(operation, contract, Pushed(body, content_type, now), now)

    statement: dict[str, Json] = {"bytes": len(body), "content_type": content_type, "digest": digest(body)}
    return await _changed(deps, record, Change("pushed", decide, statement))


def _without_credential(deps: Deps, operation: Operation, body: bytes) -> bytes:
    """The body as it may be kept: without the operation's credential, should the provider repeat it, however it is spelled (I27)."""
    deps.learn(operation.account)
    body = deps.redact(body)
    try:
        said = parse_json(body)
    except BadJson:
        return body
    known = deps.redact(said)
    return body if known is said or known == said else canonical(known)


async def contract_change(deps: Deps, record: OperationRecord) -> ContractChange:
    """What differs between the pinned contract and the present one of that name. Raises NotFound, SetupError."""
    operation = record.operation
    pinned = await deps.reads.contract(operation.contract_digest)
    present = present_document(deps, operation.contract, pinned)
    new = deps.plugins.contracts.contract(present)
    lines = differences(dict(pinned), dict(present))
    return ContractChange(operation.id, operation.contract, operation.contract_digest, new.digest, present, lines)


async def update_contract(deps: Deps, record: OperationRecord, change: ContractChange) -> OperationRecord:
    """Pins the present contract, with the address and the smallest gap that it gives. Raises NotNow where nothing differs, and what
    `brings_of` raises."""
    if not change.lines:
        raise NotNow(f"the contract {change.contract} is the one that the operation has already", subject=record.operation.id)
    brings = brings_of(deps, record.operation, await pinned_contract(deps, record.operation), change.document)

    def decide(operation: Operation, now: datetime) -> AnswerDecision:
        return decide_repin(operation, now, brings)

    statement: dict[str, Json] = {
        **standing_of(record.operation, await deps.definitions.now()),
        "from": change.pinned,
        "to": change.present,
        "differences": list(change.lines),
    }
    return await _changed(deps, record, Change("contract_changed", decide, statement, change.document))


def brings_of(deps: Deps, operation: Operation, pinned: Contract, document: Mapping[str, Json]) -> Repin:
    """What the operation takes over from a contract that it is to move to. Raises NotNow where that gives no address for its job,
    NotAllowed for an address that the gate refuses."""
    new = deps.plugins.contracts.contract(document)
    if not operation.job_id:
        return Repin(new.delays.min_gap)
    try:
        url = _address(operation, new)
    except ValueError as error:
        raise NotNow(
            f"the present contract {operation.contract} gives no address for this job: {error}; nothing was changed",
            subject=operation.id,
            hint="change the contract back, or stop this wait and wait for the job anew with what is missing",
            code="no_address",
        ) from error
    try:
        old = _address(operation, pinned)
    except ValueError:
        old = None
    repin = Repin(new.delays.min_gap, url, old)
    refuse_address(deps, repin.address(operation) or "")
    return repin


def _address(operation: Operation, contract: Contract) -> str:
    """The status address of the operation's job by that contract; parameters that it does not take are left out. Raises ValueError."""
    if contract.via is Via.PUSH:
        return ""
    known = {name: value for name, value in operation.parameters.items() if name in contract.parameters}
    return status_url(contract, job_id=operation.job_id, parameters=known, base=operation.parameters.get("base"))


def differences(old: Json, new: Json) -> tuple[str, ...]:
    """The plain difference of two documents: `- path = value` and `+ path = value`, by path."""
    before, after = _leaves(old), _leaves(new)
    lines = []
    for path in [*before, *(path for path in after if path not in before)]:
        if before.get(path) == after.get(path):
            continue
        lines += [f"- {path} = {before[path]}"] if path in before else []
        lines += [f"+ {path} = {after[path]}"] if path in after else []
    return tuple(lines)


def _leaves(value: Json, path: str = "") -> dict[str, str]:
    """Each place of a document that holds no table, as JSON text; lists of tables are taken apart, other lists are one value."""
    inner: dict[str, object]
    if isinstance(value, dict) and value:
        inner = {f"{path}.{key}" if path else str(key): item for key, item in value.items()}
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        inner = {f"{path}[{index}]": item for index, item in enumerate(value)}
    else:
        return {path: canonical(value).decode()}
    return {place: text for name, item in inner.items() for place, text in _leaves(cast(Json, item), name).items()}


async def _changed(deps: Deps, record: OperationRecord, change: Change) -> OperationRecord:
    changed = await deps.definitions.change_operation(deps.who, record.operation.id, change)
    deps.ring()
    return changed
