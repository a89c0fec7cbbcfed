"""Pools: the token bucket, and the promise that is held across workers, sleep and crashes."""

from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.work import DeliveryWork, PollWork
from sereno.store.pools import Bucket
from tests.store.stage import HOST, LEASE, MINUTE, Stage, effect, subjects, unchanged, us

SECOND = 1_000_000


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    await made.close()


@given(
    rate=st.floats(0.01, 500),
    burst=st.integers(1, 20),
    steps=st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, 30)), min_size=1, max_size=40),
)
def test_W29_sends_in_any_window_stay_under_burst_plus_rate_times_its_length(
    rate: float, burst: int, steps: list[tuple[int, int]]
) -> None:
    """Whatever is asked when, no window holds more sends than the bucket promises."""
    bucket, now, sends = Bucket(rate=rate, burst=burst, tat=0), 1_000 * SECOND, []
    for wait, wanted in steps:
        now += wait
        got = bucket.tokens(now, wanted)
        bucket.take(got, now)
        sends += [now] * got
        if got < wanted:
            assert bucket.tokens(bucket.next_at(now), 1) == 1, "the promised instant has a token"
    for first in range(len(sends)):
        for last in range(first, len(sends)):
            # One microsecond of rounding for each step.
            assert last - first + 1 <= burst + (rate * (1 + 1 / bucket.step)) * (sends[last] - sends[first]) / SECOND + 1e-6


async def test_I7_a_thousand_polls_of_one_host_wake_from_eight_hours_without_a_burst(stage: Stage) -> None:
    """After a sleep each poll runs once, and sends(Δ) ≤ burst + rate·Δ holds in every window, with two workers claiming."""
    for number in range(1_000):
        await stage.poll(f"p{number:04}", due=stage.now + timedelta(seconds=number % 300))
    await stage.limits(HOST, rate=4.0, burst=5)
    stage.later(timedelta(hours=8))
    woke, sends = stage.now, []
    dice = Random(7)
    while len(sends) < 1_000 and stage.now < woke + timedelta(minutes=10):
        for work in await stage.claim(100, worker=dice.choice(["w1", "w2"])):
            assert isinstance(work, PollWork) and work.attempt == 1
            sends.append((stage.now, work.poll.id))
            await stage.work.commit_poll(work, unchanged(work, stage.now + timedelta(hours=1), missed=95))
        due = await stage.work.next_due()
        assert due is not None and due > stage.now, "the next claim is told when to come"
        stage.clock.at = due
    assert len(sends) == 1_000 == len({poll for _, poll in sends}), "one run each"
    at = [(instant - woke).total_seconds() for instant, _ in sends]
    assert all(
        last - first + 1 <= 5 + 4.0 * (at[last] - at[first]) + 1e-3 for first in range(1_000) for last in range(first, 1_000, 7)
    )
    assert at[-1] <= 1_000 / 4 + 1, "and the rate is used"


async def test_W29_in_flight_is_counted_over_all_workers_and_frees_up_at_a_commit(stage: Stage) -> None:
    """No more than the limit is under a lease at once; a commit or a dead lease makes room."""
    for number in range(4):
        await stage.poll(f"p{number}")
    await stage.limits(HOST, rate=None, in_flight=2)
    works = await stage.claim(10, worker="a")
    assert len(works) == 2 and await stage.claim(10, worker="b") == []
    assert await stage.work.next_due() == stage.now + LEASE
    assert isinstance(works[0], PollWork)
    await stage.work.commit_poll(works[0], unchanged(works[0], stage.now + timedelta(hours=1)))
    assert await stage.work.next_due() == stage.now
    assert len(await stage.claim(10, worker="b")) == 1
    stage.later(LEASE)
    assert len(await stage.claim(10)) == 2


async def test_an_exhausted_pool_is_not_looked_into_and_wakes_at_its_next_token(stage: Stage) -> None:
    """Others go on meanwhile."""
    for number in range(8):
        await stage.poll(f"p{number}", due=stage.now - MINUTE)
    other = await stage.poll("other", pool="host:other.example")
    assert len(await stage.claim(50)) == 6
    assert await stage.claim(50) == [] and await stage.work.next_due() == stage.now + timedelta(seconds=1)
    stage.later(timedelta(seconds=1))
    (work,) = await stage.claim(50)
    assert subjects([work]) != [other]


async def test_a_delivery_takes_a_token_of_its_own_pool_and_new_pools_have_the_default_limits(stage: Stage) -> None:
    """1/s with burst 5 for a host, no limit for what is local."""
    await stage.poll(pool="local:file")
    work = await stage.claim_poll()
    wanted = [effect(f"k{number}", pool="host:hooks.example.com") for number in range(7)]
    wanted += [effect(f"l{number}", pool="local:console") for number in range(7)]
    await stage.work.commit_poll(work, unchanged(work, stage.now + timedelta(days=1), effects=tuple(wanted), changed=1))
    pools = {row["name"]: (row["rate"], row["burst"]) for row in await stage.sql("SELECT * FROM pool")}
    assert pools == {"local:file": (None, 5), "host:hooks.example.com": (1.0, 5), "local:console": (None, 5)}
    sent = [work.delivery.effect.pool for work in await stage.claim(50) if isinstance(work, DeliveryWork)]
    assert (sent.count("host:hooks.example.com"), sent.count("local:console")) == (5, 7)


async def test_hops_and_pages_beyond_the_first_request_are_debited(stage: Stage) -> None:
    """A run that sent three requests costs three tokens."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE, requests=3))
    assert (await stage.one("SELECT tat FROM pool"))["tat"] == us(stage.now + timedelta(seconds=3))


async def test_a_pool_with_nothing_planned_sleeps(stage: Stage) -> None:
    """Its wake is null, so that no claim looks at it."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now, state="ended"))
    await stage.sql("UPDATE poll SET due = NULL")
    stage.later(LEASE)
    await stage.claim()
    assert (await stage.one("SELECT wake FROM pool"))["wake"] is None
