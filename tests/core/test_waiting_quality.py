"""The figures of waiting: what counts as an end within its limits, and numbers whose memory is bounded (W28)."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from sereno.core.budget import Spend
from sereno.core.operation import Operation, OperationState
from sereno.core.record import JournalEntry
from sereno.core.reviewing.checking import FaultName, JournalFault
from sereno.core.reviewing.quality import Measured, Spread, Timing, WaitingQuality, read_timing
from sereno.core.reviewing.replay import Replay, Replayed, Verdict
from sereno.core.values import to_micros
from tests.core.waiting import ALLOWANCE, NOON, after, make_operation

S = OperationState


def one(
    state: OperationState, *faults: FaultName, timing: Timing | None = None, copies: tuple[str, ...] = (), **other: Any
) -> Measured:
    """One operation with what was found of it."""
    operation: Operation = make_operation(other.pop("spend", None), state=state, **other)
    found = tuple(JournalFault(name, 1, NOON, 1, "says") for name in faults)
    verdicts = [Replayed(n, n, NOON, "look", "waiting", verdict) for n, verdict in enumerate((Verdict.SAME, Verdict.CANNOT))]
    return Measured(operation, timing or Timing(), Replay(verdicts), found, copies)


def measured(*many: Measured, now: float = 0) -> WaitingQuality:
    """The figures of these."""
    quality = WaitingQuality(after(now))
    for measure in many:
        quality.add(measure)
    return quality


def test_W28_an_end_and_a_question_count_alike_within_limits() -> None:
    """A wait that is still open before its deadline is counted apart; one that nobody drives lowers the share."""
    over = ALLOWANCE.deadline_at - NOON
    open_one = one(S.WAITING)
    many = (one(S.SUCCEEDED), one(S.FAILED), one(S.STOPPED), one(S.ESCALATED), open_one)
    early = measured(*many)
    assert (early.ended, early.waiting, early.overdue, early.share_ended) == (4, 1, 0, 1.0)
    assert (early.terminal, early.asking) == (3, 1)
    late = measured(*many, now=(over + timedelta(minutes=5)).total_seconds())
    assert (late.waiting, late.overdue, late.share_ended) == (0, 1, 0.8)
    assert measured(open_one).share_ended is None


@pytest.mark.parametrize(
    ("name", "beyond"), [(FaultName.PAST_LIMIT, 1), (FaultName.PAST_DEADLINE, 1), (FaultName.LATE, 1), (FaultName.NO_SOURCE, 0)]
)
def test_W28_a_request_beyond_a_limit_is_no_end_within_it(name: FaultName, beyond: int) -> None:
    """Other faults are counted, and the end stands."""
    quality = measured(one(S.SUCCEEDED, name))
    assert (quality.beyond, quality.ended, quality.faults[name]) == (beyond, 1 - beyond, 1)
    assert measured(one(S.SUCCEEDED, spend=Spend(13))).beyond == 1


def test_W28_waits_decisions_questions_and_copies_are_added() -> None:
    """Over all operations, and states by contract."""
    timing = Timing((10, 2000), waits=3, wasted=1, asked=("unknown_state",), answered=1)
    quality = measured(
        one(S.SUCCEEDED, FaultName.INSIDE_WAIT, timing=timing, copies=("delivered",)), one(S.STOPPED, timing=Timing(expired=1))
    )
    assert (quality.waits, quality.waits_broken, quality.reconstructed) == (3, 1, (2, 4))
    assert (quality.questions, quality.answered, quality.expired, quality.wasted) == ({"unknown_state": 1}, 1, 1, 1)
    assert quality.contracts == {"acme": {"succeeded": 1, "stopped": 1}} and quality.copies == {"delivered": 1}
    assert (quality.late_ms.at(0.5), quality.late_ms.most, quality.budget.most) == (10, 2000, 8)


def test_a_spread_is_bounded_and_right_to_two_digits() -> None:
    """A hundred thousand numbers take a few hundred places; each share is at most a tenth below the exact one."""
    dice, spread = Random(5), Spread()
    numbers = sorted(int(10 ** dice.uniform(0, 9)) for _ in range(100_000))
    for number in numbers:
        spread.add(number)
    assert len(spread.counts) < 900
    for share in (0.01, 0.5, 0.95, 1.0):
        exact, found = numbers[max(0, int(share * len(numbers)) - 1)], spread.at(share)
        assert found is not None and exact * 0.9 <= found <= exact
    assert Spread().at(0.5) is None and Spread().most is None


def row(seq: int, kind: str, **facts: Any) -> JournalEntry:
    """One row of the journal."""
    return JournalEntry(seq, NOON, "op_1", seq, kind, facts)


def claimed(seconds: float, due: float, **facts: Any) -> JournalEntry:
    """A claim that asks."""
    whole = {"claimed_at": to_micros(after(seconds)), "scheduled_for": to_micros(after(due)), "asks": True, **facts}
    return row(1, "intent", **whole)


RETRY = {"hints": [{"source": "provider_retry_after", "until": 1, "raw": "1"}]}
LOOKED = row(2, "decision", draw=0.5, observation={"kind": "pending", "requests": 1}, event="saw_pending")
WAITED = row(2, "decision", draw=0.5, observation={"kind": "pending", "requests": 1, **RETRY}, event="saw_pending")


@pytest.mark.parametrize(
    ("rows", "timing"),
    [
        ([claimed(5, 2), LOOKED], Timing((3000,))),
        ([claimed(1, 2), LOOKED, claimed(9, 9, asks=False)], Timing((0,))),
        ([claimed(5, 2), claimed(65, 2, taken_over=True), LOOKED], Timing((3000,), wasted=1)),
        ([claimed(5, 2), row(2, "result", decision="released"), claimed(6, 2), LOOKED], Timing((3000, 4000))),
        ([claimed(2, 2), WAITED, claimed(9, 9), LOOKED, claimed(20, 20)], Timing((0, 0, 0), waits=1)),
        ([claimed(2, 2), WAITED], Timing((0,))),
        ([claimed(3, 2, asks=False, call={"taken": True}), row(2, "decision", draw=None, call={"answer": RETRY}), claimed(4, 4)],
         Timing((1000, 0), waits=1)),
        ([row(1, "decision", draw=None, escalation="esc_1", category="unknown_state"), row(2, "decision", decision="answered"),
          row(3, "decision", draw=None, escalation="esc_2", category="contradiction"), row(4, "decision", draw=None, event="silence")],
         Timing(asked=("unknown_state", "contradiction"), answered=1, expired=1)),
    ],
)  # fmt: skip
def test_W28_the_journal_tells_lateness_waits_and_waste(rows: list[JournalEntry], timing: Timing) -> None:
    """Only what was sent counts; a claim that took over, and a request that was given back, do not."""
    assert read_timing(rows) == timing
