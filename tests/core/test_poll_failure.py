"""Failures of a poll: nothing moves, the wait grows, refusals switch it off and are told once (P10)."""

from datetime import timedelta
from random import Random

import pytest

from sereno.core.change import Comparison, FailedReading, ReadFailure
from sereno.core.poll import Poll, PollState, Stop, decide_poll
from tests.core.watching import DUE, MAIL, MINUTE, NOW, RUN, after, make, occurrences, read, run, thing

DOWN = FailedReading(ReadFailure.UNREACHABLE, "connection refused", requests=1)
DENIED = FailedReading(ReadFailure.AUTH, "401 from shop.example", requests=1)


def delay(poll: Poll, failed: FailedReading, seed: int) -> float:
    decision = decide_poll(poll, failed, Comparison(), (), scheduled_for=DUE, now=NOW, rng=Random(seed))
    assert decision.due is not None
    return (decision.due - NOW).total_seconds()


def test_P04_a_failure_moves_nothing() -> None:
    """Cursor and snapshot stay; the error is counted and worded."""
    decision = run(make(baselined=True, failures=2), DOWN)
    assert (decision.cursor, decision.remember, decision.forget, decision.effects) == ("c0", {}, (), ())
    assert (decision.status, decision.failures, decision.baselined, decision.requests) == ("failed", 3, True, 1)
    assert decision.error == "connection refused"
    assert decision.summary.startswith("could not read (unreachable): connection refused; next try 2026-05-01 12:")


def test_P10_the_wait_doubles_to_a_day_with_jitter() -> None:
    """After n failures the wait lies in 50–100 % of interval · 2^n, and never exceeds a day by more than the schedule."""
    for failures in range(30):
        raw = min(86_400.0, 60.0 * 2**failures)
        waits = [delay(make(failures=failures), DOWN, seed) for seed in range(20)]
        assert min(waits) >= raw / 2 and max(waits) <= max(raw, 60.0)
        assert failures == 0 or max(waits) - min(waits) > raw / 10


def test_P10_a_throttled_source_is_left_alone_for_longer() -> None:
    """Throttling grows by four from the first time on."""
    slow = FailedReading(ReadFailure.THROTTLED, "429")
    assert min(delay(make(), slow, seed) for seed in range(20)) >= 120
    assert min(delay(make(failures=2), slow, seed) for seed in range(20)) >= 60 * 4**3 / 2


def test_P10_a_retry_after_and_the_schedule_are_minimums() -> None:
    """No retry comes before either."""
    asked = FailedReading(ReadFailure.THROTTLED, "503", minimum_wait_until=NOW + timedelta(hours=5))
    assert delay(make(), asked, 1) == 5 * 3600
    assert all(NOW + timedelta(seconds=delay(make(), DOWN, seed)) >= DUE + MINUTE for seed in range(20))


def test_P10_success_clears_the_counts() -> None:
    """Failures are counted in a row."""
    decision = run(make(baselined=True, failures=7, auth_failures=2), read(thing("a")))
    assert (decision.failures, decision.auth_failures) == (0, 0)


def test_P10_repeated_refusals_switch_off_and_tell_once() -> None:
    """The third refusal disables the poll; one effect for each action that tells, none for a command."""
    poll = make(baselined=True, actions=(MAIL, RUN))
    told = []
    for _ in range(3):
        assert poll.state is PollState.ACTIVE
        decision = run(poll, DENIED)
        told += decision.effects
        poll = after(poll, decision)
    assert (poll.state, decision.due) == (PollState.DISABLED, None)
    assert decision.tell_user == "switched off after 3 authorization failures in a row"
    assert [effect.dedupe_key for effect in told] == ["main:local:poll_1:poll@disabled-3:mail:1"]
    assert told[0].payload["event"] == "disabled"
    assert "401 from shop.example" in told[0].body and "sereno poll resume lamps" in told[0].body


def test_P10_a_later_disabling_is_told_again() -> None:
    """After a resume the same poll may be switched off again, under another key."""
    first = run(make(auth_failures=2, runs=2), DENIED)
    second = run(make(auth_failures=2, runs=9), DENIED)
    assert occurrences(first) == ["poll@disabled-3"] and occurrences(second) == ["poll@disabled-10"]


def test_P10_an_outage_between_refusals_does_not_reset_them() -> None:
    """Only a good read shows that the credentials work."""
    assert run(make(auth_failures=2), DOWN).auth_failures == 2
    assert run(make(auth_failures=2), DOWN).state is PollState.ACTIVE


@pytest.mark.parametrize(("failures", "state"), [(98, PollState.ACTIVE), (99, PollState.ENDED)])
def test_P09_a_hundred_failures_in_a_row_end_a_poll(failures: int, state: PollState) -> None:
    """The default of a poll without a stop condition; it is told."""
    decision = run(make(failures=failures), DOWN)
    assert decision.state is state
    assert bool(decision.effects) == (decision.due is None) == (state is PollState.ENDED)


def test_P09_other_stop_conditions_hold_for_failed_runs_too() -> None:
    """A poll that may run five times ends with the fifth, read or not."""
    decision = run(make(runs=4, stop=Stop(after_runs=5)), DOWN)
    assert (decision.state, decision.tell_user) == (PollState.ENDED, "ended after 5 runs")


def test_messages_of_failures_are_made_safe() -> None:
    """Control characters and length of what a source says never reach a terminal."""
    decision = run(make(), FailedReading(ReadFailure.BROKEN, "\x1b[31mred\n" + "x" * 5000))
    assert decision.error is not None and "\x1b" not in decision.error and len(decision.error) <= 300
