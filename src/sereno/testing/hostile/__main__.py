"""`python -m sereno.testing.hostile`: one hostile world from the command line."""

import argparse
import json
import sys
import time

from sereno.testing.hostile.checks import figures, violations
from sereno.testing.hostile.faults import FAULTS
from sereno.testing.hostile.options import Hostile
from sereno.testing.hostile.run import live

SHOWN = 20


def main() -> int:
    """Prints one line of JSON; 0 = nothing was violated and every fault was met, 1 = violated, 3 = it proves nothing."""
    parser = argparse.ArgumentParser(prog="python -m sereno.testing.hostile")
    parser.add_argument("--operations", type=int, default=Hostile().operations)
    parser.add_argument("--seed", type=int, default=Hostile().seed)
    given = parser.parse_args()
    began = time.monotonic()
    lived = live(Hostile(operations=given.operations, seed=given.seed))
    broken = violations(lived)
    unmet = sorted(set(FAULTS) - set(lived.provider.faults)) if given.operations >= Hostile().operations else []
    line = {
        **figures(lived),
        "faults_not_met": unmet,
        "seconds": round(time.monotonic() - began, 1),
        "violations": len(broken),
        "first_violations": broken[:SHOWN],
    }
    print(json.dumps(line), flush=True)
    return 1 if broken else 3 if unmet else 0


if __name__ == "__main__":
    sys.exit(main())
