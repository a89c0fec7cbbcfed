"""`sereno wait` and what can be looked at and answered afterwards, against the playground's jobs, in quick time."""

import io
import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.faces.conftest import Cli, QuickClock, Result

Job = Callable[[str], str]
STATES = (
    "--state-path", "status", "--success", "succeeded", "--failure", "failed", "--pending", "queued,running",
)  # fmt: skip
LIMITS = ("--deadline", "5h", "--max-requests", "6", "--max-failures", "3", "--max-throttles", "3")

pytestmark = pytest.mark.usefixtures("quick")


def wait(cli: Cli, url: str, *more: str) -> Result:
    """Waits for a job with the usual words and limits; a later flag wins."""
    return cli("wait", "generic-status", url, *STATES, *(more if "--deadline" in more else (*LIMITS, *more)))


def operation_of(result: Result) -> str:
    """The id of the wait, from its first remark."""
    return result.err.split(":", 1)[0]


def test_a_job_is_waited_for_to_its_result(cli: Cli, job: Job) -> None:
    """Exit 0; one line a change on standard error; the end on standard output."""
    done = wait(cli, job("slow"))
    assert done.code == 0, done.err
    assert "succeeded" in done.out and "requests    4 of 6" in done.out
    assert "sereno operation explain op_" in done.out
    assert "queued, 1/6 requests" in done.err and "running, 2/6 requests" in done.err


def test_a_failed_job_exits_3(cli: Cli, job: Job) -> None:
    """The provider's failure is the job's, not ours."""
    done = wait(cli, job("failing"), "--json")
    assert done.code == 3
    assert (done.json["schema"], done.json["operation"]["status"]) == ("sereno.wait/1", "failed")
    assert json.loads(done.err) == {"schema": "sereno.handle/1", "operation_id": done.json["operation"]["operation_id"]}


def test_W38_an_unknown_state_exits_4_with_the_commands_that_answer(cli: Cli, job: Job) -> None:
    """The question is shown whole, each option with its command."""
    asked = wait(cli, job("unknown"))
    assert asked.code == 4
    question = cli("escalation", "list", "--json").json["escalations"][0]
    assert "unknown_state" in asked.out and "awaiting_review" in asked.out and "silence means stop" in asked.out
    for option in question["options"]:
        assert f"sereno escalation answer {question['id']} {option['key']} --digest {question['digest'][:12]}" in asked.out
        assert option["says"].split(".")[0] in " ".join(asked.out.split())


def test_W34_a_used_up_budget_exits_5(cli: Cli, job: Job) -> None:
    """`2 of 2` ends the wait at once, and the exit code says that a limit did."""
    asked = wait(cli, job("endless"), "--deadline", "5h", "--max-requests", "2", "--max-failures", "3", "--max-throttles", "3")
    assert asked.code == 5
    assert "request_budget_exhausted" in asked.out
    assert "2 of 2" in asked.out


def test_a_passed_deadline_exits_5(cli: Cli, job: Job) -> None:
    """The deadline is a limit too."""
    asked = wait(cli, job("endless"), "--deadline", "8s", "--max-requests", "9", "--max-failures", "3", "--max-throttles", "3")
    assert asked.code == 5
    assert "deadline_exceeded" in asked.out


def test_W39_the_same_job_attaches_to_its_open_wait(cli: Cli, job: Job) -> None:
    """A second `wait` says so, keeps limits and counters, and `wait op_…` comes back too."""
    url = job("unknown")
    first = wait(cli, url)
    again = wait(cli, url)
    assert "is being waited for already (2 of 6 requests used); its limits stay as they are" in again.err
    assert operation_of(again) == operation_of(first)
    assert cli("wait", operation_of(first)).code == 4
    assert len(cli("operation", "list", "--json").json["operations"]) == 1


def test_detached_waits_are_driven_by_once(cli: Cli, job: Job) -> None:
    """`--detach` only registers; nothing was sent."""
    detached = wait(cli, job("slow"), "--detach", "--json")
    assert detached.code == 0
    operation = detached.json["operation"]
    assert (operation["status"], operation["status_requests_used"]) == ("waiting", 0)
    assert cli("wait", operation["operation_id"]).code == 0


@pytest.fixture
def asked(cli: Cli, job: Job) -> dict[str, str]:
    """An open question, and the operation it is about."""
    operation = operation_of(wait(cli, job("unknown")))
    question = cli("escalation", "list", "--json").json["escalations"][0]
    return {"operation": operation, "id": question["id"], "digest": question["digest"]}


