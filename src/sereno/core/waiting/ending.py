"""Ends: the wait stops with a final state (and its result is kept) or with a question to a person; and facts that only get recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sereno.core.budget import Spend
from sereno.core.call import CallAnswer, CallKind, CallSettled, CallState
from sereno.core.contract import Contract, Via
from sereno.core.delay import quoted
from sereno.core.effect import ActionRef, Effect, Policy, operation_dedupe_key
from sereno.core.errors import InvariantBroken
from sereno.core.escalation import Category, Escalation
from sereno.core.observing.seen import DelaySource, Observation, ReadHint
from sereno.core.values import Json, format_duration
from sereno.core.waiting.asking import Trouble, question, tell_end, tell_question
from sereno.core.waiting.lifecycle import TERMINAL, Event, Grant, Operation, OperationState, move
from sereno.core.waiting.look import FROM_PROVIDER, HELD, Look, provider_waits
from sereno.core.waiting.next import in_doubt, open_question
from sereno.core.waiting.step import Close, Job, OperationDecision

KEEP_RESULT = "keep_result"
"""The type of the action that copies a result."""
LONGEST = timedelta(hours=21)
SHORTEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Step:
    """One step while it is decided: what is known, and what a question would need."""

    operation: Operation
    contract: Contract
    at: datetime
    spend: Spend
    escalation_id: str
    answer_within_s: float
    observation: Observation | None = None
    answer: CallAnswer | None = None
    grants: Sequence[Grant] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)
    call: CallSettled | None = None
    job: Job | None = None
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def used(self) -> Spend:
        """The counters as the store has them. Each redirect hop was counted there before it left; `spend` does not hold those, so
        that nothing is counted twice."""
        hops = max(0, self.observation.requests - 1) if self.observation is not None else 0
        return replace(self.spend, status_requests=self.spend.status_requests + hops)

    @property
    def hints(self) -> Sequence[ReadHint]:
        """What the provider said about when to ask again."""
        seen = self.observation or self.answer
        return seen.hints if seen is not None else ()

    @property
    def subject(self) -> Operation:
        """The operation with the job that this step learned of, for the sentences."""
        if self.job is None:
            return self.operation
        return replace(self.operation, job_id=self.job.job_id, url=self.job.url, parameters=self.job.parameters)

    def decided(self, event: Event, reason: str, **other: object) -> OperationDecision:
        """The decision of this step, with all that every decision carries; `other` replaces fields of it."""
        operation = self.operation
        decision = OperationDecision(
            state=move(operation.state, event),
            event=event,
            due=None,
            next_poll_at=None,
            delay_source=operation.delay_source,
            spend=self.spend,
            reason=reason,
            observation=self.observation,
            received_at=self.at,
            draw=None,
            grants=self.grants,
            facts=self.facts,
            call=self.call,
            job=self.job,
            pins=self.pins,
            url=self.observation.next_url if self.observation is not None else None,
        )
        return replace(decision, **other)  # type: ignore[arg-type]  # fields by name, as `replace` takes them

    def planned(self, event: Event, look: Look, reason: str, draw: float | None) -> OperationDecision:
        """The decision to go on with a planned look."""
        return self.decided(
            event,
            f"{reason}; {look.reason}",
            due=look.due,
            next_poll_at=look.next_poll_at,
            delay_source=look.source,
            draw=draw,
            facts={**self.facts, **look.facts},
        )


def note(step: Step, event: Event, reason: str) -> OperationDecision:
    """Records a fact without moving: a question stays open and nothing is told twice; a wait that has nothing to do goes on until its
    end, since what was planned for now is done with."""
    operation = step.operation
    if operation.state is OperationState.ESCALATED:
        due = open_question(operation).answer_by
        return step.decided(
            event, reason, due=due, next_poll_at=operation.next_poll_at, category=operation.category, grants=operation.grants
        )
    stops_at, _ = operation.allowance.stops_at()
    source, wait = provider_wait(operation, step.hints, step.at)
    return step.decided(event, reason, due=stops_at, next_poll_at=wait, delay_source=source)


def end(step: Step, event: Event, category: Category | None, reason: str) -> OperationDecision:
    """Ends the waiting: a final state, or a question to a person. Both are told to every action."""
    operation = step.operation
    source, wait = provider_wait(operation, step.hints, step.at)
    decision = step.decided(event, reason, delay_source=source, category=category)
    if decision.state in TERMINAL:
        told = tell_end(operation, decision.state, category, reason, step.observation)
        return replace(decision, effects=(*told, *_kept(step, decision, wait)))
    if category is None:
        raise InvariantBroken(f"{operation.id} asks a person without a category", subject=operation.id)
    asked = _question(step, category, reason, source, wait)
    return replace(decision, due=asked.answer_by, next_poll_at=wait, escalation=asked, effects=tell_question(step.subject, asked))


def _kept(step: Step, decision: OperationDecision, wait: datetime | None) -> Sequence[Effect]:
    if decision.state is not OperationState.SUCCEEDED:
        return ()
    return keep_result(step.operation, step.contract, step.at, url=decision.url, pins=decision.pins, not_before=wait)


def keep_result(
    operation: Operation,
    contract: Contract | None,
    at: datetime,
    *,
    url: str | None = None,
    pins: Mapping[str, str] | None = None,
    not_before: datetime | None = None,
) -> Sequence[Effect]:
    """The one effect that copies the result of an operation that succeeded at `at`, where its contract says what to copy.

    It reads the status anew, so it carries what a look needs and no address of a result, and it comes like a look: not sooner than
    the minimum gap after the last one, nor before `not_before`, which the provider asked for (W35). The store names content by its
    hash, so a copy that is made twice is one copy: it is tried again until the provider's retention ends, at most 21 hours. What
    only calls back cannot be read anew, and is not copied.
    """
    if contract is None or contract.keep is None or contract.via is Via.PUSH:
        return ()
    trying = _keep_trying(operation, contract, at)
    options: dict[str, Json] = {
        "operation": operation.id,
        "contract_digest": operation.contract_digest,
        "account": operation.account,
        "job_id": operation.job_id,
        "url": url or operation.url,
        "parameters": dict(operation.parameters),
        "pins": dict(operation.pins if pins is None else pins),
    }
    action = ActionRef("result", KEEP_RESULT, options, Policy.KEYED, origin="core", pool=operation.pool)
    return (
        Effect(
            dedupe_key=operation_dedupe_key(
                workspace=operation.workspace, operation=operation.id, transition="succeeded", action=action.name
            ),
            action=action,
            pool=operation.pool,
            title=f"Keep the result of job {quoted(operation.job_id, 80)} at {operation.contract}",
            body=f"Copies the result to own storage; tried for {format_duration(trying)} at most.",
            payload={"operation": operation.id, "contract": operation.contract, "job": operation.job_id},
            subject=operation.id,
            not_before=max(at + contract.delays.min_gap, not_before or at),
            keep_trying=trying,
        ),
    )


def _keep_trying(operation: Operation, contract: Contract, at: datetime) -> timedelta:
    """What is left of the retention, which counts from completion (seen at `at`) or from creation; at least a minute."""
    if contract.retention is None:
        return LONGEST
    left = contract.retention if contract.retention_from == "completion" else operation.started_at + contract.retention - at
    return max(SHORTEST, min(LONGEST, left))


def provider_wait(operation: Operation, hints: Sequence[ReadHint], at: datetime) -> tuple[DelaySource, datetime | None]:
    """The latest wait the provider asked for that is still ahead: nothing but its own answer may shorten it (W35). A plan of a person's
    answer that is still ahead may hold one, so it is kept alike, under its own name."""
    waits = provider_waits(hints, at)
    if operation.delay_source in HELD and operation.next_poll_at is not None and operation.next_poll_at > at:
        waits[operation.delay_source] = max(operation.next_poll_at, waits.get(operation.delay_source, operation.next_poll_at))
    if not waits:
        return operation.delay_source, None
    return max(waits.items(), key=lambda pair: pair[1])


def _question(step: Step, category: Category, reason: str, source: DelaySource, wait: datetime | None) -> Escalation:
    last_sent = step.at if step.observation is not None or step.answer is not None else step.operation.last_checked_at
    not_before = step.at if last_sent is None else max(step.at, last_sent + step.contract.delays.min_gap)
    trouble = Trouble(
        category=category,
        reason=reason,
        at=step.at,
        spend=step.used,
        observation=step.observation,
        answer=step.answer,
        not_before=not_before if wait is None else max(not_before, wait),
        provider_wait=wait if source in FROM_PROVIDER else None,
        planned=None if source in FROM_PROVIDER else wait,
        cancel_effects=step.contract.cancel.effects if step.contract.cancel is not None else None,
    )
    return question(step.subject, trouble, step.escalation_id, step.answer_within_s)


def close_operation(
    operation: Operation,
    contract: Contract,
    close: Close,
    now: datetime,
    *,
    escalation_id: str,
    answer_within_s: float = 86_400.0,
) -> OperationDecision:
    """Writes down an end that needs no request: deadline, budget, silence. A reserved request is given back, since nothing left.

    Raises InvariantBroken for an operation that has ended (I11).
    """
    refuse_ended(operation)
    spend = replace(operation.spend, status_requests=max(0, operation.spend.status_requests - operation.reserved))
    step = Step(
        operation,
        contract,
        now,
        spend,
        escalation_id,
        answer_within_s,
        grants=operation.grants,
        pins=operation.pins,
        call=_unsent(operation, close),
    )
    if move(operation.state, close.event) is operation.state:
        return note(step, close.event, close.reason)
    return end(step, close.event, close.category, close.reason)


def _unsent(operation: Operation, close: Close) -> CallSettled | None:
    """What becomes of a call that this step did not send: in doubt it stays unknown; a submit can still be allowed by a person; a
    cancel is given up, since the question offers a new one."""
    call = operation.call
    if call is None:
        return None
    if in_doubt(call):
        return CallSettled(call.id, CallState.UNKNOWN, None)
    asks = move(operation.state, close.event) not in TERMINAL
    return CallSettled(call.id, CallState.QUEUED if asks and call.kind is CallKind.SUBMIT else CallState.DROPPED, None)


def refuse_ended(operation: Operation) -> None:
    """Raises InvariantBroken for an operation that has ended: nothing moves it any more (I11)."""
    if operation.state in TERMINAL:
        raise InvariantBroken(f"{operation.id} is {operation.state}; nothing moves it any more", subject=operation.id)
