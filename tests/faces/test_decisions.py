"""What a person decides about an operation by command: cancel, resubmit, call-back, another contract. In quick time."""

import io
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from sereno.core.escalation import PAUSE_MINUTES
from tests.faces.conftest import Cli, QuickClock, Result
from tests.faces.provider import CANCEL, CONTRACT, Provider

pytestmark = pytest.mark.usefixtures("quick")


def submit(cli: Cli, provider: Provider, *more: str) -> Result:
    """Submits a job and waits."""
    return cli("submit", "acme", "--base", provider.base, "--input", '{"scene": 1}', *more)


def waiting(cli: Cli, provider: Provider, contract: str = "acme", *more: str) -> str:
    """An open wait that nobody drives."""
    base = ("--base", provider.base) if contract == "acme" else ()
    found = cli("wait", contract, "job-9", *base, "--detach", "--json", *more)
    assert found.code == 0, found.out
    return str(found.json["operation"]["operation_id"])


def test_W40_a_cancel_shows_its_effects_and_is_sent_once(cli: Cli, provider: Provider) -> None:
    """`--yes` decides; the next step sends one cancel, and the following look sees the end."""
    operation = waiting(cli, provider)
    asked = cli("operation", "cancel", operation, "--yes")
    assert asked.code == 0, asked.err
    assert asked.out.startswith("Cancel job job-9 at acme?")
    assert "ends as canceled; what ran is billed" in asked.out
    assert provider.books.requests == [], "the command itself sends nothing"
    done = cli("wait", operation)
    assert done.code == 3 and "cancelled" in done.out
    assert [path for _, path, _ in provider.books.sent("POST")] == ["/jobs/job-9/cancel"]
    text = cli("operation", "show", operation).out
    assert "cancel" in text and "taken on; 1 try" in text
    story = cli("operation", "explain", operation).out
    assert "ada asked for the job to be cancelled at the provider" in story
    assert "the cancel was taken on" in story, story


def test_W20_a_cancel_without_a_terminal_needs_yes(cli: Cli, provider: Provider) -> None:
    """Nothing changes before."""
    operation = waiting(cli, provider)
    refused = cli("operation", "cancel", operation)
    assert refused.code == 2 and "--yes" in refused.err
    assert cli("operation", "show", operation, "--json").json["calls"] == []


def test_a_submit_that_was_not_sent_can_be_given_up(cli: Cli, provider: Provider) -> None:
    """It is dropped, the operation stops, and nothing is ever sent."""
    operation = submit(cli, provider, "--detach", "--json").json["operation"]["operation_id"]
    given_up = cli("operation", "cancel", operation, "--yes")
    assert given_up.code == 0, given_up.err
    assert given_up.out.startswith("Give up the submit to acme?")
    assert cli("wait", operation).code == 4
    assert provider.books.requests == []
    assert "given up, unsent" in cli("operation", "show", operation).out


@pytest.mark.parametrize(("typed", "code", "calls"), [("yes\n", 0, 1), ("no\n", 6, 0), ("", 6, 0)])
def test_W20_on_a_terminal_a_yes_is_asked(
    cli: Cli, provider: Provider, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, calls: int
) -> None:
    """Only a whole yes decides."""
    operation = waiting(cli, provider)
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert cli("operation", "cancel", operation).code == code
    assert len(cli("operation", "show", operation, "--json").json["calls"]) == calls


def test_W40_no_cancel_where_the_contract_documents_none(cli: Cli, provider: Provider, folder: Path) -> None:
    """The refusal says what to do."""
    (folder / "contracts/acme.toml").write_text(CONTRACT)
    refused = cli("operation", "cancel", waiting(cli, provider), "--yes")
    assert refused.code == 6 and "does not document how a job is cancelled" in refused.err


def test_W02_a_running_job_is_not_submitted_anew(cli: Cli, provider: Provider) -> None:
    """Nor one that succeeded, nor one that was not submitted here."""
    provider.books.script = ["running"]
    running = submit(cli, provider, "--detach", "--json").json["operation"]["operation_id"]
    refused = cli("operation", "resubmit", running, "--yes")
    assert refused.code == 6 and "may still be running" in refused.err
    provider.books.script = ["done"]
    assert cli("wait", running).code == 0
    assert "succeeded" in cli("operation", "resubmit", running, "--yes").err
    provider.books.script = ["failed"]
    foreign = waiting(cli, provider)
    assert cli("wait", foreign).code == 3
    assert "was not submitted by Sereno" in cli("operation", "resubmit", foreign, "--yes").err


