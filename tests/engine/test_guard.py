"""The guard: what a plug-in raises becomes a value; what belongs to the driver passes. The send guard: who may still send (I24)."""

import asyncio
from datetime import timedelta

import pytest

from sereno.core.errors import InvariantBroken, LeaseLost, Unavailable
from sereno.core.work import Work
from sereno.engine import guard
from sereno.engine.guard import Broken, Moment
from sereno.engine.perform import perform, send_guard
from sereno.testing.virtual import HandClock
from tests.engine.desk import Desk


async def raising(error: BaseException) -> None:
    """A plug-in that raises."""
    raise error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("a bad number"), "ValueError: a bad number"),
        (InvariantBroken("two owners"), "InvariantBroken: two owners"),
        (KeyError("hunter2"), "KeyError"),
        (OSError("/home/anna/secret.txt"), "OSError"),
        (RecursionError(), "RecursionError"),
    ],
)
async def test_what_a_plug_in_raises_is_a_value(error: Exception, text: str) -> None:
    """The class is named; the message only of errors that are written for people, since others may quote a secret."""
    assert await guard.call(raising(error)) == Broken(text)


async def test_a_long_message_is_cut() -> None:
    """A value stays small, whatever was raised."""
    found = await guard.call(raising(ValueError("x" * 10_000)))
    assert isinstance(found, Broken)
    assert len(found.message) == 500


