"""`sereno contract new`, `check`, `test`, `import`, `schema` as a person types them."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from tests.faces.conftest import Cli

QUEUED = (
    'HTTP/2 200 \ncontent-type: application/json\nretry-after: 30\nset-cookie: s=canary-77\n\n{"id": "J-1", "status": "queued"}\n'
)
GOOD = """format = 1
contract = "acme"
version = 1
title = "Acme"
source = "docs"
verified = "verified: words"
[status]
url = "https://api.acme.example/jobs/{job_id}"
origins = ["https://api.acme.example"]
[state]
path = "status"
[states]
pending = ["queued"]
success = ["done"]
failure = ["failed"]
"""
CASES = """[[case]]
name = "queued"
answer = { status = 200, json = { status = "queued" } }
expect = { kind = "pending" }
[[case]]
name = "done"
answer = { status = 200, json = { status = "done" } }
expect = { kind = "success" }
"""
FAILED = '[[case]]\nname = "failed"\nanswer = { status = 200, json = { status = "failed" } }\nexpect = { kind = "failure" }\n'


@pytest.fixture
def started(folder: Path, cli: Cli) -> Path:
    """A contract that was just started from one saved answer."""
    (folder / "queued.txt").write_text(QUEUED)
    done = cli(
        "contract", "new", "acme", "--url", "https://api.acme.example/jobs/J-1", "--from", "queued.txt", "-o", "mine/acme.toml"
    )
    assert done.code == 0, done.err
    return folder / "mine/acme.toml"


@pytest.fixture
def good(folder: Path) -> Path:
    """A contract that is decided, without cases yet."""
    (folder / "cases").mkdir()
    (folder / "acme.toml").write_text(GOOD)
    return folder / "acme.toml"


def test_new_writes_two_files_and_no_cookie(started: Path, cli: Cli) -> None:
    """The contract and, in the folder beside it, the cases; the answer says what comes next."""
    cases = started.parent / "cases/acme.toml"
    assert tomllib.loads(started.read_text())["contract"] == "acme"
    assert tomllib.loads(cases.read_text())["case"][0]["name"] == "queued.txt"
    assert "canary" not in cases.read_text() + started.read_text()
    told = cli("contract", "new", "other", "--from", "queued.txt", "--json").json
    assert told == {"schema": "sereno.contract_new/1", "file": "other.toml", "cases": "cases/other.toml", "words": ["queued"]}


def test_new_replaces_nothing(started: Path, cli: Cli) -> None:
    """Neither file, whichever is there; nor a name that is in use."""
    before = started.read_text()
    again = cli("contract", "new", "acme", "-o", "mine/acme.toml")
    assert (again.code, started.read_text()) == (6, before)
    assert "is there already; nothing was written" in again.err
    started.unlink()
    assert cli("contract", "new", "acme", "-o", "mine/acme.toml").code == 6
    assert not started.exists()
    assert "there is a contract of that name" in cli("contract", "new", "replicate").err


def test_new_reads_no_more_than_an_answer(folder: Path, cli: Cli) -> None:
    """A large file, a missing one, one that is no answer."""
    (folder / "big").write_bytes(b"[" * 1_000_001)
    (folder / "page").write_text("<html>")
    for name, says in (("big", "more than 1,000,000 bytes"), ("none", "cannot be read"), ("page", "neither JSON nor")):
        done = cli("contract", "new", "acme", "--from", name)
        assert done.code == 2 and says in done.err, done.err
    assert not (folder / "acme.toml").exists()


def test_check_shows_each_fault_with_its_line(good: Path, cli: Cli) -> None:
    """In the file's order, with a mark under the column and the nearest word."""
    good.write_text(GOOD.replace("failure = ", "failures = ").replace('path = "status"', 'path = "a b"'))
    done = cli("contract", "check", "acme.toml")
    assert done.code == 2
    lines = done.err.splitlines()
    assert lines[0] == "sereno: acme.toml has 3 faults"
    path = next(at for at, line in enumerate(lines) if line.startswith("acme.toml:11:1: state.path"))
    word = next(at for at, line in enumerate(lines) if line.startswith("acme.toml:15:1: states.failures: is not known here"))
    assert path < word
    assert lines[word + 1 : word + 4] == ['    15 | failures = ["failed"]', "       | ^", "         did you mean 'failure'?"]
    found = cli("contract", "check", "acme.toml", "--json")
    assert found.code == 2 and len(found.json["error"]["faults"]) == 3


