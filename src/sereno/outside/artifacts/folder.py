"""A folder that is only entered by handle: every name below it is ours, and no link in it is followed."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_INSIDE = os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _INSIDE


@contextmanager
def opened(root: Path) -> Iterator[int]:
    """A handle of the root, which is made (mode 0700) where it is missing. Raises OSError."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(root, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def entered(parent: int, name: str, *, make: bool = False) -> Iterator[int]:
    """A handle of a folder in a folder. Raises OSError, also for a link in its place."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
            os.fsync(parent)
    handle = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


def new_file(folder: int) -> tuple[str, int]:
    """Makes an empty file (mode 0600) of a name of its own and holds its lock for as long as the descriptor is open.

    The lock says that somebody lives who writes it: it goes with the process, whatever happens to that.
    """
    for number in count():
        name = f"{os.getpid()}-{number}"
        try:
            descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        except FileExistsError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_named(folder, name, descriptor):  # a sweep may have taken it between the two steps
            return name, descriptor
        os.close(descriptor)
    raise AssertionError("numbers do not end")


def _is_named(folder: int, name: str, descriptor: int) -> bool:
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def sweep(folder: int) -> int:
    """Removes files that nobody holds any more: their writers died. Answers how many."""
    removed = 0
    for name in sorted(os.listdir(folder)):
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _INSIDE, dir_fd=folder)
        except OSError:  # a link, or gone by now: not ours
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and _is_named(folder, name, descriptor):
                os.unlink(name, dir_fd=folder)
                removed += 1
        except OSError:  # held: somebody writes it
            continue
        finally:
            os.close(descriptor)
    return removed


def open_regular(folder: int, name: str) -> int:
    """Opens a regular file for reading. Raises FileNotFoundError for anything else of that name."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _INSIDE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(name)
    return descriptor
