"""The commands in the documents are commands that there are, and each command and flag says what it does."""

import re
import shlex
from pathlib import Path

import pytest

from scripts import docs
from scripts.reference_cli import undescribed
from sereno.faces.cli.commands import build
from sereno.faces.cli.main import NOUNS, VERBS

ROOT = Path(__file__).parents[2]
PAGES = [page for page in docs.pages(ROOT) if page.parent.name != "reference"]


def shown() -> list[tuple[str, str]]:
    """Every `sereno …` that a page shows: indented lines and inline code, comments and cron fields taken off."""
    found = set()
    for page in PAGES:
        text = page.read_text()
        lines = [
            line.split("sereno ", 1)[1]
            for line in re.findall(r"^    .*$", text, re.MULTILINE)
            if re.search(r"(^|&& | )sereno ", line)
        ]
        for command in [*lines, *re.findall(r"`sereno ([^`]+)`", text)]:
            for part in command.split("  #")[0].split("&&"):
                found.add((page.relative_to(ROOT).as_posix(), part.strip().removeprefix("sereno ").replace("…", "x")))
    return sorted(found)


@pytest.mark.parametrize(("page", "command"), shown())
def test_every_command_shown_is_one(page: str, command: str) -> None:
    """The command line parses what the page shows."""
    if command == "version":
        return
    build().parse_args(shlex.split(command), exit_on_error=False, print_error=False)


def test_the_reference_has_every_command() -> None:
    """Each noun and each bare verb has its section."""
    page = docs.written("cli.md")
    for name in (*NOUNS, *VERBS):
        assert f"\n## sereno {name}\n" in page


def test_every_command_and_flag_says_what_it_does() -> None:
    """Nothing in the help is bare."""
    assert undescribed(docs.written("cli.md")) == []
