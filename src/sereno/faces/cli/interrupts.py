"""Ctrl-C and SIGTERM during a command that follows something: counted, so that each press has one meaning and none is a traceback."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from sereno.faces.cli.output import EXIT_INTERRUPTED

PATIENCE = 4
"""So many presses end the process on the spot, whatever it is doing."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """How often the user asked for an end. Until `tell` is set the first one raises KeyboardInterrupt; the others are counted."""

    def __init__(self) -> None:
        self.count = 0
        self.tell: Callable[[], None] | None = None

    def arrived(self, number: int, frame: FrameType | None) -> None:
        """Takes a signal, in the main thread, between two steps of the program."""
        self.count += 1
        if self.count >= PATIENCE:
            os._exit(EXIT_INTERRUPTED)
        if self.tell is not None:
            self.tell()
        elif self.count == 1:
            raise KeyboardInterrupt


@contextmanager
def counted_interrupts() -> Iterator[Interrupts]:
    """Holds both signals for the length of a command; what they did before comes back at the end."""
    interrupts = Interrupts()
    before = [(number, signal.signal(number, interrupts.arrived)) for number in SIGNALS]
    try:
        yield interrupts
    finally:
        for number, action in before:
            signal.signal(number, action)
