"""Hunts all planted bugs, each in a process of its own, and says how many seeds each took."""

import json
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sereno.testing.simulation.mutants.planting import ROOT, Mutant, NotPlanted, planted

PLANTING = Path(__file__).with_name("planting.py")
PATIENCE = 20.0
"""How many times its own limit, which is of computing, a process may take by the clock: others may use the machine."""


@dataclass(frozen=True, slots=True)
class Hunted:
    """One bug: the seed that showed it (None = none did), the seeds that took, and what was seen first."""

    mutant: Mutant
    found: int | None
    seeds: int
    says: str
    seconds: float


def problems(planted_bugs: Sequence[Mutant]) -> list[str]:
    """Why the list is not in order: a text that is not in its place, one that does not compile, a name that is there twice."""
    found: list[str] = []
    names = [mutant.name for mutant in planted_bugs]
    found += [f"{name}: there twice" for name in sorted(set(names)) if names.count(name) > 1]
    for mutant in planted_bugs:
        sources: dict[str, str] = {}
        for change in mutant.changes:
            try:
                source = sources.get(change.file) or (ROOT / change.file).read_text("utf-8")
                sources[change.file] = planted(source, change)
                if change.file.endswith(".py"):
                    compile(sources[change.file], change.file, "exec")
            except (NotPlanted, OSError, SyntaxError) as error:
                found.append(f"{mutant.name}: {error}")
    return found


class _Hunt:
    """One process that hunts one bug."""

    def __init__(self, mutant: Mutant, first: int, most: int, seconds: float) -> None:
        self.mutant, self._seconds, self._began = mutant, seconds, time.monotonic()
        command = [sys.executable, str(PLANTING), mutant.name, str(first), str(most), str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self) -> Hunted | None:
        """What it found, once it has ended. One that hangs in a seed is ended here: a world that never ends was broken too."""
        took = time.monotonic() - self._began
        if self._process.poll() is None:
            if took < self._seconds * PATIENCE:
                return None
            self._process.kill()
        out, err = self._process.communicate()
        try:
            said: dict[str, Any] = json.loads(out.splitlines()[-1])
        except (IndexError, ValueError):
            last = (err.strip().splitlines() or ["it hung"])[-1]
            return Hunted(self.mutant, None, 0, f"no answer: {last[:200]}", took)
        return Hunted(self.mutant, said["found"], said["seeds"], said["says"], said["seconds"])

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def hunt_all(
    wanted: Sequence[Mutant], *, first: int, most: int, seconds: float, jobs: int, tell: Callable[[Hunted], None]
) -> list[Hunted]:
    """Hunts so many at a time; `seconds` is the limit of one. Ctrl-C ends them all."""
    waiting, running, done = deque(wanted), list[_Hunt](), list[Hunted]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Hunt(waiting.popleft(), first, most, seconds))
            for hunt in list(running):
                found = hunt.ended()
                if found is not None:
                    running.remove(hunt)
                    done.append(found)
                    tell(found)
            time.sleep(0.05)
    finally:
        for hunt in running:
            hunt.stop()
    order = {mutant.name: number for number, mutant in enumerate(wanted)}
    return sorted(done, key=lambda one: order[one.mutant.name])


def keep(path: Path, one: Hunted) -> None:
    """Appends a result, so that a hunt that was stopped can go on."""
    seen = {"name": one.mutant.name, "found": one.found, "seeds": one.seeds, "says": one.says, "seconds": one.seconds}
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({**seen, "planted": repr(one.mutant.changes)}) + "\n")


def kept(path: Path, wanted: Sequence[Mutant]) -> list[Hunted]:
    """The results of an earlier hunt for the bugs that are planted as they were then."""
    known = {mutant.name: mutant for mutant in wanted}
    found: dict[str, Hunted] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        said: dict[str, Any] = json.loads(line)
        mutant = known.get(said["name"])
        if mutant is not None and said["planted"] == repr(mutant.changes):
            found[mutant.name] = Hunted(mutant, said["found"], said["seeds"], said["says"], said["seconds"])
    return list(found.values())


def figures(hunted: Sequence[Hunted], seconds: float) -> dict[str, Any]:
    """The last line of `make mutants`."""
    took = [one.seeds for one in hunted if one.found is not None]
    return {
        "planted": len(hunted),
        "found": len(took),
        "median_seeds": statistics.median(took) if took else None,
        "most_seeds": max(took, default=None),
        "not_found": [one.mutant.name for one in hunted if one.found is None],
        "seconds": round(seconds, 1),
    }
