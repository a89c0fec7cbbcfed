"""Submits: a job that is started here first and waited for then (W31), and the same once more on a person's request (W21)."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import cast

from sereno.core.budget import Allowance
from sereno.core.call import CallKind
from sereno.core.contract import Contract, sent_key
from sereno.core.errors import Fault, NotAllowed, NotNow, RequestError, TooMuch, nearest
from sereno.core.escalation import Category
from sereno.core.operation import TERMINAL, Operation, OperationState
from sereno.core.reading.address import fill_call
from sereno.core.reading.calls import KeyForm, KeyPlace, Submit, Via
from sereno.core.record import CallRecord
from sereno.core.values import MAX_DEPTH, Json, canonical, digest, from_micros, to_micros
from sereno.ports import NewOperation, NewSubmit
from sereno.service.deps import Deps
from sereno.service.waiting.wanted import WantedSubmit, address_hint

MAX_INPUT = 1_000_000
"""Bytes of a submit's input as JSON."""
_SEEN_TO_END = (Category.PROVIDER_FAILURE, Category.PROVIDER_CANCELLED, Category.PROVIDER_EXPIRED)
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}", re.ASCII)


def submit_of(contract: Contract) -> Submit:
    """The contract's submit. Raises RequestError where it documents none."""
    if contract.submit is None:
        raise RequestError(
            f"contract {contract.name} does not say how a job is submitted",
            subject=contract.name,
            hint=f"submit it yourself, then: sereno wait {contract.name} JOB_ID; or write [submit] in a contract of your own",
            code="no_submit",
        )
    return contract.submit


def new_key(deps: Deps, submit: Submit) -> str:
    """A new idempotency key; with a hyphen where it becomes the job's name, since providers allow few characters there."""
    key = deps.ids.new("sub_")
    wanted = submit.idempotency
    named = wanted is not None and (wanted.place is KeyPlace.JOB_ID or wanted.form is KeyForm.DASHED)
    return key.replace("_", "-") if named else key


def check_submit(contract: Contract, submit: Submit, wanted: WantedSubmit) -> list[Fault]:
    """What is wrong with key, parameters, address and input. Raises TooMuch for an input beyond 1 MB."""
    faults = []
    if wanted.key is not None and not _KEY.fullmatch(wanted.key):
        faults.append(
            Fault(
                "submit.key", "must be 1 to 200 letters, digits, '.', '_', ':', '/' or '-', and start with one of the first two"
            )
        )
    from_answer = set(submit.parameters)
    needed = [name for name in contract.parameters if name not in from_answer]
    for name in needed:
        if not wanted.parameters.get(name):
            faults.append(Fault("submit.param", f"{contract.name} needs the parameter {name}", f"add --param {name}=…"))
    for name in wanted.parameters:
        if name in from_answer:
            faults.append(Fault("submit.param", f"{name} is what the provider's answer names; it cannot be given"))
        elif name not in needed:
            near = nearest(name, needed)
            faults.append(
                Fault("submit.param", f"{contract.name} takes no parameter {name!r}", f"did you mean {near}?" if near else None)
            )
    return faults + _input_faults(wanted) + _taken_place(submit, wanted)


def _taken_place(submit: Submit, wanted: WantedSubmit) -> list[Fault]:
    """A key goes where the input says something else already: one of the two would be lost without a word."""
    keyed, found = submit.idempotency, wanted.input
    if keyed is None or keyed.place is not KeyPlace.BODY:
        return []
    for name in keyed.name.split("."):
        found = cast(Json, found.get(name)) if isinstance(found, dict) else None
    if found is None or found == sent_key(keyed, wanted.key or ""):
        return []
    return [Fault("submit.input", f"holds {keyed.name}, where the key goes", "leave it out; to choose it, give it as --key")]


def _input_faults(wanted: WantedSubmit) -> list[Fault]:
    _refuse_deep(wanted)
    try:
        size = len(canonical(wanted.input))
    except (TypeError, ValueError, RecursionError) as error:
        return [Fault("submit.input", f"is not JSON: {error}"[:200])]
    if size > MAX_INPUT:
        raise TooMuch(f"the input has {size:,} bytes as JSON; at most {MAX_INPUT:,} are taken", subject=wanted.contract)
    return []


def _refuse_deep(wanted: WantedSubmit) -> None:
    """Refuses an input that no reader of ours would take back. Raises RequestError."""
    level: list[object] = [wanted.input]
    for _ in range(MAX_DEPTH + 1):
        tables = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list | tuple)]
        level = [inner for table in tables for inner in table]
        if not level:
            return
    raise RequestError(f"the input is nested deeper than {MAX_DEPTH}", subject=wanted.contract, code="too_deep")


