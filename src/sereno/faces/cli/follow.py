"""The progress of one wait: a line that changes on a terminal, else one line for each change."""

import sys
from datetime import datetime

from sereno.core.operation import Operation
from sereno.faces.cli.output import Output
from sereno.faces.cli.show.operations import progress_line

WIDTH = 110


class Progress:
    """Shows where a wait stands, on standard error; nothing in JSON mode."""

    def __init__(self, out: Output):
        self._out = out
        self._live = sys.stderr.isatty() and not out.as_json
        self._last: tuple[object, ...] = ()

    def show(self, operation: Operation, now: datetime) -> None:
        """Shows the line. On a terminal it replaces the one before; else it is printed when something changed."""
        line = progress_line(operation, now)
        if self._live:
            sys.stderr.write("\r" + line[:WIDTH].ljust(WIDTH))
            sys.stderr.flush()
            return
        seen = (operation.state, operation.last_state, operation.spend, operation.next_poll_at)
        if seen != self._last:
            self._out.remark(line)
        self._last = seen

    def end(self) -> None:
        """Leaves the line behind."""
        if self._live:
            sys.stderr.write("\r" + " " * WIDTH + "\r")
            sys.stderr.flush()
