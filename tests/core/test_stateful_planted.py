"""Planted faults: each machine of the core finds a decision that breaks one rule. A machine that finds nothing proves nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from sereno.core import budget, change, delivery, poll
from sereno.core.delivery import DeliveryState
from sereno.core.errors import InvariantBroken
from sereno.core.observation import DelaySource, ObservationKind
from sereno.core.operation import Event, Operation, OperationState
from sereno.core.poll import FireOn
from sereno.core.waiting import changing, choice, deciding, lifecycle, look, step
from sereno.core.waiting import next as steps
from tests.core.stateful_machine import OperationMachine
from tests.core.stateful_others import DeliveryMachine, PollMachine
from tests.core.stateful_profiles import HUNT

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def wrapped(patch: Patch, place: Any, name: str, after: Callable[..., Any]) -> None:
    """Replaces a function by one that is given what it decided, and its arguments."""
    honest = getattr(place, name)
    patch.setattr(place, name, lambda *given, **named: after(honest(*given, **named), *given))


def late_answers_count(patch: Patch) -> None:
    """W32: an answer after the deadline is taken as if it were in time."""
    honest = deciding._judge

    def judge(found: Any, seen: Any) -> Any:
        long = replace(found.operation.allowance, deadline_at=found.at + timedelta(days=9), business_deadline_at=None)
        return honest(replace(found, operation=replace(found.operation, allowance=long)), seen)

    patch.setattr(deciding, "_judge", judge)


def retry_after_is_a_wish(patch: Patch) -> None:
    """W13: the provider's wait is not a minimum."""
    patch.setattr(look, "provider_waits", lambda hints, received_at: {})


def the_last_request_is_planned(patch: Patch) -> None:
    """W34: one look more than the budget has is planned."""
    honest = step.used_up
    more = lambda allowance, spend: honest(replace(allowance, max_status_requests=allowance.max_status_requests + 1), spend)  # noqa: E731
    patch.setattr(deciding, "used_up", more)


def throttles_are_free(patch: Patch) -> None:
    """W14: a 429 spends no throttle budget."""
    wrapped(patch, deciding, "_spent", lambda spend, operation, seen: replace(spend, throttles=operation.spend.throttles))


def unknown_is_pending(patch: Patch) -> None:
    """W38: an unknown state does not stop on first sight."""
    ends = {kind: end for kind, end in deciding._ENDS.items() if kind is not ObservationKind.UNKNOWN_STATE}
    patch.setattr(deciding, "_ENDS", ends)


def lost_requests_are_given_back(patch: Patch) -> None:
    """W09, W33: a request whose answer was lost is not counted."""
    used = lambda spend, operation, seen: replace(  # noqa: E731
        spend, status_requests=spend.status_requests - (seen.kind is ObservationKind.TRANSPORT)
    )
    wrapped(patch, deciding, "_spent", used)


def extensions_are_generous(patch: Patch) -> None:
    """W20: an answer allows more than the option said."""
    more = lambda allowance, *_: replace(allowance, max_status_requests=allowance.max_status_requests + 1)  # noqa: E731
    honest = budget.with_extension
    patch.setattr(choice, "with_extension", lambda *given, **named: more(honest(*given, **named)))


def calls_back_hurry_everything(patch: Patch) -> None:
    """W35: a call-back shortens a wait of the provider's too."""
    patch.setattr(changing, "_SHORTENED", tuple(DelaySource))


def answers_forget_the_wait(patch: Patch) -> None:
    """W35: after an answer the look comes inside a wait that the provider asked for."""
    patch.setattr(choice, "HELD", ())
    patch.setattr(choice, "_not_before", lambda escalation: escalation.created_at)


def submits_are_repeated(patch: Patch) -> None:
    """W21: a submit in doubt is sent again whatever the provider documents."""
    patch.setattr("sereno.core.waiting.calling.may_submit_again", lambda call, contract, at: True)


def silence_means_success(patch: Patch) -> None:
    """W19: nobody answering is not stop."""
    table = {**lifecycle.TRANSITIONS, (OperationState.ESCALATED, Event.SILENCE): OperationState.SUCCEEDED}
    patch.setattr(lifecycle, "TRANSITIONS", table)


