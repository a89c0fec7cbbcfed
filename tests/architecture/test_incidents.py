"""Each failure of others is a test that names it, or has its reason: tests/incidents.toml is the list, both ways."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
ALL = range(1, 35)
"""The rows of reliability-security §6."""
INCIDENT = re.compile(r"\bincident (\d+)\b")
BROUGHT_BY = re.compile(r"\b[WPMG][0-9]{2}\b|\bI[0-9]{1,2}\b")
"""An id of what will bring it: requirement, goal or invariant."""


def listed() -> Sequence[Mapping[str, Any]]:
    """The list."""
    found: Sequence[Mapping[str, Any]] = tomllib.loads((TESTS / "incidents.toml").read_text())["incident"]
    return found


def claims() -> Mapping[str, frozenset[int]]:
    """The incidents that the docstring of each test names, by the test's address."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "incident " not in text or path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                named = frozenset(map(int, INCIDENT.findall(" ".join((ast.get_docstring(node) or "").split()))))
                if named:
                    found[f"{path.relative_to(TESTS.parent)}::{node.name}"] = named
    return found


def faults(incidents: Sequence[Mapping[str, Any]], said: Mapping[str, frozenset[int]], rows: range = ALL) -> Iterator[str]:
    """Each way in which rows, list and docstrings are out of step."""
    numbers = [incident["n"] for incident in incidents]
    if numbers != list(rows):
        yield f"the list holds {numbers}"
    yield from (
        f"{address} names incident {n}, which is no row" for address, named in said.items() for n in sorted(named - {*rows})
    )
    for incident in incidents:
        n, tests, later = incident["n"], incident.get("shown_by", []), incident.get("later", "")
        naming = sorted(address for address, named in said.items() if n in named)
        if not tests and not later:
            yield f"incident {n} needs tests, or the reason why they come later"
        if later and not BROUGHT_BY.search(later):
            yield f"incident {n}: the reason names nothing that brings it"
        yield from (f"incident {n}: {address} does not name it, or is not there" for address in tests if address not in naming)
        yield from (f"incident {n}: {address} names it and is not in the list" for address in naming if address not in tests)


def test_each_incident_is_met_by_the_tests_that_the_list_names() -> None:
    """The rows 1 to 34, the list, and what docstrings claim are one; each row has its upstream and a name of its own."""
    incidents = listed()
    assert list(faults(incidents, claims())) == []
    assert len({incident["title"] for incident in incidents}) == len(ALL) and all(incident["upstream"] for incident in incidents)


def test_what_exists_today_is_shown_and_not_put_off() -> None:
    """At least 24 of the 34 have tests; only parts that do not exist yet have a reason alone."""
    without = [incident["n"] for incident in listed() if not incident.get("shown_by")]
    assert without == [19, 20, 21, 23, 24, 27, 28, 29, 32, 33]


@pytest.mark.parametrize(
    ("incident", "said", "says"),
    [
        ({"shown_by": ["a::t"]}, {}, "a::t does not name it"),
        ({"shown_by": ["a::t"]}, {"a::t": {1}, "b::t": {1}}, "b::t names it and is not in the list"),
        ({}, {}, "needs tests"),
        ({"later": "some day"}, {}, "names nothing that brings it"),
        ({"later": "comes with W27"}, {"a::t": {1}}, "a::t names it and is not in the list"),
        ({"later": "comes with W27"}, {"a::t": {35}}, "names incident 35, which is no row"),
        ({"n": 2, "later": "comes with W27"}, {}, "the list holds [2]"),
    ],
)
def test_whatever_is_out_of_step_is_found(incident: dict[str, Any], said: dict[str, set[int]], says: str) -> None:
    """Each way of being out of step."""
    whole = [{"n": 1, **incident}]
    assert any(says in fault for fault in faults(whole, {at: frozenset(named) for at, named in said.items()}, range(1, 2)))
    assert list(faults([{"n": 1, "shown_by": ["a::t"]}], {"a::t": frozenset({1})}, range(1, 2))) == []