@pytest.mark.parametrize("error", [LeaseLost("taken over"), Unavailable("locked"), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_what_belongs_to_the_driver_passes(error: BaseException) -> None:
    """A lost lease, an unavailable store, a cancel and an interrupt are not the plug-in's and are not swallowed."""
    with pytest.raises(type(error)):
        await guard.call(raising(error))


async def test_what_comes_back_comes_back() -> None:
    """Without an error the guard is not there."""

    async def fine() -> int:
        return 7

    assert await guard.call(fine()) == 7
    assert guard.decide(lambda: 8) == 8


def test_a_decision_that_raises_is_a_value() -> None:
    """W43: so that the facts of the reply can still be kept."""
    assert guard.decide(lambda: 1 // 0) == Broken("ZeroDivisionError")


GUARD_S = 1.0
LEASE_S = 60.0


async def refusal(sender: guard.SendGuard) -> str | None:
    """Why nothing may be sent now, or None where it may."""
    try:
        await sender.before_first_byte()
    except LeaseLost as error:
        return error.message.removeprefix("nothing was sent: ")
    return None


async def _held() -> tuple[Desk, guard.SendGuard]:
    desk = Desk()
    await desk.operation(deadline=timedelta(minutes=10))
    return desk, desk.sender(await desk.claim())


async def test_I24_a_fresh_lease_may_send_without_asking_the_store() -> None:
    """Right after the claim no query is spent."""
    desk, sender = await _held()
    desk.hand.advance(GUARD_S)
    assert await refusal(sender) is None
    assert desk.looks == 0


async def test_I24_the_fence_is_read_again_after_the_guard_time() -> None:
    """Later than `guard` after the last look the store is asked, once each time."""
    desk, sender = await _held()
    for seconds, looks in ((GUARD_S + 0.1, 1), (GUARD_S, 1), (GUARD_S + 0.1, 2)):
        desk.hand.advance(seconds)
        assert await refusal(sender) is None
        assert desk.looks == looks


async def test_W22_a_moved_fence_stops_the_send() -> None:
    """Another worker took over: the look finds it, and the reason is kept."""
    desk, sender = await _held()
    await desk.sql("UPDATE operation SET run = run + 1")
    desk.hand.advance(GUARD_S + 0.1)
    assert await refusal(sender) == "the lease was lost"
    assert sender.nothing_left


async def test_I24_the_lease_ends_by_monotonic_time() -> None:
    """The wall clock was set back meanwhile: this worker's own stopwatch still ends its trust, `guard` before the lease ends."""
    desk, sender = await _held()
    desk.hand.mono += LEASE_S - GUARD_S - 0.01
    assert await refusal(sender) is None
    desk.hand.mono += 0.02
    assert await refusal(sender) == "the lease may have run out"


async def test_I24_the_lease_ends_by_wall_time() -> None:
    """The wall clock ran on alone, whyever: what it has changed by ends the trust, and the fence is looked at before."""
    desk, sender = await _held()
    desk.hand.wall += timedelta(seconds=LEASE_S - GUARD_S - 0.01)
    assert await refusal(sender) is None
    assert desk.looks == 1
    desk.hand.wall += timedelta(seconds=0.02)
    assert await refusal(sender) == "the lease may have run out"


async def test_I24_the_lease_ends_by_time_since_boot() -> None:
    """The machine slept, so that the stopwatch stood still, and somebody set the wall clock back meanwhile: boot time went on."""
    desk, sender = await _held()
    desk.hand.asleep += LEASE_S - GUARD_S - 0.01
    assert await refusal(sender) is None
    assert desk.looks == 1
    desk.hand.asleep += 0.02
    assert await refusal(sender) == "the lease may have run out"


@pytest.mark.parametrize("off", [timedelta(hours=-24), timedelta(days=3653)])
async def test_I23_a_worker_whose_wall_clock_is_off_works_as_any(off: timedelta) -> None:
    """Its clock stands apart from the database's all along: it may send, looks at the fence as often, and trusts as long."""
    desk, _ = await _held()
    elsewhere = HandClock(desk.hand.wall + off)
    desk.changes["clock"] = elsewhere
    await desk.operation("job-2", deadline=timedelta(minutes=10))
    work = await desk.claim()
    sender = desk_sender(desk, work, elsewhere)
    elsewhere.advance(GUARD_S)
    assert await refusal(sender) is None
    assert desk.looks == 0
    assert sender.now() == work.lease.claimed_at + timedelta(seconds=GUARD_S)
    elsewhere.advance(LEASE_S - 2 * GUARD_S - 0.01)
    assert await refusal(sender) is None
    assert desk.looks == 1
    elsewhere.advance(0.02)
    assert await refusal(sender) == "the lease may have run out"


def desk_sender(desk: Desk, work: Work, clock: HandClock) -> guard.SendGuard:
    """The send guard of a worker with a clock of its own."""
    return send_guard(desk.kit(), work, Moment.of(clock))


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(days=3653)])
async def test_I23_a_step_forward_in_the_middle_sends_nothing_on_old_trust(step: timedelta) -> None:
    """The wall clock jumps between claim and send: the work is given back whole, and done by the next claim."""
    desk = Desk()
    await desk.operation(deadline=timedelta(days=7300))
    sender = desk.sender(await desk.claim())
    desk.hand.wall += step
    await perform(desk.kit(), sender._work, sender)
    assert desk.wire.sent == []
    await perform(desk.kit(), again := await desk.claim(), desk.sender(again))
    assert len(desk.wire.sent) == 1


async def test_I23_a_step_back_in_the_middle_changes_nothing() -> None:
    """The wall clock goes back by a day: the stopwatch says that the lease is fresh, and what is told as now stays."""
    desk, sender = await _held()
    before = sender.now()
    desk.hand.wall -= timedelta(days=1)
    assert await refusal(sender) is None
    assert sender.now() == before


async def test_I4_what_the_machine_slept_counts_as_passed() -> None:
    """It slept between the send and the answer: the answer was received after that, so that a Retry-After counts from there."""
    desk, sender = await _held()
    before = sender.now()
    desk.hand.suspend(7200)
    assert sender.now() - before == timedelta(hours=2)


async def test_W22_a_prolonged_lease_is_trusted_on_both_clocks() -> None:
    """After an extension the old end means nothing, and the new one does."""
    desk, sender = await _held()
    work = sender._work
    desk.hand.advance(50)
    asked = Moment.of(desk.hand)
    await desk.store.work.extend(work, desk.times)
    sender.extended(asked)
    desk.hand.advance(LEASE_S - GUARD_S - 0.1)
    assert await refusal(sender) is None
    desk.hand.advance(0.2)
    assert await refusal(sender) is not None


async def test_W32_the_deadline_is_checked_at_the_first_byte() -> None:
    """The lease has time left, the wait has none: nothing is sent."""
    desk = Desk()
    await desk.operation(deadline=timedelta(seconds=10))
    sender = desk.sender(await desk.claim())
    desk.hand.advance(9.99)
    assert await refusal(sender) is None
    desk.hand.advance(0.01)
    assert await refusal(sender) == "the deadline has passed"


async def test_W33_nothing_left_means_nothing_at_all() -> None:
    """Once a request was let through, a later refusal does not make it undone; before that, a refused act is one that never began."""
    desk, sender = await _held()
    assert not sender.nothing_left
    assert await refusal(sender) is None
    desk.hand.advance(LEASE_S)
    assert await refusal(sender) is not None
    assert not sender.nothing_left
    desk, fresh = await _held()
    desk.hand.advance(LEASE_S)
    assert not await fresh.may_act()
    assert fresh.nothing_left


async def test_the_instant_is_that_of_the_claim_plus_the_stopwatch() -> None:
    """A stepped wall clock does not move what this worker calls now (W32)."""
    desk, sender = await _held()
    before = sender.now()
    desk.hand.wall += timedelta(days=1)
    desk.hand.mono += 5
    assert sender.now() - before == timedelta(seconds=5)


async def test_a_redirect_hop_is_judged_and_counted() -> None:
    """`before_hop` counts one more request in the store, and refuses where the budget is used up (W09)."""
    desk = Desk()
    await desk.operation(requests=2)
    guarded = desk.sender(await desk.claim()).guarded(total_deadline=timedelta(seconds=5))
    assert guarded.before_hop is not None
    assert await guarded.before_hop("https://example.com")
    assert not await guarded.before_hop("https://example.com")
    assert (await desk.one("SELECT status_requests_used FROM operation"))["status_requests_used"] == 2