def budget_before_deadline(patch: Patch) -> None:
    """W33: the deadline is not looked at before a request."""
    honest = steps.next_call

    def blind(operation: Operation, contract: Any, now: Any) -> Any:
        return honest(operation, contract, min(now, operation.allowance.stops_at()[0] - timedelta(seconds=1)))

    patch.setattr(steps, "next_call", blind)


def the_draw_is_not_handed_in(patch: Patch) -> None:
    """A decision depends on something that was not handed in."""
    drawn = [0]

    def counted(found: Any, *given: Any) -> Any:
        drawn[0] += 1
        return replace(found, reason=f"{found.reason} {drawn[0]}")

    wrapped(patch, deciding, "decide_operation", counted)


def errors_rearm(patch: Patch) -> None:
    """P07: a removed object starts to count anew, so that one occurrence is told twice."""
    honest = change.find_changes
    patch.setattr(
        change,
        "find_changes",
        lambda reading, known, *more: honest(reading, {i: k for i, k in known.items() if k.present}, *more),
    )


def baselines_fire(patch: Patch) -> None:
    """P05: the first run fires for all that is there."""
    patch.setattr(poll, "_is_baseline", lambda found: False)


def failures_move_the_cursor(patch: Patch) -> None:
    """P04: a failed run moves the cursor."""
    wrapped(patch, poll, "_decide_failure", lambda decision, *_: replace(decision, cursor="lost"))


def every_true_fires(patch: Patch) -> None:
    """P07: a state condition fires at each look at which it holds."""
    honest = poll._settle

    def settle(found: Any, comparison: Any, judged: Any, baseline: bool) -> Any:
        if found.spec.fire_on is not FireOn.STATE:
            return honest(found, comparison, judged, baseline)
        forgotten = {name: replace(known, matching=False) for name, known in found.known.items()}
        return honest(replace(found, known=forgotten), comparison, judged, baseline)

    patch.setattr(poll, "_settle", settle)


def at_most_once_is_repeated(patch: Patch) -> None:
    """I17: an interrupted attempt is made again where at most once was chosen."""
    honest = delivery.before_send
    patch.setattr(delivery, "before_send", lambda found, now: honest(replace(found, interrupted=False), now))


def doubt_is_hidden(patch: Patch) -> None:
    """I19: what may have arrived is shown as refused."""

    def close(decision: Any, *_: Any) -> Any:
        return replace(decision, state=DeliveryState.DEAD)

    wrapped(patch, delivery, "_close", close)


def receivers_are_hurried(patch: Patch) -> None:
    """The receiver's own wait is not kept."""
    honest = delivery._retry_at
    patch.setattr(delivery, "_retry_at", lambda found, outcome, *more: honest(found, replace(outcome, not_before=None), *more))


OPERATIONS: list[Plant] = [
    late_answers_count, retry_after_is_a_wish, the_last_request_is_planned, throttles_are_free, unknown_is_pending,
    lost_requests_are_given_back, extensions_are_generous, calls_back_hurry_everything, answers_forget_the_wait, submits_are_repeated,
    silence_means_success, budget_before_deadline, the_draw_is_not_handed_in,
]  # fmt: skip
POLLS: list[Plant] = [errors_rearm, baselines_fire, failures_move_the_cursor, every_true_fires]
DELIVERIES: list[Plant] = [at_most_once_is_repeated, doubt_is_hidden, receivers_are_hurried]
PLANTED = [
    *((OperationMachine, plant) for plant in OPERATIONS),
    *((PollMachine, plant) for plant in POLLS),
    *((DeliveryMachine, plant) for plant in DELIVERIES),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("machine", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_the_machine_finds_the_planted_fault(machine: type[RuleBasedStateMachine], plant: Plant, monkeypatch: Patch) -> None:
    """The same machine that passes on the honest core fails on this one."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, InvariantBroken)):
        run_state_machine_as_test(machine, settings=HUNT)
