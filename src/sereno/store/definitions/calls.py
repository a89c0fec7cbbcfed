"""Calls as definitions: the submit of a registration, and the calls that people ask for later (W21, W24, W31)."""

from collections.abc import Mapping
from dataclasses import dataclass
from sqlite3 import Row

from sereno.core.call import CallKind
from sereno.core.errors import InvariantBroken, NotNow
from sereno.core.operation import Operation
from sereno.core.values import Json
from sereno.ports import NewOperation
from sereno.store.codec import dump_parameters, dumps
from sereno.store.definitions.request import Request

_INSERT = """
INSERT INTO provider_call (
    workspace, id, operation, contract, account, parameters, kind, number, dedupe_key, key, input, statement, state, created_at,
    updated_at
) VALUES (
    :workspace, :id, :operation, :contract, :account, :parameters, :kind, :number, :dedupe_key, :key, :input, :statement, 'queued',
    :now, :now
)
"""
_LAST = (
    "SELECT number, state, key, input FROM provider_call WHERE workspace = ? AND operation = ? AND kind = ?"
    " ORDER BY number DESC LIMIT 1"
)
_SAME_KEY = (
    "SELECT operation, input FROM provider_call WHERE workspace = ? AND contract = ? AND account = ? AND key = ?"
    " AND parameters = ? AND kind = 'submit' AND number = 1"
)


@dataclass(frozen=True, slots=True)
class NewCall:
    """One call to queue; `parameters` and `input` are JSON text as stored."""

    operation: str
    contract: str
    account: str
    parameters: str
    kind: CallKind
    number: int
    key: str
    input: str

    @property
    def dedupe_key(self) -> str:
        """`op_x:submit`, `op_x:submit-2`, `op_x:cancel-1`."""
        first = self.kind is CallKind.SUBMIT and self.number == 1
        return f"{self.operation}:{self.kind}" if first else f"{self.operation}:{self.kind}-{self.number}"


def queue(request: Request, new: NewCall, statement: Mapping[str, Json]) -> str:
    """Stores a call to be made, with what was shown to whoever asked for it, and who that was; returns its id."""
    identifier = request.ids.new("call_")
    shown: dict[str, object] = {**statement, "by": request.who.user, "by_kind": request.who.kind}
    values = {
        "workspace": request.workspace,
        "id": identifier,
        "operation": new.operation,
        "contract": new.contract,
        "account": new.account,
        "parameters": new.parameters,
        "kind": str(new.kind),
        "number": new.number,
        "dedupe_key": new.dedupe_key,
        "key": new.key or new.dedupe_key,
        "input": new.input,
        "statement": dumps(shown),
        "now": request.micros,
    }
    request.connection.execute(_INSERT, values)
    return identifier


def queue_again(
    request: Request, operation: Operation, kind: CallKind, statement: Mapping[str, Json], *, busy: str | None
) -> str:
    """Queues a cancel, or the submit once more under its own key. Raises NotNow while another call is open, and for a submit that may
    have been taken on (W21)."""
    if busy is not None:
        raise NotNow("a call of this operation is still open", subject=operation.id, hint="wait for its answer", code="call_open")
    last: Row | None = request.connection.execute(_LAST, (request.workspace, operation.id, str(kind))).fetchone()
    again = kind is CallKind.SUBMIT
    if again and last is None:
        raise InvariantBroken("a submit is to be sent again that never was", subject=operation.id)
    if again and last is not None and last["state"] not in ("refused", "dropped"):
        raise NotNow(
            "the submit may have been taken on; it is not sent again",
            subject=operation.id,
            hint="look at the provider which job it started, and wait for that",
            code="submit_unknown",
        )
    new = NewCall(
        operation=operation.id,
        contract=operation.contract,
        account=operation.account,
        parameters=dump_parameters(operation.parameters),
        kind=kind,
        number=1 if last is None else last["number"] + 1,
        key=last["key"] if again and last is not None else "",
        input=last["input"] if again and last is not None else "null",
    )
    return queue(request, new, statement)


def same_submit(request: Request, new: NewOperation, key: str) -> Row | None:
    """The operation that was submitted first under a key, with its input; whatever became of it."""
    named = (request.workspace, new.contract, new.account, key, dump_parameters(new.parameters))
    row: Row | None = request.connection.execute(_SAME_KEY, named).fetchone()
    return row
