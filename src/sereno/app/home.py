"""The database file as this process opened it: notices that it was taken away, and keeps what belonged to it apart from what took its place.

SQLite's write-ahead log lies beside the file under a name of its own. Where another file is put in the place of an open one, the log of
the old one stays behind, and the next process would read it into the new one, which damages it (sqlite.org/howtocorrupt, §1.4).
"""

import contextlib
import os
from pathlib import Path

SIDES = ("-wal", "-shm")
SET_ASIDE = ".replaced"


def file_mark(path: Path) -> tuple[int, int] | None:
    """Which file a path names now: its device and inode; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Home:
    """One open database file. Made right after it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = file_mark(path)
        self._sides: dict[Path, tuple[int, int] | None] = {}
        self.is_there()

    def is_there(self) -> bool:
        """False once the file was deleted, moved, or replaced. Costs three looks at the folder."""
        if file_mark(self._path) != self._mark:
            return False
        beside = [self._path.with_name(self._path.name + side) for side in SIDES]
        self._sides = {path: file_mark(path) for path in beside}
        return True

    def leave(self) -> None:
        """Called once all connections are closed. Where another file took the place, the log of the old one is renamed out of its way.

        Where no file is there the log stays: the moved file, put back, is whole only with it.
        """
        if file_mark(self._path) in (None, self._mark):
            return
        for path, mark in self._sides.items():
            if mark is not None and file_mark(path) == mark:
                with contextlib.suppress(OSError):
                    os.replace(path, path.with_name(path.name + SET_ASIDE))
