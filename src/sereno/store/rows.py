"""Rows: what our tables hold, read into core values. A row is any mapping by column name."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sereno.core.budget import Allowance, Spend
from sereno.core.call import CallKind, CallState, ProviderCall
from sereno.core.change import KnownObject
from sereno.core.delivery import Delivery, DeliveryState
from sereno.core.escalation import Category, Escalation
from sereno.core.observation import DelaySource
from sereno.core.operation import Operation, OperationState, Pushed
from sereno.core.poll import Poll, PollSpec, PollState
from sereno.core.values import from_micros
from sereno.store.codec import (
    effect_moved,
    instant,
    load_actions,
    load_effect,
    load_grants,
    load_options,
    load_parameters,
    load_pins,
    load_spec,
    loads_foreign,
)

Row = Mapping[str, Any]
"""`sqlite3.Row` behaves like one where we use it: `row["name"]`."""

POLL_COLUMNS = (
    "workspace", "id", "state", "revision", "condition_version", "pool", "created_at", "cursor", "baselined", "failures",
    "auth_failures", "runs", "matches", "last_run_at", "last_error", "due", "scheduled_for", "attempt", "lease_until", "run",
    "abandoned",
)  # fmt: skip
"""Everything of a poll but its spec, which is read once a revision."""

OPERATION_COLUMNS = (
    "workspace", "id", "contract", "contract_digest", "account", "job_id", "url", "parameters", "fingerprint", "user",
    "assistant_task_id", "actions", "state", "due", "scheduled_for", "lease_until", "run", "attempt", "pool", "revision",
    "deadline_at", "business_deadline_at", "max_status_requests", "max_transport_failures", "max_throttles",
    "status_requests_used", "transport_failures_used", "throttles_used", "answered", "not_found", "tolerated", "steady",
    "min_gap_us", "next_poll_at", "delay_source", "last_state", "last_http_status", "last_checked_at", "result_ref", "category",
    "error_code", "error_text", "expires_at", "regressions", "grants", "pins", "escalations", "created_at", "call", "pushed_at",
    "previous", "submitted_at", "cancelled_at",
)  # fmt: skip

CALL_COLUMNS = (
    "workspace", "id", "operation", "kind", "dedupe_key", "key", "input", "statement", "state", "attempts", "first_sent_at",
    "created_at",
)  # fmt: skip

DELIVERY_COLUMNS = (
    "workspace", "id", "effect", "state", "due", "scheduled_for", "lease_until", "run", "attempt", "max_attempts", "pool",
    "revision", "created_at",
)  # fmt: skip

ESCALATION_COLUMNS = (
    "workspace", "id", "operation", "category", "statement", "options", "digest", "state", "answer", "created_at", "answer_by",
)  # fmt: skip

OBJECT_COLUMNS = (
    "external_id", "content_hash", "version", "first_seen_at", "last_seen_at", "kept", "present", "matching", "episodes",
)  # fmt: skip


class KnownObjects(Mapping[str, KnownObject]):
    """The objects of one poll by external id; each is decoded when it is asked for, so that an unchanged run pays for none."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self._read: dict[str, KnownObject] = {}

    def __getitem__(self, external_id: str) -> KnownObject:
        found = self._read.get(external_id)
        if found is None:
            found = self._read[external_id] = read_object(self._rows[external_id])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, external_id: object) -> bool:
        return external_id in self._rows


def read_object(row: Row) -> KnownObject:
    """Reads a `poll_object` row."""
    matching = row["matching"]
    return KnownObject(
        external_id=row["external_id"],
        content_hash=row["content_hash"],
        version=row["version"],
        first_seen_at=from_micros(row["first_seen_at"]),
        last_seen_at=from_micros(row["last_seen_at"]),
        kept=None if row["kept"] is None else loads_foreign(row["kept"]),
        present=bool(row["present"]),
        matching=None if matching is None else bool(matching),
        episodes=row["episodes"],
    )


_POLL_STATES = {state.value: state for state in PollState}


def read_poll(row: Row, *, known: Mapping[str, KnownObject] | None = None, spec: PollSpec | None = None) -> Poll:
    """Reads a `poll` row; `spec` where it was read before, else the row needs its `spec` column."""
    return Poll(
        id=row["id"],
        workspace=row["workspace"],
        spec=load_spec(row["spec"]) if spec is None else spec,
        state=_POLL_STATES[row["state"]],
        revision=row["revision"],
        condition_version=row["condition_version"],
        pool=row["pool"],
        created_at=from_micros(row["created_at"]),
        cursor=row["cursor"],
        known={} if known is None else known,
        baselined=bool(row["baselined"]),
        failures=row["failures"],
        auth_failures=row["auth_failures"],
        runs=row["runs"],
        matches=row["matches"],
        last_run_at=instant(row["last_run_at"]),
        last_error=row["last_error"],
    )


