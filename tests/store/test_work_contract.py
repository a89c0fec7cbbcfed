"""The contract of the work store: one scenario gives the same journal, runs and rows on every executor and place."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.core.call import CallOutcome, CallState
from sereno.core.operation import OperationDecision
from sereno.core.work import DeliveryWork, OperationWork, PollWork
from sereno.outside.clock import SystemClock
from sereno.outside.ids import SystemIds
from sereno.ports import WorkStore
from sereno.store.work.store import SqliteWork
from tests.store.calling import accepted, answer, settled, submitting
from tests.store.stage import LEASE, Stage, done, effect, known, pending, question, unchanged

PLACES: dict[str, Callable[[Path], Stage]] = {
    "memory": lambda folder: Stage(),
    "file, inline": lambda folder: Stage(folder / "s.db"),
    "file, threads": lambda folder: Stage(folder / "s.db", inline=False),
}


async def step(stage: Stage, number: int) -> None:
    """Claims and settles once; every third claim is lost to a crash."""
    works = await stage.claim(20, worker=f"w{number % 2}")
    if number % 3 == 2:
        return
    for at, work in enumerate(works):
        match work:
            case PollWork():
                found = {f"o{number}": known(f"o{number}", stage.now)} if number % 2 else {}
                told = (effect(f"{work.poll.id}-{number}"), effect("shared")) if found else ()
                due = stage.now + timedelta(seconds=30 + at)
                await stage.work.commit_poll(work, unchanged(work, due, remember=found, effects=told, changed=len(found)))
            case OperationWork() if work.operation.call is not None:
                await stage.work.commit_operation(work, called(work, stage))
            case OperationWork() if number == 7 and work.operation.reserved and work.operation.submitted_at is None:
                answer_by = stage.now + timedelta(hours=1)
                asked = question(work, stage.now, answer_by)
                await stage.work.commit_operation(work, pending(work, stage.now, answer_by, state="escalated", escalation=asked))
            case OperationWork():
                await stage.work.commit_operation(work, pending(work, stage.now, stage.now + timedelta(seconds=20)))
            case DeliveryWork():
                await stage.work.commit_delivery(work, done())


def called(work: OperationWork, stage: Stage) -> OperationDecision:
    """A submit is throttled at first; in doubt it is taken on."""
    call = work.operation.call
    assert call is not None
    if call.attempts == 1:
        return settled(work, stage.now, CallState.QUEUED, answer(CallOutcome.THROTTLED))
    return accepted(work, stage.now, f"job-of-{call.key}", due=stage.now + LEASE)


async def scenario(stage: Stage) -> dict[str, Any]:
    for number in range(3):
        await stage.poll(f"p{number}", pool=f"host:{number % 2}.example")
    await stage.operation()
    for number in range(3):
        await submitting(stage, f"key-{number}")
    for number in range(12):
        await step(stage, number)
        stage.later(LEASE / 2)
    tables = ("journal", "run", "poll", "poll_object", "operation", "provider_call", "delivery", "escalation", "pool", "meta")
    return {table: await stage.sql(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables[:-1]} | {
        "meta": await stage.sql("SELECT * FROM meta ORDER BY key")
    }


async def test_the_same_scenario_gives_the_same_rows_everywhere(tmp_path: Path) -> None:
    """Memory, file and threads agree on every table, journal included."""
    found = {}
    for name, make in PLACES.items():
        folder = tmp_path / name
        stage = make(folder)
        found[name] = await scenario(stage)
        await stage.close()
    first = found["memory"]
    assert {run["status"] for run in first["run"]} == {"ok", "abandoned", "running"}
    assert {call["state"] for call in first["provider_call"]} == {"done"}
    assert first["delivery"] and first["journal"] and first["escalation"]
    assert found["file, inline"] == first and found["file, threads"] == first


@pytest.mark.parametrize("place", PLACES)
async def test_concurrent_commits_of_one_batch_all_arrive(place: str, tmp_path: Path) -> None:
    """A batch is claimed once and committed by as many tasks as it has works."""
    stage = PLACES[place](tmp_path / "x")
    await stage.limits("host:example.com", rate=None)
    for number in range(50):
        await stage.poll(f"p{number}")
    works = [work for work in await stage.claim(100) if isinstance(work, PollWork)]
    assert len(works) == 50
    await asyncio.gather(*(stage.work.commit_poll(work, unchanged(work, stage.now + LEASE)) for work in works))
    runs = await stage.sql("SELECT status, count(*) c FROM run GROUP BY status")
    assert runs == [{"status": "ok", "c": 50}]
    await stage.close()


def test_the_store_keeps_the_protocol(tmp_path: Path) -> None:
    """Every method of the port is there; mypy checks the signatures by this assignment."""
    stage = Stage()
    work: WorkStore = stage.work
    assert isinstance(work, SqliteWork)


async def test_the_system_clock_and_ids_serve_the_seams() -> None:
    """Aware UTC, a monotonic clock, ids that sort by creation."""
    clock, ids = SystemClock(), SystemIds()
    assert clock.now().utcoffset() == timedelta(0) and clock.monotonic() <= clock.monotonic()
    await clock.sleep(-1)
    await clock.sleep(float("nan"))
    made = [ids.new("poll_") for _ in range(200)]
    assert made == sorted(made) and len(set(made)) == 200
    assert ids.random("x").random() != ids.random("x").random()
