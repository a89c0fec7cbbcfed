"""`operation replay`, `operation check` and `report waiting`: what the journal shows, read by commands that send nothing."""

import io
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.faces.conftest import Cli
from tests.faces.provider import Provider

pytestmark = pytest.mark.usefixtures("quick")
DATABASE = Path(".sereno/sereno.db")


def submitted(cli: Cli, provider: Provider, *script: str, code: int = 0) -> str:
    """Submits a job and waits for its end; the id of the operation."""
    provider.books.script = list(script)
    done = cli("submit", "acme", "--base", provider.base, "--input", '{"scene": 1}', "--json")
    assert done.code == code, done.out
    return str(done.json["operation"]["operation_id"])


def plant(statement: str, *values: object) -> None:
    """Changes what was written down, as nothing of ours can."""
    with sqlite3.connect(DATABASE) as connection:
        connection.execute("DROP TRIGGER IF EXISTS journal_no_update")
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def newest(operation: str, fact: str, value: str) -> None:
    """Changes one fact of the newest decision."""
    plant(
        f"UPDATE journal SET facts = json_set(facts, '$.{fact}', json(?)) WHERE seq ="
        " (SELECT max(seq) FROM journal WHERE subject = ? AND kind = 'decision')",
        *(value, operation),
    )


def test_W28_a_wait_is_replayed_and_checked(cli: Cli, provider: Provider) -> None:
    """Submit, looks and end are decided again the same; the provider is not asked for that."""
    operation = submitted(cli, provider, "queued", "running", "done")
    asked = len(provider.books.requests)
    replay = cli("operation", "replay", operation)
    assert replay.code == 0 and "All 4 decisions were reached again." in replay.out, replay.out
    assert replay.out.startswith("RUN") and "call" in replay.out and "look" in replay.out
    rows = cli("operation", "replay", operation, "--json").json
    assert (rows["schema"], rows["decisions"], rows["same"], rows["different"]) == ("sereno.replay/1", 4, 4, 0)
    assert [row["verdict"] for row in cli("operation", "replay", operation, "--run", "2", "--json").json["steps"]] == ["same"]
    for words in (("operation", "check", operation), ("operation", "check")):
        checked = cli(*words)
        assert (checked.code, checked.out) == (0, "1 operation checked: no fault.\n")
    assert len(provider.books.requests) == asked


def test_W28_a_decision_that_was_changed_is_shown(cli: Cli, provider: Provider) -> None:
    """The field, what was recorded and what is decided now; exit 1."""
    operation = submitted(cli, provider, "done")
    newest(operation, "event", '"saw_failure"')
    newest(operation, "draw", "0.25")
    replay = cli("operation", "replay", operation)
    assert replay.code == 1, replay.out
    assert "event was saw_failure, and is now saw_success" in replay.out
    assert "1 of 2 decisions were reached again; different: 1; cannot be decided again: 0." in replay.out
    found = cli("operation", "replay", operation, "--json").json["steps"][-1]
    assert {one["field"]: one["again"] for one in found["differences"]} == {"event": "saw_success", "draw": None}


def test_W28_a_step_whose_contract_is_gone_is_said(cli: Cli, provider: Provider) -> None:
    """It is not guessed."""
    operation = submitted(cli, provider, "done")
    plant("UPDATE contract SET document = '{}' WHERE name = 'acme'")
    replay = cli("operation", "replay", operation)
    assert replay.code == 1 and "the pinned contract" in replay.out and "cannot be decided again" in replay.out


def test_W44_a_planted_fault_is_named(cli: Cli, provider: Provider) -> None:
    """With its operation and run, in text and as data; the sound one beside it is counted."""
    submitted(cli, provider, "done")
    operation = submitted(cli, provider, "done")
    newest(operation, "observation.kind", '"pending"')
    for words in (("operation", "check", operation), ("operation", "check")):
        checked = cli(*words)
        assert checked.code == 1
        assert "outcome_contradicts_answer" in checked.out and operation in checked.out
    assert checked.out.endswith("2 operations checked: 1 fault.\n")
    (fault,) = cli("operation", "check", "--json").json["faults"]
    assert (fault["operation"], fault["name"]) == (operation, "outcome_contradicts_answer")


def test_an_operation_that_is_not_there(cli: Cli, provider: Provider) -> None:
    """Both commands say so."""
    submitted(cli, provider, "done")
    for verb in ("replay", "check"):
        assert cli("operation", verb, "op_nothere").code == 6


def test_W28_the_report_counts_what_was_read(cli: Cli, provider: Provider) -> None:
    """Ends by state and contract, budgets, lateness, decisions; only what was asked for."""
    submitted(cli, provider, "running", "done")
    submitted(cli, provider, "failed", code=3)
    report = cli("report", "waiting", "--json")
    assert report.code == 0 and report.out.count("\n") == 1
    found = report.json
    assert (found["schema"], found["operations"], found["states"]) == (
        "sereno.waiting_report/1", 2, {"succeeded": 1, "failed": 1},
    )  # fmt: skip
    assert found["within_limits"] == {"share": 1.0, "ended": 2, "beyond": 0, "overdue": 0, "waiting": 0}
    assert found["decisions"]["same"] == found["decisions"]["of"] == 5
    assert found["requests"] == {"median": 1, "p95": 2, "max": 2} and found["late_ms"]["max"] is not None
    assert found["contracts"] == {"acme": {"succeeded": 1, "failed": 1}} and found["faults"] == {}
    text = cli("report", "waiting", "--since", "1h", "--contract", "acme").out
    assert text.startswith("Read: 2 waits under the contract acme registered in the last 1h, with all of their journal.")
    assert "within their limits        2 of 2 (100.0 %): 2 ended, 0 wait for an answer" in text
    assert "decisions reached again    5 of 5" in text
    assert cli("report", "waiting", "--contract", "other").out == "There is no wait under the contract other.\n"
    assert cli("report", "waiting", "--since", "0s", "--json").json["operations"] == 0


def test_a_span_that_is_none_is_refused(cli: Cli, provider: Provider) -> None:
    """With what would be right."""
    submitted(cli, provider, "done")
    refused = cli("report", "waiting", "--since", "soon")
    assert refused.code == 2 and "--since" in refused.err and "90s" in refused.err


def test_W28_on_a_terminal_the_progress_is_shown(cli: Cli, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that is taken away again; the answer does not hold it."""
    from sereno.faces.cli.output import Output
    from sereno.faces.cli.show.reports import Counting

    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    counting = Counting(Output(as_json=False), "reading")
    for count in range(1, 41):
        counting.show(count)
    counting.end()
    assert terminal.getvalue().count("\rreading: ") == 2 and terminal.getvalue().endswith(" \r")
