"""Texts of providers in calls, hand-overs, pins, copies and call-backs: shown escaped and cut, kept bounded, and they decide nothing (P13)."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.security.hostile import EVIL, LONG, MARK, Hostile
from tests.security.test_untrusted import DANGEROUS, _run, server

__all__ = ["server"]

CALLS = """
format = 1
contract = "calls"
version = 1
title = "Calls"
source = "a test"
verified = "verified"
[status]
url = "{base}/asked/PORT/{shard}/{end}"
parameters = ["end", "shard"]
body = { id = "{job_id}" }
method = "POST"
observational = "a test"
[state]
path = "status"
[states]
pending = ["running"]
success = ["done"]
failure = ["failed"]
[job]
pins = ["uid"]
progress = "progress"
[result]
ref = "place"
[result.keep]
from = "url"
path = "place"
[error]
code = "error.code"
text = "error.message"
[limits]
deadline = "5m"
requests = 3
transport_failures = 1
throttles = 1
[submit]
url = "{base}/submit/{end}"
effects = "a test"
job_id = "id"
first = "1s"
[submit.parameters]
shard = "shard"
[cancel]
url = "{base}/cancel/{job_id}"
effects = "a test"
"""
PUSHED = """
format = 1
contract = "pushed"
version = 1
title = "Pushed"
source = "a test"
verified = "verified"
[status]
via = "push"
[state]
path = "status"
[states]
pending = ["running"]
success = ["done"]
failure = ["failed"]
[error]
text = "message"
[limits]
deadline = "5m"
"""
BODIES = {
    "huge": json.dumps({"status": LONG, "message": EVIL}),
    "deep": "[" * 200_000,
    "deep and closed": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "not a number": '{"status": NaN}',
    "twice": '{"status": "running", "status": "done"}',
    "failed": json.dumps({"status": "failed", "message": LONG}),
    "page": f"<html>{EVIL}</html>",
}


def _deploy(folder: Path, hostile: Hostile) -> None:
    """A settings file that watches nothing, and two contracts."""
    settings = folder / "sereno.toml"
    settings.write_text('contracts = ["contracts"]\n' + settings.read_text().partition("[[poll]]")[0])
    (folder / "contracts").mkdir()
    (folder / "contracts" / "calls.toml").write_text(CALLS.replace("PORT", str(hostile.port)))
    (folder / "contracts" / "pushed.toml").write_text(PUSHED)


def _everything(hostile: Hostile, capsys: pytest.CaptureFixture[str], folder: Path) -> dict[str, tuple[str, str]]:
    """Submits that end in each way, a cancel, copies, call-backs; then each view of them."""
    views = {}

    def run(*words: str) -> str:
        views[" ".join(words)[:160]] = said = _run(capsys, *words)
        return said[0]

    for end in ("ok", "odd", "bad", "lost"):
        run("submit", "calls", "--param", f"end={end}", "--base", hostile.url, "--action", "console", "--action", "hook")
    run("submit", "calls", "--param", "end=run", "--base", hostile.url, "--detach")
    run("once", "--log-level", "debug")
    for row in json.loads(run("operation", "list", "--state", "waiting", "--json"))["operations"]:
        run("operation", "cancel", row["operation_id"], "--yes")
    run("once", "--log-level", "debug", "--log-format", "json")
    for name, body in BODIES.items():
        run("wait", "pushed", f"{name} {EVIL[:60]}".replace("\x00", ""), "--detach", "--action", "hook")
        found = json.loads(_run(capsys, "operation", "list", "--limit", "1", "--json")[0])["operations"][0]["operation_id"]
        (folder / "body").write_text(body)
        run("operation", "push", found, "--body", f"@{folder / 'body'}")
    run("once", "--log-level", "debug")
    found = [row["operation_id"] for row in json.loads(run("operation", "list", "--json"))["operations"]]
    looks = [("operation", verb, one) for one in found for verb in ("show", "explain", "replay", "check", "result")]
    looks += [("report", "waiting"), ("delivery", "list"), ("run", "list"), ("escalation", "list"), ("operation", "list")]
    questions = json.loads(run("escalation", "list", "--json"))["escalations"]
    looks += [("escalation", "show", row["id"]) for row in questions]
    for words in looks:
        run(*words)
        run(*words, "--json")
    assert len(found) == 5 + len(BODIES) and len(questions) >= 5, (len(found), len(questions))
    return views


def test_P13_hostile_texts_of_calls_reach_a_person_escaped_and_a_row_cut(
    server: Hostile,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Escapes, bidi, huge, deep, NaN and doubled keys in each text of calls and call-backs: no view shows one, no row is long, and
    limits, actions and contract of every operation stay as they were registered."""
    _deploy(tmp_path, server)
    views = _everything(server, capsys, tmp_path)
    for name, said in views.items():
        for text in said:
            found = DANGEROUS.search(text)
            assert found is None, (name, repr(text[max(0, found.start() - 80) : found.end() + 20]))
            if "json" not in name:
                longest = max(text.splitlines(), default="", key=len)
                assert len(longest) <= 2500, (name, len(longest), longest[:300])
    assert MARK in "".join(out + err for out, err in views.values())
    rows = sqlite3.connect(tmp_path / ".sereno" / "sereno.db")
    _assert_bounded(rows)
    _assert_unmoved(rows, server)


MOST = {
    "provider_call.answer": 12_000,
    "operation.job_id": 2_000,
    "operation.url": 4_096,
    "operation.last_state": 200,
    "operation.pins": 8_000,
    "delivery.title": 500,
    "delivery.body": 20_000,
    "delivery.receipt": 20_000,
    "journal.facts": 40_000,
}
"""Characters that a column may hold after all this; a call-back that nobody read is at most 1 MB, and gone by now."""


def _assert_bounded(rows: sqlite3.Connection) -> None:
    for place, most in MOST.items():
        table, column = place.split(".")
        (longest,) = rows.execute(f"SELECT max(length({column})) FROM {table}").fetchone()
        assert longest is not None and longest <= most, (place, longest)
    assert rows.execute("SELECT count(*) FROM pushed_body").fetchone() == (0,)


def _assert_unmoved(rows: sqlite3.Connection, hostile: Hostile) -> None:
    """No limit, contract or recipient is another than at registration."""
    limits = rows.execute(
        "SELECT DISTINCT contract, max_status_requests, max_transport_failures, max_throttles FROM operation ORDER BY 1"
    ).fetchall()
    assert limits == [("calls", 3, 1, 1), ("pushed", 0, 0, 0)]
    assert rows.execute("SELECT count(DISTINCT contract_digest) FROM operation").fetchone() == (2,)
    assert len({path.split("/")[1] for path in hostile.paths}) == len(
        {"submit", "cancel", "asked", "out", "hook"} & {path.split("/")[1] for path in hostile.paths}
    ), hostile.paths
    assert rows.execute("SELECT count(*) FROM operation WHERE state = 'succeeded' AND contract = 'pushed'").fetchone() == (0,)