def test_W21_a_failed_job_is_submitted_anew_only_by_a_person(cli: Cli, provider: Provider) -> None:
    """A new operation, linked to the first, with a new key and the same input; the limits are those of the first."""
    provider.books.script = ["failed"]
    failed = submit(cli, provider, "--max-requests", "7")
    assert failed.code == 3
    first = failed.err.split(":", 1)[0]
    assert len(provider.books.sent("POST")) == 1, "nothing is submitted anew by itself"
    shown = cli("operation", "resubmit", first)
    assert shown.code == 2 and shown.out.startswith(f"Submit the job of {first} anew at acme?")
    assert "starts a render; billed by the minute" in shown.out and "may still run" not in shown.out
    assert "elapsed" not in shown.out, "it has ended"
    again = cli("operation", "resubmit", first, "--yes", "--json")
    assert again.code == 0, again.out
    row = again.json["operation"]
    assert (row["previous_operation"], row["status"], row["max_status_requests"]) == (first, "submitting", 7)
    twice = cli("operation", "resubmit", first, "--yes")
    assert twice.code != 0 and f"submitted anew already, as {row['operation_id']}" in twice.err, (
        "asking twice starts no second job"
    )
    provider.books.script = ["done"]
    assert cli("wait", row["operation_id"]).code == 0
    keys = [key for _, _, key in provider.books.sent("POST")]
    assert len(set(keys)) == 2 and provider.books.bodies == [{"scene": 1}, {"scene": 1}]
    assert f"submitted anew for  {first}" in cli("operation", "show", row["operation_id"]).out
    assert f"Submitted anew as {row['operation_id']}." in cli("operation", "show", first).out


def test_W35_a_call_back_wakes_a_look_but_decides_nothing(cli: Cli, provider: Provider) -> None:
    """A body that says done does not end the wait; the look does."""
    operation = waiting(cli, provider)
    pushed = cli("operation", "push", operation, "--body", '{"id": "job-9", "status": "done"}', "--json")
    assert pushed.code == 0, pushed.out
    assert pushed.json["operation"]["status"] == "waiting" and provider.books.requests == []
    assert cli("wait", operation).code == 0
    assert "ada handed over a call-back of the provider" in cli("operation", "explain", operation).out


def test_W35_a_call_back_never_shortens_a_wait_of_the_provider(cli: Cli, provider: Provider) -> None:
    """Retry-After holds: the planned look stays where it was."""
    provider.books.headers = [("Retry-After", "300")]
    provider.books.script = ["running"]
    operation = waiting(cli, provider)
    look_once(cli, provider, operation)
    before = cli("operation", "show", operation, "--json").json
    assert before["delay_source"] == "provider_retry_after"
    pushed = cli("operation", "push", operation, "--json")
    after = cli("operation", "show", operation, "--json").json
    assert pushed.code == 0 and after["next_poll_at"] == before["next_poll_at"]
    assert cli("once").code == 0 and len(provider.books.sent("GET")) == 1


def look_once(cli: Cli, provider: Provider, operation: str) -> None:
    """Drives until the first look was answered."""
    for _ in range(200):
        assert cli("once").code == 0
        if cli("operation", "show", operation, "--json").json["last_http_status"] is not None:
            return
    raise AssertionError("no look was answered")


def test_a_provider_that_calls_back_is_never_asked(cli: Cli, provider: Provider, folder: Path) -> None:
    """Only the deadline limits it; the call-back is read through the contract and ends it."""
    operation = waiting(cli, provider, "caller")
    row = cli("operation", "show", operation, "--json").json
    assert (row["max_status_requests"], row["status"]) == (0, "waiting")
    assert "none: the provider calls back" in cli("operation", "show", operation).out
    assert "call-back" in cli("operation", "list").out
    (folder / "body.json").write_text('{"id": "job-9", "status": "done"}')
    pushed = cli("operation", "push", operation, "--body", "@body.json")
    assert pushed.code == 0, pushed.err
    done = cli("wait", operation)
    assert done.code == 0, done.err
    assert provider.books.requests == []


