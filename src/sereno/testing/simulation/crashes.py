"""Every crash point of many scenarios: the process dies there, and at nothing else; `python -m sereno.testing.simulation.crashes`."""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from sereno.testing.simulation.options import PROFILES
from sereno.testing.simulation.required import crash_points
from sereno.testing.simulation.terms import Group
from sereno.testing.simulation.world import run_world

FIRST = 7_000_000
"""Scenarios have seeds of their own."""
SCENARIOS = 40
_SHARES = {Group.LOOK: 0.15, Group.SUBMIT: 0.25, Group.CANCEL: 0.25, Group.READ: 0.1, Group.ACT: 0.2}
"""The outside misbehaves, so that every branch is walked; the one crash is the only fault of a process."""


def scenario(number: int) -> dict[str, Any]:
    """What a scenario changes of the drawn options."""
    dice = Random(f"scenario:{number}")
    times, (least, most) = PROFILES[number % len(PROFILES)]
    return {
        "workers": 2,
        "slots": dice.choice((1, 4, 16)),
        "jobs": 2,
        "orders": 3,
        "polls": 1,
        "awake_hours": round(least + (most - least) * 0.3, 2),
        "times": times,
        "shares": {} if number % 4 == 0 else dict(_SHARES),
    }


@dataclass(frozen=True, slots=True)
class Crashed:
    """One scenario with all its deaths."""

    number: int
    points: Sequence[str]
    """The points that were passed, and at each of which a process died."""
    worlds: int
    violations: Sequence[str]


def crash_everywhere(number: int) -> Crashed:
    """Runs a scenario once, then once for each point that was passed the first time, in the middle and the last time: the process dies there."""
    seed, changes = FIRST + number, scenario(number)
    whole = run_world(seed, **changes)
    found = [f"{number} without a crash: {text}" for text in whole.violations]
    passed = {name: int(count) for name, count in (whole.figures or {}).items()}
    worlds, died = 1, list[str]()
    for name, count in sorted(passed.items()):
        for nth in sorted({1, (count + 1) // 2, count}):
            outcome = run_world(seed, **changes, crash_at=(name, nth))
            worlds += 1
            found += [f"{number} crash at {name} the {nth}. time: {text}" for text in outcome.violations]
            if not outcome.coverage.points[name]:
                found.append(f"{number}: nobody died at {name} the {nth}. time")
        died.append(name)
    return Crashed(number, died, worlds, found)


def main() -> int:
    """The last line is JSON. 0 = every point of every scenario held, 1 = violated, 3 = a point was passed in no scenario."""
    parser = argparse.ArgumentParser(prog="python -m sereno.testing.simulation.crashes")
    parser.add_argument("--scenarios", type=int, default=SCENARIOS)
    parser.add_argument("--tenth", type=int, help="only the scenarios of this rotating tenth, 0 to 9")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    wanted = [one for one in range(given.scenarios) if given.tenth is None or one % 10 == given.tenth % 10]
    began, seen, worlds, found = time.monotonic(), set[str](), 0, list[str]()
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for crashed in pool.imap_unordered(crash_everywhere, wanted):
            print(f"crashes: scenario {crashed.number}: {len(crashed.points)} points, {crashed.worlds} worlds", flush=True)
            seen.update(crashed.points)
            worlds += crashed.worlds
            found += crashed.violations
    print("".join(f"crashes: {text[:300]}\n" for text in found[:20]), end="")
    missing = sorted(set(crash_points()) - seen - set(_RARE)) if given.tenth is None else []
    print("".join(f"crashes: passed in no scenario: {name}\n" for name in missing), end="")
    line = {
        "scenarios": len(wanted),
        "points": len(seen),
        "worlds": worlds,
        "violations": len(found),
        "not_passed": len(missing),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(line), flush=True)
    return 1 if found else 3 if missing else 0


_RARE = ("store.note_clock_step.before", "store.note_clock_step.unknown", "store.note_clock_step.after")
"""Nobody sets a clock in a scenario."""


if __name__ == "__main__":
    sys.exit(main())
