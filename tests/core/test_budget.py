"""Budgets: which deadline stops, when a count is used up, and how little an answer adds."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.budget import Allowance, Limits, Spend, exhausted, second_wind, with_extension, with_room
from tests.core.waiting import ALLOWANCE, NOON, after


def test_W09_limits_become_instants_at_registration() -> None:
    """A wait of an hour that starts at noon ends at one; the counts are taken as they are."""
    assert Limits(3600, 12, 3, 2).starting(NOON, after(60)) == Allowance(after(3600), after(60), 12, 3, 2)


@pytest.mark.parametrize(
    ("business", "stops", "category"),
    [
        (None, 3600, "deadline_exceeded"),
        (3599, 3599, "business_deadline_exceeded"),
        (3600, 3600, "deadline_exceeded"),
        (9999, 3600, "deadline_exceeded"),
    ],
)
def test_W10_the_earlier_deadline_stops_and_is_named(business: int | None, stops: int, category: str) -> None:
    """The two deadlines are separate; the record says which of them it was."""
    allowance = replace(ALLOWANCE, business_deadline_at=None if business is None else after(business))
    assert allowance.stops_at() == (after(stops), category)


@pytest.mark.parametrize(
    ("used", "limit", "gone"),
    [(0, 3, False), (2, 3, False), (3, 3, True), (4, 3, True), (0, 0, False), (1, 0, True), (1, 1, True)],
)
def test_W34_a_budget_is_exhausted_by_its_last_one(used: int, limit: int, gone: bool) -> None:
    """ "3 of 3" is exhausted; a limit of 0 is exhausted by the first failure, not before any."""
    assert exhausted(used, limit) is gone


def test_W20_an_extension_grants_exactly_what_it_says() -> None:
    """After 12 of 12: fifteen minutes after the old deadline, four checks more, nothing else."""
    spend = Spend(status_requests=12)
    assert with_extension(ALLOWANCE, spend, NOON, minutes=15, checks=4) == replace(
        ALLOWANCE, deadline_at=ALLOWANCE.deadline_at + timedelta(minutes=15), max_status_requests=16
    )


def test_W20_an_extension_of_a_passed_deadline_counts_from_now() -> None:
    """Time that went by before the answer is not granted twice nor lost; unused requests beyond the granted ones are given up."""
    late = ALLOWANCE.deadline_at + timedelta(hours=5)
    extended = with_extension(ALLOWANCE, Spend(status_requests=3), late, minutes=15, checks=4)
    assert (extended.deadline_at, extended.max_status_requests) == (late + timedelta(minutes=15), 7)


def test_W10_an_extension_moves_a_business_deadline_that_has_passed() -> None:
    """Else more time for the job would end at once; one that is still ahead stays."""
    passed, ahead = replace(ALLOWANCE, business_deadline_at=NOON), replace(ALLOWANCE, business_deadline_at=after(1))
    assert with_extension(passed, Spend(), NOON, minutes=15, checks=4).business_deadline_at == after(900)
    assert with_extension(ahead, Spend(), NOON, minutes=15, checks=4).business_deadline_at == after(1)


def test_W40_room_is_made_only_where_there_is_none() -> None:
    """A look that fits the old limits changes none of them."""
    assert (
        with_room(ALLOWANCE, Spend(status_requests=3, throttles=2, transport_failures=2), NOON, minutes=15, checks=1) == ALLOWANCE
    )


def test_W40_room_for_one_look_past_every_limit() -> None:
    """Past the deadlines and out of budgets, one look gets fifteen minutes, one request and one failure of each kind."""
    late, spend = after(7200), Spend(status_requests=12, transport_failures=3, throttles=3)
    passed = replace(ALLOWANCE, business_deadline_at=after(10))
    assert with_room(passed, spend, late, minutes=15, checks=1) == Allowance(after(8100), after(8100), 13, 4, 4)


def test_W14_an_extension_gives_two_more_of_a_used_up_failure_budget() -> None:
    """Only the budget that is used up, never more than the checks granted."""
    extended = with_extension(ALLOWANCE, Spend(throttles=3, transport_failures=1), NOON, minutes=15, checks=4)
    assert (extended.max_throttles, extended.max_transport_failures) == (5, 3)
    assert [second_wind(checks) for checks in (0, 1, 2, 4)] == [0, 1, 2, 2]


@given(
    used=st.integers(0, 12),
    failures=st.integers(0, 3),
    throttles=st.integers(0, 3),
    at=st.integers(-7200, 7200),
    business=st.one_of(st.none(), st.integers(-7200, 7200)),
    minutes=st.integers(1, 60),
    checks=st.integers(1, 9),
)
def test_I22_an_answer_never_adds_more_than_it_states(
    used: int, failures: int, throttles: int, at: int, business: int | None, minutes: int, checks: int
) -> None:
    """Both ways of making room leave a look possible and stay within the stated minutes and checks."""
    now, span = after(at), timedelta(minutes=minutes)
    before = replace(ALLOWANCE, business_deadline_at=None if business is None else after(business))
    spend = Spend(status_requests=used, transport_failures=failures, throttles=throttles)
    for room in (with_room, with_extension):
        granted = room(before, spend, now, minutes=minutes, checks=checks)
        assert granted.stops_at()[0] > now
        assert granted.deadline_at <= max(now, before.deadline_at) + span
        assert granted.max_status_requests <= max(before.max_status_requests, used + checks)
        assert granted.max_status_requests > used
        assert granted.max_throttles - before.max_throttles <= min(2, checks)
        assert not exhausted(failures, granted.max_transport_failures) and not exhausted(throttles, granted.max_throttles)
