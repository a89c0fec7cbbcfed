"""`python -m sereno.testing.simulation.mutants`: hunts the planted bugs; `check` only says whether each can be planted."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sereno.testing.simulation.mutants.page import page
from sereno.testing.simulation.mutants.planting import Mutant, mutants
from sereno.testing.simulation.mutants.run import Hunted, figures, hunt_all, keep, kept, problems

LEAST = 45


def main() -> int:
    """Prints a table and one line of JSON; 0 = all were found, 1 = some were not, 2 = the list is not in order."""
    parser = argparse.ArgumentParser(prog="python -m sereno.testing.simulation.mutants")
    parser.add_argument("verb", nargs="?", choices=("run", "check"), default="run")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="hunt this one (repeatable)")
    parser.add_argument("--quick", action="store_true", help="hunt the sample alone")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="the most seeds for one bug")
    parser.add_argument("--seconds", type=float, default=240.0, help="the longest hunt for one bug, in seconds of computing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--page", type=Path, help="the page to write from the hunt")
    parser.add_argument("--results", type=Path, help="results are appended to it; what is in it is not hunted again")
    given = parser.parse_args()
    planted = mutants()
    wrong = problems(planted) + ([] if len(planted) >= LEAST else [f"{len(planted)} bugs are planted, {LEAST} are wanted"])
    wrong += [f"there is no {name}" for name in given.only if name not in {mutant.name for mutant in planted}]
    if wrong or given.verb == "check":
        print("\n".join(f"mutants: {line}" for line in wrong) or f"mutants: all {len(planted)} can be planted")
        return 2 if wrong else 0
    wanted = [mutant for mutant in planted if not given.only or mutant.name in given.only]
    wanted = [mutant for mutant in wanted if mutant.quick or not given.quick]
    began = time.monotonic()
    hunted = _hunted(wanted, given)
    if given.page is not None:
        given.page.write_text(page(hunted, given.first), encoding="utf-8")
    print(json.dumps(figures(hunted, time.monotonic() - began)), flush=True)
    return 0 if all(one.found is not None for one in hunted) else 1


def _hunted(wanted: Sequence[Mutant], given: argparse.Namespace) -> list[Hunted]:
    """The results in the order of the list, those of an earlier hunt among them."""
    results: Path | None = given.results

    def tell(one: Hunted) -> None:
        print(_row(one), flush=True)
        if results is not None:
            keep(results, one)

    known = [] if results is None else kept(results, wanted)
    names = {one.mutant.name for one in known}
    todo = [mutant for mutant in wanted if mutant.name not in names]
    new = hunt_all(todo, first=given.first, most=given.seeds, seconds=given.seconds, jobs=given.jobs, tell=tell)
    order = {mutant.name: place for place, mutant in enumerate(wanted)}
    return sorted([*known, *new], key=lambda one: order[one.mutant.name])


def _row(one: Hunted) -> str:
    found = f"{one.seeds:5} seeds" if one.found is not None else "NOT FOUND  "
    return f"{found}  {one.seconds:6.1f} s  {one.mutant.breaks:4} {one.mutant.name:32} {one.says[:100]}"


if __name__ == "__main__":
    sys.exit(main())
