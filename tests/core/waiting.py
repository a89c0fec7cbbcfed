"""Builders for the tests of waiting: a contract, an operation, observations and hints, all around one noon."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sereno.core.budget import Allowance, Spend
from sereno.core.call import CallAnswer, CallKind, CallOutcome, CallState, ProviderCall
from sereno.core.contract import (
    Call,
    Cancel,
    Contract,
    Delays,
    Duplicate,
    Idempotency,
    KeyPlace,
    Meaning,
    StateSource,
    Submit,
    Via,
)
from sereno.core.effect import ActionRef, Policy
from sereno.core.escalation import Category, Escalation
from sereno.core.observation import DelaySource, Observation, ObservationKind, ReadHint
from sereno.core.operation import TERMINAL, Operation, OperationDecision, OperationState, decide_call, decide_operation
from sereno.core.values import Json

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
KIND = ObservationKind
ACTION = ActionRef("tell", "console", {}, Policy.AT_LEAST_ONCE, pool="host:chat.example")
ALLOWANCE = Allowance(NOON + timedelta(hours=1), None, 12, 3, 3)


@dataclass(frozen=True)
class Dotted:
    """A path of plain keys."""

    expression: str

    def search(self, value: Json) -> Json:
        """Follows the keys, or None."""
        for key in self.expression.split("."):
            value = value.get(key) if isinstance(value, dict) else None  # type: ignore[assignment]
        return value


def seconds(count: float) -> timedelta:
    """A duration."""
    return timedelta(seconds=count)


def after(count: float) -> datetime:
    """An instant after noon, in seconds."""
    return NOON + timedelta(seconds=count)


BASIC_CONTRACT = Contract(
    name="acme",
    version=1,
    digest="d" * 64,
    title="Acme",
    source="https://acme.example/docs",
    verified="verified",
    via=Via.HTTP,
    status=Call("GET", "https://acme.example/jobs/{job_id}"),
    parameters=(),
    origins=("https://acme.example",),
    observational="documented",
    redirects=False,
    state=StateSource("path"),
    states={"queued": Meaning.PENDING, "running": Meaning.PENDING, "done": Meaning.SUCCESS, "failed": Meaning.FAILURE},
    caseless=False,
    rules=(),
    job_id=None,
    result=(),
    result_ref=None,
    error_code=None,
    error_text=None,
    signatures=(),
    delays=Delays(),
    hints=(),
    hint_cap=timedelta(hours=1),
    limits=None,
    retention=None,
    expires=None,
    progress=None,
    cancel=None,
)


def make_contract(delays: Delays | None = None, **other: object) -> Contract:
    """A contract of which only the delays, and what is named, matter here."""
    return replace(BASIC_CONTRACT, delays=delays or Delays(), **other)  # type: ignore[arg-type]


BASIC = Operation(
    id="op_1",
    workspace="main",
    contract="acme",
    contract_digest="d" * 64,
    account="acme-key",
    job_id="job-7",
    url="https://acme.example/jobs/job-7",
    parameters={},
    fingerprint="f" * 64,
    state=OperationState.WAITING,
    revision=1,
    allowance=ALLOWANCE,
    spend=Spend(status_requests=1),
    pool="acme:acme-key",
    created_at=NOON - timedelta(seconds=60),
    next_poll_at=NOON,
    delay_source=DelaySource.LOCAL_BACKOFF,
    actions=(ACTION,),
    last_state="queued",
)


def make_operation(spend: Spend | None = None, allowance: Allowance | None = None, **other: object) -> Operation:
    """The basic operation with some fields changed."""
    return replace(BASIC, spend=spend or BASIC.spend, allowance=allowance or ALLOWANCE, **other)  # type: ignore[arg-type]


def saw(kind: ObservationKind, *hints: ReadHint, **other: object) -> Observation:
    """An observation; whatever answers has an HTTP status."""
    status = {KIND.TRANSPORT: None, KIND.NOT_SENT: None, KIND.THROTTLED: 429, KIND.NOT_FOUND_YET: 404}.get(kind, 200)
    sent = 0 if kind is KIND.NOT_SENT else 1
    fields: dict[str, object] = {"state": "running", "http_status": status, "reason": f"saw {kind}", "requests": sent, **other}
    return Observation(kind, hints=hints, **fields)  # type: ignore[arg-type]


def retry_after(until: datetime | None, rejected: str | None = None) -> ReadHint:
    """A Retry-After as read."""
    return ReadHint(DelaySource.PROVIDER_RETRY_AFTER, "raw", until, rejected)


def poll_hint(until: datetime | None, rejected: str | None = None) -> ReadHint:
    """A body hint as read."""
    return ReadHint(DelaySource.PROVIDER_POLL_HINT, "raw", until, rejected)


def decide(
    operation: Operation, observation: Observation, at: datetime = NOON, *, contract: Contract | None = None, seed: int = 7
) -> OperationDecision:
    """One decision with seeded dice."""
    return decide_operation(operation, contract or make_contract(), observation, at, Random(seed), escalation_id="esc_1")


def apply(operation: Operation, decision: OperationDecision) -> Operation:
    """Does to the record what a store does with a decision."""
    seen, escalation = decision.observation, decision.escalation
    return replace(
        operation,
        state=decision.state,
        spend=decision.spend,
        next_poll_at=decision.next_poll_at,
        delay_source=decision.delay_source,
        category=decision.category,
        grants=decision.grants,
        last_state=seen.state if seen is not None and seen.state is not None else operation.last_state,
        last_checked_at=operation.last_checked_at if seen is None else decision.received_at,
        escalations=operation.escalations + (escalation is not None),
        open_escalation=escalation if escalation is not None else operation.open_escalation,
        reserved=False,
        pins=decision.pins,
        pushed=None if seen is not None else operation.pushed,
        **_called(operation, decision),
    )


def _called(operation: Operation, decision: OperationDecision) -> dict[str, Any]:
    """The job that a submit named, and the open call: one in doubt is found interrupted by the next claim."""
    job, settled, call = decision.job, decision.call, operation.call
    url = decision.url or operation.url
    named = (
        {"job_id": job.job_id, "url": job.url, "parameters": job.parameters, "submitted_at": decision.received_at}
        if job
        else {"url": url}
    )
    if call is None or settled is None:
        return named
    if settled.state not in (CallState.QUEUED, CallState.SENDING) or decision.state in TERMINAL:
        return {**named, "call": None}
    doubt = settled.state is CallState.SENDING
    sent = (call.first_sent_at or decision.received_at) if doubt else None
    return {
        **named,
        "call": replace(call, state=settled.state, attempts=call.attempts + 1, interrupted=doubt, first_sent_at=sent),
    }


def escalated(category: Category = Category.DEADLINE_EXCEEDED, **other: object) -> tuple[Operation, Escalation]:
    """An operation that waits for an answer, and the question, as the core itself makes them."""
    kind = {
        Category.UNKNOWN_STATE: KIND.UNKNOWN_STATE,
        Category.AUTHORIZATION_DENIED: KIND.AUTHORIZATION_DENIED,
        Category.PARTIAL_RESULT: KIND.PARTIAL,
        Category.RATE_LIMITED: KIND.THROTTLED,
        Category.PROVIDER_UNREACHABLE: KIND.TRANSPORT,
    }.get(category, KIND.PENDING)
    operation = make_operation(**other)  # type: ignore[arg-type]
    late = category in (Category.DEADLINE_EXCEEDED, Category.BUSINESS_DEADLINE_EXCEEDED)
    decision = decide(operation, saw(kind), operation.allowance.stops_at()[0] if late else NOON)
    assert decision.category is category and decision.escalation is not None, decision.category
    return apply(operation, decision), decision.escalation


def with_call(kind: CallKind = CallKind.SUBMIT, **other: object) -> ProviderCall:
    """A call on its first try."""
    basic = ProviderCall("call_1", kind, f"op_1:{kind}", "key-1", {"prompt": "x"}, CallState.SENDING, NOON, attempts=1)
    return replace(basic, **other)  # type: ignore[arg-type]


def submitting(call: ProviderCall | None = None, **other: object) -> Operation:
    """An operation whose job is to be started."""
    fields = {"state": OperationState.SUBMITTING, "job_id": "", "url": "", "last_state": None, "reserved": False, **other}
    return make_operation(Spend(), call=call or with_call(), **fields)


SUBMIT = Submit(
    call=Call("POST", "https://acme.example/jobs", body="{input}"), accepts=("2xx",), effects="costs money", job_id=Dotted("id")
)
KEYED = replace(SUBMIT, idempotency=Idempotency(KeyPlace.HEADER, "Idempotency-Key", Duplicate.REPLAY, timedelta(minutes=30)))
CANCEL = Cancel(call=Call("POST", "https://acme.example/jobs/{job_id}/cancel"), effects="ends as canceled")


def answered(outcome: CallOutcome, **other: object) -> CallAnswer:
    """An answer to a call; what took a submit on names the job."""
    taken = outcome in (CallOutcome.ACCEPTED, CallOutcome.DUPLICATE)
    named = {"job_id": "job-9", "url": "https://acme.example/jobs/job-9"} if taken else {}
    return CallAnswer(outcome, **{"reason": f"it was {outcome}", "http_status": 200, **named, **other})  # type: ignore[arg-type]


def decide_answered(
    operation: Operation, answer: CallAnswer, at: datetime = NOON, *, contract: Contract | None = None, seed: int = 7
) -> OperationDecision:
    """One decision on the answer to a call, with seeded dice."""
    return decide_call(operation, contract or make_contract(submit=SUBMIT), answer, at, Random(seed), escalation_id="esc_1")


def reserve(operation: Operation) -> Operation:
    """Counts the next status request, as a claim does."""
    spend = replace(operation.spend, status_requests=operation.spend.status_requests + 1)
    return replace(operation, spend=spend, reserved=True)
