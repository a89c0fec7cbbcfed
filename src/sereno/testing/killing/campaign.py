"""The campaign: two workers at all times, one of them killed in each cycle, then calm, drain and the comparison of the books."""

import asyncio
import json
import logging
import mmap
import os
import signal
import socket
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import structlog

from sereno.testing.killing import processes
from sereno.testing.killing.options import POINTS, STOP_POINTS, SUBMIT_EVERY, SUBMITS, TIMES, Options
from sereno.testing.killing.outside import serve
from sereno.testing.killing.scenario import populate, submit_more
from sereno.testing.killing.worker import ARMED, COUNTDOWN, FIRED, SIGNAL, SLOT, Trap, live

WORKERS = 2
PATIENCE_S = 4.0
"""How long a named point may take to come; then the worker is killed where it is."""
PAUSE_S = TIMES.lease.total_seconds() + 0.7
QUIET_WITHIN_S = 90.0


@dataclass(slots=True)
class Life:
    """One worker process from fork to end."""

    number: int
    slot: int
    pid: int
    started: float
    killed: float | None = None
    point: str | None = None
    """The named point it died at; None = a random moment."""
    paused: float | None = None


@dataclass(slots=True)
class Log:
    """What the campaign did, for the checks."""

    lives: list[Life] = field(default_factory=list)
    points: Counter[str] = field(default_factory=Counter)
    random_kills: int = 0
    pauses: int = 0
    faults: list[str] = field(default_factory=list)
    calm_at: float = 0.0


