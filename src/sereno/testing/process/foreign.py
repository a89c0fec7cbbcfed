"""A program that is not ours on our file: `python -m sereno.testing.process.foreign DATABASE SECONDS TIMES`.

It takes the write lock, keeps it for so many seconds, lets go for a moment, and does it again; one line on standard output for each time.
"""

import sqlite3
import sys
import time
from contextlib import closing

_BETWEEN_S = 2.0


def hold(database: str, seconds: float, times: int) -> None:
    """Holds the lock."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=60.0)) as connection:
        for _ in range(times):
            connection.execute("BEGIN IMMEDIATE")
            print("held", flush=True)
            time.sleep(seconds)
            connection.execute("ROLLBACK")
            time.sleep(_BETWEEN_S)


if __name__ == "__main__":
    hold(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