def submit_url(deps: Deps, contract: Contract, submit: Submit, wanted: WantedSubmit, faults: list[Fault]) -> str:
    """Where the submit goes, as it would be sent; '' where it is not HTTP. What does not fit is noted in `faults`."""
    if not submit.call.url:
        return ""
    values = {**wanted.parameters, "key": sent_key(submit.idempotency, wanted.key or "")}
    try:
        return fill_call(contract, submit.call, values, base=wanted.base, input=wanted.input).url
    except ValueError as error:
        faults.append(Fault("submit", str(error), address_hint(deps, wanted, str(error))))
        return ""


def statement_of(submit: Submit) -> Mapping[str, Json]:
    """What was shown to whoever asked for the submit; the store adds who that was."""
    return {"effects": submit.effects}


def submit_fingerprint(contract: str, account: str, parameters: Mapping[str, str], submit: NewSubmit) -> str:
    """SHA-256 of what identifies a submit: contract, account, parameters, input and key (W05)."""
    named: dict[str, Json] = {"contract": contract, "account": account, "parameters": dict(parameters)}
    return digest(canonical({**named, "input": submit.input, "key": submit.key}))


def refuse_resubmit(deps: Deps, operation: Operation) -> None:
    """A job is submitted anew only once it has ended without success, and only by a person (W02, W20, W21). Raises NotAllowed, NotNow."""
    if deps.who.kind != "human":
        raise NotAllowed(
            f"only a person may submit a job anew; a principal of kind {deps.who.kind!r} may not",
            subject=operation.id,
            code="needs_person",
        )
    if operation.state is OperationState.SUCCEEDED:
        hint = f"another job of the same kind: sereno submit {operation.contract} --input …"
        raise NotNow("the job succeeded; nothing is to be submitted anew", subject=operation.id, hint=hint)
    if operation.state not in TERMINAL:
        hint = f"look at it first: sereno operation show {operation.id}"
        raise NotNow(f"the operation is {operation.state}; its job may still be running", subject=operation.id, hint=hint)


def effects_anew(operation: Operation, submit: Submit) -> str:
    """What submitting anew does, as the contract says it; and that the first job may still run, where nobody saw it end."""
    if operation.category in _SEEN_TO_END:
        return submit.effects
    return f"{submit.effects}; the first job was not seen to end and may still run: look at the provider first"


async def first_submit(deps: Deps, operation: Operation) -> CallRecord:
    """The stored submit of an operation. Raises NotNow where the job was not submitted here."""
    calls = await deps.reads.calls(deps.who, operation.id)
    found = next((record for record in calls if record.call.kind is CallKind.SUBMIT), None)
    if found is None:
        raise NotNow(
            "the job was not submitted by Sereno, so there is nothing to send again",
            subject=operation.id,
            hint="submit it where it came from, then wait for the new job",
            code="no_submit",
        )
    return found


async def first_limits(deps: Deps, operation: Operation, now: datetime) -> Allowance:
    """The limits that the operation was registered with, from now: what people granted later was for the old job alone.

    A business deadline stays the instant it was, and counts no more where it has passed.
    """
    created = await deps.reads.journal(deps.who, operation.id, limit=1)
    facts = created[0].facts if created else {}
    kept, business = operation.allowance, operation.allowance.business_deadline_at

    def registered(name: str, own: int) -> int:
        found = facts.get(name)
        return found if isinstance(found, int) else own

    until = from_micros(registered("deadline_at", to_micros(kept.deadline_at)))
    return Allowance(
        deadline_at=now + (until - operation.created_at),
        business_deadline_at=business if business is not None and business > now else None,
        max_status_requests=registered("max_status_requests", kept.max_status_requests),
        max_transport_failures=registered("max_transport_failures", kept.max_transport_failures),
        max_throttles=registered("max_throttles", kept.max_throttles),
    )


async def again(deps: Deps, operation: Operation, contract: Contract, statement: Mapping[str, Json]) -> NewOperation:
    """The operation that submits the same job anew: new key; input, parameters, contract, actions and limits of the first."""
    submit, now = submit_of(contract), await deps.definitions.now()
    first = await first_submit(deps, operation)
    anew = NewSubmit(first.call.input, new_key(deps, submit), statement)
    parameters = {name: value for name, value in operation.parameters.items() if name not in submit.parameters}
    return NewOperation(
        contract=contract.name,
        document=contract.document,
        account=operation.account,
        job_id="",
        url="",
        parameters=parameters,
        fingerprint=submit_fingerprint(contract.name, operation.account, parameters, anew),
        allowance=await first_limits(deps, operation, now),
        pool=operation.pool,
        first_look_at=now,
        user=deps.who.user,
        assistant_task_id=operation.assistant_task_id,
        actions=operation.actions,
        min_gap=contract.delays.min_gap,
        submit=anew,
        previous=operation.id,
        pushed_only=contract.via is Via.PUSH,
    )
