"""What the tests of definitions and reads share: a clock and ids that are handed in, a store on a real file, and small builders."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from sqlite3 import Connection
from typing import Any

from sereno.core.budget import Allowance
from sereno.core.effect import ActionRef, Effect, Policy
from sereno.core.escalation import Option, Verb
from sereno.core.poll import PollSpec
from sereno.core.schedule import Interval
from sereno.core.values import format_id, to_micros
from sereno.core.work import Principal
from sereno.ports import Boot, NewOperation
from sereno.store.codec import dump_effect, dump_options, dumps
from sereno.store.definitions import Definitions
from sereno.store.executor import Executor, ThreadExecutor, connect
from sereno.store.migrate import APPLICATION_ID, migrate
from sereno.store.reads import Reads

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ANNA = Principal(user="anna")
BEN = Principal(user="ben")
BOT = Principal(user="bot", kind="agent")
ELSEWHERE = Principal(workspace="other", user="anna")
POOL = "host:example.com"


@dataclass
class HandClock:
    """A clock that moves when a test says so."""

    at: datetime = START

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - START).total_seconds()

    def boot(self) -> Boot:
        return Boot("seeding", self.monotonic())

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class CountedIds:
    """Ids that count up, so that they sort by creation."""

    first: int = 1
    made: int = field(default=0)

    def new(self, prefix: str) -> str:
        self.made += 1
        return format_id(prefix, self.first + self.made)

    def random(self, label: str) -> Random:
        return Random(label)


@dataclass
class World:
    """One opened database with both protocols and the raw executor."""

    path: Path
    clock: HandClock
    executor: Executor
    definitions: Definitions
    reads: Reads

    async def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Runs a statement for a test that sets a stage or looks behind it."""

        def inside(connection: Connection) -> list[dict[str, Any]]:
            return [dict(row) for row in connection.execute(statement, values)]

        return await self.executor.write(inside)


def made(path: Path) -> Path:
    """Makes an empty database of ours, or leaves the one that is there."""
    connection = connect(path)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    migrate(connection, subject=str(path))
    connection.close()
    return path


@asynccontextmanager
async def opened(path: Path, clock: HandClock | None = None, *, first: int = 1) -> AsyncIterator[World]:
    """Opens (or makes) a database file as production does: one writing and one reading thread."""
    made(path)
    clock = clock or HandClock()
    executor = ThreadExecutor(path)
    try:
        yield World(
            path, clock, executor, Definitions(executor, clock=clock, ids=CountedIds(first)), Reads(executor, clock=clock)
        )
    finally:
        await executor.close()


def spec(name: str = "prices", **changes: Any) -> PollSpec:
    values: dict[str, Any] = {
        "name": name,
        "source_type": "http",
        "source": {"url": "https://example.com/prices", "credential": "shop"},
        "schedule": Interval(timedelta(minutes=5), anchor=START),
        "actions": (action(),),
        "user": "anna",
    }
    return PollSpec(**{**values, **changes})


def action(name: str = "hook", policy: Policy = Policy.KEYED) -> ActionRef:
    return ActionRef(name=name, type="webhook", options={"url": "https://example.com/hook"}, policy=policy)


async def added(world: World, name: str = "prices", *, managed_by: str = "user", who: Principal = ANNA, **changes: Any) -> str:
    """Adds a poll that is due now; returns its id."""
    record = await world.definitions.add_poll(who, spec(name, **changes), pool=POOL, due=world.clock.at, managed_by=managed_by)
    return record.poll.id


async def remembered(world: World, poll: str, count: int = 3, workspace: str = "main") -> None:
    """Gives a poll a cursor and a snapshot, as runs would."""
    await world.sql("UPDATE poll SET cursor = 'etag-1', baselined = 1 WHERE id = ?", poll)
    at = to_micros(world.clock.at)
    for number in range(count):
        await world.sql(
            "INSERT INTO poll_object (workspace, poll, external_id, content_hash, version, first_seen_at, last_seen_at, kept, matching, episodes)"
            " VALUES (?, ?, ?, ?, 2, ?, ?, '{\"price\":1}', 1, 4)",
            *(workspace, poll, f"item-{number}", f"hash-{number}", at, at + number),
        )


