"""One contestant in a process of its own, pinned to one core: a round for each line on standard input, one JSON line each.

python -m benchmarks.contestant bare|apscheduler|sereno|raw PORT CORE COUNT
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.server import ETAG
from sereno.drivers import runner

Timed = Callable[[], Awaitable[None]]


def urls_of(port: int, count: int) -> list[str]:
    """The addresses asked by everybody."""
    return [f"http://127.0.0.1:{port}/items/{number}" for number in range(count)]


async def _timed(work: Timed) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


async def _rounds(one: Callable[[], Awaitable[dict[str, float]]]) -> None:
    print("ready", flush=True)
    while sys.stdin.readline():  # nothing else runs between rounds
        print(json.dumps(await one()), flush=True)


async def _bare(port: int, count: int) -> None:
    from benchmarks import bare

    urls = urls_of(port, count)
    await _rounds(lambda: _timed(lambda: bare.drain(urls, ETAG)))


async def _raw(port: int, count: int) -> None:
    from benchmarks import raw

    paths = [f"/items/{number}" for number in range(count)]
    await _rounds(lambda: _timed(lambda: raw.drain(port, paths, ETAG)))


async def _apscheduler(port: int, count: int) -> None:
    from benchmarks.jobs import Jobs

    async def one() -> dict[str, float]:
        jobs = Jobs(urls_of(port, count), ETAG)
        took = await _timed(jobs.drain)
        await jobs.close()
        return took

    await _rounds(one)


async def _sereno(port: int, count: int) -> None:
    from benchmarks.polls import Polls

    with tempfile.TemporaryDirectory() as folder:
        polls = Polls(Path(folder), port, urls_of(port, count))
        await polls.open()

        async def one() -> dict[str, float]:
            polls.make_due()
            return await _timed(polls.drain)

        await _rounds(one)
        await polls.close()


KINDS = {"bare": _bare, "apscheduler": _apscheduler, "sereno": _sereno, "raw": _raw}


def main() -> None:
    """Pins the process, then the threads it will start, to the core. All run on uvloop with the same thresholds of the collector."""
    kind, port, core, count = sys.argv[1], *(int(word) for word in sys.argv[2:5])
    os.sched_setaffinity(0, {core})
    runner.run(KINDS[kind](port, count))


if __name__ == "__main__":
    main()
