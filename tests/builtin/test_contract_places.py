"""Places in a TOML text: each key and item is found where it stands."""

import tomllib
from collections.abc import Iterator
from importlib import resources

import pytest

from sereno.settings.places import key_places, location_of, place_of

TEXT = """# a comment with [brackets] and = signs
title = "a # no comment"
"quoted key" = 1
'raw.key' = 1979-05-27T07:32:00Z

[status] # here
  url = 'x'
headers.accept = "y"
list = [1.5, [2, "a,b"], { p = 1, "q r" = { s = [true] } },
  # between
  \"\"\"many
lines ] \\"\"\" \"\"\", 3,
]

[[rules]]
word = "a"
tests = [{ path = "x", above = 0 },
         { path = "y" }]
[rules.deep.er]
k = -0.5e3
[[rules]]
word = '''b
= c'''
[[rules.inner]]
z = 1
"""

FOUND = {
    "title": (2, 1),
    "status": (6, 1),
    "status.url": (7, 3),
    "status.headers.accept": (8, 1),
    "status.list[1][1]": (9, 18),
    "status.list[2].p": (9, 28),
    "status.list[2].q r.s[0]": (9, 50),
    "status.list[3]": (11, 3),
    "status.list[4]": (12, 19),
    "rules[0]": (15, 1),
    "rules[0].tests[0].above": (17, 24),
    "rules[0].tests[1].path": (18, 12),
    "rules[0].deep.er.k": (20, 1),
    "rules[1].word": (22, 1),
    "rules[1].inner[0].z": (25, 1),
}


@pytest.mark.parametrize("dotted", FOUND)
def test_a_place_is_line_and_column(dotted: str) -> None:
    """Comments, strings of all four kinds, inline tables and lists over several lines do not confuse it."""
    assert key_places(TEXT)[location_of(dotted)] == FOUND[dotted]


@pytest.mark.parametrize(
    ("dotted", "place"),
    [("rules[0].meaning", (15, 1)), ("status.method", (6, 1)), ("nothing.at.all", (1, 1)), ("rules[7].word", (15, 1))],
)
def test_what_is_missing_is_told_at_what_would_hold_it(dotted: str, place: tuple[int, int]) -> None:
    """A missing key points at its table."""
    assert place_of(key_places(TEXT), location_of(dotted)) == place


def _locations(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _locations(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _locations(inner, (*at, index))


SHIPPED = [file for file in resources.files("sereno.builtin.contracts").iterdir() if file.name.endswith(".toml")]


@pytest.mark.parametrize("text", [TEXT, *(file.read_text(encoding="utf-8") for file in SHIPPED)])
def test_exactly_what_the_parser_finds_has_a_place(text: str) -> None:
    """For this text and every shipped contract: no key without a place, no place without a key."""
    assert set(key_places(text)) == set(_locations(tomllib.loads(text)))
