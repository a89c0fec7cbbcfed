"""Tests of the deadlines that share one timer: each ends its own block, and nothing but its own block."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from sereno.outside.egress.deadline import Deadline, Deadlines
from tests.outside.hands import Hands, settle

LATE = 60.0


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def deadlines(hands: Hands) -> Deadlines:
    return Deadlines(cast("asyncio.AbstractEventLoop", hands))


async def _wait(deadlines: Deadlines, when: float, told: Callable[[Deadline], object] = id) -> None:
    """Waits for ever under a deadline."""
    with deadlines.until(when) as scope:
        told(scope)
        await asyncio.Event().wait()


async def test_each_deadline_ends_its_block_at_its_own_instant_whatever_the_order_they_began_in(
    hands: Hands, deadlines: Deadlines
) -> None:
    """A later one that began first does not hold up an earlier one; an earlier one does not end a later one; one timer serves all."""
    waits = {when: asyncio.ensure_future(_wait(deadlines, when)) for when in (30.0, 10.0, 20.0, 20.5)}
    await settle()
    for now in (9.9, 10.0, 19.9, 20.0, 20.4, 20.5, 29.9, 30.0):
        await hands.move(now)
        assert {when for when, wait in waits.items() if wait.done()} == {when for when in waits if when <= now}
        assert len(hands.timers) == (0 if now == 30.0 else 1)
    assert all(isinstance(wait.exception(), TimeoutError) for wait in waits.values())


async def test_a_deadline_is_met_when_the_timer_was_set_for_one_that_has_ended(hands: Hands, deadlines: Deadlines) -> None:
    """The timer rings for a fetch that is long over; the others are not ended by that, and the next is met."""
    waits = [asyncio.ensure_future(_wait(deadlines, when)) for when in (10.0, 20.0)]
    await settle()
    waits[0].cancel()
    await settle()
    await hands.move(19.0)
    assert not waits[1].done()
    await hands.move(20.0)
    assert isinstance(waits[1].exception(), TimeoutError)


async def test_an_instant_that_has_passed_ends_the_block_at_once(hands: Hands, deadlines: Deadlines) -> None:
    """Nothing waits longer than it may because the instant was before now."""
    await hands.move(5.0)
    wait = asyncio.ensure_future(_wait(deadlines, 4.0))
    await settle()
    await hands.move(5.0)
    assert isinstance(wait.exception(), TimeoutError)


async def test_a_block_that_ends_in_time_is_left_alone_and_no_timer_stays(hands: Hands, deadlines: Deadlines) -> None:
    """Afterwards the task has no cancellation under way, and the loop nothing to wait for."""
    with deadlines.until(LATE) as scope:
        await settle()
        assert len(hands.timers) == 1
    task = asyncio.current_task()
    assert task is not None
    assert (scope.expired, task.cancelling(), hands.timers) == (False, 0, {})
    await hands.move(LATE)
    assert task.cancelling() == 0


async def test_a_deadline_can_be_moved_nearer_and_away(hands: Hands, deadlines: Deadlines) -> None:
    """A body that comes too slowly moves it nearer; each block that arrives moves it away again."""
    scopes: list[Deadline] = []
    wait = asyncio.ensure_future(_wait(deadlines, LATE, scopes.append))
    await settle()
    scopes[0].move(5.0)
    await hands.move(4.0)
    scopes[0].move(8.0)
    await hands.move(7.9)
    assert not wait.done()
    await hands.move(8.0)
    assert isinstance(wait.exception(), TimeoutError)


@pytest.mark.parametrize("both", [False, True])
async def test_a_cancellation_from_outside_stays_one(deadlines: Deadlines, both: bool) -> None:
    """Also where the deadline comes in the same turn of the loop: a drain is never taken for a slow server."""
    scopes: list[Deadline] = []
    wait = asyncio.ensure_future(_wait(deadlines, LATE, scopes.append))
    await settle()
    if both:
        scopes[0].expire()
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert wait.cancelled()


async def test_what_is_raised_at_the_end_goes_on_and_the_cancellation_is_counted_down(deadlines: Deadlines) -> None:
    """A library that turns the cancellation into an error of its own leaves no cancellation behind."""
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(ZeroDivisionError), deadlines.until(LATE) as scope:
        scope.expire()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ZeroDivisionError from None
    assert (scope.expired, task.cancelling()) == (True, 0)
