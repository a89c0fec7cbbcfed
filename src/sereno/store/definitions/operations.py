"""Operations as definitions: registering one, with the submit that starts its job or without (W05, W31, W39, W41). A part of a write
transaction."""

from collections.abc import Mapping
from dataclasses import replace
from sqlite3 import Row

from sereno.core.budget import Allowance
from sereno.core.call import CallKind
from sereno.core.errors import NotAllowed, NotNow, RequestError
from sereno.core.observation import DelaySource
from sereno.core.values import Json, canonical, digest, to_micros
from sereno.ports import NewOperation, NewSubmit
from sereno.store.codec import dump_actions, dump_parameters, dumps, micros, span_us
from sereno.store.definitions.calls import NewCall, queue, same_submit
from sereno.store.definitions.request import Request
from sereno.store.missing import not_found
from sereno.store.pools import ensure_pool, wake_pool


def register(request: Request, new: NewOperation) -> tuple[str, bool]:
    """Stores an operation with its limits before anything is asked; returns its id and True.

    Where one is open for (contract, account, parameters, job) and is the same request, that one is returned with its limits and counters as
    they are, and False: registering again never widens a limit. Another fingerprint raises NotNow with code `contradiction`. A submit
    under a key that was used before gives the first operation back, whatever became of it; with another input it is a contradiction.
    """
    found = _open_one(request, new) if new.submit is None else _same_submit(request, new, new.submit)
    if found is not None and new.submit is None:
        if found["fingerprint"] != new.fingerprint:
            raise NotNow(
                f"job {new.job_id!r} is being waited for already, but the original request was another one (contract, account,"
                " parameters, job, URL); nothing was registered and nothing was sent",
                subject=found["id"],
                hint=f"look at it with: sereno operation show {found['id']}",
                code="contradiction",
            )
    if found is not None:
        return str(found["id"]), False
    _refuse_no_limits(request, new)
    _refuse_previous(request, new)
    pinned = pin_contract(request, new.contract, new.document)
    operation = request.ids.new("op_")
    call = None if new.submit is None else _queue_submit(request, new, new.submit, operation)
    _insert(request, new, operation, pinned, call=call)
    request.decided(
        operation,
        0,
        "created",
        {
            "contract": new.contract,
            "contract_digest": pinned,
            "account": new.account,
            "job_id": new.job_id,
            "fingerprint": new.fingerprint,
            "next_poll_at": _first_look(new),
            "delay_source": DelaySource.CONTRACT_SCHEDULE.value,
            "state": _state(new),
            "status_requests_used": 0,
            **limits_as_facts(_limits(new)),
            **_submit_facts(new, call),
        },
    )
    return operation, True


def limits_as_facts(allowance: Allowance) -> dict[str, Json]:
    """Writes limits for the journal, under the names that the commits use; instants in microseconds."""
    return {
        "deadline_at": micros(allowance.deadline_at),
        "business_deadline_at": micros(allowance.business_deadline_at),
        "max_status_requests": allowance.max_status_requests,
        "max_transport_failures": allowance.max_transport_failures,
        "max_throttles": allowance.max_throttles,
    }


def _submit_facts(new: NewOperation, call: str | None) -> dict[str, Json]:
    """The submit by its key's digest: what it is given may be private."""
    facts: dict[str, Json] = {} if new.previous is None else {"previous": new.previous}
    if new.submit is not None:
        facts["call"] = {"id": call, "kind": "submit", "key_digest": digest(new.submit.key.encode())}
    return facts


def _same_submit(request: Request, new: NewOperation, submit: NewSubmit) -> Row | None:
    """The operation that was submitted under this key. Raises NotNow where that was another request."""
    call = same_submit(request, new, submit.key)
    if call is None:
        return None
    row: Row | None = request.connection.execute(
        "SELECT id, fingerprint FROM operation WHERE workspace = ? AND id = ?", (request.workspace, call["operation"])
    ).fetchone()
    if row is None or call["input"] != dumps(submit.input) or row["fingerprint"] != new.fingerprint:
        raise NotNow(
            "the key was used before for a submit with another input; nothing was registered and nothing was sent",
            subject=call["operation"],
            hint=f"look at it with: sereno operation show {call['operation']}; or take another key",
            code="contradiction",
        )
    return row


def _queue_submit(request: Request, new: NewOperation, submit: NewSubmit, operation: str) -> str:
    if not submit.key:
        raise RequestError("a submit needs a key; nothing was registered", subject=new.contract, code="no_key")
    call = NewCall(
        operation=operation,
        contract=new.contract,
        account=new.account,
        parameters=dump_parameters(new.parameters),
        kind=CallKind.SUBMIT,
        number=1,
        key=submit.key,
        input=dumps(submit.input),
    )
    return queue(request, call, submit.statement)


