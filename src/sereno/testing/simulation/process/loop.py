"""The loop of a simulated world: virtual time, a seeded order of ready callbacks, and processes that can be stopped or killed at any await.

Every callback belongs to the process whose context it was made in. Timers run in *awake* seconds: while the whole host sleeps no
timer comes nearer, and true time goes on by itself (`asleep`).
"""

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sereno.testing.hooks import SimulatedCrash
from sereno.testing.virtual import Deadlock

PROCESS: "contextvars.ContextVar[Process | None]" = contextvars.ContextVar("process", default=None)
"""Whose callback runs; None = the world's own."""

_MOST_AWAITS = 50


@dataclass(slots=True, eq=False)
class Process:
    """One life of one process: what belongs to it on the loop, and its monotonic time."""

    name: str
    loop: "WorldLoop"
    rate: float = 1.0
    """Monotonic seconds of this process to one true second."""
    born: float = 0.0
    dead: bool = False
    stopped: bool = False
    fuse: int = 0
    """Callbacks until fate looks at this process; 0 = never."""
    tasks: list["asyncio.Task[Any]"] = field(default_factory=list)
    held: list[asyncio.Handle] = field(default_factory=list)
    """Callbacks that came due while it was stopped, or were left over when it died."""
    on_death: Callable[[], None] = lambda: None
    on_going: Callable[[], None] = lambda: None
    """Called when it goes on after it was stopped."""

    def monotonic(self) -> float:
        """This process's monotonic seconds: they stand while the host sleeps, and go on while the process is stopped."""
        return (self.loop.awake - self.born) * self.rate

    def start(self, main: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Runs a coroutine as this process."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        task = asyncio.Task(main, loop=self.loop, name=self.name, context=context)
        self.tasks.append(task)
        return task

    def alive(self) -> None:
        """Raises SimulatedCrash where this life has ended: nothing of it acts any more while it unwinds."""
        if self.dead:
            raise SimulatedCrash(self.name)

    def die(self) -> None:
        """Ends here: none of its callbacks ever runs again."""
        if not self.dead:
            self.dead = True
            self.loop.call_outside(self.on_death)

    def bury(self) -> None:
        """Closes what was left over, quietly. Only after the world was judged."""
        self.held.clear()
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was pending for good
                _unwind(task.get_coro())


def _unwind(coroutine: Any) -> None:
    """Ends a coroutine, whatever it still wants to wait for on its way out."""
    for _ in range(_MOST_AWAITS):
        try:
            coroutine.throw(SimulatedCrash("the world is over"))
        except BaseException:  # noqa: BLE001 - it has ended, and nobody asks how
            return


class WorldLoop(asyncio.BaseEventLoop):
    """Jumps to the next timer when nothing is ready; picks ready callbacks by the seed; has no threads and no sockets."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.awake = 0.0
        """Seconds that the host was awake."""
        self.asleep = 0.0
        """Seconds that the host slept."""
        self.steps = 0
        self.strike: Callable[[Process], None] = lambda process: None
        """Called when the fuse of a process is burnt down."""
        self._draw = Random(f"order:{seed}").random
        self._queue: list[asyncio.Handle] = []
        self._ready = self._queue  # the base class appends what it schedules
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._outside = contextvars.Context()

    def true(self) -> float:
        """True seconds since the world began."""
        return self.awake + self.asleep

    def time(self) -> float:
        """Monotonic seconds of the process that asks; awake seconds for the world itself."""
        process = PROCESS.get()
        return self.awake if process is None else (self.awake - process.born) * process.rate

    def call_soon(  # type: ignore[override]  # the base class spells its types otherwise
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Makes a callback ready."""
        handle = asyncio.Handle(callback, args, self, context)
        self._queue.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # the base class spells its types otherwise
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Sets a timer at an instant of the calling process's monotonic time."""
        process = PROCESS.get()
        due = when if process is None else process.born + when / process.rate
        return self._at(due, when, callback, args, context)

    def call_later(  # type: ignore[override]  # the base class spells its types otherwise
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Sets a timer after so many of the calling process's seconds."""
        process = PROCESS.get()
        due = self.awake + (delay if process is None else delay / process.rate)
        return self._at(due, due, callback, args, context)

    def _at(
        self, due: float, when: float, callback: Callable[..., object], args: Any, context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (due, self._count, handle))
        return handle

    def call_outside(self, callback: Callable[..., object], *args: Any, after: float | None = None) -> None:
        """Makes a callback ready, now or after so many awake seconds, that belongs to no process."""
        if after is None:
            self._queue.append(asyncio.Handle(callback, args, self, self._outside.copy()))
        else:
            self._at(self.awake + after, self.awake + after, callback, args, self._outside.copy())

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> "asyncio.Task[Any]":
        """Makes a task, and notes whose it is."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)
        process = PROCESS.get()
        if process is not None:
            if len(process.tasks) >= 64:
                process.tasks = [one for one in process.tasks if not one.done()]
            process.tasks.append(task)
        return task

    def stop_process(self, process: Process, seconds: float, then: Callable[[], None]) -> None:
        """SIGSTOP: nothing of it runs for so many awake seconds, then all that came due meanwhile does; `then` is called first."""
        process.stopped, process.on_going = True, then
        self.call_outside(self.go_on, process, after=seconds)

    def go_on(self, process: Process) -> None:
        """SIGCONT."""
        if process.stopped:
            process.stopped = False
            process.on_going()
            self._queue += process.held
            process.held = []

    def _run_once(self) -> None:
        """Runs until it is told to stop."""
        queue, timers, draw = self._queue, self._timers, self._draw
        while not self._stopping:  # type: ignore[attr-defined]  # the base class keeps it private
            if not queue:
                self._pass_time()
            elif timers and timers[0][0] <= self.awake:
                self._take_due()
            last = queue.pop()
            count = len(queue)
            if count:
                chosen = int(draw() * (count + 1))
                if chosen < count:
                    queue[chosen], last = last, queue[chosen]
            if not last._cancelled:
                self._step(last)

    def _pass_time(self) -> None:
        """Jumps to the next timer that was not cancelled."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise Deadlock("nothing is ready and no timer is set")
        self.awake = max(self.awake, timers[0][0])
        self._take_due()

    def _take_due(self) -> None:
        timers, queue, now = self._timers, self._queue, self.awake
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            if not handle._cancelled:
                queue.append(handle)

    def _step(self, handle: asyncio.Handle) -> None:
        context: contextvars.Context = handle._context  # type: ignore[attr-defined]  # the only way to know whose it is
        process = context.get(PROCESS)
        if process is not None:
            if process.fuse and not process.dead and not process.stopped:
                process.fuse -= 1
                if not process.fuse:
                    self.strike(process)
            if process.dead or process.stopped:
                process.held.append(handle)
                return
        self.steps += 1
        try:
            context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]  # as `Handle._run` does
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as `Handle._run` does
            self.call_exception_handler({"message": "a callback failed", "exception": error, "handle": handle})

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they come up."""

    def _process_events(self, event_list: Any) -> None:
        """No sockets: nothing to process."""

    def _write_to_self(self) -> None:
        """No threads: nobody to wake."""