def test_W41_a_provider_that_calls_back_has_no_request_limit(cli: Cli, provider: Provider) -> None:
    """A flag that would limit nothing is not taken in silence."""
    refused = cli("wait", "caller", "job-9", "--max-requests", "5")
    assert refused.code == 2 and "leave out --max-requests" in refused.err
    row = cli("wait", "caller", "job-9", "--deadline", "1h", "--detach", "--json").json["operation"]
    span = datetime.fromisoformat(row["deadline_at"]) - datetime.fromisoformat(row["created_at"])
    assert abs(span.total_seconds() - 3600) < 5


def test_an_ended_operation_is_not_moved(cli: Cli, provider: Provider) -> None:
    """A late call-back is recorded and changes nothing; a cancel is refused."""
    provider.books.script = ["done"]
    operation = waiting(cli, provider)
    assert cli("wait", operation).code == 0
    result = cli("operation", "result", operation)
    assert result.code == 0, result.err
    assert cli("operation", "list", "--limit", "-1").code == 2
    late = cli("operation", "push", operation, "--json")
    assert (late.code, late.json["operation"]["status"]) == (0, "succeeded")
    assert len(provider.books.requests) == 1
    assert cli("operation", "cancel", operation, "--yes").code == 6


def test_a_contract_that_was_edited_changes_nothing_until_a_person_says_so(cli: Cli, provider: Provider, folder: Path) -> None:
    """The difference is shown line by line; --yes moves the operation, and the next look follows the new contract."""
    provider.books.script = ["rendering", "rendering", "done"]
    operation = waiting(cli, provider)
    same = cli("operation", "contract", operation)
    assert same.code == 0 and "has the present contract" in same.out
    edited = (CONTRACT + CANCEL).replace('"queued", "running"', '"queued", "rendering"')
    (folder / "contracts/acme.toml").write_text(edited)
    shown = cli("operation", "contract", operation)
    assert '- states.pending = ["queued","running"]' in shown.out and '+ states.pending = ["queued","rendering"]' in shown.out
    assert f"sereno operation contract {operation} --yes" in shown.out
    before = cli("operation", "show", operation, "--json").json["contract_digest"]
    assert cli("operation", "contract", operation, "--json").json["pinned"] == before
    assert "until a person says so" in shown.out
    told = cli("operation", "contract", operation, "--yes")
    assert "until a person says so" not in told.out and "follows the present contract from now on" in told.out
    (folder / "contracts/acme.toml").write_text(edited.replace("version = 1", "version = 2", 1))
    moved = cli("operation", "contract", operation, "--yes", "--json")
    assert moved.code == 0 and moved.json["operation"]["contract_digest"] != before
    assert cli("wait", operation).code == 0
    assert "ada moved the operation to the present contract" in cli("operation", "explain", operation).out


def test_W40_an_unknown_word_is_answered_by_the_mended_contract(cli: Cli, provider: Provider, folder: Path) -> None:
    """`update_contract` takes the contract as it stands when the answer is given, and looks once more."""
    provider.books.script = ["rendering", "rendering", "done"]
    operation = waiting(cli, provider)
    assert cli("wait", operation).code == 4
    question = cli("escalation", "list", "--json").json["escalations"][0]
    (folder / "contracts/acme.toml").write_text((CONTRACT + CANCEL).replace('"running"', '"running", "rendering"'))
    answered = cli("escalation", "answer", question["id"], "update_contract", "--digest", question["digest"][:12])
    assert answered.code == 0, answered.err
    assert cli("wait", operation).code == 0


def test_W40_pause_sends_nothing_until_its_time_is_over(cli: Cli, provider: Provider, quick: QuickClock) -> None:
    """The option says for how long; then comes one look."""
    provider.books.script = ["rendering"]
    operation = waiting(cli, provider)
    assert cli("wait", operation).code == 4
    question = cli("escalation", "list", "--json").json["escalations"][0]
    looks, before = len(provider.books.requests), quick.now()
    answered = cli("escalation", "answer", question["id"], "pause", "--digest", question["digest"][:12], "--json")
    assert answered.code == 0, answered.out
    quick.speed = 1.0  # so that the pause is over in an hour, not in two minutes
    row = answered.json["operation"]
    asked = datetime.fromisoformat(row["next_poll_at"]) - timedelta(minutes=PAUSE_MINUTES)
    assert before <= asked <= quick.now()
    assert cli("once").code == 0 and len(provider.books.requests) == looks


