"""Planted bugs: the list fits the product, planting changes one place in memory and nothing on the disk, and worlds find what is planted."""

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sereno.core.delivery import DeliveryState
from sereno.core.effect import Policy
from sereno.testing.simulation.mutants.__main__ import LEAST
from sereno.testing.simulation.mutants.page import page
from sereno.testing.simulation.mutants.planting import ROOT, Change, Mutant, NotPlanted, mutants, planted
from sereno.testing.simulation.mutants.run import Hunted, hunt_all, keep, kept, problems
from sereno.testing.simulation.outside.receivers import KEYED, ONCE, ReceiverBook
from tests.simulation.booked import delivery

QUICK = ("count-after-send", "no-fence-on-commit", "gap-ignored")


def _changed_functions(before: str, after: str) -> set[str]:
    """Names of the functions, methods and statements of a module whose code differs."""
    return {name for name, text in _parts(before).items() if _parts(after).get(name) != text}


def _parts(source: str) -> dict[str, str]:
    found: dict[str, str] = {}

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for place, node in enumerate(body):
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[f"{prefix}{node.name}"] = ast.dump(node)
            else:
                found[f"{prefix}statement {place}"] = ast.dump(node)

    walk(ast.parse(source).body, "")
    return found


def test_the_list_is_in_order() -> None:
    """Every text is in its place, every changed module compiles, no name is there twice, and there are enough."""
    assert problems(mutants()) == []
    assert len(mutants()) >= LEAST


@pytest.mark.parametrize("mutant", [one for one in mutants() if one.name in QUICK], ids=lambda one: str(one.name))
def test_planting_changes_the_wanted_function_alone(mutant: Mutant) -> None:
    """Beside the function that a change names, every function and statement of the module stays as it is."""
    for change in mutant.changes:
        before = (ROOT / change.file).read_text("utf-8")
        assert _changed_functions(before, planted(before, change)) == {change.function}


def test_a_named_statement_is_changed_alone() -> None:
    """In a file of statements the change stays inside the one that it names."""
    change = Change("sereno/store/sql/commit.sql", "release_operation", "lease_until = NULL, ", "")
    before = (ROOT / change.file).read_text("utf-8")
    after = planted(before, change)
    assert after.replace("scheduled_for = NULL, attempt", "scheduled_for = NULL, lease_until = NULL, attempt", 1) == before
    with pytest.raises(NotPlanted, match="no statement"):
        planted(before, replace(change, function="not_there"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Change("sereno/store/work/fence.py", "held", "a text that is gone", ""), "found 0 times"),
        (Change("sereno/store/work/fence.py", "held", "row", "line"), r"found \d+ times"),
        (Change("sereno/store/work/fence.py", "gone", "row", "line"), "no function gone"),
        (Change("sereno/store/work/gone.py", "held", "row", "line"), "No such file"),
        (Change("sereno/store/work/fence.py", "held", "raise LeaseLost(", "raise LeaseLost(("), "fence.py, line"),
    ],
    ids=["gone", "twice", "no function", "no file", "no code"],
)
def test_a_text_that_is_gone_is_reported(change: Change, says: str) -> None:
    """A change that no longer applies is named with its bug, so that the check of the list fails."""
    found = problems([Mutant("old", "I8", "it no longer applies", [change])])
    assert len(found) == 1
    assert found[0].startswith("old: ")
    assert re.search(says, found[0]), found


def test_a_name_that_is_there_twice_is_reported() -> None:
    """Two bugs of one name could not be told apart."""
    first = mutants()[0]
    assert problems([first, first]) == [f"{first.name}: there twice"]


def test_a_bug_is_not_planted_into_what_runs_already() -> None:
    """A module that is imported already stays as it is: planting says so instead of doing nothing."""
    code = (
        "import sereno.store.work.fence\n"
        "from sereno.testing.simulation.mutants.planting import mutants, plant\n"
        "plant(next(one for one in mutants() if one.name == 'no-fence-on-commit'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "already imported: ['sereno.store.work.fence']" in done.stderr


def test_worlds_find_three_planted_bugs_and_the_disk_stays_as_it_is() -> None:
    """Count after send, no fence and no gap are each found within 10 seeds; no file that they change is touched."""
    wanted = [one for one in mutants() if one.name in QUICK]
    before = _files(wanted)
    hunted = hunt_all(wanted, first=1, most=10, seconds=60.0, jobs=2, tell=lambda one: None)
    assert [one.mutant.name for one in hunted if one.found is None] == []
    assert all(1 <= one.seeds <= 10 for one in hunted)
    assert _files(wanted) == before


def _files(wanted: Sequence[Mutant]) -> dict[str, bytes]:
    """What is in each file that these bugs are planted into."""
    return {change.file: (ROOT / change.file).read_bytes() for one in wanted for change in one.changes}


def test_the_page_names_every_bug_and_no_date() -> None:
    """The page holds one line for each bug with its rule, what it does and how many worlds it took; a bug that got away stands out."""
    one, other = mutants()[:2]
    text = page([Hunted(one, 3, 3, "I1 op: seen", 2.0), Hunted(other, None, 40, "", 9.0)])
    assert f"| `{one.name}` | {one.breaks} | {one.says} | 3 |" in text
    assert f"| `{other.name}` | {other.breaks} | {other.says} | **not in 40** |" in text
    assert "2 planted, 1 found" in text


def test_a_hunt_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """A result that was kept is not hunted again, but for a bug that is planted differently by now."""
    one, other = mutants()[:2]
    results = tmp_path / "results.jsonl"
    assert kept(results, [one, other]) == []
    keep(results, Hunted(one, 3, 3, "I2 op: seen", 2.0))
    keep(results, Hunted(other, None, 40, "", 9.0))
    assert kept(results, [one, other]) == [Hunted(one, 3, 3, "I2 op: seen", 2.0), Hunted(other, None, 40, "", 9.0)]
    changed = replace(one, changes=[replace(one.changes[0], new="pass")])
    assert [found.mutant.name for found in kept(results, [changed, other])] == [other.name]


@pytest.mark.parametrize("silent", [True, False])
def test_a_silent_receiver_never_confirms_its_first_key(silent: bool) -> None:
    """Where a receiver is silent, one key of those that it honours is never confirmed; retries of it have to stop by themselves (I17)."""
    book = ReceiverBook(silent=silent)
    once = delivery("once", Policy.AT_MOST_ONCE, DeliveryState.SENDING, "a", kind=ONCE)
    first = delivery("first", Policy.KEYED, DeliveryState.SENDING, "b", kind=KEYED)
    second = delivery("second", Policy.KEYED, DeliveryState.SENDING, "c", kind=KEYED)
    assert [book.never_tells(one) for one in (once, first, second, first)] == [False, silent, False, silent]
