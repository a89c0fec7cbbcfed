"""The documents: `python -m scripts.docs write` makes the generated pages and the JSON schema of contracts, `python -m scripts.docs
check` proves them up to date.

`check` also follows every relative link and anchor of every Markdown file.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from scripts import reference
from sereno.core.reading.schema import contract_schema

ROOT = Path(__file__).parent.parent
HEAD = "<!-- Written by `make docs` from the code; do not edit. -->\n"
SCHEMA = "contract.schema.json"
BY_HAND = {"README.md", "contract-format.md", "invariants.md"}
ELSEWHERE = {"conformance.md", "mutants.md", "simulation-long.md"}
"""Written by `make conformance`, and by the hunt of planted bugs with `--page`, which take minutes."""


def generated() -> list[str]:
    """The names of all generated files."""
    return [*reference.PAGES, SCHEMA]


def written(name: str) -> str:
    """The whole text of a generated file."""
    if name == SCHEMA:
        return json.dumps(contract_schema(), indent=2) + "\n"
    return HEAD + reference.PAGES[name]().rstrip() + "\n"


def stale(root: Path) -> list[str]:
    """Lists generated pages that differ from what the code says, and pages in that folder that nothing generates."""
    folder = root / "docs/reference"
    faults = [
        f"docs/reference/{name}: not up to date; run `make docs`"
        for name in generated()
        if not (folder / name).exists() or (folder / name).read_text() != written(name)
    ]
    strays = {path.name for path in folder.glob("*.md")} - reference.PAGES.keys() - BY_HAND - ELSEWHERE
    return faults + [f"docs/reference/{name}: nothing generates it" for name in sorted(strays)]


def pages(root: Path) -> list[Path]:
    """Every Markdown file that belongs to the project."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.md")])


_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    plain = _FENCE.sub("", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in _HEADING.findall(plain)}


def broken_links(root: Path) -> Iterator[str]:
    """Lists relative links whose file or anchor is not there."""
    for page in pages(root):
        text = _CODE.sub("", _FENCE.sub("", page.read_text()))
        for target in _LINK.findall(text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = unquote(target).partition("#")
            path = (page.parent / name).resolve() if name else page
            where = f"{page.relative_to(root)}: {target}"
            if not path.exists():
                yield f"{where}: no such file"
            elif anchor and anchor not in anchors(path.read_text()):
                yield f"{where}: no such heading"


def main(arguments: list[str]) -> int:
    """Runs `write` or `check`; prints each fault on a line."""
    if arguments == ["write"]:
        (ROOT / "docs/reference").mkdir(parents=True, exist_ok=True)
        for name in generated():
            (ROOT / "docs/reference" / name).write_text(written(name))
    faults = [*stale(ROOT), *broken_links(ROOT)]
    print("\n".join(faults) if faults else "docs: up to date, every link leads somewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
