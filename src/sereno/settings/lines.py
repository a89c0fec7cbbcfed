"""Finds the line of a key in a TOML text, so that a fault can point at it."""

import re

_HEADER = re.compile(r"^\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Location = tuple[str | int, ...]


def key_lines(text: str) -> dict[Location, int]:
    """Maps each table, array entry and key of a TOML text to its line, counted from 1. Inline tables map to their key's line."""
    found: dict[Location, int] = {(): 1}
    entries: dict[Location, int] = {}
    table: Location = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                entries[table] = entries.get(table, -1) + 1
                table = (*table, entries[table])
            else:
                table = _inside_last_entry(table, entries)
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def line_of(lines: dict[Location, int], location: Location) -> int:
    """The line of a location, or of the nearest thing that holds it."""
    while location not in lines:
        location = location[:-1]
    return lines[location]


def _parts(dotted: str) -> Location:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _inside_last_entry(table: Location, entries: dict[Location, int]) -> Location:
    for depth in range(len(table), 0, -1):
        if table[:depth] in entries:
            return (*table[:depth], entries[table[:depth]], *table[depth:])
    return table