def test_W26_explain_tells_the_story(cli: Cli, asked: dict[str, str]) -> None:
    """Time, what was seen, state, next time and why, requests used; then the answer and what came of it."""
    cli("escalation", "answer", asked["id"], "treat_as_pending", "--digest", asked["digest"][:8])
    assert cli("wait", asked["operation"]).code == 0
    story = cli("operation", "explain", asked["operation"])
    text = story.out
    lines = text.splitlines()
    order = [
        "registered; state waiting",
        "saw HTTP 200, job state running (pending); state waiting",
        "saw HTTP 200, job state awaiting_review (unknown_state); state waiting → escalated",
        f"a person is asked: {asked['id']}",
        "ada answered treat_as_pending: Count the state",
        "saw HTTP 200, job state succeeded (success); state waiting → succeeded",
    ]
    places = [next(number for number, line in enumerate(lines) if part in line) for part in order]
    assert places == sorted(places), text
    assert "; Sereno's own growing pause" in text and "; a person decided to go on" in text
    assert "requests: 1 of 6; deadline 2026-11-30" in text
    assert lines[1].startswith("2026-11-30 12:"), "times are in the user's zone"
    entries = cli("operation", "explain", asked["operation"], "--json").json["entries"]
    decisions = [entry for entry in entries if entry["kind"] == "decision" and "state_before" in entry["facts"]]
    assert len(decisions) == 5
    for entry in decisions:
        assert {"next_poll_at", "delay_source", "status_requests_used", "deadline_at", "state", "decision"} <= entry[
            "facts"
        ].keys()


def test_W46_show_has_every_field(cli: Cli, asked: dict[str, str]) -> None:
    """The record shows at least the named fields, for people and for programs."""
    row = cli("operation", "show", asked["operation"], "--json").json
    for name in (
        "operation_id", "assistant_task_id", "user_id", "provider_job_id", "status", "created_at", "started_at", "deadline_at",
        "max_status_requests", "max_transport_failures", "status_requests_used", "transport_failures_used", "last_known_state",
        "next_poll_at", "last_checked_at", "expires_at", "result_ref",
    ):  # fmt: skip
        assert name in row
    assert (row["user_id"], row["last_known_state"], row["status_requests_used"]) == ("ada", "awaiting_review", 2)
    text = cli("operation", "show", asked["operation"]).out
    assert "2 of 6 used" in text and f"sereno escalation show {asked['id']}" in text


def test_W36_looking_asks_the_provider_nothing(cli: Cli, asked: dict[str, str], playground: str) -> None:
    """List, show and explain read the record; the provider's own book does not change."""
    import urllib.request

    def looks() -> object:
        with urllib.request.urlopen(f"{playground}/books") as answer:
            return json.load(answer)["jobs"]

    before = looks()
    for words in (("list",), ("show", asked["operation"]), ("explain", asked["operation"])):
        assert cli("operation", *words).code == 0
    assert cli("wait", asked["operation"]).code == 4
    assert looks() == before


def test_without_a_terminal_an_answer_needs_the_digest(cli: Cli, asked: dict[str, str]) -> None:
    """Nobody answers a question that was not shown: at least eight digits, and the right ones."""
    bare = cli("escalation", "answer", asked["id"], "stop")
    assert bare.code == 2 and "--digest with at least 8 digits" in bare.err
    short = cli("escalation", "answer", asked["id"], "stop", "--digest", asked["digest"][:7])
    wrong = cli("escalation", "answer", asked["id"], "stop", "--digest", "0" * 8)
    assert (short.code, wrong.code) == (6, 6)
    assert "does not match" in wrong.err
    assert cli("operation", "show", asked["operation"], "--json").json["status"] == "escalated"


def test_an_answer_counts_once(cli: Cli, asked: dict[str, str]) -> None:
    """A second answer is refused and told who gave the first."""
    stopped = cli("escalation", "answer", asked["id"], "stop", "--digest", asked["digest"][:12], "--json")
    assert (stopped.code, stopped.json["operation"]["status"]) == (0, "stopped")
    again = cli("escalation", "answer", asked["id"], "treat_as_failed", "--digest", asked["digest"][:12])
    assert again.code == 6 and "ada" in again.err
    assert cli("escalation", "list", "--json").json["escalations"] == []
    assert cli("escalation", "list", "--state", "all", "--json").json["escalations"][0]["answer"]["by"] == "ada"
    assert "Answered: stop, by ada" in cli("escalation", "show", asked["id"]).out


def test_a_mistyped_option_is_put_right(cli: Cli, asked: dict[str, str]) -> None:
    """The nearest option is named."""
    wrong = cli("escalation", "answer", asked["id"], "stp", "--digest", asked["digest"][:12])
    assert wrong.code == 2 and "did you mean `stop`?" in wrong.err


