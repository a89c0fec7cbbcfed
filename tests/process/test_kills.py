"""The kill -9 proof at its longest, and that it leaves no named crash point of the product out (G16)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sereno
from sereno.testing.killing.options import COMMITS, POINTS

PACKAGE = Path(sereno.__file__).parent
CYCLES = 2_000


def test_G16_every_named_crash_point_of_engine_and_drivers_is_one_that_kills() -> None:
    """A crash point that is added to the product is one that the campaign has to hit."""
    named = {
        name
        for floor in ("engine", "drivers")
        for file in (PACKAGE / floor).glob("*.py")
        for name in re.findall(r'crash_point\("([a-z_.]+)"\)', file.read_text("utf-8"))
    }
    sides = {f"{name}.{side}" for name in COMMITS for side in ("before", "after")}
    assert len(named) >= 8
    assert named | sides == set(POINTS)


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_W09_W22_G16_two_thousand_kills(tmp_path: Path) -> None:
    """Two thousand kills: no violation, each named point hit, lost work taken up again within five seconds after its lease."""
    command = [sys.executable, "-m", "sereno.testing.killing", "--cycles", str(CYCLES), "--seed", "7", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout)
    found = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, found["violations"], found["shortfalls"]) == (0, 0, []), found
    assert found["kills"] == CYCLES
    assert min(found["kills_at_points"].values()) >= 10
    assert found["after_the_lease_s"] <= 5.0 + found["machine_lag_s"]
