"""`sereno submit` and what a person may decide about an operation, against a provider on loopback, in quick time."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.faces.conftest import Cli, Result
from tests.faces.provider import CANCEL, CONTRACT, IDEMPOTENT, Provider

pytestmark = pytest.mark.usefixtures("quick")


def submit(cli: Cli, provider: Provider, *more: str) -> Result:
    """Submits a job of the test's own contract."""
    return cli("submit", "acme", "--base", provider.base, *(("--input", '{"scene": 1}') if "--input" not in more else ()), *more)


def operation_of(result: Result) -> str:
    """The id of the operation, from the first remark."""
    return result.err.split(":", 1)[0]


def show(cli: Cli, operation: str) -> dict[str, object]:
    """The operation as data."""
    found = cli("operation", "show", operation, "--json")
    assert found.code == 0, found.err
    return found.json


def test_W31_a_job_is_submitted_once_and_waited_for(cli: Cli, provider: Provider) -> None:
    """The handle comes first, then the effects; one POST with the input and a key, then looks to the end."""
    done = submit(cli, provider)
    assert done.code == 0, done.err
    first, second = done.err.splitlines()[:2]
    assert first.startswith("op_") and "submits to acme" in first
    assert "starts a render; billed by the minute" in second
    ((method, path, key),) = provider.books.sent("POST")
    assert (method, path) == ("POST", "/jobs") and key is not None and key.startswith("sub_")
    assert provider.books.bodies == [{"scene": 1}]
    assert [path for _, path, _ in provider.books.sent("GET")] == ["/jobs/job-1"] * 3
    assert "Job job-1 at acme: succeeded" in done.out


def test_W31_show_and_explain_tell_the_submit(cli: Cli, provider: Provider) -> None:
    """State, tries, key and answer of the call; the story tells that the job was submitted, and what the provider named it."""
    operation = operation_of(submit(cli, provider))
    text = cli("operation", "show", operation).out
    assert "taken on; 1 try; key sub_" in text and "answered HTTP 201" in text
    (call,) = show(cli, operation)["calls"]  # type: ignore[misc]
    assert (call["kind"], call["state"], call["attempts"]) == ("submit", "done", 1)
    assert call["statement"]["effects"] == "starts a render; billed by the minute"
    story = cli("operation", "explain", operation).out
    assert "registered, to be submitted" in story
    assert "the submit was taken on as job job-1 (HTTP 201)" in story, story


def test_W31_the_same_key_gives_the_first_operation_back(cli: Cli, provider: Provider) -> None:
    """Whatever its state: nothing is sent again."""
    first = submit(cli, provider, "--key", "night-7")
    again = submit(cli, provider, "--key", "night-7")
    assert (first.code, again.code) == (0, 0), again.err
    assert operation_of(first) == operation_of(again)
    assert "nothing is sent again" in again.err
    assert [key for _, _, key in provider.books.sent("POST")] == ["night-7"]


def test_detached_submits_send_nothing_until_somebody_drives(cli: Cli, provider: Provider) -> None:
    """`--detach` registers; `wait op_…` submits and follows."""
    detached = submit(cli, provider, "--detach", "--json")
    assert detached.json["operation"]["status"] == "submitting" and provider.books.requests == []
    assert cli("wait", detached.json["operation"]["operation_id"]).code == 0
    assert len(provider.books.sent("POST")) == 1


@pytest.mark.parametrize("given", ["file", "stdin", "text"])
def test_the_input_comes_from_a_file_or_standard_input(
    cli: Cli, provider: Provider, folder: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """`@FILE`, `-`, or JSON as it is."""
    words = {"file": "@job.json", "stdin": "-", "text": '{"from": "text"}'}
    (folder / "job.json").write_text('{"from": "file"}')
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"from": "stdin"}'), isatty=lambda: False))
    assert submit(cli, provider, "--input", words[given], "--detach").code == 0
    monkeypatch.undo()
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not JSON"), ("@nowhere.json", "cannot be read"), ('"' + "x" * 1_000_001 + '"', "more than 1,000,000 bytes")],
)
def test_an_input_that_is_none_is_refused(cli: Cli, provider: Provider, text: str, says: str) -> None:
    """Nothing is stored."""
    refused = submit(cli, provider, "--input", text)
    assert refused.code == 2 and says in refused.err and "Errno" not in refused.err
    assert cli("operation", "list", "--json").json["operations"] == []


def test_an_input_that_holds_a_secret_is_refused(cli: Cli, provider: Provider) -> None:
    """The text itself is not repeated."""
    secret = "sk-" + "a1b2c3d4" * 4
    refused = submit(cli, provider, "--input", json.dumps({"token": secret}))
    assert refused.code == 2 and secret not in refused.err and "submit.input.token" in refused.err


