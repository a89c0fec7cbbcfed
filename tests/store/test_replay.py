"""Replay of changed journals: what differs is named, and what cannot be decided again says why (W28)."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from sereno.core.record import ChangeRecord, StepRecord
from sereno.core.reviewing.replay import Difference, Replayed, Verdict, replay
from sereno.core.values import to_micros
from tests.store.lives import Life, lived
from tests.store.seeding import ANNA

SEEDS = range(1, 15)


@pytest.fixture
async def lives() -> AsyncIterator[list[Life]]:
    """Some lives."""
    found = [await lived(seed) for seed in SEEDS]
    yield found
    for life in found:
        await life.stage.close()


Rows = list[tuple[Life, list[StepRecord], list[ChangeRecord]]]


async def rows_of(lives: list[Life]) -> Rows:
    """What the journal holds of each."""
    reads = [life.stage.store.reads for life in lives]
    return [
        (life, list(await read.steps(ANNA, life.operation)), list(await read.changes(ANNA, life.operation)))
        for life, read in zip(lives, reads, strict=True)
    ]


def again(life: Life, step: StepRecord | ChangeRecord, **facts: Any) -> Replayed:
    """One row with facts of its decision changed, decided again."""
    changed = replace(step, decided={**step.decided, **facts})
    assert step.operation is not None
    contracts = {step.operation.contract_digest: life.contract}
    rows = ([changed], []) if isinstance(changed, StepRecord) else ([], [changed])
    (found,) = replay(*rows, contracts).steps  # type: ignore[arg-type]
    return found


STEP_FACTS = (
    "state", "event", "category", "due", "next_poll_at", "delay_source", "draw", "decision", "status_requests_used",
    "transport_failures_used", "throttles_used", "answered", "not_found", "tolerated", "steady", "effects", "grants", "pins", "url",
)  # fmt: skip
CHANGE_FACTS = ("state", "event", "reason", "due", "next_poll_at", "delay_source", "effects", "deadline_at", "max_throttles")


async def test_W28_each_fact_of_a_step_is_compared(lives: list[Life]) -> None:
    """Changed alone, it is the one difference, with both values."""
    for life, steps, _ in await rows_of(lives):
        for step in steps:
            assert again(life, step).verdict is Verdict.SAME
            for name in () if step.edited or step.woken else STEP_FACTS:
                if name == "due" and step.decided.get("escalation"):
                    continue  # how long a person has is set by the deployment: it is taken from there, not decided
                found = again(life, step, **{name: 77})
                assert found.verdict is Verdict.DIFFERENT, (name, step)
                (difference,) = found.differences
                assert difference == Difference(name, 77, difference.again) and difference.again != 77


async def test_W28_each_fact_of_a_change_is_compared(lives: list[Life]) -> None:
    """Of answers, cancels and contracts; a call-back has fewer."""
    words = set()
    for life, _, changes in await rows_of(lives):
        for change in changes:
            words.add(change.word)
            for name in CHANGE_FACTS if change.word != "pushed" else ("state", "reason", "due", "next_poll_at", "delay_source"):
                assert [one.field for one in again(life, change, **{name: 77}).differences] == [name]
    assert words == {"answered", "cancel_requested", "pushed", "contract_changed"}


async def test_W28_the_question_is_compared_by_its_digest(lives: list[Life]) -> None:
    """A statement that would read otherwise today is a difference; a row of an older version has none to compare."""
    asked = [(life, step) for life, steps, _ in await rows_of(lives) for step in steps if step.decided.get("escalation")]
    assert asked
    for life, step in asked:
        assert [one.field for one in again(life, step, question="d" * 64).differences] == ["question"]
        older = replace(step, decided={name: value for name, value in step.decided.items() if name != "question"})
        assert again(life, older).verdict is Verdict.SAME


async def test_W28_what_cannot_be_decided_again_says_why(lives: list[Life]) -> None:
    """No operation, no contract, no options, or a rule that refuses now."""
    for life, steps, changes in await rows_of(lives):
        for found in replay(steps, changes, {}).steps:
            assert found.verdict is Verdict.CANNOT and "the pinned contract" in found.why
        bare = [replace(step, operation=None) for step in steps]
        for found in replay(bare, [replace(change, operation=None) for change in changes], {}).steps:
            assert found.verdict is Verdict.CANNOT and "too little" in found.why
        for change in changes:
            if change.word == "answered":
                assert "options" in again(life, replace(change, option=None)).why
                assert "closed" in again(life, replace(change, at=change.at.replace(year=2030))).why


async def test_W28_a_step_that_was_edited_meanwhile_is_compared_in_part(lives: list[Life]) -> None:
    """Its state and plan were not taken; its event and counters were decided."""
    life, steps, _ = (await rows_of(lives))[0]
    step = replace(steps[0], edited=True)
    found = again(life, step, state="stopped", due=1, effects=[])
    assert found.verdict is Verdict.SAME and "edited" in found.why
    assert [one.field for one in again(life, step, event="silence").differences] == ["event"]


async def test_W35_a_look_that_a_call_back_put_sooner_is_the_same(lives: list[Life]) -> None:
    """Sooner, never before the step, and never later."""
    for life, steps, _ in await rows_of(lives):
        for step in steps:
            due = step.decided.get("due")
            if step.edited or step.decided["state"] != "waiting" or not isinstance(due, int):
                continue
            woken = replace(step, woken=True)
            sooner = to_micros(step.received_at)
            assert again(life, woken, due=sooner, next_poll_at=sooner).verdict is Verdict.SAME
            assert again(life, woken, due=due + 10**9).verdict is Verdict.DIFFERENT
            assert again(life, woken, due=1).verdict is Verdict.DIFFERENT


async def test_W28_one_run_can_be_asked_for(lives: list[Life]) -> None:
    """The rows of that run alone, oldest first."""
    life, steps, changes = (await rows_of(lives))[0]
    contracts = {row.operation.contract_digest: life.contract for row in (*steps, *changes) if row.operation is not None}
    whole = replay(steps, changes, contracts)
    assert [step.seq for step in whole.steps] == sorted(step.seq for step in whole.steps)
    run = steps[-1].run
    assert {step.run for step in replay(steps, changes, contracts, wanted=run).steps} == {run}
    assert replay(steps, changes, contracts, wanted=10**6).same