class Campaign:
    """One campaign, to be run once. The parent has no thread and no event loop: it forks, waits and kills."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.log = Log()
        self._dice = Random(f"campaign:{options.seed}")
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._alive: dict[int, Life] = {}
        self._stopped: Life | None = None
        self._armed: Counter[str] = Counter()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=500)
        self._port = int(self._listening.getsockname()[1])
        self._control, theirs = socket.socketpair()
        self._theirs: socket.socket | None = theirs

    def run(self) -> dict[str, Any]:
        """Runs all cycles, ends in calm, stops everything; returns the books of the world outside."""
        options = self.options
        options.folder.mkdir(parents=True, exist_ok=True)
        outside = processes.fork(self._serve, options.log)
        self._listening.close()
        assert self._theirs is not None
        self._theirs.close()
        filled = processes.fork(partial(_populate, options, f"http://127.0.0.1:{self._port}"), options.log)
        if processes.wait_end(filled, 30.0) != 0:
            raise RuntimeError(f"the database was not filled; see {options.log}")
        try:
            for slot in range(WORKERS):
                self._start(slot)
            for cycle in range(options.cycles):
                self._cycle(cycle)
            self._calm()
            books: dict[str, Any] = self._ask("books")
            return books
        finally:
            for life in self._alive.values():
                os.kill(life.pid, signal.SIGKILL)
                os.waitpid(life.pid, 0)
            self._control.close()
            os.kill(outside, signal.SIGKILL)
            os.waitpid(outside, 0)

    def _serve(self) -> None:
        assert self._theirs is not None
        self._control.close()
        asyncio.run(serve(self.options, self._listening, self._theirs))

    def _ask(self, word: str) -> Any:
        self._control.sendall(word.encode() + b"\n")
        with self._control.makefile("rb") as lines:
            answer = lines.readline()
        return json.loads(answer) if word == "books" else answer

    def _start(self, slot: int) -> None:
        number = len(self.log.lives)
        self._page[slot * SLOT : (slot + 1) * SLOT] = bytes(SLOT)
        run = partial(_live, self.options, self._port, number, Trap(self._page, slot))
        life = Life(number, slot, processes.fork(run, self.options.log), time.time())
        self.log.lives.append(life)
        self._alive[slot] = life

    def _arm(self, slot: int, point: str, number: int) -> None:
        at = slot * SLOT
        # Submits are few: the next one has to do.
        self._page[at + FIRED], self._page[at + COUNTDOWN] = 0, 1 if point.startswith("call.") else self._dice.randint(1, 3)
        self._page[at + SIGNAL] = number
        self._page[at + ARMED] = POINTS.index(point) + 1

    def _cycle(self, cycle: int) -> None:
        """Kills one worker, at a random moment or at the named point that was armed least often, and starts another."""
        self._wake_stopped()
        if cycle % SUBMIT_EVERY == 0:
            self._submit_more(cycle)
        if cycle % self.options.pause_every == self.options.pause_every // 2 and self._stopped is None:
            self._stop_one(cycle % WORKERS)
        slot = (cycle // 2) % WORKERS
        if self._stopped is not None and self._stopped.slot == slot:
            slot = 1 - slot
        life = self._alive[slot]
        time.sleep(self._dice.uniform(0.1, 0.6))
        if cycle % 2:
            self._arm(slot, self._next_point(), signal.SIGKILL)
            code = processes.wait_end(life.pid, PATIENCE_S)
        else:
            code = processes.ended(life.pid)
        self._bury(life, code)
        self._start(slot)

    def _next_point(self) -> str:
        """One of those that were armed least often: a point that does not come in time must not take the others' turns."""
        least = min(self._armed[point] for point in POINTS)
        point = self._dice.choice([point for point in POINTS if self._armed[point] == least])
        self._armed[point] += 1
        return point

    def _submit_more(self, cycle: int) -> None:
        more = partial(_submit_more, self.options, f"http://127.0.0.1:{self._port}", cycle // SUBMIT_EVERY * SUBMITS)
        if processes.wait_end(processes.fork(more, self.options.log), 60.0) != 0:
            self.log.faults.append(f"the submits of cycle {cycle} were not registered; see {self.options.log}")

    def _bury(self, life: Life, code: int | None) -> None:
        """Kills what has not died by itself, and writes down how it ended."""
        fired = self._page[life.slot * SLOT + FIRED]
        if code is None:
            os.kill(life.pid, signal.SIGKILL)
            os.waitpid(life.pid, 0)
            self.log.random_kills += 1
        elif code == -signal.SIGKILL and fired:
            life.point = POINTS[fired - 1]
            self.log.points[life.point] += 1
        else:
            self.log.faults.append(f"life {life.number} ended by itself with code {code}")
        life.killed = time.time()
        del self._alive[life.slot]

    def _stop_one(self, slot: int) -> None:
        """Has a worker stop itself, with an answer in hand or right before something leaves."""
        life = self._alive[slot]
        self._arm(slot, STOP_POINTS[self.log.pauses % len(STOP_POINTS)], signal.SIGSTOP)
        if processes.wait_until(lambda: bool(self._page[slot * SLOT + FIRED]), PATIENCE_S):
            self._stopped, life.paused = life, time.time()
            self.log.pauses += 1
        else:
            self._page[slot * SLOT + ARMED] = 0

    def _wake_stopped(self, *, wait: bool = False) -> None:
        """Lets a stopped worker go on once its leases are over."""
        life = self._stopped
        if life is None or life.paused is None:
            return
        left = life.paused + PAUSE_S - time.time()
        if wait and left > 0:
            time.sleep(left)
        if wait or left <= 0:
            os.kill(life.pid, signal.SIGCONT)
            self._stopped = None

    def _calm(self) -> None:
        """Faults and changes end; the workers go on until nothing is left to do; then they drain on SIGTERM."""
        self._wake_stopped(wait=True)
        self._ask("calm")
        self.log.calm_at = time.time()
        if not processes.wait_until(self._quiet, QUIET_WITHIN_S, every=0.2):
            self.log.faults.append(f"I31: not everything was done {QUIET_WITHIN_S:g} s after the last fault: {self._left()}")
        for life in list(self._alive.values()):
            os.kill(life.pid, signal.SIGTERM)
        for slot, life in list(self._alive.items()):
            code = processes.wait_end(life.pid, 10.0)
            if code is not None:
                del self._alive[slot]
            if code != 0:
                self.log.faults.append(f"life {life.number} did not drain on SIGTERM: code {code}")

    def _left(self) -> dict[str, int]:
        with sqlite3.connect(f"file:{self.options.database}?mode=ro", uri=True) as database:
            asked = {
                name: database.execute(query, {"calm": int(self.log.calm_at * 1e6)}).fetchone()[0]
                for name, query in _LEFT.items()
            }
        database.close()
        return asked

    def _quiet(self) -> bool:
        return not any(self._left().values())


_LEFT = {
    "deliveries": "SELECT count(*) FROM delivery WHERE state IN ('queued', 'sending')",
    "polls": "SELECT count(*) FROM poll WHERE coalesce((SELECT max(started_at) FROM run WHERE run.workspace = poll.workspace"
    " AND run.subject = poll.id AND run.status = 'ok'), 0) <= :calm",
    "operations": "SELECT count(*) FROM operation WHERE state = 'submitting' OR (state = 'waiting' AND job_id NOT LIKE 'run-%')",
    "abandoned": "SELECT count(*) FROM run WHERE status = 'running' AND started_at <= :calm",
}


def _populate(options: Options, base: str) -> None:
    asyncio.run(populate(options, base))


def _submit_more(options: Options, base: str, first: int) -> None:
    asyncio.run(submit_more(options, base, first))


def _live(options: Options, port: int, number: int, trap: Trap) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    asyncio.run(live(options, port, number, trap))
