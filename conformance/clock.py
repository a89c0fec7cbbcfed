"""Virtual time for one process: every sleep and every clock that a waiter can use, replaced in one place for all waiters alike.

What is virtual: `time.sleep`, `time.time`, `time.monotonic`, `time.perf_counter` (and their `_ns` forms), `time.clock_gettime`,
`datetime.now` and `utcnow`, `Thread.join(timeout)`, `Event.wait(timeout)`, and the clock and timers of asyncio event loops (see
`loop.py`). A sleep moves the clock and returns at once. What is real: the work itself, and sockets; but a socket whose peer promised to
answer late only waits in virtual time, and its own timeout is kept in virtual time too.

`install()` must run before a waiter's library is imported, so that `from time import sleep` finds the replacement.
"""

import select
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import time_machine

START = datetime(2026, 6, 1, tzinfo=UTC)
"""The instant at which every scenario begins."""
LONGEST_S = 30 * 86400.0
"""A waiter that sleeps past this virtual time never stops, as far as this suite is concerned."""
LONGEST_SLEEP_S = 9.2e9
PATIENCE_S = 0.02
"""Real seconds that a timed wait on an event gives another thread before virtual time moves."""

_real_join = threading.Thread.join
_real_wait = threading.Event.wait


class Clock:
    """Seconds since START. The stage hooks in: it ends or kills the waiter at an instant, and knows what the provider still owes."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._lock = threading.RLock()
        self._traveller: Any = None
        self.on_move: Callable[[float], None] = lambda until: None
        """Runs before the clock moves, with the instant it moves to."""
        self.quiet: Callable[[], bool] = lambda: True
        """Whether the provider has read and answered all that was sent to it, but for answers that it owes later."""
        self.due: Callable[[], float | None] = lambda: None
        """The next instant at which the provider has promised to answer, if any."""

    def travel(self) -> None:
        """Makes `datetime.now` and the rest of the C level virtual; before the functions of `time` are replaced."""
        self._traveller = time_machine.travel(START, tick=False).start()

    def start(self, at: float) -> None:
        """Begins at `at` seconds after START."""
        self._seconds = at
        self._show()

    def now(self) -> float:
        """Virtual seconds since START."""
        return self._seconds

    def wall(self) -> float:
        """The virtual instant as a Unix time."""
        return START.timestamp() + self._seconds

    def sleep(self, seconds: float) -> None:
        """Moves the clock by `seconds`; refuses what `time.sleep` refuses."""
        if seconds != seconds:
            raise ValueError("Invalid value NaN (not a number)")
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if seconds > LONGEST_SLEEP_S:
            raise OverflowError("timestamp too large to convert to C _PyTime_t")
        self.move_to(self._seconds + seconds)

    def move_to(self, until: float) -> None:
        """Moves the clock to `until`, never back."""
        with self._lock:
            if until > self._seconds:
                self.on_move(until)
                self._seconds = until
                self._show()

    def _show(self) -> None:
        if self._traveller is not None:
            self._traveller.move_to(self.wall(), tick=False)


CLOCK = Clock()


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    if timeout is None:
        return _real_join(thread)
    end = CLOCK.now() + timeout
    while thread.is_alive() and CLOCK.now() < end:
        _real_join(thread, 0.001)
    return None


def _wait(event: threading.Event, timeout: float | None = None) -> bool:
    if timeout is None or event.is_set():
        return _real_wait(event, None if timeout is None else 0)
    end, before = CLOCK.now() + timeout, -1.0
    while not event.is_set() and CLOCK.now() < end:
        before = CLOCK.now()
        if not _real_wait(event, PATIENCE_S) and CLOCK.now() == before:
            CLOCK.move_to(end)
    return event.is_set()


def _in_time(peer: socket.socket, timeout: float | None) -> None:
    """Waits for a peer; where it promised to answer late, in virtual time. Raises what the socket would at its own timeout."""
    start = CLOCK.now()
    while not select.select([peer], [], [], 0)[0]:
        if not CLOCK.quiet():
            select.select([peer], [], [], 0.001)
            continue
        due = CLOCK.due()
        if due is None:
            return
        if timeout is not None and start + timeout < due:
            CLOCK.move_to(start + timeout)
            raise TimeoutError("timed out")
        CLOCK.move_to(due)


def _patient(name: str) -> Callable[..., Any]:
    real = getattr(socket.socket, name)

    def call(peer: socket.socket, *args: Any, **kwargs: Any) -> Any:
        if peer.type == socket.SOCK_STREAM and peer.gettimeout() != 0:
            _in_time(peer, peer.gettimeout())
        return real(peer, *args, **kwargs)

    call.__name__ = name
    return call


def install() -> None:
    """Replaces the clocks and sleeps of this process; call once, before the waiter is imported."""
    CLOCK.travel()
    time.sleep = CLOCK.sleep  # type: ignore[assignment]  # a float is enough
    time.monotonic = CLOCK.now
    time.perf_counter = CLOCK.now
    time.time = CLOCK.wall
    time.monotonic_ns = lambda: int(CLOCK.now() * 1e9)
    time.perf_counter_ns = lambda: int(CLOCK.now() * 1e9)
    time.time_ns = lambda: int(CLOCK.wall() * 1e9)
    time.clock_gettime = lambda clock: CLOCK.wall() if clock == time.CLOCK_REALTIME else CLOCK.now()
    threading.Thread.join = _join  # type: ignore[assignment, method-assign]  # replacing it is the point
    threading.Event.wait = _wait  # type: ignore[assignment, method-assign]  # as above
    for name in ("recv", "recv_into"):
        setattr(socket.socket, name, _patient(name))
