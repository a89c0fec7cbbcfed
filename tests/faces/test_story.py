"""The story of an operation in words: submits, cancels, call-backs, other contracts, hand-overs, tolerated answers; foreign text escaped."""

from datetime import UTC, datetime

import pytest

from sereno.core.call import CallOutcome, CallState
from sereno.core.record import JournalEntry, OperationRecord
from sereno.faces.cli.output import Output
from sereno.faces.cli.show.story import show_story
from sereno.faces.cli.show.words import ANSWERS, CALLS
from sereno.service.operations import Story
from tests.core.waiting import make_operation

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def told(capsys: pytest.CaptureFixture[str], *facts: dict[str, object]) -> str:
    """What `explain` prints of decisions with these facts."""
    entries = [
        JournalEntry(seq, NOON, "op_1", 1, "decision", one)  # type: ignore[arg-type]
        for seq, one in enumerate(facts, 1)
    ]
    show_story(Output(as_json=False), Story(OperationRecord(make_operation(), None, NOON), entries))
    return capsys.readouterr().out


def step(**facts: object) -> dict[str, object]:
    """The facts of one step."""
    return {"decision": "why it was so", "state_before": "waiting", "state": "waiting", **facts}


def test_every_state_and_answer_of_a_call_has_words() -> None:
    """W24: none is told as a code."""
    assert CALLS.keys() == set(CallState)
    assert ANSWERS.keys() == set(CallOutcome)


def test_W26_a_hand_over_and_a_tolerated_answer_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The new address, and that only a count lets the answer pass."""
    seen = {"kind": "pending", "http_status": 200, "state": "queued"}
    text = told(
        capsys,
        step(observation=seen, url="https://ci.example/job/7"),
        step(observation={**seen, "state": "ended", "tolerated": True}),
    )
    assert "the job goes on at https://ci.example/job/7" in text
    assert text.count("only a count of the contract lets this answer pass") == 1


def test_W26_a_call_back_that_was_read_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was asked, so no HTTP status is shown."""
    pushed = {"bytes": 31, "content_type": "application/json", "digest": "a" * 64}
    text = told(
        capsys, step(observation={"kind": "success", "http_status": 200, "state": "done"}, pushed=pushed, state="succeeded")
    )
    assert "read the provider's call-back, job state done (success); state waiting → succeeded" in text
    assert "call-back: 31 bytes of application/json" in text and "HTTP" not in text


@pytest.mark.parametrize("outcome", CallOutcome)
def test_W26_each_answer_to_a_submit_is_told(capsys: pytest.CaptureFixture[str], outcome: CallOutcome) -> None:
    """In the words of the table, with the HTTP status."""
    call = {"id": "call_1", "state": "done", "answer": {"outcome": outcome.value, "http_status": 201}}
    text = told(capsys, step(state_before="submitting", call=call, job={"job_id": "job-1"} if outcome == "accepted" else None))
    named = " as job job-1" if outcome == "accepted" else ""
    assert f"the submit {ANSWERS[outcome]}{named} (HTTP 201); state submitting → waiting" in text


def test_W26_a_call_that_ended_without_an_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """By its state."""
    text = told(capsys, step(call={"id": "call_1", "state": "unknown", "answer": None}))
    assert "the cancel: it is not known whether it was taken on" in text


def test_W20_what_a_person_did_is_told_with_what_was_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Who, what, and the effects that were shown."""
    text = told(
        capsys,
        step(
            decision="cancel_requested",
            by="ada",
            reason="a person asked to cancel the job",
            statement={"effects": "it is billed"},
        ),
        step(decision="contract_changed", by="ada", contract_digest_before="a" * 64, contract_digest="b" * 64),
    )
    assert "ada asked for the job to be cancelled at the provider" in text and "why: a person asked to cancel the job" in text
    assert "what it does, as shown: it is billed" in text
    assert "contract aaaaaaaaaaaa → bbbbbbbbbbbb" in text


def test_foreign_text_in_a_story_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Job ids, words, addresses, content types and effects come from elsewhere."""
    bad = "x\x1b[2J\u202ey"
    call = {"id": "call_1", "state": "done", "answer": {"outcome": bad, "http_status": 201}}
    text = told(
        capsys,
        step(observation={"kind": bad, "http_status": 200, "state": bad}, url=bad),
        step(call=call, job={"job_id": bad}),
        step(call={"id": "call_1", "state": bad, "answer": None}),
        step(decision="pushed", by=bad, pushed={"bytes": 1, "content_type": bad, "digest": bad}, statement={"effects": bad}),
        step(contract_digest_before=bad, contract_digest=bad),
    )
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b" in text


def test_W26_the_next_look_is_told_once_and_a_call_back_is_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """The reason does not repeat the line of the next look; a state that stays is named once."""
    looks = int(NOON.timestamp() * 1e6) + 60_000_000
    seen = {"kind": "pending", "http_status": 200, "state": "queued"}
    plan = {"next_poll_at": looks, "delay_source": "local_backoff"}
    text = told(
        capsys,
        step(decision="the job is pending; next look at 2026-11-30 12:01:00 UTC (local_backoff)", observation=seen, **plan),
        step(decision="pushed", by="ada", reason="called back: the next look comes sooner", **plan),
    )
    assert "(pending); state waiting\n" in text and "why: the job is pending\n" in text and text.count("next look:") == 2
    assert text.count("Sereno's own growing pause") == 1 and text.count("because of the call-back") == 1
