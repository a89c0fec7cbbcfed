"""Canaries through submits, cancels, copies of results, MCP, AWS and S3: no row, no view and no receipt holds one (W24, W25, W30, I27)."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sereno.outside.redaction import forms_of
from tests.outside.test_redaction import ENCODINGS
from tests.security.echo import SIGNED, Echo, mixed_json
from tests.security.test_canaries import CANARIES, PARTS, World, hits, world

__all__ = ["world"]

KEY = "cnry14/aws+secret~key"
SESSION = "cnry15/session+token=="
ALL = (*PARTS, KEY, SESSION)
CALLS = """
format = 1
contract = "calls"
version = 1
title = "Calls"
source = "a test"
verified = "verified"
[status]
url = "{base}/jobs/{job_id}"
parameters = ["end"]
observational = "a test"
[state]
path = "status"
[states]
pending = ["running"]
success = ["done"]
failure = ["failed"]
[job]
pins = ["attempt"]
progress = "progress"
[result]
ref = "place"
[result.keep]
from = "url"
path = "place"
credential = true
[error]
code = "error.code"
text = "error.message"
[limits]
deadline = "5m"
requests = 4
transport_failures = 1
throttles = 1
[submit]
url = "{base}/submit/{end}"
effects = "a test"
job_id = "id"
first = "1s"
[cancel]
url = "{base}/cancel/{job_id}"
effects = "a test"
"""
LIMITS = ("--deadline", "5m", "--max-requests", "3", "--max-failures", "1", "--max-throttles", "1")


@pytest.fixture
def calls(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The deployment of the other canaries, with a contract that submits, keys for AWS, and a second settings file with a bucket."""
    monkeypatch.setenv("C_AWS", f"AKIDEXAMPLE:{KEY}:{SESSION}")
    (world.folder / "contracts" / "calls.toml").write_text(CALLS)
    settings = world.folder / "sereno.toml"
    aws = f'[credentials.aws]\norigin = "{world.echo.url}"\nscheme = "AWS4-HMAC-SHA256"\nvalue = {{env = "C_AWS"}}\n'
    settings.write_text(settings.read_text().partition("[[poll]]")[0] + aws)
    (world.folder / "bucket.toml").write_text(
        settings.read_text() + f'[artifacts.s3]\nendpoint = "{world.echo.url}"\nbucket = "bucket"\ncredential = "aws"\n'
    )
    yield world


def _submit_everything(world: World, echo: Echo) -> None:
    base = ("--base", echo.url, "--credential", "own", "--action", "console", "--action", "hook")
    for end in ("ok", "bad", "lost", "denied", "named"):
        world.cli("submit", "calls", "--input", '{"prompt": "x"}', "--param", f"end={end}", *base)
    world.cli("submit", "calls", "--param", "end=ok", *base, "--config", "bucket.toml")
    world.cli("once", "--config", "bucket.toml", "--log-level", "debug")
    world.cli("submit", "calls", "--param", "end=running", *base, "--detach")
    world.cli("once", "--log-level", "debug", "--log-format", "json")
    open_ones = json.loads(world.cli("operation", "list", "--state", "waiting", "--json"))["operations"]
    for row in open_ones:
        world.cli("operation", "cancel", row["operation_id"], "--yes")
    assert open_ones
    world.cli("once")
    world.cli("once")
    mcp = ("--base", f"{echo.url}/mcp", "--credential", "account", *LIMITS)
    world.cli("submit", "mcp-task-extension", "--input", '{"name": "t"}', *mcp)
    world.cli("wait", "mcp-task", "t-1", "--param", "session=new", *mcp)
    aws = ("--base", f"{echo.url}/aws", "--param", "region=us-east-1", "--credential", "aws", *LIMITS)
    world.cli("wait", "aws-batch", "j-1", *aws)
    given = '{"jobName": "a", "jobQueue": "b", "jobDefinition": "c"}'
    world.cli("submit", "aws-batch", "--input", given, *aws)
    world.cli("once")


def _look_at_everything(world: World) -> list[str]:
    found = [row["operation_id"] for row in json.loads(world.cli("operation", "list", "--json"))["operations"]]
    looks = [("report", "waiting"), ("delivery", "list"), ("run", "list"), ("escalation", "list"), ("operation", "list")]
    looks += [("operation", verb, one) for one in found for verb in ("show", "explain", "replay", "check", "result")]
    questions = json.loads(world.cli("escalation", "list", "--json"))["escalations"]
    looks += [("escalation", "show", row["id"]) for row in questions]
    for words in looks:
        world.cli(*words)
        world.cli(*words, "--json")
    return found