def test_W40_a_question_is_answered_by_cancelling(cli: Cli, provider: Provider) -> None:
    """The option shows the effects; the cancel is sent once, and the checks it grants see the end."""
    provider.books.script = ["rendering"]
    operation = waiting(cli, provider)
    asked = cli("wait", operation)
    assert asked.code == 4 and "ends as canceled; what ran is billed" in " ".join(asked.out.split())
    question = cli("escalation", "list", "--json").json["escalations"][0]
    answered = cli("escalation", "answer", question["id"], "cancel", "--digest", question["digest"][:12])
    assert answered.code == 0, answered.err
    assert cli("wait", operation).code == 3
    assert [path for _, path, _ in provider.books.sent("POST")] == ["/jobs/job-9/cancel"]
    assert cli("operation", "show", operation, "--json").json["status"] == "cancelled"


def test_a_cancel_beside_an_open_question_says_where_to_answer(cli: Cli, provider: Provider) -> None:
    """There the cancel is an option, with what it allows."""
    provider.books.script = ["rendering"]
    operation = waiting(cli, provider)
    assert cli("wait", operation).code == 4
    refused = cli("operation", "cancel", operation, "--yes")
    assert refused.code == 6 and "sereno escalation show esc_" in refused.err
    assert provider.books.sent("POST") == []


def test_W05_pinned_fields_and_what_a_question_asks_first_are_shown(cli: Cli, provider: Provider, folder: Path) -> None:
    """What no later answer may change stands on the page; a change of it stops, and the question begins with the decision."""
    text = (CONTRACT + CANCEL).replace('id = "id"', 'id = "id"\npins = ["attempt"]', 1)
    (folder / "contracts/acme.toml").write_text(text)
    provider.books.script = ["running", "running"]
    provider.books.extra = [{"attempt": "first"}, {"attempt": "second"}]
    operation = waiting(cli, provider)
    asked = cli("wait", operation)
    assert asked.code == 4 and "contradiction" in asked.out
    lines = asked.out.splitlines()
    assert lines[0] == "Job job-9 at acme needs a decision: contradiction"
    assert lines[1].startswith("  ") and "attempt" in lines[1]
    assert lines.index("What is known:") > lines.index("What you can answer (each once, and only for exactly this question):")
    assert "pinned attempt" in cli("operation", "show", operation).out


def test_a_call_back_beyond_a_megabyte_is_refused(cli: Cli, provider: Provider, folder: Path) -> None:
    """Nothing is recorded."""
    (folder / "big.json").write_text('"' + "x" * 1_000_000 + '"')
    refused = cli("operation", "push", waiting(cli, provider), "--body", "@big.json")
    assert refused.code == 2 and "more than 1,000,000 bytes" in refused.err


def test_a_refused_submit_says_what_the_provider_said_and_what_to_do(cli: Cli, provider: Provider) -> None:
    """There is no look to plan; the result names the question; a closed question shows its answer."""
    provider.books.submit_status = 422
    asked = submit(cli, provider)
    operation = asked.err.split(":", 1)[0]
    assert asked.code == 4 and f"The submit of {operation} to acme needs a decision" in asked.out
    plain = " ".join(asked.out.split())
    assert "not this one" in plain.split("What you can answer")[0] and "submit anew: sereno submit acme" in plain
    assert "earliest next look" not in asked.out
    question = cli("operation", "show", operation, "--json").json["escalation"]
    none = cli("operation", "result", operation)
    assert none.code == 6 and f"sereno escalation show {question}" in none.err
    row = cli("escalation", "show", question, "--json").json
    assert operation in cli("escalation", "list").out
    assert cli("escalation", "answer", question, "stop", "--digest", row["digest"]).code == 0
    assert "  stop" in cli("escalation", "list", "--state", "all").out
    assert "it will not come" in cli("operation", "result", operation).err
