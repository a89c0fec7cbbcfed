"""The same fleet on real time, smaller: two processes on one database file, a provider on loopback with its own book."""

import asyncio
import json
import logging
import mmap
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import structlog

from sereno.core.budget import Allowance
from sereno.core.operation import fingerprint
from sereno.outside.clock import SystemClock
from sereno.outside.ids import SystemIds
from sereno.ports import NewOperation, PoolLimits
from sereno.store.definitions import Definitions
from sereno.store.executor import InlineExecutor
from sereno.store.open import open_store
from sereno.testing.books import burst_over, busiest_second, spread
from sereno.testing.killing import processes
from sereno.testing.killing.campaign import Life, Log
from sereno.testing.killing.checks import budgets, counted_first, gather, overlaps, paced
from sereno.testing.killing.options import Options, worker_name
from sereno.testing.killing.outside import serve
from sereno.testing.killing.scenario import WHO, contract
from sereno.testing.killing.worker import Trap, live

WORKERS = 2
WIRE_SLACK_S = 1.0
"""How much later than its claim a request may arrive on a busy machine: the limit is held when a request is claimed."""
LONGEST = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Real:
    """One real fleet. Each job ends at its second, third or fourth look."""

    folder: Path
    operations: int = 300
    seed: int = 1
    rate: float = 20.0
    burst: int = 20
    within_s: float = 240.0


def sail_real(real: Real) -> tuple[dict[str, Any], list[str]]:
    """Runs it; answers the figures, and what must not have happened."""
    options = Options(real.folder, cycles=0, seed=real.seed, polls=1, operations=0)
    real.folder.mkdir(parents=True, exist_ok=True)
    listening, (control, theirs) = socket.create_server(("127.0.0.1", 0), backlog=500), socket.socketpair()
    port = int(listening.getsockname()[1])
    provider = processes.fork(lambda: asyncio.run(serve(options, listening, theirs)), options.log)
    listening.close()
    theirs.close()
    filled = processes.fork(lambda: asyncio.run(_populate(real, options, f"127.0.0.1:{port}")), options.log)
    if processes.wait_end(filled, 60.0) != 0:
        raise RuntimeError(f"the database was not filled; see {options.log}")
    page, log, began = mmap.mmap(-1, mmap.PAGESIZE), Log(), time.time()
    workers = [processes.fork(partial(_live, options, port, slot, Trap(page, slot)), options.log) for slot in range(WORKERS)]
    log.lives = [Life(slot, slot, pid, began) for slot, pid in enumerate(workers)]
    if not processes.wait_until(lambda: _open(options) == 0, real.within_s, every=0.5):
        log.faults.append(f"I31: {_open(options)} operations still open after {real.within_s:g} s")
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
    log.faults += [f"{worker_name(slot)} did not drain" for slot, pid in enumerate(workers) if processes.wait_end(pid, 20.0) != 0]
    books = _books(control)
    os.kill(provider, signal.SIGKILL)
    os.waitpid(provider, 0)
    evidence = gather(options, log, books)
    found = [text for check in (budgets, counted_first, paced, overlaps) for text in check(evidence)]
    return _figures(real, evidence.arrivals, evidence.intents, books), [
        *log.faults, *found, *_limit(real, evidence.arrivals, evidence.intents, books), *_ended(evidence.operations),
    ]  # fmt: skip


def _sent(arrivals: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[float]:
    return sorted(float(entry["at"]) for entries in arrivals.values() for entry in entries)


def _claimed(intents: Mapping[str, Sequence[float]]) -> list[float]:
    return sorted(at for instants in intents.values() for at in instants)


def _limit(
    real: Real,
    arrivals: Mapping[str, Sequence[Mapping[str, Any]]],
    intents: Mapping[str, Sequence[float]],
    books: Mapping[str, Any],
) -> Iterator[str]:
    """I7: the limit holds exactly where requests are claimed by two processes, and on the wire within what the machine was late by."""
    over = burst_over(_claimed(intents), rate=real.rate, burst=real.burst)
    if over > 0.001:
        yield f"I7: a window holds {over:.2f} claims too many"
    slack = real.rate * (WIRE_SLACK_S + float(books["lag_s"]))
    over = burst_over(_sent(arrivals), rate=real.rate, burst=real.burst)
    if over > slack:
        yield f"I7: a window holds {over:.2f} arrivals too many, {slack:.2f} are excused"


def _ended(operations: Mapping[str, sqlite3.Row]) -> Iterator[str]:
    """I10: every job was waited for to its end."""
    for job, row in operations.items():
        if row["state"] != "succeeded":
            yield f"I10 {job}: {row['state']} {row['category']}"


def _figures(
    real: Real,
    arrivals: Mapping[str, Sequence[Mapping[str, Any]]],
    intents: Mapping[str, Sequence[float]],
    books: Mapping[str, Any],
) -> dict[str, Any]:
    sent, claimed = _sent(arrivals), _claimed(intents)
    return {
        "operations": real.operations,
        "workers": WORKERS,
        "pool": {"rate": real.rate, "burst": real.burst},
        "requests": len(sent),
        "requests_per_job": spread([len(entries) for entries in arrivals.values()]),
        "busiest_second_sent": busiest_second(sent),
        "claims_over_the_limit": round(burst_over(claimed, rate=real.rate, burst=real.burst), 3),
        "arrivals_over_the_limit": round(burst_over(sent, rate=real.rate, burst=real.burst), 3),
        "took_s": round(sent[-1] - sent[0], 1),
        "machine_lag_s": round(float(books["lag_s"]), 3),
        "by_worker": [sum(entry["life"] == life for found in arrivals.values() for entry in found) for life in range(WORKERS)],
    }


def _books(control: socket.socket) -> Mapping[str, Any]:
    control.sendall(b"books\n")
    with control.makefile("rb") as lines:
        found: Mapping[str, Any] = json.loads(lines.readline())
    control.close()
    return found


def _open(options: Options) -> int:
    with sqlite3.connect(f"file:{options.database}?mode=ro", uri=True) as database:
        count: int = database.execute("SELECT count(*) FROM operation WHERE state = 'waiting'").fetchone()[0]
    database.close()
    return count


def _live(options: Options, port: int, number: int, trap: Trap) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    asyncio.run(live(options, port, number, trap))


async def _populate(real: Real, options: Options, address: str) -> None:
    """Registers all with the same first look, harsher than the service does."""
    clock, ids, dice, pool = SystemClock(), SystemIds(), Random(f"real:{real.seed}"), f"provider:{address}"
    store = open_store(options.database, clock=clock, ids=ids, executor=InlineExecutor)
    definitions = Definitions(store.executor, clock=clock, ids=ids)
    await definitions.set_pool(WHO, pool, PoolLimits(rate=real.rate, burst=real.burst))
    first, document = clock.now(), contract()
    for number in range(real.operations):
        job = f"end{dice.randint(2, 4)}-{number}"
        url = f"http://{address}/jobs/{job}"
        new = NewOperation(
            contract="generic-status",
            document=document,
            account="",
            job_id=job,
            url=url,
            parameters={},
            fingerprint=fingerprint("generic-status", "", job, url),
            allowance=Allowance(first + LONGEST, None, 100, 50, 50),
            pool=pool,
            first_look_at=first,
        )
        await definitions.register(WHO, new)
    await store.close()
