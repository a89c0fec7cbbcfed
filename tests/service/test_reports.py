"""Reports over many operations: page by page, each once, newest first, and only as far back as asked (W28, W44)."""

from collections.abc import AsyncIterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from sereno.core.reviewing.checking import FaultName
from sereno.core.reviewing.replay import Verdict
from sereno.service import reports
from sereno.service.reports import Reports
from tests.core.waiting import make_contract
from tests.store.lives import Life, lived
from tests.store.seeding import ANNA, allowance, new_operation
from tests.store.stage import Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.close()


def reports_of(stage: Stage, life: Life | None = None) -> Reports:
    """The service over a stage; every contract is that of the life."""
    contract = make_contract() if life is None else life.contract
    plugins = SimpleNamespace(contracts=SimpleNamespace(contract=lambda document: contract))
    deps: Any = SimpleNamespace(reads=stage.store.reads, definitions=stage.store.definitions, who=ANNA, plugins=plugins)
    return Reports(deps)


async def registered(stage: Stage, count: int, first: int = 0, **changes: Any) -> None:
    """That many waits."""
    for number in range(first, first + count):
        limits = allowance(deadline_at=stage.now + timedelta(hours=9))
        await stage.store.definitions.register(ANNA, new_operation(f"job-{number}", allowance=limits, **changes))


async def test_W28_every_operation_is_read_once_page_by_page(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one page; the figures are the same object all along, so nothing piles up."""
    monkeypatch.setattr(reports, "PAGE", 7)
    await registered(stage, 23)
    counts = []
    async for quality in reports_of(stage).waiting():
        counts.append(quality.operations)
    assert counts == list(range(1, 24)) and (quality.waiting, quality.requests.most) == (23, 0)
    seen = [found.record.operation.id async for found in reports_of(stage).check_all()]
    assert len(seen) == len(set(seen)) == 23 and seen == sorted(seen, reverse=True)


async def test_W28_only_the_last_days_and_one_contract(stage: Stage) -> None:
    """What was registered before, and other contracts, are not counted."""
    await registered(stage, 3)
    stage.later(timedelta(days=2))
    await registered(stage, 2, 10)
    await registered(stage, 1, 20, contract="other")

    async def count(**asked: Any) -> int:
        found = [quality.operations async for quality in reports_of(stage).waiting(**asked)]
        return found[-1] if found else 0

    assert await count() == 6
    assert await count(since=timedelta(days=1)) == 3
    assert await count(since=timedelta(days=1), contract="other") == 1
    assert await count(contract="nobody's") == 0


async def test_W28_W44_a_life_is_measured_checked_and_replayed() -> None:
    """The three reports agree about one operation; a fault that is planted in its journal is found by two of them."""
    life = await lived(2)
    stage = life.stage
    found = reports_of(stage, life)
    replayed, checked = await found.replay(life.operation), await found.check(life.operation)
    assert replayed.replay.same and replayed.replay.steps and not checked.faults
    one = replayed.replay.steps[-1].run
    assert {step.run for step in (await found.replay(life.operation, run=one)).replay.steps} == {one}
    await stage.sql("DROP TRIGGER journal_no_update")
    planted = "UPDATE journal SET facts = json_set(facts, '$.delay_source', 'whim') WHERE subject = ? AND json_type(facts, '$.draw') IS NOT NULL"
    await stage.sql(planted, life.operation)
    again = await found.replay(life.operation)
    assert again.replay.count(Verdict.DIFFERENT) > 0
    faults = [fault.name for fault in (await found.check(life.operation)).faults]
    live = [
        step
        for step in replayed.replay.steps
        if step.what in ("look", "call", "close") and step.state in ("waiting", "submitting")
    ]
    assert live and faults == [FaultName.NO_SOURCE] * len(live)
    quality = [measured async for measured in found.waiting()][-1]
    assert quality.decisions[Verdict.DIFFERENT] == again.replay.count(Verdict.DIFFERENT)
    await stage.close()
