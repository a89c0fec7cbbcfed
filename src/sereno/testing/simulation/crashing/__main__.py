"""`python -m sereno.testing.simulation.crashing`: 40 scenarios, a death at every crash point of each; or a part, or one run again."""

import argparse
import json
import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path

from sereno.testing.simulation.crashing.plan import Variant
from sereno.testing.simulation.crashing.runs import Crashed, crash_everywhere, one, rotating
from sereno.testing.simulation.crashing.scenario import scenarios
from sereno.testing.simulation.required import crash_points

HERE = Path(__file__).resolve().parent
SHOWN = 20


def main() -> int:
    """The last line is JSON. 0 = every run held, 1 = something was violated, 3 = a named point was hit by no scenario (whole run only)."""
    parser = argparse.ArgumentParser(prog="python -m sereno.testing.simulation.crashing")
    parser.add_argument("--part", help="k/n: every n-th run from the k-th; `rotating`: a tenth that the commit chooses")
    parser.add_argument("--only", choices=list(scenarios()), help="one scenario")
    parser.add_argument("--hit", type=int, help="with --only: one run again, and its last events")
    parser.add_argument("--variant", choices=list(Variant), default=Variant.DIE)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.only and given.hit:
        return _one(given.only, given.hit, Variant(given.variant))
    return _many([given.only] if given.only else list(scenarios()), _part(given.part), given.jobs)


def _part(text: str | None) -> tuple[int, int]:
    """(from 1, of)."""
    if text == "rotating":
        return rotating(HERE, 10), 10
    first, _, of = (text or "1/1").partition("/")
    if not 1 <= int(first) <= int(of):
        raise SystemExit(f"--part {text}: there is no such part")
    return int(first), int(of)


def _one(name: str, number: int, variant: Variant) -> int:
    ran, wrong = one(name, number, variant)
    print("\n".join([*ran.outcome.log, *wrong, str(ran.end)]))
    print(json.dumps({"scenario": name, "hit": number, "variant": variant, "violations": len(wrong)}), flush=True)
    return 1 if wrong else 0


def _many(names: list[str], part: tuple[int, int], jobs: int) -> int:
    began, ran = time.monotonic(), list[Crashed]()
    work = partial(crash_everywhere, offset=part[0] - 1, step=part[1])
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for crashed in pool.imap_unordered(work, names):
            ran.append(crashed)
            _show(crashed, f"{len(ran)} of {len(names)}")
    seen = set[str]().union(*(crashed.points for crashed in ran))
    whole = part == (1, 1) and len(names) == len(scenarios())
    missing = sorted(set(crash_points()) - set(NOT_HERE) - seen) if whole else []
    print("".join(f"crashes: no scenario passes {point}\n" for point in missing), end="")
    violations = sum(len(crashed.violations) for crashed in ran)
    line = {
        "scenarios": len(ran),
        "part": f"{part[0]}/{part[1]}",
        "points": len(seen),
        "crash_points": sum(crashed.runs for crashed in ran),
        "of": sum(crashed.of for crashed in ran),
        "hits": sum(crashed.hits for crashed in ran),
        "idle_left_out": sum(crashed.left_out for crashed in ran),
        "violations": violations,
        "not_passed": len(missing),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(line), flush=True)
    return 1 if violations else 3 if missing else 0


def _show(crashed: Crashed, count: str) -> None:
    print(f"crashes: {count}: {crashed.name}: {crashed.runs} of {crashed.of} runs, {len(crashed.violations)} wrong", flush=True)
    for text in crashed.violations[:SHOWN]:
        print(f"crashes: {text[:600]}", flush=True)


NOT_HERE: dict[str, str] = {
    "store.note_clock_step.before": "nobody sets a clock in a scenario; the simulated worlds do",
    "store.note_clock_step.unknown": "as before",
    "store.note_clock_step.after": "as before",
}
"""Named points that no scenario can pass, and why."""


if __name__ == "__main__":
    sys.exit(main())
