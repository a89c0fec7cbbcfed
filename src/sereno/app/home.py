"""The database file as this process opened it: notices that it was taken away, and keeps what belonged to it apart from what took its place.

SQLite's write-ahead log lies beside the file under a name of its own. Where another file is put in the place of an open one, the log of
the old one stays behind, and the next process would read it into the new one, which damages it (sqlite.org/howtocorrupt, §1.4). So
whoever opens a database writes on its log whose it is, as an extended attribute (xattr(7)): that goes with the file and ends with it.
Whoever opens one looks there first. Where the filesystem keeps no such attributes, nothing is known, and the log is read.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from sereno.core.errors import Unavailable

log = structlog.get_logger("sereno.app")

LOG, INDEX = "-wal", "-shm"
SET_ASIDE = ".replaced"
MOST_SET_ASIDE = 99
"""So many logs are kept apart; the last name is then used again."""
OWNER = "user.sereno.database"
"""The attribute of a log: device and inode of itself and of its database. One that was copied along speaks of another log."""
Mark = tuple[int, int]


def file_mark(path: Path) -> Mark | None:
    """Which file a path names now: its device and inode; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _beside(path: Path, side: str) -> Path:
    return path.with_name(path.name + side)


def gone(path: Path) -> Unavailable:
    """What is said where the file is not the one that was opened any more: deleted, moved, or replaced."""
    return Unavailable(
        f"the database was taken away while it was in use: {path}",
        hint="what ran since then is kept nowhere; put the file back or start again",
        code="database_gone",
    )


class Home:
    """One database file: made right before it is opened, told right after it."""

    def __init__(self, path: Path) -> None:
        """Sets a log aside that belongs to another file, since opening would read it."""
        self._path = path
        set_foreign_log_aside(path)
        self.doubtful = _is_doubtful(path)
        """Whether a log lies there that does not say whose it is: it may belong to another file."""
        self._mark = file_mark(path)
        self._log: Mark | None = None

    def opened(self) -> None:
        """Writes on the log whose it is. Raises Unavailable where the file was replaced meanwhile."""
        found = file_mark(self._path)
        if self._mark not in (None, found):
            raise gone(self._path)
        self._mark = found
        self.is_there()
        if self._mark is not None:
            _own(self._path, self._mark)

    def is_there(self) -> bool:
        """False once the file was deleted, moved, or replaced. Costs two looks at the folder."""
        if file_mark(self._path) != self._mark:
            return False
        self._log = file_mark(_beside(self._path, LOG))
        return True

    def leave(self) -> None:
        """Called once all connections are closed. Where another file took the place, the log of the old one is renamed out of its way.

        Where no file is there the log stays: the moved file, put back, is whole only with it.
        """
        if self._log is not None and file_mark(self._path) not in (None, self._mark):
            _set_aside(self._path, lambda number: _mark_of(number) == self._log)


def set_foreign_log_aside(path: Path) -> None:
    """Renames the log beside a database where it says that it belongs to another file, one that was replaced, moved or deleted."""
    kept = _set_aside(path, lambda number: _owner(number) not in (None, file_mark(path)))
    if kept is not None:
        log.warning("a log beside the database belongs to another file; it was set aside", database=str(path), kept=str(kept))


def _is_doubtful(path: Path) -> bool:
    with contextlib.suppress(OSError), _opened(_beside(path, LOG)) as number:
        return os.fstat(number).st_size > 0 and _owner(number) is None
    return False


def _set_aside(path: Path, wanted: Callable[[int], bool]) -> Path | None:
    """Renames log and index where `wanted` says so of the open log. The lock lets one process at a time judge one log.

    The index goes first: a crash in between leaves the log, which the next process judges anew; an index without its log would be
    taken for that of the next one.
    """
    beside = _beside(path, LOG)
    with contextlib.suppress(OSError), _opened(beside) as number:
        fcntl.flock(number, fcntl.LOCK_EX)
        if file_mark(beside) == _mark_of(number) and wanted(number):
            kept = _free_name(beside)
            with contextlib.suppress(FileNotFoundError):
                os.replace(_beside(path, INDEX), kept.with_name(kept.name.replace(LOG + SET_ASIDE, INDEX + SET_ASIDE)))
            os.replace(beside, kept)
            return kept
    return None


def _free_name(beside: Path) -> Path:
    """Takes the first name that is free, as an empty file that the log then replaces."""
    names = [_beside(beside, SET_ASIDE + (f"-{count}" if count > 1 else "")) for count in range(1, MOST_SET_ASIDE + 1)]
    for name in names:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            return name
    return names[-1]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield number
    finally:
        os.close(number)


def _mark_of(number: int) -> Mark:
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def _own(path: Path, mark: Mark) -> None:
    """Writes the attribute. The file is looked at once more after the log was opened: so that log was not yet that of a later file."""
    with contextlib.suppress(OSError, AttributeError), _opened(_beside(path, LOG)) as number:
        if file_mark(path) == mark and _owner(number) != mark:
            os.setxattr(number, OWNER, " ".join(map(str, (*_mark_of(number), *mark))).encode())


def _owner(number: int) -> Mark | None:
    """Whose a log says it is; None where it says nothing, or speaks of another log."""
    try:
        device, inode, *owner = map(int, os.getxattr(number, OWNER).split())
        of_device, of_inode = owner
    except (OSError, AttributeError, ValueError):
        return None
    return (of_device, of_inode) if (device, inode) == _mark_of(number) else None
