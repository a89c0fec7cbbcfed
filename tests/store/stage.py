"""What the tests of claims and commits share: a store on a hand-moved clock, and decisions as the core would make them."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sereno.core.budget import Allowance
from sereno.core.change import KnownObject
from sereno.core.delivery import DeliveryDecision, DeliveryState, Outcome, OutcomeKind
from sereno.core.effect import Effect, Policy
from sereno.core.escalation import Category, Escalation, Option, Verb
from sereno.core.observation import DelaySource, Observation, ObservationKind
from sereno.core.operation import Event, OperationDecision, OperationState
from sereno.core.poll import PollDecision, PollState
from sereno.core.values import to_micros
from sereno.core.work import DeliveryWork, LeaseTimes, OperationWork, PollWork, Work
from sereno.ports import Only, PoolLimits
from sereno.store.executor import Executor, InlineExecutor
from sereno.store.open import Store, open_store
from tests.store.seeding import ANNA, START, CountedIds, HandClock, action, new_operation, spec

TIMES = LeaseTimes()
LEASE = TIMES.lease
MINUTE = timedelta(minutes=1)
HOST = "host:example.com"


class Stage:
    """A store, its clock, and shorthand for what tests do with it."""

    def __init__(self, path: str | Path = ":memory:", *, clock: HandClock | None = None, first: int = 1, inline: bool = True):
        self.clock = clock or HandClock()
        executor: Callable[[str], Executor] | None = InlineExecutor if inline else None
        self.store: Store = open_store(path, clock=self.clock, ids=CountedIds(first), executor=executor)
        self.work = self.store.work

    @property
    def now(self) -> datetime:
        return self.clock.at

    def later(self, by: timedelta) -> None:
        self.clock.at += by

    async def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        def inside(connection: sqlite3.Connection) -> list[dict[str, Any]]:
            return [dict(row) for row in connection.execute(statement, values)]

        return await self.store.executor.write(inside)

    async def one(self, statement: str, *values: Any) -> dict[str, Any]:
        rows = await self.sql(statement, *values)
        assert len(rows) == 1, rows
        return rows[0]

    async def poll(self, name: str = "prices", *, pool: str = HOST, due: datetime | None = None, **changes: Any) -> str:
        record = await self.store.definitions.add_poll(
            ANNA, spec(name, **changes), pool=pool, due=due or self.now, managed_by="user"
        )
        return record.poll.id

    async def operation(self, job: str = "job-1", *, pool: str = HOST, first_look: datetime | None = None, **changes: Any) -> str:
        allowance = Allowance(
            deadline_at=changes.pop("deadline_at", self.now + timedelta(hours=1)),
            business_deadline_at=changes.pop("business_deadline_at", None),
            max_status_requests=changes.pop("requests", 12),
            max_transport_failures=3,
            max_throttles=3,
        )
        new = replace(new_operation(job), allowance=allowance, pool=pool, first_look_at=first_look or self.now, **changes)
        record, is_new = await self.store.definitions.register(ANNA, new)
        assert is_new
        return record.operation.id

    async def limits(self, pool: str, **limits: Any) -> None:
        await self.store.definitions.set_pool(ANNA, pool, PoolLimits(**limits))

    async def claim(self, limit: int = 10, *, worker: str = "w1", only: Only | None = None) -> list[Work]:
        return list((await self.work.claim(worker=worker, limit=limit, times=TIMES, only=only)).works)

    async def claim_poll(self) -> PollWork:
        (work,) = await self.claim()
        assert isinstance(work, PollWork)
        return work

    async def claim_operation(self) -> OperationWork:
        (work,) = await self.claim()
        assert isinstance(work, OperationWork)
        return work

    async def claim_delivery(self) -> DeliveryWork:
        (work,) = await self.claim()
        assert isinstance(work, DeliveryWork)
        return work

    async def close(self) -> None:
        await self.store.close()


def unchanged(work: PollWork, due: datetime, **changes: Any) -> PollDecision:
    """What a run writes that saw nothing new."""
    values: dict[str, Any] = {
        "state": PollState.ACTIVE,
        "due": due,
        "cursor": work.poll.cursor,
        "remember": {},
        "forget": (),
        "effects": (),
        "status": "ok",
        "checked": 1,
        "changed": 0,
        "matched": 0,
        "failures": 0,
        "auth_failures": 0,
        "baselined": True,
        "missed": 0,
        "requests": 1,
        "summary": "unchanged",
    }
    return PollDecision(**{**values, **changes})


def effect(key: str, *, pool: str = "host:hooks.example.com", subject: str = "poll_x", note: str = "", **changes: Any) -> Effect:
    """One notification to be."""
    told = action(policy=Policy.KEYED)
    return Effect(
        dedupe_key=key, action=told, pool=pool, title="t", body="b", payload={"n": 1, "note": note}, subject=subject, **changes
    )


def known(external_id: str, now: datetime, **changes: Any) -> KnownObject:
    """One object to remember."""
    values: dict[str, Any] = {"content_hash": "h1", "version": 1, "first_seen_at": now, "last_seen_at": now, "kept": {"price": 1}}
    return KnownObject(external_id=external_id, **{**values, **changes})


def pending(work: OperationWork, at: datetime, next_at: datetime, **changes: Any) -> OperationDecision:
    """A step that saw the job running."""
    values: dict[str, Any] = {
        "state": OperationState.WAITING,
        "event": Event.SAW_PENDING,
        "due": next_at,
        "next_poll_at": next_at,
        "delay_source": DelaySource.LOCAL_BACKOFF,
        "spend": work.operation.spend,
        "reason": "the provider says running",
        "observation": Observation(kind=ObservationKind.PENDING, state="running", http_status=200),
        "received_at": at,
        "draw": 0.25,
    }
    return OperationDecision(**{**values, **changes})


def question(work: OperationWork, at: datetime, answer_by: datetime) -> Escalation:
    """A question to a person."""
    return Escalation(
        id="esc_1",
        workspace="main",
        operation=work.operation.id,
        category=Category.UNKNOWN_STATE,
        statement={"state": "odd"},
        options=[Option("stop", Verb.STOP, "stop waiting")],
        digest="d" * 64,
        created_at=at,
        answer_by=answer_by,
    )


def done(
    state: DeliveryState = DeliveryState.DELIVERED, due: datetime | None = None, kind: OutcomeKind = OutcomeKind.DONE
) -> DeliveryDecision:
    """What an attempt writes."""
    return DeliveryDecision(state=state, due=due, outcome=Outcome(kind, "200"), reason=str(state))


def subjects(works: Sequence[Work]) -> list[str]:
    """The ids of works, in claim order."""
    found = []
    for work in works:
        match work:
            case PollWork():
                found.append(work.poll.id)
            case OperationWork():
                found.append(work.operation.id)
            case DeliveryWork():
                found.append(work.delivery.id)
    return found


def us(instant: datetime) -> int:
    """An instant as the database holds it."""
    return to_micros(instant)


__all__ = ["START"]
