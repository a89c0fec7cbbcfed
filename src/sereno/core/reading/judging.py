"""Judging: path expressions and the tests that a contract makes of an answer's body.

Path expressions are JMESPath; compiling them is handed in, since the core knows only the standard library.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sereno.core.values import Json


class Path(Protocol):
    """A compiled path expression over JSON."""

    @property
    def expression(self) -> str:
        """The text it was compiled from."""
        ...

    def search(self, value: Json) -> Json:
        """Finds the value, or None where there is none."""
        ...


CompilePath = Callable[[str], Path]
"""Raises ValueError with the reason for a bad expression."""


class JudgeBy(StrEnum):
    """How a value that a path finds is judged. `null` counts as absent everywhere."""

    PRESENT = "present"
    ABSENT = "absent"
    EQUALS = "equals"
    DIFFERS = "differs"
    """Present, and not equal."""
    ABOVE = "above"
    """A number greater than `value`; anything else does not hold."""
    BELOW = "below"
    AMONG = "among"
    """Equal to one item of the list `value`."""
    EMPTY = "empty"
    """An empty text, list or object."""


@dataclass(frozen=True, slots=True)
class FieldTest:
    """One test of the answer's body. Compares as JSON does: 1 equals 1.0, true is not 1."""

    path: Path
    kind: JudgeBy = JudgeBy.PRESENT
    value: Json = None
