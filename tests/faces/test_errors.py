"""What goes wrong: exit codes, one line with what to do, all faults at once, no secrets, no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sereno.core.errors import (
    MAPPINGS,
    AlreadyExists,
    Fault,
    InvariantBroken,
    LeaseLost,
    NotAllowed,
    NotFound,
    NotNow,
    RequestError,
    SerenoError,
    SetupError,
    TooMuch,
    Unavailable,
)
from sereno.core.escalation import Category
from sereno.core.operation import OperationState
from sereno.faces.cli import session
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.operations import exit_code_of
from tests.core.waiting import make_operation
from tests.faces.conftest import Cli

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

EXIT_CODES: dict[type[SerenoError], int] = {
    SerenoError: 1,
    InvariantBroken: 1,
    LeaseLost: 1,
    SetupError: 2,
    RequestError: 2,
    NotFound: 6,
    AlreadyExists: 6,
    NotNow: 6,
    NotAllowed: 6,
    TooMuch: 6,
    Unavailable: 7,
}


def test_every_error_class_has_an_exit_code_here() -> None:
    """A new class cannot come without a row."""
    assert EXIT_CODES.keys() == MAPPINGS.keys()


@pytest.mark.parametrize("kind", EXIT_CODES)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_is_told_with_its_exit_code(
    kind: type[SerenoError], as_json: bool, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happened, to which thing, and what to do; as one document where that was asked for."""

    def refuse(*_: object) -> None:
        error = kind("it does not work", hint="do it so")
        error.subject = "poll_x"
        raise error

    monkeypatch.setattr(session, "load_settings", refuse)
    told = cli("poll", "list", *(["--json"] if as_json else []))
    assert told.code == EXIT_CODES[kind]
    if as_json:
        assert told.err == ""
        assert told.json["schema"] == "sereno.error/1"
        assert told.json["error"]["code"] == kind.code
    else:
        assert told.out == ""
        assert told.err == "sereno: it does not work [poll_x] — do it so\n"


CODES = {
    (OperationState.WAITING, None): 130,
    (OperationState.SUCCEEDED, None): 0,
    (OperationState.FAILED, Category.PROVIDER_FAILURE): 3,
    (OperationState.CANCELLED, Category.PROVIDER_CANCELLED): 3,
    (OperationState.EXPIRED, Category.PROVIDER_EXPIRED): 3,
    **{(OperationState.ESCALATED, category): 4 for category in Category},
    **{(OperationState.STOPPED, category): 4 for category in Category},
    **{
        (state, category): 5
        for state in (OperationState.ESCALATED, OperationState.STOPPED)
        for category in (
            Category.DEADLINE_EXCEEDED, Category.BUSINESS_DEADLINE_EXCEEDED, Category.REQUEST_BUDGET_EXHAUSTED, Category.RATE_LIMITED,
            Category.PROVIDER_UNREACHABLE,
        )
    },
}  # fmt: skip


@pytest.mark.parametrize(("state", "category"), CODES)
def test_the_exit_code_of_a_wait(state: OperationState, category: Category | None) -> None:
    """0 result, 3 the job failed, 4 a person is asked, 5 a limit ended it, 130 still open."""
    assert exit_code_of(make_operation(state=state, category=category)) == CODES[state, category]


@pytest.mark.parametrize(
    "words", [("nope",), ("poll", "ad"), ("poll", "show"), ("poll", "add", "--evry", "5m"), ("run", "list", "--limit", "x")]
)
def test_wrong_usage_exits_2_and_names_the_help(words: tuple[str, ...], cli: Cli) -> None:
    """One line on standard error, or one document."""
    told = cli(*words)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("sereno: ") and told.err.count("\n") == 1 and "--help`" in told.err
    document = cli(*words, "--json")
    assert (document.code, document.json["error"]["code"]) == (2, "usage")


def test_every_fault_of_the_settings_is_told_at_once(cli: Cli, folder: Path) -> None:
    """Each with file and line and the nearest known name."""
    (folder / "sereno.toml").write_text(
        'slotz = 3\nzone = "UTC"\n[lease]\nlease = "soon"\n[[poll]]\nname = "a b"\nevery = "1h"\n'
    )
    told = cli("poll", "list")
    assert told.code == 2
    place = folder / "sereno.toml"
    assert f"{place}:1: unknown setting `slotz` — did you mean `slots`?" in told.err
    assert f"{place}:4: `lease.lease`" in told.err
    assert f'{place}:6: `poll "a b".name`' in told.err
    assert f'{place}:5: `poll "a b".source`: is missing' in told.err
    assert len(cli("poll", "list", "--json").json["error"]["faults"]) == 4


