"""The event loop and the interpreter's settings of a process that stays and performs work."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
try:
    import uvloop

    _new_loop = uvloop.new_event_loop
except ImportError:  # not on every system
    pass

T = TypeVar("T")
_COLLECT_AFTER = (10_000, 20, 50)
"""Work makes many short-lived objects and few cycles: looking for cycles every 700 objects took a tenth of the processor time."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` to its end, on uvloop where it is installed."""
    gc.set_threshold(*_COLLECT_AFTER)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(main)