def test_check_lists_what_is_to_be_decided(started: Path, cli: Cli) -> None:
    """Once each; no line is shown twice."""
    done = cli("contract", "check", str(started))
    assert done.code == 2
    assert "states.TODO_seen: is still to be decided: queued" in done.err
    assert "write it where it belongs, then delete this line" in done.err
    assert done.err.count("title = ") == 0


def test_a_file_that_is_no_toml_shows_where(good: Path, cli: Cli) -> None:
    """Line and column of the syntax; control characters of the line do not reach the terminal."""
    good.write_text(GOOD.replace('path = "status"', 'path = "\x1b[31m'))
    done = cli("contract", "check", "acme.toml")
    assert done.code == 2 and "acme.toml:11:" in done.err and "\x1b" not in done.err


def test_test_says_what_differs_and_what_is_missing(good: Path, cli: Cli) -> None:
    """0 where all is as expected; 1 for a difference, or a word without a case unless that may be."""
    cases = good.parent / "cases/acme.toml"
    assert (cli("contract", "test", "acme.toml").code, "neither acme.cases.toml nor cases/acme.toml" in
            cli("contract", "test", "acme.toml").err) == (6, True)  # fmt: skip
    cases.write_text(CASES)
    missing = cli("contract", "test", "acme.toml")
    assert missing.code == 1 and "no case shows the word failed" in missing.out
    assert "2 cases: 2 as expected, 0 not, 1 word without a case" in missing.out
    assert cli("contract", "test", "acme.toml", "--allow-missing").code == 0
    cases.write_text(CASES + FAILED)
    assert cli("contract", "test", "acme.toml").code == 0
    cases.write_text(CASES + FAILED.replace('"failure"', '"pending"'))
    wrong = cli("contract", "test", "acme.toml")
    assert wrong.code == 1 and "WRONG  failed" in wrong.out and "kind: 'failure' instead of 'pending'" in wrong.out


def test_test_finds_the_cases_beside_or_where_you_say(good: Path, cli: Cli) -> None:
    """FILE with .cases.toml wins over the folder; such a file is no contract of a folder of contracts."""
    (good.parent / "acme.cases.toml").write_text(CASES + FAILED)
    (good.parent / "cases/acme.toml").write_text("")
    told = cli("contract", "test", "acme.toml", "--json")
    assert told.code == 0 and told.json["cases_file"] == "acme.cases.toml" and told.json["ok"] is True
    assert [case["kind"] for case in told.json["cases"]] == ["pending", "success", "failure"]
    assert cli("contract", "test", "acme.toml", "cases/acme.toml").code == 1
    (good.parent / "sereno.toml").write_text('contracts = ["."]\n')
    assert "acme.cases" not in cli("contract", "list").err


def test_test_shows_the_faults_of_the_contract_first(started: Path, cli: Cli) -> None:
    """Nothing is run through a contract that is not one."""
    done = cli("contract", "test", str(started))
    assert done.code == 2 and "is still to be decided" in done.err and done.out == ""


def test_W06_one_answer_says_what_would_come_next(good: Path, cli: Cli) -> None:
    """Kind, state, reason, hint and the next look; with --json the whole observation."""
    (good.parent / "queued.txt").write_text(QUEUED)
    done = cli("contract", "test", "acme.toml", "--answer", "queued.txt")
    assert done.code == 0
    assert "kind     pending" in done.out and "provider_retry_after 30: in 30s" in done.out
    assert "it looks again in 30s (provider_retry_after)" in done.out
    told = cli("contract", "test", "acme.toml", "--answer", "queued.txt", "--json").json
    assert told["next_look"] == {"earliest": "30s", "latest": "30s", "source": "provider_retry_after"}
    (good.parent / "odd.json").write_text('{"status": "odd\\u001b[31m"}')
    odd = cli("contract", "test", "acme.toml", "--answer", "odd.json")
    assert "it stops and asks you (unknown_state)" in odd.out and "\x1b" not in odd.out
    (good.parent / "done.json").write_text('{"status": "done"}')
    assert "the wait ends as succeeded" in cli("contract", "test", "acme.toml", "--answer", "done.json").out
    for flags, says in ((("--after", "x"), "--after"), (("--param", "x"), "is not name=value")):
        assert says in cli("contract", "test", "acme.toml", "--answer", "done.json", *flags).err