def test_an_unknown_zone_is_a_fault_with_its_line(cli: Cli, folder: Path) -> None:
    """Times are shown in the user's zone, so it must exist."""
    (folder / "sereno.toml").write_text('zone = "Europe/Atlantis"\n')
    told = cli("config", "show")
    assert told.code == 2 and f"{folder / 'sereno.toml'}:1: no time zone named `Europe/Atlantis`" in told.err


def test_every_fault_of_a_poll_is_told_at_once(cli: Cli) -> None:
    """Source, condition, action and credential; nothing is stored and nothing sent."""
    told = cli(
        "poll", "add", "x", "https://example.org/x", "--source", "http", "--when", "object.", "--action", "consle", "--credential",
        "nobody", "--json",
    )  # fmt: skip
    assert told.code == 2
    places = {fault["where"] for fault in told.json["error"]["faults"]}
    assert places == {"x: source.credential", "x: when", "x: actions[0]"}
    hints = " ".join(str(fault["hint"]) for fault in told.json["error"]["faults"])
    assert "did you mean `console`?" in hints and "[credentials.nobody]" in hints
    bad = cli("poll", "add", "x", "https://example.org/x", "--source", "http", "--every", "soon", "--keep", "all", "--json")
    assert {fault["where"] for fault in bad.json["error"]["faults"]} == {"poll.every", "poll.keep"}
    assert cli("poll", "list", "--json").json["polls"] == []


SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


@pytest.mark.parametrize(
    "words",
    [
        ("poll", "add", f"https://ada:{SECRET}@example.org/feed"),
        ("poll", "add", f"https://example.org/feed?token={SECRET}"),
        ("poll", "add", "x", f"https://example.org/feed?api_key={SECRET}", "--source", "http"),
        ("poll", "add", "x", "https://example.org/feed", "--source", "http", "--source-option", f'headers={{"Accept": "Bearer {SECRET}"}}'),
        ("poll", "add", "x", "https://example.org/feed", "--source", "http", "--when", f"object.key == '{SECRET}'"),
        ("poll", "add", "x", "--command", f"curl -H {SECRET}"),
        ("poll", "preview", f"https://example.org/feed?sig={SECRET}"),
        ("wait", "generic-202", f"https://example.org/jobs/1?token={SECRET}", "--deadline", "5m"),
        ("wait", "replicate", SECRET),
        ("wait", "generic-202", "job", "--base", f"https://ada:{SECRET}@example.org"),
    ],
)  # fmt: skip
def test_a_literal_secret_is_refused_with_the_fix(words: tuple[str, ...], cli: Cli, folder: Path) -> None:
    """In a URL or anywhere on the command line; it is not repeated, stored or sent."""
    told = cli(*words)
    assert told.code == 2, told.out + told.err
    assert SECRET not in told.out + told.err
    assert "[credentials.NAME]" in told.err or "credential" in told.err
    assert cli("poll", "list", "--json").json["polls"] == []
    assert cli("operation", "list", "--json").json["operations"] == []
    for path in (folder / ".sereno").iterdir():
        assert SECRET.encode() not in path.read_bytes()


def test_foreign_text_in_an_error_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line; the lines of the faults stay lines."""
    Output(as_json=False).fail(SetupError("bad \x1b[31m thing", [Fault("a:1", "\u202eolleh")]))
    assert capsys.readouterr().err == "sereno: bad \\x1b[31m thing\n  a:1: olleh\n"
    assert safe("x" * 300).endswith("…") and len(safe("x" * 300)) == 200


def test_a_bug_is_one_line_and_exit_1(folder: Path) -> None:
    """The line says what to do; the text of the exception, which may be foreign, stays out. SERENO_DEBUG=1 shows the traceback."""
    program = (
        "import sys\nfrom sereno.faces.cli import main, session\n"
        "def broken(*a): raise KeyError('foreign text')\n"
        "session.load_settings = broken\nsys.argv[1:] = ['poll', 'list', *sys.argv[1:]]\nmain.main()"
    )

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=folder, env={**os.environ, **more}
        )

    calm = run()
    assert (calm.returncode, calm.stdout) == (1, "")
    assert calm.stderr.count("\n") == 1
    assert (
        calm.stderr.startswith("sereno: this is a fault of Sereno's own (KeyError at <string>:3)")
        and "SERENO_DEBUG=1" in calm.stderr
    )
    document = run("--json")
    assert document.returncode == 1 and json.loads(document.stdout)["error"]["code"] == "bug"
    loud = run(SERENO_DEBUG="1")
    assert loud.returncode == 1 and "Traceback" in loud.stderr and "foreign text" in loud.stderr


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    """`| head` ends the reading; nothing is complained about."""
    with subprocess.Popen(
        [sys.executable, "-m", "sereno.faces.cli.main", "config", "schema"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=300) == 0


def test_interrupted_exits_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a command looks."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "load_settings", interrupt)
    assert cli("poll", "list").code == 130
