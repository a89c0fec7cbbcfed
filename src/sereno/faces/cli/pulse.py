"""Tells whether a `sereno up` is running on a database: each holds a shared lock on a file beside it, which ends with the process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _path(database: Path) -> Path:
    return database.with_name(f"{database.name}.up")


@contextmanager
def running(database: Path) -> Iterator[None]:
    """Holds the mark of a running `sereno up`. Several may hold it at once."""
    number = os.open(_path(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_SH)
        yield
    finally:
        os.close(number)


def is_running(database: Path) -> bool:
    """Whether some process holds the mark now."""
    try:
        number = os.open(_path(database), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(number)
    return False
