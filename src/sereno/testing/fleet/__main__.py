"""`python -m sereno.testing.fleet`: one fleet from the command line."""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sereno.testing.fleet.checks import figures, violations
from sereno.testing.fleet.options import Fleet
from sereno.testing.fleet.real import Real, sail_real
from sereno.testing.fleet.run import sail

SHOWN = 20
FREE = 2_000
"""Operations of the second fleet, whose pool has no limit: what spreads there is the jitter alone."""


def main() -> int:
    """Prints one line of JSON; 0 = nothing was violated, 1 = violated."""
    parser = argparse.ArgumentParser(prog="python -m sereno.testing.fleet")
    parser.add_argument("--operations", type=int, default=Fleet().operations)
    parser.add_argument("--seed", type=int, default=Fleet().seed)
    parser.add_argument("--real", type=int, default=300, help="operations of the fleet on real time; 0 = none")
    given = parser.parse_args()
    fleet = Fleet(operations=given.operations, seed=given.seed)
    limited, broken = _sailed(fleet)
    free, more = _sailed(free_fleet(replace(fleet, operations=min(FREE, given.operations))))
    real, worst = _real(given.real, given.seed) if given.real else (None, [])
    broken += more + worst
    line = {
        **limited,
        "without_limit": free,
        "on_real_time": real,
        "violations": len(broken),
        "first_violations": broken[:SHOWN],
    }
    print(json.dumps(line), flush=True)
    return 1 if line["violations"] else 0


def free_fleet(fleet: Fleet) -> Fleet:
    """The same fleet with nothing but its own jitter to spread it: no limit, no outage, no sleep, short jobs."""
    return replace(fleet, rate=None, outages=(), asleep=None, long_s=fleet.short_s, hours=3.0)


def _real(operations: int, seed: int) -> tuple[dict[str, Any], list[str]]:
    with TemporaryDirectory(prefix="sereno-fleet-") as folder:
        return sail_real(Real(Path(folder), operations=operations, seed=seed))


def _sailed(fleet: Fleet) -> tuple[dict[str, Any], list[str]]:
    began = time.monotonic()
    sailed = sail(fleet)
    return {**figures(sailed), "seconds": round(time.monotonic() - began, 1)}, violations(sailed)


if __name__ == "__main__":
    sys.exit(main())
