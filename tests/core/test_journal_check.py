"""The check of the audited facts: each fault is planted once in the journal of a sound life, and found under its name (W44)."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sereno.core.record import JournalEntry
from sereno.core.reviewing.checking import FaultName, check_journal
from sereno.core.values import to_micros
from tests.core.waiting import KEYED, NOON, SUBMIT, make_contract

SECOND = 1_000_000
LIMITS: dict[str, Any] = {
    "deadline_at": to_micros(NOON + timedelta(hours=1)),
    "business_deadline_at": None,
    "max_status_requests": 12,
    "max_transport_failures": 3,
    "max_throttles": 3,
}
WAITING: dict[str, Any] = {"state": "waiting", "delay_source": "local_backoff"}


def at(seconds: float) -> int:
    """Microseconds of an instant after noon."""
    return to_micros(NOON + timedelta(seconds=seconds))


def row(seq: int, seconds: float, kind: str, run: int = 0, **facts: Any) -> JournalEntry:
    """One row of the journal."""
    return JournalEntry(seq, NOON + timedelta(seconds=seconds), "op_1", run, kind, facts)


def claim(seq: int, seconds: float, run: int, used: int, **facts: Any) -> JournalEntry:
    """A claim that sets a status request aside."""
    whole = {
        **LIMITS, **WAITING, "claimed_at": at(seconds), "asks": True, "status_requests_used": used, "transport_failures_used": 0,
        "throttles_used": 0, "min_gap_us": SECOND, "contract_digest": "d", **facts,
    }  # fmt: skip
    return row(seq, seconds, "intent", run, **whole)


def step(seq: int, seconds: float, run: int, used: int, kind: str, state: str, **facts: Any) -> JournalEntry:
    """A decision on an answer."""
    whole = {
        **LIMITS, "delay_source": "local_backoff", "draw": 0.5, "state_before": "waiting", "state": state, "event": f"saw_{kind}",
        "received_at": at(seconds), "status_requests_used": used, "transport_failures_used": 0, "throttles_used": 0,
        "next_poll_at": None, "due": None, "edited": False, "observation": {"kind": kind, "requests": 1, "http_status": 200}, **facts,
    }  # fmt: skip
    return row(seq, seconds, "decision", run, **whole)


def asked_to_wait(seconds: float) -> dict[str, Any]:
    """An answer with a Retry-After."""
    hint = {"source": "provider_retry_after", "raw": "20", "until": at(seconds), "rejected": None}
    return {"kind": "pending", "requests": 1, "http_status": 200, "hints": [hint]}


def sound() -> list[JournalEntry]:
    """A wait of three looks, with a question that a person answers in between, and success."""
    person = {"by": "anna", "by_kind": "human"}
    more = {**LIMITS, "max_status_requests": 20}
    return [
        row(1, 0, "decision", decision="created", **person, **LIMITS, **WAITING, next_poll_at=at(2), status_requests_used=0),
        claim(2, 2, 1, 1),
        step(3, 3, 1, 1, "pending", "waiting", next_poll_at=at(30), due=at(30), observation=asked_to_wait(25)),
        claim(4, 30, 2, 2),
        step(5, 31, 2, 2, "unknown_state", "escalated", due=at(900), escalation="esc_1", category="unknown_state"),
        row(6, 60, "decision", 2, decision="answered", **person, **more, state_before="escalated", state="waiting", verb="check_again",
            delay_source="manual_extension", escalation="esc_1", next_poll_at=at(60), due=at(60)),
        claim(7, 60, 3, 3, **more),
        row(8, 60, "intent", 3, event="redirect_hop", origin="https://a.example"),
        step(9, 61, 3, 4, "success", "succeeded", **more),
    ]  # fmt: skip


def submitted() -> list[JournalEntry]:
    """A submit whose first answer was a 429, sent again and taken on."""
    begun: dict[str, Any] = {"state": "submitting", "delay_source": "contract_schedule"}
    call = {"id": "call_1", "kind": "submit", "state": "sending", "attempts": 1, "interrupted": False, "taken": True}
    later = {**call, "attempts": 2}
    throttled = {"id": "call_1", "state": "queued", "answer": {"outcome": "throttled", "requests": 1}}
    done = {"id": "call_1", "state": "done", "answer": {"outcome": "accepted", "requests": 1, "job_id": "j"}}
    same = {"state_before": "submitting", "observation": None}
    return [
        row(1, 0, "decision", decision="created", by="anna", by_kind="human", **LIMITS, **begun, next_poll_at=None),
        claim(2, 0, 1, 0, asks=False, call=call, **begun),
        step(3, 1, 1, 0, "submit_again", "submitting", **same, call=throttled, next_poll_at=at(9), due=at(9)),
        claim(4, 9, 2, 0, asks=False, call=later, **begun),
        step(5, 10, 2, 0, "submitted", "waiting", **same, call=done, next_poll_at=at(12), due=at(12)),
        claim(6, 12, 3, 1),
        step(7, 13, 3, 1, "failure", "failed"),
    ]  # fmt: skip


CONTRACTS = {"d": make_contract(submit=SUBMIT)}


def test_I26_W44_a_sound_journal_has_no_fault() -> None:
    """Neither the wait nor the submit; nor where nothing is there."""
    assert check_journal(sound(), CONTRACTS) == check_journal(submitted(), CONTRACTS) == check_journal([]) == []


def planted(entries: Sequence[JournalEntry], seq: int, **changes: Any) -> list[JournalEntry]:
    """The journal with facts of one row changed; `...` takes one away, `a__b` reaches into a table."""
    found = []
    for entry in deepcopy(list(entries)):
        if entry.seq == seq:
            facts: dict[str, Any] = dict(entry.facts)
            for name, value in changes.items():
                *path, last = name.split("__")
                table = facts
                for part in path:
                    table = table[part]
                table.pop(last, None) if value is ... else table.update({last: value})
            entry = replace(entry, facts=facts)
        found.append(entry)
    return found


Plant = tuple[FaultName, Callable[[], list[JournalEntry]], int, dict[str, Any]]
N = FaultName
PLANTS: list[Plant] = [
    (N.EARLY, sound, 4, {"claimed_at": at(29.9)}),
    (N.EARLY, sound, 2, {"claimed_at": at(1)}),
    (N.EARLY, submitted, 4, {"claimed_at": at(8)}),
    (N.INSIDE_WAIT, sound, 3, {"observation": asked_to_wait(40)}),
    (N.INSIDE_WAIT, submitted, 3, {"call__answer": {"outcome": "throttled", **asked_to_wait(50)}}),
    (N.INSIDE_GAP, sound, 4, {"min_gap_us": 60 * SECOND}),
    (N.PAST_DEADLINE, sound, 7, {"claimed_at": at(3600)}),
    (N.PAST_DEADLINE, submitted, 4, {"claimed_at": at(3700)}),
    (N.PAST_LIMIT, sound, 7, {"status_requests_used": 21}),
    (N.PAST_LIMIT, sound, 9, {"status_requests_used": 21}),
    (N.PAST_LIMIT, sound, 7, {"transport_failures_used": 3}),
    (N.PAST_LIMIT, sound, 4, {"throttles_used": 3}),
    (N.PAST_LIMIT, submitted, 4, {"call__attempts": 21, "call__interrupted": True}),
    (N.NO_RIGHT, sound, 4, {"state": "escalated"}),
    (N.UNCOUNTED, sound, 7, {"status_requests_used": 2}),
    (N.UNCOUNTED, sound, 9, {"status_requests_used": 3}),
    (N.NO_SOURCE, sound, 3, {"delay_source": None}),
    (N.NO_SOURCE, sound, 4, {"delay_source": ...}),
    (N.NO_SOURCE, sound, 1, {"delay_source": "whim"}),
    (N.CONTRADICTS, sound, 9, {"observation__kind": "pending"}),
    (N.CONTRADICTS, sound, 9, {"observation": None}),
    (N.CONTRADICTS, sound, 9, {"state": "failed"}),
    (N.CONTRADICTS, sound, 9, {"state": "stopped"}),
    (N.CONTRADICTS, submitted, 7, {"state": "succeeded"}),
    (N.CONTRADICTS, sound, 6, {"state": "succeeded"}),
    (N.CONTRADICTS, sound, 6, {"state": "failed", "decision": "cancel_requested"}),
    (N.LATE, sound, 9, {"received_at": at(3600)}),
    (N.LATE, sound, 9, {"business_deadline_at": at(60)}),
    (N.JUMPED, sound, 9, {"state_before": "submitting"}),
    (N.JUMPED, sound, 7, {"state": "submitting"}),
    (N.LIMITS, sound, 4, {"max_status_requests": 13}),
    (N.LIMITS, sound, 7, {"deadline_at": at(7200)}),
    (N.NO_PERSON, sound, 6, {"by_kind": "agent"}),
    (N.NO_PERSON, sound, 1, {"by_kind": "agent", "previous": "op_0"}),
    (N.NO_PERSON, sound, 6, {"by_kind": "system", "decision": "contract_changed"}),
    (N.TWICE, submitted, 3, {"call__answer__outcome": "unknown"}),
    (N.TWICE, submitted, 3, {"call__answer__outcome": "accepted"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "journal", "seq", "changes"), PLANTS, ids=[f"{name}-{seq}" for name, _, seq, _ in PLANTS])
def test_I26_W44_each_planted_fault_is_found(
    name: FaultName, journal: Callable[[], list[JournalEntry]], seq: int, changes: dict[str, Any]
) -> None:
    """Under its name, with the row that shows it and a sentence."""
    faults = check_journal(planted(journal(), seq, **changes), CONTRACTS)
    found = [fault for fault in faults if fault.name is name]
    assert found and found[0].says and found[0].at >= NOON, faults


def test_W44_every_fault_is_planted() -> None:
    """No name without a plant."""
    assert {name for name, *_ in PLANTS} | {FaultName.ANSWERED_TWICE} == set(FaultName)


def test_W20_a_question_counts_once() -> None:
    """The same answer a second time is a fault."""
    entries = sound()
    assert [fault.name for fault in check_journal([*entries[:6], entries[5]], CONTRACTS)] == [N.ANSWERED_TWICE, N.JUMPED]


def test_W21_a_submit_that_crashed_is_in_doubt() -> None:
    """Sent again after a claim that nothing followed: a fault without a key, none with one, and none where it was given back."""
    entries = [entry for entry in submitted() if entry.seq != 3]
    assert FaultName.TWICE in [fault.name for fault in check_journal(entries, CONTRACTS)]
    assert FaultName.TWICE not in [fault.name for fault in check_journal(entries, {"d": make_contract(submit=KEYED)})]
    given_back = [*entries[:2], row(3, 1, "result", 1, decision="released", due=at(9)), *entries[2:]]
    assert check_journal(given_back, CONTRACTS) == []


def test_W20_an_agent_may_stop_and_nothing_else() -> None:
    """To stop widens nothing."""
    stop = planted(sound()[:6], 6, by_kind="agent", verb="stop", state="stopped", **LIMITS)
    assert check_journal(stop, CONTRACTS) == []


def test_a_request_given_back_is_not_missed() -> None:
    """Nothing left: neither the step that says so, nor one that was released, counts."""
    entries = planted(sound()[:3], 3, observation={"kind": "not_sent", "requests": 0}, status_requests_used=0)
    assert check_journal(entries, CONTRACTS) == []
    released = [*sound()[:2], row(3, 3, "result", 1, decision="released", due=at(2)), claim(4, 3, 2, 1)]
    assert check_journal(released, CONTRACTS) == []


def clock(seq: int, seconds: float, moved: bool = True) -> JournalEntry:
    """The row of a clock that was set back."""
    return JournalEntry(seq, NOON, "clock", 0, "result", {"event": "clock_step", "seconds": -seconds, "moved": moved})


def test_I7_a_clock_that_was_set_back_took_the_plans_with_it() -> None:
    """Sooner by the step is no fault; sooner by more is one, and a step that moved nothing excuses nothing."""
    earlier = [replace(entry, seq=entry.seq * 10) for entry in sound()[:3]]

    def again(seconds: float) -> list[JournalEntry]:
        return [*earlier, claim(40, seconds, 2, 2)]

    assert check_journal(again(-70), CONTRACTS, [clock(35, 100)]) == []
    assert {fault.name for fault in check_journal(again(-76), CONTRACTS, [clock(35, 100)])} == {N.EARLY, N.INSIDE_WAIT}
    assert check_journal(again(-70), CONTRACTS, [clock(35, 100, moved=False)]) != []
    assert check_journal(again(-70), CONTRACTS, [clock(25, 100)]) == [], "the plan is told by the clock of its claim"
    assert check_journal(again(-70), CONTRACTS, [clock(15, 100)]) != []


def test_I4_a_clock_that_was_set_forward_took_the_plans_with_it() -> None:
    """What is due by the new clock but not by the length of its wait is early; a step that moved nothing asks for nothing."""
    earlier = [replace(entry, seq=entry.seq * 10) for entry in sound()[:3]]

    def again(seconds: float, step: JournalEntry) -> set[N]:
        return {fault.name for fault in check_journal([*earlier, claim(40, seconds, 2, 2)], CONTRACTS, [step])}

    assert again(30, clock(35, -100, moved=False)) == set(), "the plan itself is kept"
    assert again(30, clock(35, -100)) == {N.EARLY, N.INSIDE_WAIT, N.INSIDE_GAP}
    assert again(124, clock(25, -100)) == {N.EARLY, N.INSIDE_WAIT}
    assert again(130, clock(35, -100)) == set()
    assert again(30, clock(5, -100)) == set(), "all of it was planned by the new clock"
    old = clock(35, -100)
    assert again(30, replace(old, facts={"event": "clock_step", "seconds": 100.0})) == set(), (
        "an older version moved none forward"
    )


def test_a_call_back_only_ever_shortens() -> None:
    """Its row may bring the look forward; the row of another contract puts nothing off."""
    pushed = row(
        35, 5, "decision", 1, decision="pushed", by="webhook", by_kind="system", state="waiting", next_poll_at=at(26), due=at(26)
    )
    entries = [replace(entry, seq=entry.seq * 10) for entry in sound()[:3]]
    assert check_journal([*entries, pushed, claim(40, 26, 2, 2)], CONTRACTS) == []
    assert [fault.name for fault in check_journal([*entries, pushed, claim(40, 25.5, 2, 2)], CONTRACTS)] == [N.EARLY]


def test_what_an_older_version_wrote_is_no_fault() -> None:
    """Rows without the facts of today are read as far as they go."""
    assert (
        check_journal(
            [row(1, 0, "decision", decision="created", by="a", by_kind="human", state="waiting", delay_source="local_backoff")]
        )
        == []
    )
