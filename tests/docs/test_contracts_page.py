"""Adding a provider as `docs/how-to/contracts.md` says: each command of the page is run, in its order, against the playground."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.conftest import Cli, QuickClock, cli, folder, quick

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

__all__ = ["cli", "folder", "quick"]

PAGE = Path(__file__).parents[2] / "docs/how-to/contracts.md"
PORT = "127.0.0.1:8765"
_STEP = re.compile(r"^```\w+(?: (\S+))?\n(.*?)^```$|^    (\S[^\n]*)$", re.MULTILINE | re.DOTALL)


def steps(page: Path) -> Iterator[tuple[str, str]]:
    """What a reader does, in order: a command, or a file (its name, and what it holds after a line break)."""
    for name, content, command in _STEP.findall(page.read_text()):
        if command:
            yield "command", command
        elif name:
            yield "file", f"{name}\n{content}"


@pytest.fixture
def playground() -> Iterator[str]:
    """A playground in which nobody has a job yet; answers host and port."""
    program = [sys.executable, "-m", "sereno.testing.playground", "--still"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield str(json.loads(process.stdout.readline())["base"]).removeprefix("http://")
        process.stdin.close()
        assert process.wait(300) == 0


def wanted_code(command: str) -> int:
    """The exit code that the page says."""
    found = re.search(r"# exit code (\d+)", command)
    return int(found[1]) if found else 0


def test_a_provider_is_added_as_the_page_says(folder: Path, cli: Cli, playground: str, quick: QuickClock) -> None:
    """Every command ends as the page says; the last wait succeeds with its result."""
    ran, waited = [], ""
    for kind, what in steps(PAGE):
        what = what.replace(PORT, playground)
        if kind == "file":
            name, _, content = what.partition("\n")
            (folder / name).write_text(content)
        elif what.startswith("sereno "):
            words = what.split("  #")[0]
            done = cli(*shlex.split(words)[1:])
            assert done.code == wanted_code(what), f"{what}\n{done.out}{done.err}"
            waited = done.out if words.startswith("sereno wait") else waited
            ran.append(" ".join(shlex.split(words)[1:3]))
        elif what.startswith("curl "):
            subprocess.run(["sh", "-ec", what], cwd=folder, check=True, timeout=300)
        else:
            assert what.startswith("python -m sereno.testing.playground"), what
    assert "succeeded" in waited and "/results/job-2" in waited
    assert {"contract new", "contract check", "contract test", "wait harbour-print", "contract import", "contract schema"} <= set(
        ran
    )


def test_what_the_page_decides_is_what_the_start_left_open(folder: Path, cli: Cli, playground: str) -> None:
    """Address, state, id and errors are as `new` proposes them from the page's answers."""
    files: dict[str, str] = {}
    for kind, what in steps(PAGE):
        what = what.replace(PORT, playground)
        if kind == "file":
            name, _, content = what.partition("\n")
            files[name] = content
        elif what.startswith("curl "):
            subprocess.run(["sh", "-ec", what], cwd=folder, check=True, timeout=300)
        elif what.startswith("sereno contract new"):
            assert cli(*shlex.split(what)[1:]).code == 0
    started = tomllib.loads((folder / "contracts/harbour-print.toml").read_text())
    decided = tomllib.loads(files["contracts/harbour-print.toml"])
    for section, keys in (("status", ("url",)), ("state", ("path",)), ("job", ("id",))):
        for key in keys:
            assert started[section][key] == decided[section][key]
    assert set(started["states"]["TODO_seen"]) < {word for words in decided["states"].values() for word in words}
