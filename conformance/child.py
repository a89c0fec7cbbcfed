"""Runs one waiter through scenarios: `python -m conformance.child WAITER OUT [SCENARIO…]`; one line of JSON a run goes to OUT.

The waiter's library is imported once, with the clocks of the process already virtual. Every run is a fork of that, so that none can
leave anything behind; a killed waiter is a fork that really ends, and the next one goes on with the provider's book and the files left.
"""

import faulthandler
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from conformance import clock
from conformance.clock import CLOCK

clock.install()

from conformance.dialects import DIALECTS  # noqa: E402 - the clocks come first
from conformance.provider import Provider, lines  # noqa: E402
from conformance.scenario import CAPABILITIES, Scenario, read_all  # noqa: E402
from conformance.stage import KEY, Stage, Told, Waiter, word_of  # noqa: E402

MOST_LOOKS = 500
LONGEST_S = clock.LONGEST_S
CPU_S, REAL_S = 10, 60
"""Of processor time and of real time, per run: the first is the same on a busy machine."""
KILLED = 77
BESIDE_DIALECT = {"submit", "status-url", "persistence"}


def offers(waiter: Waiter) -> frozenset[str]:
    """Everything that a scenario may need of this waiter."""
    return (DIALECTS[waiter.DIALECT].can() - BESIDE_DIALECT) | set(waiter.OFFERS)


class Run:
    """One life of a waiter in one scenario; everything here happens in a fork."""

    def __init__(self, waiter: Waiter, scenario: Scenario, work: Path, copy: int) -> None:
        self._waiter, self._scenario, self._work, self._copy = waiter, scenario, work, copy
        self._killed = 0
        self._book, self._told = work / "book.jsonl", work / "told.json"

    def go(self) -> NoReturn:
        """Plays to the end, writes what was told, and leaves."""
        scenario, before = self._scenario, lines(self._book)
        kills = [entry["t"] for entry in before if entry["kind"] == "killed"]
        self._killed = len(kills)
        random.seed(f"{scenario.id}:{self._copy}:{len(kills)}")
        CLOCK.start(kills[-1] + scenario.down if kills else 0.0)
        provider = Provider(scenario, DIALECTS[self._waiter.DIALECT], key=KEY, book=self._book, on_look=self._on_look)
        CLOCK.quiet, CLOCK.due, CLOCK.on_move = provider.quiet, provider.due, self._on_move
        ports = self._work / "ports"
        provider.open(json.loads(ports.read_text()) if ports.exists() else (0, 0))
        ports.write_text(json.dumps([int(base.rsplit(":", 1)[1]) for base in provider.bases]))
        stage = Stage(
            base=provider.bases[0], other=provider.bases[1], job=provider.job, deadline=scenario.deadline,
            requests=scenario.requests, work=self._work, copy=self._copy, restarts=len(kills), submit=bool(scenario.submit or scenario.status_host),
            status_host=bool(scenario.status_host),
        )  # fmt: skip
        memory = _watermark(reset=True)
        try:
            told = self._waiter.wait(stage)
        except BaseException as error:
            told = Told("stopped", word_of(error))
            (self._work / "trace").write_text(traceback.format_exc())
        self._end(told, _watermark() - memory)

    def _end(self, told: Told, memory: int = 0) -> NoReturn:
        text = {"outcome": told.outcome, "detail": told.detail, "t": CLOCK.now(), "memory_mb": memory}
        self._told.write_text(json.dumps(text))
        os._exit(0)

    def _on_look(self, number: int) -> None:
        if number > MOST_LOOKS:
            self._end(Told("never", f"more than {MOST_LOOKS} requests"))
        if number in self._scenario.kill_on_look[self._killed : self._killed + 1]:
            self._kill(CLOCK.now())

    def _on_move(self, until: float) -> None:
        if until > LONGEST_S:
            self._end(Told("never", "waits past 30 days"))
        for at in self._scenario.kill_at[self._killed : self._killed + 1]:
            if until >= at:
                self._kill(at)

    def _kill(self, at: float) -> NoReturn:
        with self._book.open("a") as book:
            book.write(json.dumps({"t": at, "kind": "killed"}) + "\n")
        os._exit(KILLED)


def _watermark(*, reset: bool = False) -> int:
    """The most memory that this process held, in MB; where the system does not say, 0."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(text.split("VmHWM:")[1].split()[0]) // 1024


def facts(waiter: Waiter) -> dict[str, Any]:
    """What the page says about a waiter."""
    versions = {package: version(package) for package in waiter.PACKAGES}
    return {"title": waiter.NAME, "configuration": waiter.CONFIGURATION, "versions": versions}


def play(waiter: Waiter, scenario: Scenario, copy: int) -> dict[str, Any]:
    """Runs one copy of one scenario, through all its restarts."""
    work = Path(tempfile.mkdtemp(prefix="conformance-"))
    try:
        ended = _lives(waiter, scenario, copy, work)
        told = work / "told.json"
        text = json.loads(told.read_text()) if told.exists() else {"outcome": "never", "detail": ended, "t": None, "memory_mb": 0}
        trace = work / "trace"
        if os.environ.get("CONFORMANCE_TRACE") and trace.exists():
            sys.stderr.write(f"{waiter.NAME} {scenario.id}\n{trace.read_text()}\n")
        return {"scenario": scenario.id, "copy": copy, "told": text, "book": lines(work / "book.jsonl")}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _lives(waiter: Waiter, scenario: Scenario, copy: int, work: Path) -> str:
    for _ in range(1 + len(scenario.kill_at) + len(scenario.kill_on_look)):
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _silence()
            Run(waiter, scenario, work, copy).go()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return f"{CPU_S} s of processor time" if os.WTERMSIG(status) == signal.SIGPROF else f"{REAL_S} s of real time"
        if os.WEXITSTATUS(status) != KILLED:
            return f"ended with exit code {os.WEXITSTATUS(status)}"
    return "was killed as often as planned"


def _silence() -> None:
    """The waiters' own chatter goes nowhere, and the real time is bounded by the system: the waiter cannot move that clock."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(REAL_S)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if not os.environ.get("CONFORMANCE_TRACE"):
        os.dup2(nowhere, 2)
    else:
        faulthandler.dump_traceback_later(REAL_S / 10)
    warnings.simplefilter("ignore")


def main(arguments: list[str]) -> int:
    """Plays every scenario that the waiter's interface can express."""
    name, out, *chosen = arguments
    waiter: Any = importlib.import_module(name if "." in name else f"conformance.waiters.{name}")
    can = offers(waiter)
    assert can <= CAPABILITIES.keys() | {"running", "succeeded"}, can
    with Path(out).open("w") as stream:
        stream.write(json.dumps(facts(waiter)) + "\n")
        stream.flush()
        for scenario in read_all():
            if (chosen and scenario.id not in chosen) or not set(scenario.needs) <= can:
                continue
            for copy in range(scenario.copies):
                stream.write(json.dumps(play(waiter, scenario, copy)) + "\n")
                stream.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