def _refuse_previous(request: Request, new: NewOperation) -> None:
    """W21: a job is submitted anew on a person's request alone, and once: asking twice starts no second job. Raises NotAllowed, NotFound,
    NotNow."""
    if new.previous is None:
        return
    if request.who.kind != "human":
        raise NotAllowed(
            f"only a person may submit a job anew; a principal of kind {request.who.kind!r} may not",
            subject=new.previous,
            code="needs_person",
        )
    known = "SELECT 1 FROM operation WHERE workspace = ? AND id = ?"
    if request.connection.execute(known, (request.workspace, new.previous)).fetchone() is None:
        raise not_found("operation", new.previous, ())
    # All are looked through: ids are ordered by a clock that somebody may have set back meanwhile (I23).
    later = "SELECT id FROM operation WHERE workspace = ? AND previous = ? LIMIT 1"
    anew = request.connection.execute(later, (request.workspace, new.previous)).fetchone()
    if anew is not None:
        raise NotNow(
            f"the job was submitted anew already, as {anew[0]}; no second one was started",
            subject=new.previous,
            hint=f"look at it: sereno operation show {anew[0]}. What failed there is submitted anew from there",
            code="submitted_anew",
        )


def _open_one(request: Request, new: NewOperation) -> Row | None:
    row: Row | None = request.connection.execute(
        "SELECT id, fingerprint FROM operation WHERE workspace = ? AND contract = ? AND account = ? AND job_id = ?"
        " AND parameters = ? AND state IN ('submitting', 'waiting', 'escalated') AND job_id <> ''",
        (request.workspace, new.contract, new.account, new.job_id, dump_parameters(new.parameters)),
    ).fetchone()
    return row


def _refuse_no_limits(request: Request, new: NewOperation) -> None:
    """W41: no wait without a deadline ahead, a request limit and failure limits. Where the provider calls back, the deadline is the limit."""
    limits = new.allowance
    if (
        limits.max_status_requests < (0 if new.pushed_only else 1)
        or limits.max_transport_failures < 0
        or limits.max_throttles < 0
    ):
        raise RequestError(
            f"limits must allow a request and name failures (requests ≥ 1, failures ≥ 0, throttles ≥ 0), not"
            f" {limits.max_status_requests}, {limits.max_transport_failures}, {limits.max_throttles}; nothing was registered",
            subject=new.job_id,
            code="no_limits",
        )
    if limits.stops_at()[0] <= request.now:
        raise RequestError(
            f"the deadline {limits.stops_at()[0].isoformat(timespec='seconds')} has passed; nothing was registered",
            subject=new.job_id,
            code="no_limits",
        )


def pin_contract(request: Request, name: str, document: Mapping[str, Json]) -> str:
    """Stores the contract document under its digest, once."""
    text = canonical(dict(document))
    pinned = digest(text)
    request.connection.execute(
        "INSERT INTO contract (digest, name, document, stored_at) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING",
        (pinned, name, text.decode(), request.micros),
    )
    return pinned


def _state(new: NewOperation) -> str:
    return "waiting" if new.submit is None else "submitting"


def _limits(new: NewOperation) -> Allowance:
    """The limits as stored: where the provider calls back there are no status requests."""
    return replace(new.allowance, max_status_requests=0) if new.pushed_only else new.allowance


def _first_look(new: NewOperation) -> int | None:
    """The first look, or the deadline where that comes first. None where there is none, or not before the submit is answered."""
    if new.submit is not None or new.pushed_only:
        return None
    return to_micros(min(new.first_look_at, new.allowance.stops_at()[0]))


def _due(request: Request, new: NewOperation) -> int:
    """A submit is due at once; a wait for a call-back at its end."""
    if new.submit is not None:
        return request.micros
    look = _first_look(new)
    return to_micros(new.allowance.stops_at()[0]) if look is None else look


_INSERT = """
INSERT INTO operation (
    workspace, id, contract, contract_digest, account, job_id, url, parameters, fingerprint, user, assistant_task_id, actions,
    state, due, pool, deadline_at, business_deadline_at, max_status_requests, max_transport_failures, max_throttles, min_gap_us,
    next_poll_at, delay_source, call, previous, created_at, updated_at
) VALUES (
    :workspace, :id, :contract, :contract_digest, :account, :job_id, :url, :parameters, :fingerprint, :user, :assistant_task_id,
    :actions, :state, :due, :pool, :deadline_at, :business_deadline_at, :max_status_requests, :max_transport_failures,
    :max_throttles, :min_gap_us, :next_poll_at, :delay_source, :call, :previous, :now, :now
)
"""


def _insert(request: Request, new: NewOperation, operation: str, pinned: str, *, call: str | None) -> None:
    limits, due = _limits(new), _due(request, new)
    columns = {
        "workspace": request.workspace,
        "id": operation,
        "contract": new.contract,
        "contract_digest": pinned,
        "account": new.account,
        "job_id": new.job_id,
        "url": new.url,
        "parameters": dump_parameters(new.parameters),
        "fingerprint": new.fingerprint,
        "user": new.user,
        "assistant_task_id": new.assistant_task_id,
        "actions": dump_actions(new.actions),
        "state": _state(new),
        "due": due,
        "next_poll_at": _first_look(new),
        "call": call,
        "previous": new.previous,
        "pool": new.pool,
        "deadline_at": to_micros(limits.deadline_at),
        "business_deadline_at": micros(limits.business_deadline_at),
        "max_status_requests": limits.max_status_requests,
        "max_transport_failures": limits.max_transport_failures,
        "max_throttles": limits.max_throttles,
        "min_gap_us": span_us(new.min_gap),
        "delay_source": DelaySource.CONTRACT_SCHEDULE.value,
        "now": request.micros,
    }
    request.connection.execute(_INSERT, columns)
    ensure_pool(request.connection, request.workspace, new.pool)
    wake_pool(request.connection, request.workspace, new.pool, due)
