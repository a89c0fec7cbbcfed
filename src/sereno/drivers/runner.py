"""The event loop and the settings of the interpreter for a process that performs work."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    from uvloop import new_event_loop
except ImportError:  # not on every platform
    from asyncio import new_event_loop

T = TypeVar("T")
_YOUNG, _MIDDLE, _OLD = 10_000, 20, 50
"""Work makes many short-lived objects and few cycles; looking for cycles every 700 objects took a tenth of the time."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` to its end, on uvloop where it is installed. What the imports left is not searched for cycles again."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
