"""An asyncio event loop on the virtual clock: when nothing is ready and the provider owes nothing, time jumps to the next timer.

Client and provider live in one process, and what one sends over loopback the other can read at once; so "nothing is ready" is exact
and no real pause is needed. Threads that the waiter itself uses (a database, say) are named by `others`: while one works, time stands.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from conformance.clock import CLOCK

T = TypeVar("T")
GRACE_S = 0.001
LONG_S = 0.05


class VirtualSelector(selectors.DefaultSelector):
    """Waits for sockets in virtual time."""

    others: Callable[[], bool] = staticmethod(lambda: False)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Answers what is ready; else moves the clock to the next timer or the next promised answer."""
        while True:
            events = super().select(0)
            if events or (timeout is not None and timeout <= 0):
                return events
            if not CLOCK.quiet() or self.others():
                events = super().select(GRACE_S)
                if events:
                    return events
                continue
            events = super().select(0)
            if events:
                return events
            due = CLOCK.due()
            timer = None if timeout is None else CLOCK.now() + timeout
            known = [instant for instant in (due, timer) if instant is not None]
            if not known:
                return super().select(LONG_S)
            CLOCK.move_to(min(known))
            if timer is not None and CLOCK.now() >= timer:
                return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock is the virtual one; work handed to threads holds time still until it is done."""

    def __init__(self, others: Callable[[], bool] | None = None) -> None:
        selector = VirtualSelector()
        super().__init__(selector)
        self._outside = 0
        selector.others = lambda: self._outside > 0 or (others is not None and others())

    def time(self) -> float:
        """Virtual seconds."""
        return CLOCK.now()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]  # passes all through
        """Counts what threads still do."""
        self._outside += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: object) -> None:
        self._outside -= 1


def run(main: Coroutine[Any, Any, T], others: Callable[[], bool] | None = None) -> T:
    """Runs a coroutine to its end on a fresh virtual loop."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(others)) as runner:
        return runner.run(main)