def test_a_contract_whose_words_the_caller_gives_is_tried_with_those_of_its_cases(good: Path, cli: Cli) -> None:
    """`[caller]` in the cases file; without it the test says what is missing."""
    head, rest = GOOD.split("[status]")
    good.write_text(f"{head}states_from_caller = true\n[status]{rest.split('[states]')[0]}")
    (good.parent / "cases/acme.toml").write_text(CASES)
    assert "is missing in the cases" in cli("contract", "test", "acme.toml").err
    caller = '[caller]\nstate = "status"\npending = ["queued"]\nsuccess = ["done"]\n'
    (good.parent / "cases/acme.toml").write_text(caller + CASES)
    assert cli("contract", "test", "acme.toml").code == 0


def test_import_makes_a_contract_that_checks(folder: Path, cli: Cli) -> None:
    """To the screen, or into a new file; what is to be reviewed is told beside it."""
    shown = cli("contract", "import", "botocore", "ecs", "ServicesStable")
    assert shown.code == 0 and tomllib.loads(shown.out)["contract"] == "aws-ecs-services-stable"
    assert "review: whatever matches no acceptor counts as pending" in shown.err
    done = cli("contract", "import", "botocore", "ecs", "ServicesStable", "--name", "stable", "-o", "s.toml")
    assert done.code == 0
    assert cli("contract", "check", "s.toml").code == 0
    for says in ("contract stable into s.toml", "Next: sereno contract check s.toml", "s.cases.toml"):
        assert says in done.out
    assert cli("contract", "import", "botocore", "ecs", "ServicesStable", "-o", "s.toml").code == 6
    unknown = cli("contract", "import", "botocore", "ecs", "ServiceStable")
    assert unknown.code == 6 and "did you mean ServicesStable?" in unknown.err
    told = cli("contract", "import", "botocore", "s3", "BucketExists", "--json").json
    assert told["differs"] == ["HTTP 403 is success for botocore; here it is never a state, and stops for a person"]


def test_schema_is_the_published_one(cli: Cli) -> None:
    """The same document as in the reference; with --json inside ours."""
    published = json.loads((Path(__file__).parents[2] / "docs/reference/contract.schema.json").read_text())
    assert json.loads(cli("contract", "schema").out) == published
    assert cli("contract", "schema", "--json").json["document"] == published


def test_a_pipe_or_a_device_is_no_contract(folder: Path, cli: Cli) -> None:
    """Neither keeps the check waiting, nor is shown."""
    os.mkfifo(folder / "pipe.toml")
    (folder / "zero.toml").symlink_to("/dev/zero")
    for name in ("pipe.toml", "zero.toml"):
        told = cli("contract", "check", name)
        assert told.code == 2 and "it is not a regular file" in told.err


def test_a_cancel_is_called_one(good: Path, cli: Cli) -> None:
    """What was tried of a cancel is not called a submit."""
    good.write_text(GOOD + '[cancel]\nurl = "https://api.acme.example/jobs/{job_id}/cancel"\neffects = "ends it"\n')
    request = 'request = { method = "POST", url = "https://api.acme.example/jobs/job-1/cancel" }\n'
    good.with_name("acme.cases.toml").write_text(f'{CASES}{FAILED}[[cancel]]\nname = "stop"\n{request}')
    assert "ok     cancel: stop" in cli("contract", "test", "acme.toml").out


def test_new_writes_where_the_settings_look_or_says_what_is_missing(folder: Path, cli: Cli) -> None:
    """Without -o the first folder of `contracts`; without one here, and the line that the settings need."""
    told = cli("contract", "new", "acme")
    assert "Wrote acme.toml" in told.out and "move it into the folder contracts" in told.out
    assert 'contracts = ["other"]' in cli("contract", "new", "acme", "-o", "other/acme.toml").out
    (folder / "sereno.toml").write_text('contracts = ["mine"]\n')
    (folder / "mine").mkdir()
    told = cli("contract", "new", "acme")
    assert "Wrote mine/acme.toml" in told.out and "contracts = [" not in told.out


def test_show_tells_what_success_brings_and_where_errors_stand(good: Path, folder: Path, cli: Cli) -> None:
    """Fields, the copy, paths of errors; durations as the format writes them; no address to give where AWS has it."""
    (folder / "sereno.toml").write_text('contracts = ["."]\n')
    good.write_text(
        GOOD.replace('"Acme"', '"Ac\u202eme"')
        + '[[result.fields]]\npath = "output.url"\ntype = "url"\n[error]\ntext = "error.message"\n'
        + '[limits]\ndeadline = "2m"\nrequests = 5\ntransport_failures = 5\nthrottles = 5\n'
    )
    shown = cli("contract", "show", "acme").out
    assert "output.url (url)" in shown and "error.message" in shown and "2m, 5 requests" in shown
    assert "\u202e" not in shown
    assert "of the AWS service and region" in cli("contract", "show", "aws-athena").out
