"""An event loop with virtual time and a seeded order of ready callbacks: one seed, one order, no waiting."""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from sereno.core.values import PREFIXES, format_id
from sereno.ports import Boot

T = TypeVar("T")
START = datetime(2026, 6, 1, tzinfo=UTC)


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: the program waits for something that cannot come."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Jumps to the next timer when nothing is ready; picks ready callbacks by the seed; has no threads and no sockets."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._virtual = 0.0
        self._dice = Random(seed)
        self.steps = 0

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]  # the base class keeps it private
        timers: Any = self._scheduled  # type: ignore[attr-defined]  # the base class keeps it private
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False
        if not ready:
            if not timers:
                raise Deadlock("nothing is ready and no timer is set")
            self._virtual = max(self._virtual, timers[0].when())
        while timers and timers[0].when() <= self._virtual:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        chosen = self._dice.randrange(len(ready))
        handle = ready[chosen]
        del ready[chosen]
        self.steps += 1
        if not handle.cancelled():
            handle._run()

    def _process_events(self, event_list: Any) -> None:
        """No sockets: nothing to process."""

    def _write_to_self(self) -> None:
        """No threads: nobody to wake."""


def run_virtual(main: Callable[[], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Runs a coroutine on a fresh virtual loop to its end."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(main())


class VirtualClock:
    """A worker's clock on the virtual loop: wall time may be off, jump and run at another rate; monotonic time never does."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self.offset = timedelta(0)
        self.asleep = 0.0
        """Seconds that the machine has slept: they are part of `offset` too, since the wall clock went on."""

    def now(self) -> datetime:
        """The wall clock as this worker sees it."""
        return self._start + self.offset + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """The loop's virtual seconds."""
        return asyncio.get_running_loop().time()

    def boot(self) -> Boot:
        """The loop's virtual seconds and those asleep: `offset` does not touch them."""
        return Boot("virtual", self.monotonic() + self.asleep)

    async def sleep(self, seconds: float) -> None:
        """Sleeps in virtual time."""
        await asyncio.sleep(max(0.0, seconds))


class HandClock:
    """A clock that a test sets by hand; sleeping moves it."""

    def __init__(self, start: datetime = START) -> None:
        self.wall = start
        self.mono = 0.0
        self.asleep = 0.0
        """Seconds that the machine has slept: monotonic time stood still meanwhile."""
        self.boot_id = "hand"

    def now(self) -> datetime:
        """The instant the test set."""
        return self.wall

    def monotonic(self) -> float:
        """The seconds the test set."""
        return self.mono

    def boot(self) -> Boot:
        """Monotonic seconds and those asleep."""
        return Boot(self.boot_id, self.mono + self.asleep)

    def advance(self, seconds: float) -> None:
        """Moves wall and monotonic time together."""
        self.wall += timedelta(seconds=seconds)
        self.mono += seconds

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: wall and boot time go on, monotonic time does not."""
        self.wall += timedelta(seconds=seconds)
        self.asleep += seconds

    async def sleep(self, seconds: float) -> None:
        """Moves the clock and lets others run."""
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)


class SeededIds:
    """Ids and dice from a seed: the n-th id is always the same."""

    def __init__(self, seed: int = 0, now: Callable[[], datetime] = lambda: START) -> None:
        self._seed = seed
        self._count = 0
        self._now = now

    def new(self, prefix: str) -> str:
        """The next id; ordered like a UUIDv7 of the clock's time."""
        assert prefix in PREFIXES, prefix
        self._count += 1
        millis = int(self._now().timestamp() * 1000) & ((1 << 48) - 1)
        return format_id(prefix, millis << 80 | 7 << 76 | 2 << 62 | self._count)

    def random(self, label: str) -> Random:
        """A generator that depends on seed and label alone."""
        return Random(f"{self._seed}:{label}")