def read_allowance(row: Row) -> Allowance:
    """Reads the limits of an `operation` row."""
    return Allowance(
        deadline_at=from_micros(row["deadline_at"]),
        business_deadline_at=instant(row["business_deadline_at"]),
        max_status_requests=row["max_status_requests"],
        max_transport_failures=row["max_transport_failures"],
        max_throttles=row["max_throttles"],
    )


def read_spend(row: Row) -> Spend:
    """Reads what an `operation` row has used."""
    return Spend(
        status_requests=row["status_requests_used"],
        transport_failures=row["transport_failures_used"],
        throttles=row["throttles_used"],
        answered=row["answered"],
        not_found=row["not_found"],
        tolerated=row["tolerated"],
        steady=row["steady"],
    )


def read_operation(
    row: Row,
    *,
    escalation: Escalation | None = None,
    call: ProviderCall | None = None,
    pushed: Pushed | None = None,
    reserved: bool = False,
) -> Operation:
    """Reads an `operation` row; `reserved` only for the claim that counted a request for this step."""
    operation = _read_wait(row, escalation, reserved)
    started_here = row["previous"] is not None or row["submitted_at"] is not None or row["cancelled_at"] is not None
    if call is None and pushed is None and not started_here and row["pins"] == "{}":
        return operation
    return replace(
        operation,
        call=call,
        pins=load_pins(row["pins"]),
        pushed=pushed,
        previous=row["previous"],
        submitted_at=instant(row["submitted_at"]),
        cancelled_at=instant(row["cancelled_at"]),
    )


def _read_wait(row: Row, escalation: Escalation | None, reserved: bool) -> Operation:
    """What every operation has."""
    return Operation(
        id=row["id"],
        workspace=row["workspace"],
        contract=row["contract"],
        contract_digest=row["contract_digest"],
        account=row["account"],
        job_id=row["job_id"],
        url=row["url"],
        parameters=load_parameters(row["parameters"]),
        fingerprint=row["fingerprint"],
        state=OperationState(row["state"]),
        revision=row["revision"],
        allowance=read_allowance(row),
        spend=read_spend(row),
        pool=row["pool"],
        created_at=from_micros(row["created_at"]),
        next_poll_at=instant(row["next_poll_at"]),
        delay_source=DelaySource(row["delay_source"]),
        user=row["user"],
        assistant_task_id=row["assistant_task_id"],
        actions=load_actions(row["actions"]),
        last_state=row["last_state"],
        last_http_status=row["last_http_status"],
        last_checked_at=instant(row["last_checked_at"]),
        result_ref=row["result_ref"],
        category=None if row["category"] is None else Category(row["category"]),
        error_code=row["error_code"],
        error_text=row["error_text"],
        expires_at=instant(row["expires_at"]),
        regressions=row["regressions"],
        grants=load_grants(row["grants"]),
        escalations=row["escalations"],
        open_escalation=escalation,
        reserved=reserved,
    )


def read_call(row: Row, *, interrupted: bool | None = None) -> ProviderCall:
    """Reads a `provider_call` row; it was interrupted where an earlier attempt was never settled."""
    state = CallState(row["state"])
    return ProviderCall(
        id=row["id"],
        kind=CallKind(row["kind"]),
        dedupe_key=row["dedupe_key"],
        key=row["key"],
        input=loads_foreign(row["input"]),
        state=state,
        created_at=from_micros(row["created_at"]),
        attempts=row["attempts"],
        first_sent_at=instant(row["first_sent_at"]),
        interrupted=state is CallState.SENDING if interrupted is None else interrupted,
        statement=loads_foreign(row["statement"]),
    )


def read_escalation(row: Row) -> Escalation:
    """Reads an `escalation` row."""
    return Escalation(
        id=row["id"],
        workspace=row["workspace"],
        operation=row["operation"],
        category=Category(row["category"]),
        statement=loads_foreign(row["statement"]),
        options=load_options(row["options"]),
        digest=row["digest"],
        created_at=from_micros(row["created_at"]),
        answer_by=from_micros(row["answer_by"]),
        state=row["state"],
        answer=None if row["answer"] is None else loads_foreign(row["answer"]),
    )


def read_delivery(row: Row, *, interrupted: bool = False, moved: int | None = None) -> Delivery:
    """Reads a `delivery` row; `interrupted` = the attempt before this one was claimed and never settled; `moved` = by how much the
    steps of the host's clock moved the waits until now (microseconds), for who decides by it."""
    return Delivery(
        id=row["id"],
        workspace=row["workspace"],
        effect=load_effect(row["effect"]),
        state=DeliveryState(row["state"]),
        attempts=row["attempt"],
        max_attempts=row["max_attempts"],
        created_at=from_micros(row["created_at"]),
        interrupted=interrupted,
        moved=timedelta(microseconds=0 if moved is None else moved - effect_moved(row["effect"])),
    )