def test_W25_W30_no_secret_and_no_signed_address_stays_of_calls_and_copies(calls: World) -> None:
    """Submits that end in each way, a cancel, copies to a folder and to a bucket, MCP and AWS errors, all echoing what they were sent:
    0 hits in database, backup, views, messages and receipts; the signed address of the result stands nowhere either."""
    _submit_everything(calls, calls.echo)
    found = _look_at_everything(calls)
    calls.cli("backup", "copy.db")
    calls.bytes_of("backup", (calls.folder / "copy.db").read_bytes())
    calls.bytes_of("database", (calls.folder / ".sereno" / "sereno.db").read_bytes())
    for number, body in enumerate(calls.echo.bodies):
        if b"sereno.operation" in body:
            calls.bytes_of(f"message {number}", body)
    assert hits(calls, ALL) == []
    signed = [name for name, text in calls.sinks.items() if f"Signature={SIGNED}" in text or f"Signature%3D{SIGNED}" in text]
    assert signed == []
    _assert_it_proves_something(calls, found)
    with calls._capsys.disabled():
        print(f"\ncanaries of calls: {len(ALL)} secrets x {len(ENCODINGS) + 4} encodings x {len(calls.sinks)} sinks, 0 hits")


def _assert_it_proves_something(world: World, operations: list[str]) -> None:
    echo = world.echo
    assert all(echo.sent[secret] > 0 for secret in (CANARIES["OWN"], CANARIES["ACCOUNT"], SESSION)), echo.sent
    reached = {path.split("/")[1] for path in echo.paths}
    assert {"submit", "cancel", "out", "mcp", "aws", "bucket", "jobs"} <= reached, reached
    assert len(operations) >= 11
    rows = sqlite3.connect(world.folder / ".sereno" / "sereno.db")
    answers = [row[0] for row in rows.execute("SELECT answer FROM provider_call WHERE answer IS NOT NULL")]
    assert len(answers) >= 7 and any("[secret]" in text for text in answers), answers
    receipts = [row[0] for row in rows.execute("SELECT receipt FROM delivery WHERE receipt IS NOT NULL")]
    assert any(SIGNED in text and "[secret]" in text for text in receipts), receipts
    kept = [path for path in (world.folder / ".sereno" / "artifacts").rglob("*") if path.is_file()]
    assert kept and sum(path.stat().st_size for path in kept) > 1000
    for path in kept:  # of the content it is promised that no whole spelling of a known secret stays; mixtures do
        assert not any(form.encode() in path.read_bytes() for secret in ALL for form in forms_of(secret)), path


def test_files_of_kept_results_are_for_their_owner_alone(calls: World) -> None:
    """Folders 0700, files 0600, whatever the umask."""
    import os

    before = os.umask(0)
    try:
        calls.cli("submit", "calls", "--param", "end=ok", "--base", calls.echo.url, "--credential", "own")
        calls.cli("once")
    finally:
        os.umask(before)
    places = list((calls.folder / ".sereno" / "artifacts").rglob("*"))
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in [*places, Path(calls.folder / ".sereno" / "artifacts")]}
    assert modes == {(True, 0o700), (False, 0o600)}, modes


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
[job]
id = "id"
[result]
ref = "place"
[error]
code = "error.code"
text = "error.message"
[limits]
deadline = "5m"
[submit]
url = "{base}/submit/ok"
effects = "a test"
job_id = "id"
"""


@pytest.mark.parametrize("status", ["failed", "done", "else", "mixed"])
def test_I27_a_call_back_that_echoes_the_credential_leaves_it_nowhere(status: str, calls: World) -> None:
    """The process that reads the call-back sent nothing itself: it knows the credential of the operation all the same."""
    (calls.folder / "contracts" / "pushed.toml").write_text(PUSHED)
    calls.cli("submit", "pushed", "--base", calls.echo.url, "--credential", "own", "--action", "hook", "--detach")
    calls.cli("once")
    secret = CANARIES["OWN"]
    operation = json.loads(calls.cli("operation", "list", "--json"))["operations"][0]["operation_id"]
    spelled = [encode(secret) for encode in ENCODINGS.values()]
    error = {"code": secret, "message": f"{secret} {' '.join(spelled)}"}
    body = {
        "id": "done",
        "status": status if status != "else" else secret,
        "error": error,
        "place": f"https://x.example/{secret}",
    }
    if status == "mixed":
        del body["status"]
    text = (
        json.dumps(body)[:-1] + f', "mixed": "{mixed_json(secret)}", "status": "{mixed_json(secret)}"' * (status == "mixed") + "}"
    )
    (calls.folder / "body.json").write_text(text)
    calls.cli("operation", "push", operation, "--body", f"@{calls.folder / 'body.json'}")
    calls.bytes_of("database before the reading", (calls.folder / ".sereno" / "sereno.db").read_bytes())
    calls.cli("once")
    _look_at_everything(calls)
    calls.bytes_of("database", (calls.folder / ".sereno" / "sereno.db").read_bytes())
    assert '"state": "waiting"' not in calls.cli("operation", "show", operation, "--json")
    assert hits(calls, (secret,)) == []
