"""One of many writers: `python -m sereno.testing.process.claims DATABASE NAME CLAIMS BATCH` claims and gives back until it has had so many.

It is the production store (threads, WAL, one transaction a claim of at most BATCH). Its last line is JSON: claims, how often the database
was not available, and whatever else went wrong.
"""

import asyncio
import json
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

from sereno.core.errors import SerenoError, Unavailable
from sereno.core.work import LeaseTimes
from sereno.outside.clock import SystemClock
from sereno.outside.ids import SystemIds
from sereno.store.open import open_store

_LONG = LeaseTimes(lease=timedelta(minutes=10))
"""A lease must not run out here, however slow the machine: each claim has to find work that is free."""


async def write(database: Path, name: str, wanted: int, batch: int) -> Counter[str]:
    """Claims some work and gives it back, again and again."""
    found: Counter[str] = Counter()
    store = open_store(database, clock=SystemClock(), ids=SystemIds())
    while found["claims"] < wanted:
        try:
            claimed = await store.work.claim(worker=name, limit=min(batch, wanted - found["claims"]), times=_LONG)
            found["claims"] += len(claimed.works)
            await asyncio.gather(*(store.work.release(work) for work in claimed.works))
            found["empty"] += not claimed.works
        except Unavailable as error:
            found[f"unavailable: {error.message}"] += 1
        except SerenoError as error:
            found[f"broken: {error.code}: {error.message}"] += 1
    await store.close()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))))
