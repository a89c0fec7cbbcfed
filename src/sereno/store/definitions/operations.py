"""Operations as definitions: registering one (W05, W39, W41). A part of a write transaction."""

from datetime import datetime
from sqlite3 import Row

from sereno.core.budget import Allowance
from sereno.core.errors import NotNow, RequestError
from sereno.core.observation import DelaySource
from sereno.core.values import Json, canonical, digest, to_micros
from sereno.ports import NewOperation
from sereno.store.codec import dump_actions, dump_parameters, micros, span_us
from sereno.store.definitions.request import Request
from sereno.store.pools import ensure_pool, wake_pool


def register(request: Request, new: NewOperation) -> tuple[str, bool]:
    """Stores an operation with its limits before anything is asked; returns its id and True.

    Where one is open for (contract, account, job) and is the same request, that one is returned with its limits and counters as
    they are, and False: registering again never widens a limit. Another fingerprint raises NotNow with code `contradiction`.
    """
    found = _open_one(request, new)
    if found is not None:
        if found["fingerprint"] != new.fingerprint:
            raise NotNow(
                f"job {new.job_id!r} is being waited for already, but the original request was another one (contract, account,"
                " job, URL); nothing was registered and nothing was sent",
                subject=found["id"],
                hint=f"look at it with: sereno operation show {found['id']}",
                code="contradiction",
            )
        return str(found["id"]), False
    _refuse_no_limits(request, new)
    pinned = _pin_contract(request, new)
    operation = request.ids.new("op_")
    _insert(request, new, operation, pinned)
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
            "next_poll_at": to_micros(_first_look(new)),
            "delay_source": DelaySource.CONTRACT_SCHEDULE.value,
            "state": "waiting",
            "status_requests_used": 0,
            **limits_as_facts(new.allowance),
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


def _open_one(request: Request, new: NewOperation) -> Row | None:
    row: Row | None = request.connection.execute(
        "SELECT id, fingerprint FROM operation WHERE workspace = ? AND contract = ? AND account = ? AND job_id = ?"
        " AND state IN ('waiting', 'escalated')",
        (request.workspace, new.contract, new.account, new.job_id),
    ).fetchone()
    return row


def _refuse_no_limits(request: Request, new: NewOperation) -> None:
    """W41: no wait without a deadline ahead, a request limit and failure limits."""
    limits = new.allowance
    if limits.max_status_requests < 1 or limits.max_transport_failures < 0 or limits.max_throttles < 0:
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


def _pin_contract(request: Request, new: NewOperation) -> str:
    """Stores the contract document under its digest, once."""
    text = canonical(dict(new.document))
    pinned = digest(text)
    request.connection.execute(
        "INSERT INTO contract (digest, name, document, stored_at) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING",
        (pinned, new.contract, text.decode(), request.micros),
    )
    return pinned


def _first_look(new: NewOperation) -> datetime:
    """The first look, or the deadline where that comes first."""
    return min(new.first_look_at, new.allowance.stops_at()[0])


_INSERT = """
INSERT INTO operation (
    workspace, id, contract, contract_digest, account, job_id, url, parameters, fingerprint, user, assistant_task_id, actions,
    state, due, pool, deadline_at, business_deadline_at, max_status_requests, max_transport_failures, max_throttles, min_gap_us,
    next_poll_at, delay_source, created_at, updated_at
) VALUES (
    :workspace, :id, :contract, :contract_digest, :account, :job_id, :url, :parameters, :fingerprint, :user, :assistant_task_id,
    :actions, 'waiting', :due, :pool, :deadline_at, :business_deadline_at, :max_status_requests, :max_transport_failures,
    :max_throttles, :min_gap_us, :due, :delay_source, :now, :now
)
"""


def _insert(request: Request, new: NewOperation, operation: str, pinned: str) -> None:
    limits = new.allowance
    due = to_micros(_first_look(new))
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
        "due": due,
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
