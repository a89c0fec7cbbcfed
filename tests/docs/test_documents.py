"""The documents say what is so: generated pages are up to date, links lead somewhere, the README starts with the two commands."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from scripts import docs, reference
from sereno.core.waiting.lifecycle import TRANSITIONS, diagram
from sereno.settings import parse_settings

ROOT = Path(__file__).parents[2]


def fences(language: str) -> list[tuple[str, str]]:
    """Every fenced block of a language in the documents, with its page."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [
        (page.relative_to(ROOT).as_posix(), block) for page in docs.pages(ROOT) for block in pattern.findall(page.read_text())
    ]


@pytest.mark.parametrize("name", sorted(docs.generated()))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """The page in the repository is what the code says now."""
    assert (ROOT / "docs/reference" / name).read_text() == docs.written(name), "run `make docs`"


def test_nothing_else_lies_among_the_generated_pages() -> None:
    """Pages that nothing generates any longer are gone."""
    assert docs.stale(ROOT) == []


def test_the_diagram_shows_every_legal_move() -> None:
    """The picture is drawn from the table: each move stands in it and on its page."""
    page, arrows = docs.written("operation-states.md"), diagram()
    assert arrows.rstrip() in page
    for (before, event), after in TRANSITIONS.items():
        assert re.search(rf"^\s*{before} --> {after}:.*\b{event}\b", arrows, re.MULTILINE), (before, event, after)


def test_every_link_leads_somewhere() -> None:
    """Relative links and anchors of every page exist."""
    assert list(docs.broken_links(ROOT)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """A missing file and a missing heading are faults; code is not read as a link."""
    (tmp_path / "a.md").write_text("# Top\n[x](b.md) [y](#nowhere) [z](#top) `[no](c.md)`\n\n```\n[no](d.md)\n```\n")
    assert list(docs.broken_links(tmp_path)) == ["a.md: b.md: no such file", "a.md: #nowhere: no such heading"]


def test_a_stale_page_is_found(tmp_path: Path) -> None:
    """An edited, missing or stray generated page is a fault."""
    folder = tmp_path / "docs/reference"
    folder.mkdir(parents=True)
    for name in docs.generated()[1:]:
        (folder / name).write_text(docs.written(name))
    (folder / "errors.md").write_text("edited")
    (folder / "old.md").write_text("")
    missing = next(iter(reference.PAGES))
    assert sorted(docs.stale(tmp_path)) == sorted(
        [
            f"docs/reference/{missing}: not up to date; run `make docs`",
            "docs/reference/errors.md: not up to date; run `make docs`",
            "docs/reference/old.md: nothing generates it",
        ]
    )


def test_the_readme_starts_with_the_two_commands() -> None:
    """`make run` and `make test` are the first commands that a reader meets."""
    commands = re.findall(r"^    (\S.*?)(?:  +#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["make run", "make test"]


def test_the_architecture_stays_short() -> None:
    """ARCHITECTURE.md has at most 150 lines."""
    assert (ROOT / "ARCHITECTURE.md").read_text().count("\n") <= 150


def test_exactly_once_is_never_promised() -> None:
    """No page says "exactly once": what the receiver does is always named."""
    for page in docs.pages(ROOT):
        assert "exactly once" not in page.read_text().lower(), page


CONTRACTS = "docs/reference/contract-format.md"
"""Its examples are parts of contracts; tests/core/test_contract_format.py reads them as such."""


@pytest.mark.parametrize(("page", "block"), [found for found in fences("toml") if found[0] != CONTRACTS])
def test_every_toml_example_is_accepted(page: str, block: str) -> None:
    """A configuration shown in the documents has no fault; a lone line of a poll is tried inside one."""
    poll = '[[poll]]\nname = "x"\nsource = { type = "http", url = "https://e.org" }\nevery = "1h"\n'
    whole = block if block.startswith("[") else poll + block
    tomllib.loads(whole)
    parse_settings(whole, ROOT / "sereno.toml")


@pytest.mark.parametrize(("page", "block"), fences("python"))
def test_every_python_example_compiles(page: str, block: str) -> None:
    """A Python example is valid Python."""
    ast.parse(block)


def test_each_decision_record_is_listed_and_has_its_headings() -> None:
    """Numbers run without a gap; each record has question, choice, what speaks against it and what would change it."""
    folder = ROOT / "docs/decisions"
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    index = (folder / "README.md").read_text()
    for path in records:
        text = path.read_text()
        assert path.name in index
        assert text.startswith(f"# {path.name[:4]} ")
        assert [line for line in text.splitlines() if line.startswith("## ")] == [
            "## Question", "## Choice", "## Against it", "## What would change it",
        ]  # fmt: skip


def test_every_setting_says_what_it_means() -> None:
    """No row of the settings page lacks its meaning."""
    assert [line for line in docs.written("settings.md").splitlines() if line.endswith("|  |")] == []
