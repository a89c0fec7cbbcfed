"""Places: finds line and column of every key and list item of a TOML text, inline tables and lists included."""

import re
from bisect import bisect_right

from sereno.settings.lines import Location

_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\r]+ | \#[^\n]*)
  | (?P<line>\n)
  | (?P<text>\"\"\"(?:\\.|[^\\])*?\"{3,5} | '''.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
  | (?P<mark>[\[\]{},=.])
  | (?P<bare>[^\s\[\]{},=.#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\t": "\t"}

Place = tuple[int, int]
"""Line and column, both from 1."""


def key_places(text: str) -> dict[Location, Place]:
    """Maps each table, key and list item of a TOML text that parses to its line and column. The document itself is at 1:1."""
    return _Reader(text).read()


def place_of(places: dict[Location, Place], location: Location) -> Place:
    """The place of a location, or of the nearest thing that holds it."""
    while location not in places:
        location = location[:-1]
    return places[location]


def location_of(dotted: str) -> Location:
    """Reads a dotted place as faults name it: `rules[0].tests[1].path`."""
    found: list[str | int] = []
    for part in dotted.split("."):
        name, *indices = part.split("[")
        found.append(name)
        found += [int(index[:-1]) if index[:-1].isdecimal() else index for index in indices]
    return tuple(found)


class _Reader:
    """Walks the tokens of a text that the TOML parser has accepted, so that nothing here has to be checked."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        found = [(str(match.lastgroup), match[0], match.start()) for match in _TOKEN.finditer(text)]
        self._tokens = [token for token in found if token[0] != "blank"]
        self._at = 0
        self._places: dict[Location, Place] = {(): (1, 1)}
        self._entries: dict[Location, int] = {}

    def read(self) -> dict[Location, Place]:
        table: Location = ()
        while self._at < len(self._tokens):
            kind, text, start = self._tokens[self._at]
            if kind == "line":
                self._at += 1
            elif text == "[":
                table = self._header(start)
            else:
                self._pair(table)
        return self._places

    def _header(self, start: int) -> Location:
        double = self._text.startswith("[[", start)
        self._at += 2 if double else 1
        *parents, last = self._key()
        self._at += 2 if double else 1
        table: Location = ()
        for part in parents:
            self._note((*table, part), start)
            table = self._inside((*table, part))
        table = (*table, last)
        if double:
            self._note(table, start)
            self._entries[table] = self._entries.get(table, -1) + 1
            table = self._inside(table)
        self._note(table, start)
        return table

    def _inside(self, table: Location) -> Location:
        return (*table, self._entries[table]) if table in self._entries else table

    def _pair(self, table: Location) -> None:
        start = self._tokens[self._at][2]
        location = table
        for part in self._key():
            location = (*location, part)
            self._note(location, start)
        self._at += 1  # the equals sign
        self._value(location)

    def _key(self) -> list[str]:
        parts = [_plain(self._tokens[self._at][1])]
        self._at += 1
        while self._mark() == ".":
            parts.append(_plain(self._tokens[self._at + 1][1]))
            self._at += 2
        return parts

    def _mark(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _skip_lines(self) -> None:
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "line":
            self._at += 1

    def _value(self, location: Location) -> None:
        if self._mark() == "[":
            self._list(location)
        elif self._mark() == "{":
            self._inline(location)
        else:
            self._at += 1
            while self._mark() not in (",", "]", "}", "\n", ""):  # numbers and instants come in several tokens
                self._at += 1

    def _list(self, location: Location) -> None:
        self._at += 1
        index = 0
        self._skip_lines()
        while self._mark() not in ("]", ""):
            self._note((*location, index), self._tokens[self._at][2])
            self._value((*location, index))
            index += 1
            self._next()
        self._at += 1

    def _inline(self, location: Location) -> None:
        self._at += 1
        self._skip_lines()
        while self._mark() not in ("}", ""):
            self._pair(location)
            self._next()
        self._at += 1

    def _next(self) -> None:
        self._skip_lines()
        if self._mark() == ",":
            self._at += 1
        self._skip_lines()

    def _note(self, location: Location, start: int) -> None:
        line = bisect_right(self._starts, start)
        self._places.setdefault(location, (line, start - self._starts[line - 1] + 1))


def _plain(token: str) -> str:
    if token[:1] == '"':
        return re.sub(r'\\[\\"t]', lambda match: _ESCAPES[match[0]], token[1:-1])
    return token[1:-1] if token[:1] == "'" else token
