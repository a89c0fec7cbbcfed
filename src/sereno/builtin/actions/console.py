"""The `console` action: one clear line to a text stream."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from sereno.builtin.message import last_check, rfc3339, short_id, title_of
from sereno.builtin.options import check_options
from sereno.builtin.text import one_line
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault
from sereno.core.values import Json
from sereno.ports import Guarded, Place

MAX_LINE = 500


class ConsoleAction:
    """Writes time, title, the beginning of the body and a short id; what could steer a terminal is escaped."""

    type = "console"
    default_policy = Policy.AT_LEAST_ONCE

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """There are no options."""
        return check_options("action", options, {})

    def place(self, options: Mapping[str, Json]) -> Place:
        """The one pool of this process's console."""
        return Place("local:console", "console")

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Writes and flushes one line; a stream that is closed or broken is tried again later."""
        await last_check(guarded)
        body = one_line(delivery.effect.body, MAX_LINE - 250)
        text = " — ".join(filter(None, (title_of(delivery), body)))
        line = f"{rfc3339(guarded.now)}  {text}  [{short_id(delivery)}]\n"
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            self._stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError) as error:
            return Outcome(OutcomeKind.RETRY, f"the console cannot be written: {type(error).__name__}")
        return Outcome(OutcomeKind.DONE, "written", receipt="console")