def test_a_contract_without_submit_says_what_to_do(cli: Cli, provider: Provider) -> None:
    """The hint names `wait`."""
    refused = cli("submit", "caller")
    assert refused.code == 2 and "does not say how a job is submitted" in refused.err and "sereno wait caller" in refused.err


def test_missing_and_strange_parameters_are_named_at_once(cli: Cli, provider: Provider, folder: Path) -> None:
    """What only the answer knows is not asked for."""
    text = (
        CONTRACT.replace("{base}/jobs/{job_id}", "{base}/{region}/{pot}/jobs/{job_id}")
        .replace("[state]", "[state]", 1)
        .replace("observational", 'parameters = ["region", "pot"]\nobservational')
        .replace('{base}/jobs"', '{base}/{region}/jobs"')
    )
    (folder / "contracts/acme.toml").write_text(text + '[submit.parameters]\npot = "pot"\n')
    refused = submit(cli, provider, "--param", "regoin=x", "--json")
    assert refused.code == 2
    messages = [fault["message"] for fault in refused.json["error"]["faults"]]
    assert messages == ["acme needs the parameter region", "acme takes no parameter 'regoin'"]
    given = submit(cli, provider, "--param", "region=x", "--param", "pot=1")
    assert given.code == 2 and "pot is what the provider's answer names" in given.err


def test_W41_a_submit_has_limits_too(cli: Cli, provider: Provider, folder: Path) -> None:
    """Without limits in the contract they must be given, and nothing is sent."""
    text = CONTRACT.replace(CONTRACT[CONTRACT.index("[limits]") : CONTRACT.index("[submit]")], "")
    (folder / "contracts/acme.toml").write_text(text)
    refused = submit(cli, provider)
    assert refused.code == 2 and "--deadline, --max-requests, --max-failures, --max-throttles" in refused.err
    assert provider.books.requests == []


def test_W21_a_refused_submit_asks_a_person_and_is_not_sent_again(cli: Cli, provider: Provider) -> None:
    """The provider does not want this request; a person closes it, and can submit anew."""
    provider.books.submit_status = 422
    asked = submit(cli, provider)
    assert asked.code == 4, asked.err
    assert len(provider.books.sent("POST")) == 1
    question = cli("escalation", "list", "--json").json["escalations"][0]
    assert {option["key"] for option in question["options"]} == {"treat_as_failed", "stop"}
    text = cli("operation", "explain", operation_of(asked)).out
    assert "the submit was refused; nothing was done (HTTP 422)" in text
    cli("escalation", "answer", question["id"], "treat_as_failed", "--digest", question["digest"][:12])
    provider.books.submit_status = 201
    again = cli("operation", "resubmit", operation_of(asked), "--yes", "--json")
    assert again.code == 0 and cli("wait", again.json["operation"]["operation_id"]).code == 0


def test_W17_a_denied_submit_is_sent_again_only_when_a_person_says_so(cli: Cli, provider: Provider) -> None:
    """Nothing is submitted by itself after a refusal; the answer sends it once more, under the same key."""
    provider.books.submit_status = 401
    asked = submit(cli, provider)
    assert asked.code == 4, asked.err
    assert len(provider.books.sent("POST")) == 1
    assert asked.out.startswith("The submit of op_") and " to acme needs a decision" in asked.out
    question = cli("escalation", "list", "--json").json["escalations"][0]
    assert "submit_again" in {option["key"] for option in question["options"]}
    provider.books.submit_status = 201
    answered = cli("escalation", "answer", question["id"], "submit_again", "--digest", question["digest"][:12])
    assert answered.code == 0, answered.err
    assert cli("wait", operation_of(asked)).code == 0
    keys = [key for _, _, key in provider.books.sent("POST")]
    assert len(keys) == 2 and len(set(keys)) == 1


def test_W21_a_lost_answer_without_a_key_is_not_sent_again(cli: Cli, provider: Provider, folder: Path) -> None:
    """It stops as `submit_unknown`."""
    (folder / "contracts/acme.toml").write_text(CONTRACT)
    provider.books.submit_status = 503
    asked = submit(cli, provider)
    assert asked.code == 4 and "submit_unknown" in asked.out
    assert len(provider.books.sent("POST")) == 1
    question = cli("escalation", "list", "--json").json["escalations"][0]
    assert cli("escalation", "answer", question["id"], "stop", "--digest", question["digest"][:12]).code == 0
    shown = cli("operation", "resubmit", operation_of(asked))
    assert "may still run: look at the provider first" in " ".join(shown.out.split())


def test_the_contract_page_tells_submit_and_cancel(cli: Cli, provider: Provider) -> None:
    """What they do, and whether a key is honoured."""
    text = cli("contract", "show", "acme").out
    assert "starts a render; billed by the minute; a key in the header, kept 24h" in text or "kept 1d" in text
    assert "ends as canceled; what ran is billed" in text
    assert IDEMPOTENT and CANCEL
