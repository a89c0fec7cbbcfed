"""The guarantees are more than words: each names its invariant and a test that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/concepts/guarantees.md"
INVARIANTS = ROOT / "docs/reference/invariants.md"
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
PROMISES = [
    line.strip("| ").split(" | ")
    for line in PAGE.read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| promise")
]


def test_the_page_makes_promises_to_everybody() -> None:
    """The table rows are found: a check over none would prove nothing."""
    assert len(PROMISES) >= 15
    assert all(len(row) == 3 for row in PROMISES)


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: row[0][:60])
def test_each_promise_names_its_invariant_and_a_test_that_is_there(row: list[str]) -> None:
    """The links of the second column lead to invariants, those of the third to test functions in their files."""
    _, rules, tests = row
    found = LINK.findall(rules)
    assert found
    assert all(place == f"../reference/invariants.md#{name.lower()}" for name, place in found)
    shown = LINK.findall(tests)
    assert shown
    for name, place in shown:
        source = (PAGE.parent / place).resolve().read_text("utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), (name, place)


def test_every_invariant_has_its_place_and_its_test() -> None:
    """I1 to I34 stand on the page; each but those of later parts is named by a test, in its name or in what it says."""
    numbers = [f"I{number}" for number in range(1, 35)]
    assert re.findall(r"^### (I\d+)$", INVARIANTS.read_text("utf-8"), re.MULTILINE) == numbers
    tests = "\n".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py") if file.name != Path(__file__).name)
    later = {"I32"}
    assert {number for number in numbers if not re.search(rf"(?<![A-Za-z0-9]){number}(?![0-9])", tests)} <= later
