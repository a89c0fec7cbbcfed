"""`python -m sereno.testing.killing`: one campaign from the command line."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from sereno.testing.killing.campaign import Campaign
from sereno.testing.killing.checks import figures, gather, shortfalls, violations
from sereno.testing.killing.options import Options
from sereno.testing.mutants import MUTANTS

SHOWN = 20
CYCLES = "SERENO_KILL_CYCLES"
"""How many kills a campaign has that is told nothing else; 200."""


def main() -> int:
    """Prints one line of JSON; 0 = nothing was violated and enough happened, 1 = violated, 3 = it proves nothing."""
    options = _options()
    began = time.monotonic()
    campaign = Campaign(options)
    books = campaign.run()
    evidence = gather(options, campaign.log, books)
    found, broken = figures(evidence), violations(evidence)
    short = shortfalls(found)
    line = {
        "mutant": options.mutant,
        "seed": options.seed,
        "seconds": round(time.monotonic() - began, 1),
        **found,
        "violations": len(broken),
        "first_violations": broken[:SHOWN],
        "shortfalls": short,
    }
    print(json.dumps(line), flush=True)
    return 1 if broken else 3 if short else 0


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m sereno.testing.killing")
    parser.add_argument("--cycles", type=int, default=int(os.environ.get(CYCLES, "200")))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutant", choices=["none", *MUTANTS], default="none")
    parser.add_argument("--folder", type=Path, help="where database and log stay; default a new folder under /tmp")
    parser.add_argument("--lost-answers", type=float, default=0.04)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="sereno-killing-"))
    return Options(folder=folder, cycles=given.cycles, seed=given.seed, mutant=given.mutant, lost_answers=given.lost_answers)


if __name__ == "__main__":
    sys.exit(main())
