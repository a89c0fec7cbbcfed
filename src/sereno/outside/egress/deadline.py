"""Total deadlines, one timer for all fetches: deadlines of the same length end in the order they began, so it is seldom set."""

import asyncio
from types import TracebackType

_EARLY_S = 0.002
"""Loops round their timers to a millisecond; what is due within this is over."""


class Deadline:
    """Cancels the running task at an instant of the loop's clock, and turns that cancellation into TimeoutError, like `asyncio.timeout_at`."""

    __slots__ = ("_cancelling", "_deadlines", "_task", "expired", "when")

    def __init__(self, deadlines: "Deadlines", when: float):
        self._deadlines = deadlines
        self.when = when
        self.expired = False
        """True once it cancelled the task."""

    def __enter__(self) -> "Deadline":
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._deadlines.watch(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._deadlines.forget(self)
        # Counted down whatever was raised; somebody else's cancellation beside ours goes on as one.
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def move(self, when: float) -> None:
        """Ends at another instant, sooner or later."""
        self.when = when
        if not self.expired:
            self._deadlines.watch(self)

    def expire(self) -> None:
        """The time is over."""
        self.expired = True
        self._task.cancel()


class Deadlines:
    """All deadlines that run on the present event loop. Exact to a few milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._running: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def until(self, when: float) -> Deadline:
        """A deadline for the block that is entered with it."""
        return Deadline(self, when)

    def watch(self, deadline: Deadline) -> None:
        """Sees to it that the timer rings no later than this."""
        self._running.add(deadline)
        if self._timer is None or deadline.when < self._rings_at:
            self._set(deadline.when)

    def forget(self, deadline: Deadline) -> None:
        """Its block was left. The timer stays for the others: one that rings too early is set anew."""
        self._running.discard(deadline)
        if not self._running and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at, self._timer = when, self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        over_by = self._loop.time() + _EARLY_S
        for deadline in [one for one in self._running if one.when <= over_by]:
            self._running.discard(deadline)
            deadline.expire()
        if self._running:
            self._set(min(one.when for one in self._running))