@pytest.mark.parametrize(
    ("typed", "code", "state"),
    [("yes\n", 0, "stopped"), ("y\n", 0, "stopped"), ("no\n", 6, "escalated"), ("\n", 6, "escalated"), ("", 6, "escalated")],
)
def test_on_a_terminal_the_statement_is_shown_and_a_yes_asked(
    cli: Cli, asked: dict[str, str], monkeypatch: pytest.MonkeyPatch, typed: str, code: int, state: str
) -> None:
    """Only a whole yes answers."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    answered = cli("escalation", "answer", asked["id"], "stop")
    assert answered.code == code, answered.err
    assert "awaiting_review" in answered.out and "2 of 6" in answered.out and "Stop waiting and keep the handle" in answered.out
    assert cli("operation", "show", asked["operation"], "--json").json["status"] == state


def test_W41_a_generic_contract_without_words_and_limits_is_refused(cli: Cli) -> None:
    """Everything that is missing is named at once, with the flags to give."""
    refused = cli("wait", "generic-status", "https://jobs.example/1")
    assert refused.code == 2
    assert "--success" in refused.err and "--state-path" in refused.err
    unlimited = cli("wait", "generic-status", "https://jobs.example/1", *STATES)
    assert unlimited.code == 2
    for flag in ("--deadline", "--max-requests", "--max-failures", "--max-throttles"):
        assert flag in unlimited.err


def test_W41_numbers_that_cannot_fit_are_warned_about_with_the_arithmetic(cli: Cli, job: Job) -> None:
    """More requests than the minimum gap leaves room for."""
    warned = wait(
        cli, job("slow"), "--deadline", "10s", "--max-requests", "60", "--max-failures", "3", "--max-throttles", "3", "--detach"
    )
    assert "attention: 60 requests need at least 1m1s (first look 2s + 59 x 1s), but the deadline is 10s" in warned.err


def test_faults_of_a_wait_are_listed_at_once(cli: Cli) -> None:
    """Three bad flags, one answer; nothing is stored."""
    refused = cli(
        "wait", "replicate", "abc", "--deadline", "soon", "--business-deadline", "never", "--param", "novalue", "--json"
    )
    assert refused.code == 2
    assert [fault["where"] for fault in refused.json["error"]["faults"]] == ["--deadline", "--business-deadline", "--param"]
    assert cli("operation", "list", "--json").json["operations"] == []


def test_a_mistyped_contract_is_put_right(cli: Cli) -> None:
    """The nearest name is suggested; the exit code says not found."""
    wrong = cli("wait", "replicte", "abc")
    assert wrong.code == 6 and "replicate" in wrong.err
    assert cli("wait", "replicate").code == 2


def test_a_business_deadline_is_a_duration_or_an_instant(cli: Cli, job: Job, quick: QuickClock) -> None:
    """Both are stored as an instant."""
    before = quick.now()
    spans = wait(cli, job("slow"), "--business-deadline", "2h", "--detach", "--json").json["operation"]
    named = wait(cli, job("slow"), "--business-deadline", "2026-12-01T18:00:00+02:00", "--detach", "--json").json["operation"]
    at = datetime.fromisoformat(spans["business_deadline_at"])
    assert before <= at - timedelta(hours=2) <= quick.now()
    assert named["business_deadline_at"] == "2026-12-01T16:00:00Z"


def test_the_folder_holds_nothing_but_settings_and_database(cli: Cli, folder: Path, asked: dict[str, str]) -> None:
    """All that a wait leaves is in the database."""
    assert asked
    assert {path.name for path in folder.iterdir()} == {"sereno.toml", ".sereno"}


def test_W19_a_question_is_told_also_where_no_other_process_runs(cli: Cli, job: Job) -> None:
    """`wait` carries the messages of its own operation; on this terminal the words do not come twice, and nothing is left overdue."""
    asked = wait(cli, job("unknown"))
    deliveries = cli("delivery", "list", operation_of(asked), "--json").json["deliveries"]
    assert [one["state"] for one in deliveries] == ["delivered"]
    assert asked.out.count("needs a decision") == 1
    assert cli("once").out == "Done: 0 pieces of work.\n"


def test_an_address_that_is_not_open_is_refused_before_anything_is_stored(cli: Cli, job: Job, folder: Path) -> None:
    """No wait is registered and no request is used up; the line to paste is named."""
    url = job("slow")
    (folder / "sereno.toml").write_text('[egress]\nallow = ["10.0.0.0/8"]\n')
    refused = wait(cli, url)
    place = url.split("/")[2]
    assert refused.code == 6 and f'[egress] allow = ["10.0.0.0/8", "{place}"]' in refused.err
    assert cli("operation", "list", "--json").json["operations"] == []


def test_coming_back_with_limits_is_refused(cli: Cli, job: Job) -> None:
    """Limits of a registered wait stay as they are, and a flag that would do nothing is not taken in silence."""
    operation = operation_of(wait(cli, job("unknown")))
    refused = cli("wait", operation, "--deadline", "1h", "--success", "done")
    assert refused.code == 2 and "--deadline, --success cannot change them" in refused.err
    assert cli("wait", operation).code == 4
