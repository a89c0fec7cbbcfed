"""`python -m sereno.testing.simulation`: one world, many worlds, or the long run of a release."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from sereno.testing.simulation import long
from sereno.testing.simulation.coverage import AREAS
from sereno.testing.simulation.required import required
from sereno.testing.simulation.runs import Ran, Total, earlier_seeds, fresh_seed, run_seed, run_seeds, unvisited
from sereno.testing.simulation.world import shrink

HERE = Path(__file__).resolve().parent
SHOWN = 10


def main() -> int:
    """The last line is JSON. 0 = nothing was violated and enough was visited, 1 = violated, 3 = it proves too little."""
    parser = argparse.ArgumentParser(prog="python -m sereno.testing.simulation")
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("one", help="one world, with its options and last events")
    one.add_argument("seed", type=int)
    one.add_argument("--shrink", action="store_true", help="look for the smallest world that still fails")
    many = verbs.add_parser("many", help="many fresh worlds, and all seeds that failed once")
    many.add_argument("--seeds", type=int, default=1000)
    many.add_argument("--first", type=int, help="the first seed; from the commit where it is not given")
    many.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    many.add_argument("--require", nargs="*", default=["faults"], choices=AREAS, help="areas in which all must be visited")
    many.add_argument("--list", action="store_true", help="list how often each was visited")
    for_long = verbs.add_parser("long", help="the long run of a release, in chunks that go on where the last one ended")
    long.add_arguments(for_long)
    given = parser.parse_args()
    return {"one": _one, "many": _many, "long": long.main}[given.verb](given)


def _one(given: argparse.Namespace) -> int:
    ran = run_seed(given.seed)
    _show(ran)
    if given.shrink and ran.violations:
        print(f"smallest: {shrink(given.seed)}")
    total = Total()
    total.add(ran)
    print(json.dumps({"seed": given.seed, "trace": ran.trace, **total.figures()}), flush=True)
    return 1 if ran.violations else 0


def _many(given: argparse.Namespace) -> int:
    first = fresh_seed(HERE) if given.first is None else given.first
    earlier, began, total, before = earlier_seeds(), time.monotonic(), Total(), Total()
    print(f"sim: {len(earlier)} seeds that failed once, then {given.seeds} from {first}", flush=True)
    for ran in run_seeds(earlier, jobs=given.jobs, tell=_show_failing):
        before.add(ran)
    for ran in run_seeds(range(first, first + given.seeds), jobs=given.jobs, tell=_show_failing):
        total.add(ran)
        if total.seeds % 100 == 0:
            print(f"sim: {total.seeds} of {given.seeds} worlds, {time.monotonic() - began:.0f} s", flush=True)
    missing = unvisited(total, required(total.seeds), given.require)
    print("".join(f"sim: not visited enough: {line}\n" for line in missing), end="")
    if given.list:
        print(json.dumps(total.coverage.as_json(), indent=1))
    failed = {**before.failing, **total.failing}
    took = time.monotonic() - began
    line = {
        "first": first,
        **total.figures(),
        "earlier_seeds": before.seeds,
        "violations": sum(len(found) for found in failed.values()),
        "failing_seeds": sorted(failed)[:SHOWN],
        "not_visited": len(missing),
        "seconds": round(took, 1),
    }
    print(json.dumps(line), flush=True)
    return 1 if failed else 3 if missing else 0


def _show(ran: Ran) -> None:
    print(f"sim: seed {ran.seed}: trace {ran.trace}")
    print("\n".join([ran.shown, *ran.violations]) if ran.violations else "sim: nothing was violated", flush=True)


def _show_failing(ran: Ran) -> None:
    if ran.violations:
        print(f"sim: seed {ran.seed} failed (again: make sim SEED={ran.seed}): {ran.violations[0][:300]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
