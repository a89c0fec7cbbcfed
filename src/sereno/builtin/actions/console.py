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
    """Writes one short line: of an operation what happened, its id and what answers a question; of anything else the title, the
    beginning of the body and an id that a repeat has too. What could steer a terminal is escaped."""

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
        line = f"{rfc3339(guarded.now)}  {_said(delivery)}\n"
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            self._stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError) as error:
            return Outcome(OutcomeKind.RETRY, f"the console cannot be written: {type(error).__name__}")
        return Outcome(OutcomeKind.DONE, "written", receipt="console")


def _said(delivery: Delivery) -> str:
    effect = delivery.effect
    operation, question = effect.payload.get("operation"), effect.payload.get("escalation")
    if not isinstance(operation, str) or effect.subject != operation or not operation.startswith("op_"):
        body = one_line(effect.body, MAX_LINE - 250)
        return f"{' — '.join(filter(None, (title_of(delivery), body)))}  [{short_id(delivery)}]"
    if isinstance(question, str):
        return f"{title_of(delivery)} [{operation}]; answer: sereno escalation show {question}"
    body = one_line("; ".join(line for line in effect.body.splitlines() if line.strip()), MAX_LINE - 250)
    return f"{title_of(delivery)} [{operation}]" + (f" — {body}" if body else "")
