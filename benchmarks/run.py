"""`make bench`: Sereno beside a bare loop, APScheduler and raw sockets, and the cost of a claim. The last line is JSON.

python -m benchmarks.run [--runs 7] [--count 10000] [--largest 1000000]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from benchmarks.claim_steps import measure

KINDS = ("bare", "sereno", "apscheduler", "raw")
FEWEST_RUNS = 5
HEADROOM = 2.0
GOAL = 0.70
VERSION_WITHIN_S = 0.2


class Child:
    """A process that answers each line it is sent with one line."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", *map(str, words)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate(timeout=60)

    def line(self) -> str:
        """The next line. Raises SystemExit when the process is gone."""
        assert self._process.stdout is not None
        return self._process.stdout.readline() or sys.exit(f"{self._process.args!r} ended early")

    def ask(self) -> Any:
        """One round."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return json.loads(self.line())


def cores() -> tuple[int, int]:
    """The core of the clients and the core of the server."""
    usable = sorted(os.sched_getaffinity(0))
    return (
        (usable[0], usable[-1]) if len(usable) > 1 else sys.exit("two cores are needed: one for the client, one for the server")
    )


def stats(port: int) -> dict[str, float]:
    """What the server counted so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats") as answer:
        found: dict[str, float] = json.load(answer)
    return found


def race(runs: int, count: int) -> dict[str, list[dict[str, float]]]:
    """Rounds of every kind in turn; each round is checked against the server's books."""
    client, server = cores()
    rounds: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with Child("benchmarks.server", server) as books:
        port = int(books.line())
        children = {kind: Child("benchmarks.contestant", kind, port, client, count) for kind in KINDS}
        for child in children.values():
            assert child.line() == "ready\n"
        for number in range(runs + 1):
            for kind, child in children.items():
                before = stats(port)
                took = child.ask()
                after = stats(port)
                asked = after["unchanged"] - before["unchanged"]
                assert asked == count and after["whole"] == before["whole"], (
                    f"{kind} sent {asked} conditional requests, not {count}"
                )
                took["server_s"] = after["cpu_s"] - before["cpu_s"]
                if number:  # the first round warms up
                    rounds[kind].append(took)
        for child in children.values():
            child.__exit__(None, None, None)
    return rounds


def _rate(rounds: Sequence[dict[str, float]], of: str, count: int) -> float:
    return count / median(one[of] for one in rounds)


def _timed(work: Callable[[], object], runs: int) -> float:
    took = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return median(took)


def fsync_s(folder: Path) -> float:
    """How long the disk takes to make 4 KB durable."""
    with (folder / "fsync").open("wb", buffering=0) as file:

        def write() -> None:
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())

        return _timed(write, 50)


def start_up(runs: int) -> tuple[float, float]:
    """Seconds for `sereno version`, and for importing everything that a loop needs."""
    tool = Path(sys.executable).with_name("sereno")
    version = _timed(lambda: subprocess.run([tool, "version"], check=True, stdout=subprocess.DEVNULL), runs)
    imports = _timed(lambda: subprocess.run([sys.executable, "-c", "import sereno.app"], check=True), runs)
    return version, imports


def claim_steps(folder: Path, largest: int) -> dict[str, int]:
    """VM steps of one claim of 100 polls, by how many polls there are, and beside due rows in an exhausted pool."""
    steps = {str(size): measure(folder, size)[0] for size in (1_000, 100_000, 1_000_000) if size <= largest}
    blocked = min(100_000, largest)
    return {**steps, f"exhausted_{blocked}": measure(folder, blocked, exhausted=True)[0]}


def report(rounds: dict[str, list[dict[str, float]]], count: int) -> dict[str, float]:
    """Prints one line a kind; answers the rates."""
    wall = {kind: _rate(found, "wall_s", count) for kind, found in rounds.items()}
    print(f"{'':12}  requests/s  lowest–highest      by CPU time  of bare")
    for kind, found in rounds.items():
        spread = sorted(count / one["wall_s"] for one in found)
        share = wall[kind] / wall["bare"]
        cpu = _rate(found, "cpu_s", count)
        print(f"{kind:12}  {wall[kind]:10,.0f}  {spread[0]:8,.0f}–{spread[-1]:<8,.0f}  {cpu:11,.0f}  {share:7.2f}")
    capacity = _rate(rounds["raw"], "server_s", count)
    fastest = max(wall[kind] for kind in KINDS if kind != "raw")
    verdict = "enough" if capacity >= HEADROOM * fastest else "TOO SLOW: the figures are not valid"
    print(f"the server could answer {capacity:,.0f}/s on its core, {capacity / fastest:.1f} times the fastest client: {verdict}")
    return wall


def main() -> None:
    """Measures and prints."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=7, help="rounds of each, at least five")
    options.add_argument("--count", type=int, default=10_000, help="polls, and so requests a round")
    options.add_argument("--largest", type=int, default=1_000_000, help="the largest database of the claim")
    given = options.parse_args()
    runs = max(FEWEST_RUNS, given.runs)
    version, imports = start_up(FEWEST_RUNS)
    within = "within" if version <= VERSION_WITHIN_S else "OVER"
    print(f"sereno version: {version:.3f} s ({within} {VERSION_WITHIN_S} s); import sereno.app: {imports:.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        print(
            f"one fsync: {1000 * fsync_s(Path(folder)):.2f} ms; {runs} rounds of {given.count:,} unchanged conditional GETs each, in turn"
        )
        wall = report(race(runs, given.count), given.count)
        steps = claim_steps(Path(folder), given.largest)
    for name, found in steps.items():
        print(f"claim of 100 polls, {name}: {found:,} VM steps")
    ratio = wall["sereno"] / wall["bare"]
    print(f"Sereno reaches {ratio:.2f} of the bare loop; the goal is {GOAL:.2f}: {'met' if ratio >= GOAL else 'MISSED'}")
    rates = {f"{kind}_rps": round(wall[kind], 1) for kind in ("bare", "sereno", "apscheduler")}
    print(json.dumps({"sqlite_ratio": round(ratio, 3), **rates, "claim_steps": steps, "runs": runs}))


if __name__ == "__main__":
    main()
