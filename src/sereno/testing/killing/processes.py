"""Forks from a parent that has imported everything once, so that a new worker lives within milliseconds."""

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1


def fork(main: Callable[[], None], log: Path) -> int:
    """Runs `main` in a child whose output goes to `log` and which dies with its parent; returns its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, 1)
            os.dup2(file, 2)
            main()
            code = 0
        except BaseException:  # noqa: BLE001 - a child never returns into its parent's code, whatever happened
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pid


def ended(pid: int) -> int | None:
    """The exit code of a child that has ended (negative: the signal), or None while it lives."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def wait_until(holds: Callable[[], bool], seconds: float, every: float = 0.004) -> bool:
    """Looks again and again until it holds; False when the time is over."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(every)
    return True


def wait_end(pid: int, seconds: float) -> int | None:
    """The exit code of a child within so many seconds, or None."""
    code: list[int] = []

    def over() -> bool:
        found = ended(pid)
        code.extend([] if found is None else [found])
        return bool(code)

    wait_until(over, seconds)
    return code[0] if code else None
