"""Each complaint about other waiters and each defect of theirs is a test that names it: tests/rows.toml is the list, both ways."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
COMPLAINT = re.compile(r"status-polling §2 row (\d+)")
DEFECT = "status-polling §0 "


def listed() -> Mapping[str, Any]:
    """The list."""
    return tomllib.loads((TESTS / "rows.toml").read_text())


def docstrings() -> Mapping[str, str]:
    """The docstring of each test, on one line, by the test's address."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "status-polling §" not in text or path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found[f"{path.relative_to(TESTS.parent)}::{node.name}"] = " ".join((ast.get_docstring(node) or "").split())
    return found


def faults_of_complaints(complaints: Mapping[str, str], said: Mapping[str, str]) -> Iterator[str]:
    """Rows that no test shows, and rows that tests name and the list does not."""
    shown = {number for text in said.values() for number in COMPLAINT.findall(text)}
    yield from (f"row {number} has no test" for number in sorted(complaints.keys() - shown, key=int))
    yield from (f"row {number} is not in the list" for number in sorted(shown - complaints.keys(), key=int))


def faults_of_defects(defects: Sequence[Mapping[str, Any]], said: Mapping[str, str]) -> Iterator[str]:
    """Defects without a test or a reason, tests that are not there or do not name their defect, and names that no list knows."""
    for defect in defects:
        label, tests = defect["label"], defect.get("tests", ())
        if bool(tests) is bool(defect.get("reason")):
            yield f"{label}: needs tests, or else the reason why no waiter could share it"
        naming = {address for address, text in said.items() if f"{DEFECT}{label}" in text}
        yield from (f"{label}: {address} does not name it, or is not there" for address in sorted({*tests} - naming))
        yield from (f"{label}: {address} names it and is not in the list" for address in sorted(naming - {*tests}))
    labels = [defect["label"] for defect in defects]
    for address, text in said.items():
        for rest in text.split(DEFECT)[1:]:
            if not any(rest.startswith(label) for label in labels):
                yield f"{address}: {rest[:40]!r} is no defect of the list"


def test_each_complaint_is_a_test_and_each_test_names_a_complaint_of_the_list() -> None:
    """The set of rows in docstrings and the set in the list are one; each row has a name of its own."""
    complaints = listed()["complaints"]
    assert list(faults_of_complaints(complaints, docstrings())) == []
    assert len(complaints) >= 26 and len(set(complaints.values())) == len(complaints)


def test_each_defect_is_met_by_the_tests_that_the_list_names() -> None:
    """Exactly those tests name it, and each is there."""
    defects = listed()["defect"]
    assert list(faults_of_defects(defects, docstrings())) == []
    assert len(defects) >= 17 and len({defect["label"] for defect in defects}) == len(defects)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("status-polling §2 row 1", "row 2 has no test"),
        ("status-polling §2 row 1 and status-polling §2 row 2, status-polling §2 row 99", "row 99 is not in the list"),
    ],
)
def test_a_row_that_is_missing_on_either_side_is_found(text: str, says: str) -> None:
    """A row without a test, and a test of a row that nobody listed."""
    assert list(faults_of_complaints({"1": "one", "2": "two"}, {"tests/a.py::test_a": text})) == [says]


@pytest.mark.parametrize(
    ("defect", "says"),
    [
        ({"tests": ["tests/a.py::test_a"], "reason": "x"}, "needs tests"),
        ({}, "needs tests"),
        ({"tests": ["tests/a.py::test_a", "tests/a.py::test_b"]}, "tests/a.py::test_b does not name it"),
        ({"reason": "x"}, "tests/a.py::test_a names it"),
        ({"tests": ["tests/a.py::test_a"], "label": "other"}, "is no defect of the list"),
    ],
)
def test_a_defect_that_the_list_and_the_tests_do_not_share_is_found(defect: dict[str, Any], says: str) -> None:
    """Each way of being out of step."""
    said = {"tests/a.py::test_a": "status-polling §0 acme loop: it does not"}
    assert [fault for fault in faults_of_defects([{"label": "acme loop", **defect}], said) if says in fault]
