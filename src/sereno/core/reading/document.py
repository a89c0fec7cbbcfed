"""Documents: reads a parsed table and collects every fault on the way, with dotted paths and the nearest valid word."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import cast

from sereno.core.errors import Fault
from sereno.core.values import Json, parse_duration

Scalar = str | int | float | bool
UNDECIDED = "TODO"
"""A key, or a text, that starts so says what is still to be decided: a fault that `contract check` shows at its place."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that steer a terminal, or cannot be stored; line ends and tabs are none of them."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Finds the known word closest to a mistyped one, as a hint for a person, or lists what is valid when none is close."""
    words = sorted(str(one) for one in known)
    close = get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known here: {', '.join(words)}" if 0 < len(words) <= 20 else None


def _undecided(value: object) -> str:
    words = ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)
    return f"is still to be decided: {words.strip(' :')[:500]}"


class Table:
    """One table of a document. Each `take` marks its key as known; `finish` lists the keys nobody asked for.

    A missing or wrong value is noted as a fault and a harmless stand-in is returned, so that reading goes on and every fault is
    found at once. `where` is the dotted path of this table, empty for the document itself.
    """

    def __init__(self, values: Mapping[str, object], where: str = "", faults: list[Fault] | None = None) -> None:
        self.values = values
        self.where = where
        self.faults: list[Fault] = [] if faults is None else faults
        self._known: list[str] = []
        self._children: list[Table] = []
        self._tables: dict[str, Table] = {}

    def at(self, key: str) -> str:
        """The dotted path of a key."""
        return f"{self.where}.{key}" if self.where else key

    def fault(self, key: str, message: str, hint: str | None = None) -> None:
        """Notes a fault at a key."""
        self.faults.append(Fault(self.at(key) if key else self.where, message, hint))

    def has(self, key: str) -> bool:
        """True where the key is there."""
        self._know(key)
        return key in self.values

    def text(self, key: str, default: str | None = None) -> str:
        """Takes a text that is required (unless there is a default) and not blank."""
        if not self.has(key) and default is not None:
            return default
        found = self.optional_text(key)
        if found is None and key not in self.values:
            self.fault(key, "is missing")
        return found or ""

    def optional_text(self, key: str) -> str | None:
        """Takes a text, or None where it is absent."""
        if not self.has(key):
            return None
        value = self.values[key]
        if isinstance(value, str) and value.startswith(UNDECIDED):
            self.fault(key, _undecided(value.removeprefix(UNDECIDED)))
        elif isinstance(value, str) and _CONTROL.search(value):
            self.fault(key, "holds a control character")
        elif isinstance(value, str) and value.strip():
            return value
        else:
            self.fault(key, "must be a text that is not empty")
        return None

    def flag(self, key: str, default: bool = False) -> bool:
        """Takes true or false."""
        value = self.values.get(key, default) if self.has(key) else default
        if isinstance(value, bool):
            return value
        self.fault(key, "must be true or false")
        return default

    def whole(self, key: str, *, least: int, most: int = 1_000_000) -> int | None:
        """Takes a whole number within bounds, or None where it is absent or wrong."""
        if not self.has(key):
            return None
        value = self.values[key]
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.fault(key, f"must be a whole number from {least} to {most}")
        return None

    def duration(self, key: str) -> timedelta | None:
        """Takes a duration written as text (`90s`), or None where it is absent or wrong."""
        text = self.optional_text(key)
        if text is None:
            return None
        try:
            return parse_duration(text)
        except ValueError as error:
            self.fault(key, str(error))
            return None

    def one_of(self, key: str, words: Iterable[str], default: str | None = None) -> str:
        """Takes one of the given words."""
        known = list(words)
        found = self.text(key, default)
        if found and found not in known:
            self.fault(key, f"{found[:80]!r} is not valid", nearest(found, known))
        return found if found in known else (default or known[0])

    def texts(self, key: str) -> list[str]:
        """Takes a list of texts; absent is an empty list."""
        found = self.items(key)
        for index, item in enumerate(found):
            if not isinstance(item, str) or not item.strip():
                self.fault(f"{key}[{index}]", "must be a text that is not empty")
        return [item for item in found if isinstance(item, str)]

    def items(self, key: str) -> list[object]:
        """Takes a list of anything; absent is an empty list."""
        if not self.has(key):
            return []
        value = self.values[key]
        if isinstance(value, list):
            return value
        self.fault(key, "must be a list")
        return []

    def scalar(self, key: str) -> Json:
        """Takes a text, number or boolean, or None where it is absent."""
        if not self.has(key):
            return None
        value = self.values[key]
        if isinstance(value, str | int | float | bool):
            return value
        self.fault(key, "must be a text, a number, true or false")
        return None

    def scalars(self, key: str) -> list[str | int | float | bool]:
        """Takes a list of texts, numbers and booleans; absent is an empty list, an empty one is a fault."""
        found = self.items(key)
        if self.values.get(key) == []:
            self.fault(key, "must hold at least one value")
        for index, item in enumerate(found):
            if not isinstance(item, str | int | float | bool):
                self.fault(f"{key}[{index}]", "must be a text, a number, true or false")
        return [item for item in found if isinstance(item, str | int | float | bool)]

    def number(self, key: str) -> int | float | None:
        """Takes a number, or None where it is absent or wrong."""
        if not self.has(key):
            return None
        value = self.values[key]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        self.fault(key, "must be a number")
        return None

    def json(self, key: str) -> Json:
        """Takes any value as JSON, or None where it is absent."""
        return cast(Json, self.values[key]) if self.has(key) else None

    def table(self, key: str) -> "Table":
        """Takes a sub-table; absent is an empty one. Asking again gives the same table."""
        if key in self._tables:
            return self._tables[key]
        value = self.values[key] if self.has(key) else {}
        if not isinstance(value, dict):
            self.fault(key, "must be a table")
            value = {}
        self._tables[key] = self._child(value, self.at(key))
        return self._tables[key]

    def texts_of(self, key: str) -> dict[str, str]:
        """Takes a table of texts (numbers and booleans as JSON writes them); absent is an empty one."""
        inner, found = self.table(key), {}
        for name in inner.values:
            value = inner.scalar(name)
            if value is not None:
                found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def tables(self, key: str) -> list["Table"]:
        """Takes a list of tables (`[[key]]`); absent is an empty list."""
        found = []
        for index, item in enumerate(self.items(key)):
            if isinstance(item, dict):
                found.append(self._child(item, f"{self.at(key)}[{index}]"))
            else:
                self.fault(f"{key}[{index}]", "must be a table")
        return found

    def finish(self) -> None:
        """Notes every key that nothing asked for, here and in all sub-tables taken."""
        for key in self.values:
            if key not in self._known and str(key).startswith(UNDECIDED):
                self.fault(str(key), _undecided(self.values[key]), "write it where it belongs, then delete this line")
            elif key not in self._known:
                self.fault(str(key), "is not known here", nearest(str(key), self._known))
        for child in self._children:
            child.finish()

    def _know(self, key: str) -> None:
        if key not in self._known:
            self._known.append(key)

    def _child(self, values: Mapping[str, object], where: str) -> "Table":
        child = Table(values, where, self.faults)
        self._children.append(child)
        return child
