"""Literal secrets in settings, arguments and URLs: refused with the fix, exit 2, and never said again (W25, G23)."""

from pathlib import Path

import pytest

from sereno.app import without_secrets
from sereno.faces.cli.commands import run_command
from tests.outside.corpus import forms

KEY = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
WEBHOOK = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLACK = "https://hooks.slack.com/services/" + "T0A1B2C3D/B0A1B2C3D/" + "a1B2c3D4e5F6g7H8i9J0k1L2"
TELEGRAM = "tgram://1234567:" + "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/42"
LOGIN = "https://ada:correct-horse@x.example"
URL = "https://x.example"
LIMITS = ("--deadline", "5m", "--max-requests", "2", "--max-failures", "2", "--max-throttles", "2", "--detach")

SETTINGS = {
    "credential value": (f'[credentials.x]\norigin = "{URL}"\nvalue = "{KEY}"', "env ="),
    "short credential value": (f'[credentials.x]\norigin = "{URL}"\nvalue = "hunter22"', "env ="),
    "env names the value": (f'[credentials.x]\norigin = "{URL}"\nvalue = {{env = "{KEY}"}}', "value = {env"),
    "file names the value": (f'[credentials.x]\norigin = "{URL}"\nvalue = {{file = "{KEY}"}}', "value = {env"),
    "scheme": (f'[credentials.x]\norigin = "{URL}"\nscheme = "{KEY}"\nvalue = {{env = "X"}}', "value = {env"),
    "origin with a login": (f'[credentials.x]\norigin = "{LOGIN}"\nvalue = {{env = "X"}}', "value = {env"),
    "notify target": (f'[notify.x]\nurl = "{TELEGRAM}"', "env ="),
    "webhook url": (f'[actions.x]\ntype = "webhook"\nurl = "{SLACK}"', "[credentials.NAME]"),
    "webhook key": (f'[actions.x]\ntype = "webhook"\nurl = "{URL}"\nsecret = "{WEBHOOK}"', "[credentials.NAME]"),
    "poll url": (
        f'[[poll]]\nname = "p"\nevery = "1h"\nsource = {{type = "http", url = "{URL}/?api_key={KEY}"}}',
        "[credentials.NAME]",
    ),
    "poll header": (
        f'[[poll]]\nname = "p"\nevery = "1h"\nsource = {{type = "http", url = "{URL}", headers = {{X = "Bearer {KEY}"}}}}',
        "[credentials.NAME]",
    ),
    "poll argv": (
        f'[[poll]]\nname = "p"\nevery = "1h"\nsource = {{type = "command", argv = ["curl", "{KEY}"]}}',
        "[credentials.NAME]",
    ),
    "condition": (
        f'[[poll]]\nname = "p"\nevery = "1h"\nwhen = "object.key == \'{KEY}\'"\nsource = {{type = "http", url = "{URL}"}}',
        "[credentials.NAME]",
    ),
    "egress": (f'[egress]\nallow = ["{KEY}"]', "[credentials.NAME]"),
    "name of a setting": (f'[credentials.x]\norigin = "{URL}"\nvalue = {{env = "X"}}\n{KEY} = 1', "unknown setting"),
    "duration": (f'[lease]\ntick = "{KEY}"', "duration"),
    "zone": (f'zone = "{KEY}"', "Europe/Madrid"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder and a home of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("SERENO_CONFIG", "XDG_CONFIG_HOME", "SERENO_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def _said_again(text: str) -> list[str]:
    kept = (KEY, WEBHOOK, SLACK[-24:], TELEGRAM[8:45], "correct-horse", "hunter22")
    return [secret for secret in kept if secret in text]


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("case", SETTINGS)
def test_W25_a_literal_secret_in_the_settings_is_refused(
    case: str, json: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, the fix is named, the secret is not repeated, no database was made."""
    text, fix = SETTINGS[case]
    (folder / "sereno.toml").write_text(text + "\n")
    code = run_command(["poll", "list", *json])
    said = "".join(capsys.readouterr())
    assert code == 2 and _said_again(said) == [], said
    assert fix in said.replace('\\"', '"'), said
    assert not (folder / ".sereno").exists()


ARGUMENTS = [
    ("poll", "add", LOGIN),
    ("poll", "add", "x", SLACK, "--source", "http"),
    ("poll", "add", "x", f"{URL}/?token={KEY}", "--source", "feed"),
    ("poll", "preview", f"{URL}/#access_token={KEY}"),
    ("poll", "add", "x", URL, "--source", "http", "--credential", KEY),
    ("poll", "add", "x", URL, "--source", "http", "--action", KEY),
    ("poll", "add", "x", URL, "--source", "http", "--every", KEY),
    ("poll", "add", "x", URL, "--source", "http", "--keep", KEY),
    ("poll", "add", "x", URL, "--source", "http", "--source-option", f"{KEY}=1"),
    ("poll", "add", "x", URL, "--source", "http", "--source-option", f'headers={{"X-Api-Key": "{KEY}"}}'),
    ("poll", "add", KEY, URL, "--source", "http"),
    ("poll", "add", "a", "b", "c", KEY),
    ("poll", "add", "x", "--command", f"curl -H 'Authorization: Bearer {KEY}' {URL}"),
    ("poll", "add", "x", "--file", f"/tmp/{KEY}"),
    ("poll", "list", f"--{KEY}"),
    ("poll", "list", "--config", KEY),
    ("contract", "check", KEY),
    ("wait", "generic-202", f"{LOGIN}/1", *LIMITS),
    ("wait", "generic-202", f"{URL}/1?sig={KEY}", *LIMITS),
    ("wait", "generic-202", f"{URL}/1", "--credential", KEY, *LIMITS),
    ("wait", "generic-202", f"{URL}/1", "--task-id", KEY, *LIMITS),
    ("wait", "generic-202", f"{URL}/1", "--action", KEY, *LIMITS),
    ("wait", "generic-status", "1", "--base", f"{URL}/{KEY}", "--success", "x", "--state-path", "s", *LIMITS),
    ("wait", "generic-status", f"{URL}/1", "--success", KEY, "--state-path", "s", *LIMITS),
    ("wait", "generic-status", f"{URL}/1", "--success", "x", "--state-path", KEY, *LIMITS),
    ("wait", "openai-responses", KEY, *LIMITS),
    ("wait", "aws-batch", "1", "--param", f"region={KEY}", *LIMITS),
    ("wait", "mcp-task", "1", "--base", URL, "--param", f"session={KEY}", *LIMITS),
    ("submit", "openai-responses", "--input", f'{{"model": "m", "key": "{KEY}"}}', *LIMITS),
    ("submit", "openai-responses", "--input", f'{{"{KEY}": {{"deep": [1]}}}}', *LIMITS),
    ("submit", "openai-responses", "--input", f'{{"deep": [{{"headers": {{"Authorization": "Bearer {KEY}"}}}}]}}', *LIMITS),
    ("submit", "openai-responses", "--input", f'{{"hook": "{SLACK}"}}', *LIMITS),
    ("submit", "openai-responses", "--input", f'{{"a": "{KEY}"', *LIMITS),
    ("submit", "openai-responses", "--input", f"@/tmp/{KEY}", *LIMITS),
    ("submit", "openai-responses", "--key", KEY, *LIMITS),
    ("submit", "openai-responses", "--credential", KEY, *LIMITS),
    ("submit", "replicate", "--base", f"{URL}/{KEY}", *LIMITS),
    ("submit", "replicate", "--base", LOGIN, *LIMITS),
    ("submit", "airflow-dag-run", "--base", URL, "--param", f"dag_id={KEY}", *LIMITS),
    ("submit", "aws-batch", "--input", f'{{"jobName": "{KEY}"}}', "--param", "region=us-east-1", *LIMITS),
    ("submit", "replicate", "--task-id", KEY, "--base", URL, *LIMITS),
    ("wait", "github-actions-run", "1", "--param", f"owner={KEY}", "--param", "repo=r", *LIMITS),
]


@pytest.mark.parametrize("words", ARGUMENTS, ids=lambda words: " ".join(words)[:60].replace(KEY, "KEY"))
def test_W25_a_literal_secret_in_the_arguments_is_refused(
    words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, nothing repeated in text or JSON, nothing in the database's bytes."""
    for more in ((), ("--json",)):
        code = run_command([*words, *more])
        said = "".join(capsys.readouterr())
        assert code == 2 and _said_again(said) == [], said
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


CONTRACTS = {
    "header": ('accept = "x"', f'x-custom = "Bearer {KEY}"'),
    "header of a known name": ('accept = "x"', f'authorization = "{KEY}"'),
    "parameter of the address": ("/jobs/{job_id}", "/jobs/{job_id}?api_key=" + KEY),
    "path of the address": ("/jobs/{job_id}", f"/{KEY}/{{job_id}}"),
    "login": ("https://h.example/jobs", f"{LOGIN}/jobs"),
    "credential": ('credential = "c"', f'credential = "{KEY}"'),
    "body of the submit": ('body = "{input}"', f'body = {{ key = "{KEY}", a = ["{{key}}"] }}'),
    "hook of the submit": ('body = "{input}"', f'body = {{ hook = "{SLACK}" }}'),
    "address of the cancel": ('url = "https://h.example/c/{job_id}"', f'url = "https://h.example/c/{{job_id}}?token={KEY}"'),
    "address of the result": ('from = "answer"', f'from = "call"\nurl = "https://h.example/o?sig={KEY}"'),
}
"""What a contract holds, and the same with a secret in its place."""
CONTRACT = """
format = 1
contract = "own"
version = 1
title = "Own"
source = "a test"
verified = "verified"
[status]
url = "https://h.example/jobs/{job_id}"
origins = ["https://h.example"]
credential = "c"
observational = "a test"
[status.headers]
accept = "x"
[state]
path = "status"
[states]
success = ["done"]
failure = ["failed"]
[result.keep]
from = "answer"
[submit]
url = "https://h.example/jobs"
body = "{input}"
effects = "a test"
job_id = "id"
[cancel]
url = "https://h.example/c/{job_id}"
effects = "a test"
"""


@pytest.mark.parametrize("case", CONTRACTS)
def test_W25_a_literal_secret_in_a_contract_is_refused(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`contract check` says so, and a wait and a submit with it do not start; nothing repeats it, nothing keeps it."""
    old, new = CONTRACTS[case]
    assert old in CONTRACT
    (folder / "contracts").mkdir()
    file = folder / "contracts" / "own.toml"
    (folder / "sereno.toml").write_text('contracts = ["contracts"]\n')
    file.write_text(CONTRACT)
    assert run_command(["contract", "check", str(file)]) == 0, capsys.readouterr()
    file.write_text(CONTRACT.replace(old, new))
    for words in (
        ("contract", "check", str(file)),
        ("wait", "own", "1", *LIMITS),
        ("submit", "own", *LIMITS),
        ("contract", "show", "own"),
    ):
        code = run_command(list(words))
        said = "".join(capsys.readouterr())
        assert code in (2, 6) and _said_again(said) == [], (words, code, said)
    kept = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "contracts"]
    assert not any(KEY.encode() in path.read_bytes() for path in kept)


@pytest.mark.parametrize("words", [("poll", "show", KEY), ("run", "show", KEY), ("delivery", "retry", KEY), ("wait", KEY, "x")])
def test_W25_a_secret_in_the_place_of_a_name_is_not_repeated(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """It names nothing, and the answer does not say it again."""
    assert run_command(list(words)) in (2, 6)
    assert _said_again("".join(capsys.readouterr())) == []


def test_harmless_texts_are_said_as_they_are() -> None:
    """The last net of error texts touches no address of the corpus without a login, no id, no path."""
    for text in [
        "op_01m8p41rs0e6ar8bmdf4qsnn6p",
        "/var/lib/sereno/sereno.db",
        "https://x.example/a?page=12345678#top",
        "a basic explanation",
    ]:
        assert without_secrets(text) == text
    assert all(without_secrets(form) == form for form in forms() if "@" not in form)
    assert (
        without_secrets(f"see {LOGIN}/x?token=abcdefgh12 Bearer {KEY}")
        == "see https://[secret]@x.example/x?token=[secret] Bearer [secret]"
    )


def test_W25_a_credential_does_not_travel_in_the_clear(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An http origin off this machine is refused where the settings are read; loopback is fine."""
    settings = folder / "sereno.toml"
    settings.write_text('[credentials.x]\norigin = "http://intranet.example"\nvalue = {env = "X"}\n')
    assert run_command(["poll", "list"]) == 2 and "unencrypted" in capsys.readouterr().err
    settings.write_text('[credentials.x]\norigin = "http://127.0.0.1:8080"\nvalue = {env = "X"}\n')
    assert run_command(["poll", "list"]) == 0