async def leased(world: World, table: str, subject: str, workspace: str = "main") -> None:
    """Takes a lease on a row as a claim would: run + 1, due at the lease's end, a running run."""
    until = to_micros(world.clock.at + timedelta(seconds=60))
    await world.sql(
        f"UPDATE {table} SET scheduled_for = due, run = run + 1, attempt = attempt + 1, lease_until = ?, due = ? WHERE id = ?",
        until,
        until,
        subject,
    )
    await world.sql(
        "INSERT INTO run (workspace, subject, number, kind, scheduled_for, attempt, claimed_by, started_at, claim_expires_at)"
        f" SELECT workspace, id, run, '{table}', scheduled_for, attempt, 'worker-1', ?, ? FROM {table} WHERE id = ?",
        *(to_micros(world.clock.at), until, subject),
    )


def allowance(**changes: Any) -> Allowance:
    values: dict[str, Any] = {
        "deadline_at": START + timedelta(hours=1),
        "business_deadline_at": None,
        "max_status_requests": 10,
        "max_transport_failures": 3,
        "max_throttles": 3,
    }
    return Allowance(**{**values, **changes})


def new_operation(job: str = "job-1", **changes: Any) -> NewOperation:
    values: dict[str, Any] = {
        "contract": "generic-status",
        "document": {"format": 0, "name": "generic-status", "states": {"done": "success"}},
        "account": "shop",
        "job_id": job,
        "url": f"https://example.com/jobs/{job}",
        "parameters": {"owner": "anna"},
        "fingerprint": f"print-{job}",
        "allowance": allowance(),
        "pool": POOL,
        "first_look_at": START + timedelta(seconds=2),
        "user": "anna",
        "assistant_task_id": "chat-7",
    }
    return NewOperation(**{**values, **changes})


OPTIONS = (
    Option("e", Verb.EXTEND, "extend 15 minutes with 4 checks", minutes=15, checks=4),
    Option("s", Verb.STOP, "stop waiting and keep the handle"),
)


async def escalated(world: World, job: str = "job-1", *, escalation: str = "esc_1") -> str:
    """Registers an operation and puts it where a decision would: escalated, with one open question. Returns the operation's id."""
    record, _ = await world.definitions.register(ANNA, new_operation(job))
    operation = record.operation.id
    answer_by = to_micros(world.clock.at + timedelta(days=1))
    await world.sql(
        "UPDATE operation SET state = 'escalated', category = 'unknown_state', due = ?, next_poll_at = NULL, status_requests_used = 6,"
        " escalations = 1, last_state = 'odd', parked = 'why' WHERE id = ?",
        *(answer_by, operation),
    )
    await world.sql(
        "INSERT INTO escalation (workspace, id, operation, category, statement, options, digest, state, created_at, answer_by)"
        " VALUES ('main', ?, ?, 'unknown_state', ?, ?, 'd1', 'open', ?, ?)",
        *(
            escalation,
            operation,
            dumps({"state": "odd", "calls": "6 of 10"}),
            dump_options(OPTIONS),
            to_micros(world.clock.at),
            answer_by,
        ),
    )
    return operation


async def delivery(world: World, number: int = 1, *, state: str = "dead", poll: str | None = None, **columns: Any) -> str:
    """Puts a delivery where a run would have; returns its id."""
    effect = Effect(
        dedupe_key=f"main:anna:poll_1:item-{number}@1:hook:1",
        action=action(),
        pool=POOL,
        title=f"Item {number} is new",
        body=f"The body of item {number}",
        payload={"untrusted": {"title": "x"}},
        subject=poll or "poll_1",
        source_object_id=f"item-{number}",
        condition_version=1,
    )
    values = {
        "workspace": "main",
        "id": f"dlv_{number}",
        "dedupe_key": effect.dedupe_key,
        "effect": dump_effect(effect),
        "subject": effect.subject,
        "poll": poll,
        "user": "anna",
        "source_object_id": effect.source_object_id,
        "condition_version": 1,
        "action_type": "webhook",
        "title": effect.title,
        "body": effect.body,
        "state": state,
        "attempt": 5,
        "max_attempts": 5,
        "pool": POOL,
        "created_at": to_micros(START),
        "updated_at": to_micros(START),
        **columns,
    }
    await world.sql(f"INSERT INTO delivery ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", *values.values())
    return str(values["id"])
