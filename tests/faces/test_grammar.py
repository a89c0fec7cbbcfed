"""The grammar: which commands there are, what their help says, how fast the first answer is."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from cyclopts import App

from sereno.faces.cli.commands import build
from sereno.faces.cli.main import NOUNS, VERBS
from tests.faces.conftest import Cli

SNAPSHOT = Path(__file__).parent / "help.txt"
GRAMMAR = {
    "poll": {"add", "list", "show", "edit", "preview", "run", "pause", "resume", "remove", "export", "diff"},
    "operation": {"list", "show", "explain", "cancel", "resubmit", "push", "contract", "result", "replay", "check"},
    "escalation": {"list", "show", "answer"},
    "run": {"list", "show"},
    "delivery": {"list", "retry", "drop"},
    "contract": {"list", "show", "new", "check", "test", "import", "schema"},
    "report": {"waiting"},
    "config": {"schema", "show"},
}


def verbs_of(app: App) -> list[str]:
    """The sub-commands of a noun."""
    return [name for name in app if not name.startswith("-")]


COMMANDS = [(noun, verb) for noun in NOUNS for verb in verbs_of(build()[noun])] + [(verb,) for verb in VERBS]


def test_the_grammar_is_noun_verb_and_a_few_bare_verbs() -> None:
    """Nothing else can be typed."""
    root = build()
    assert {noun: set(verbs_of(root[noun])) for noun in NOUNS} == GRAMMAR
    assert {name for name in root if not name.startswith("-")} == {*NOUNS, *VERBS, "version"}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_knows_json_and_config(words: tuple[str, ...], cli: Cli) -> None:
    """The two flags of every command stand in its help."""
    text = cli(*words, "--help").out
    assert "  --json " in text
    assert "  --config STR " in text or words == ("demo",), "the demo makes a configuration of its own"
    assert text.splitlines()[2].endswith("."), "its first line says what it does"


def helped(cli: Cli) -> str:
    """The help of every command, in the order of the grammar; the demo's own is its makers'."""
    words: list[tuple[str, ...]] = [(), *((noun,) for noun in NOUNS), *(one for one in COMMANDS if one != ("demo",))]
    return "\n".join(f"$ sereno {' '.join((*one, '--help'))}\n{cli(*one, '--help').out}" for one in words)


def test_help_is_as_recorded(cli: Cli) -> None:
    """SERENO_UPDATE=1 records it anew; the difference is then read by a person."""
    found = helped(cli)
    if os.environ.get("SERENO_UPDATE") == "1":
        SNAPSHOT.write_text(found)
    assert found == SNAPSHOT.read_text()
    assert "\x1b" not in found
    assert max(len(line) for line in found.splitlines()) <= 120


def test_version_answers_before_anything_is_loaded() -> None:
    """`sereno version` loads neither the grammar nor the settings, and takes at most 0.2 s."""
    program = (
        "import sys\nfrom sereno.faces.cli.main import main\n"
        "try: main(['version'])\nexcept SystemExit as end: print(end.code)\n"
        "print([name for name in ('cyclopts', 'rich', 'pydantic', 'aiohttp', 'sereno.settings', 'sereno.app') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0].startswith("sereno 0.") and said[1:] == ["0", "[]"]
    assert min(_seconds() for _ in range(5)) <= 0.2


def _seconds() -> float:
    """What one start costs in processor time, so that a busy machine does not count; it waits for nothing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "sereno.faces.cli.main", "version"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_version_with_json_is_one_document(cli: Cli) -> None:
    """The same through the whole grammar."""
    answer = cli("version", "--json")
    assert answer.code == 0 and answer.json["schema"] == "sereno.version/1"


def test_completion_can_be_installed(folder: Path) -> None:
    """For bash: the file is written into the home folder and completes the nouns."""
    home = folder / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "sereno.faces.cli.main", "--install-completion", "--shell", "bash"],
        capture_output=True, text=True, env={**os.environ, "HOME": str(home), "SHELL": "/bin/bash"}, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = "".join(path.read_text() for path in home.rglob("*") if path.is_file())
    assert "escalation" in written and "sereno" in written
