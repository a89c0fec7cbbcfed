"""The CEL port: what a condition sees, what it refuses, and that none of it costs much or raises (I33)."""

import time
from datetime import UTC, datetime
from functools import cache

import pytest

from sereno.core.telling.verdict import Verdict, VerdictKind
from sereno.core.values import Json
from sereno.outside.cel import LONGEST, CelConditions
from sereno.outside.cel_cost import MOST_UNITS, Weight, cost_of
from sereno.ports import Condition

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ITEMS: dict[str, Json] = {
    "price": 19.5,
    "count": 3,
    "name": "Blue Lamp",
    "tags": ["a", "b"],
    "none": None,
    "big": 2**53,
    "on": True,
}
MATCH, NO_MATCH = Verdict(VerdictKind.MATCH), Verdict(VerdictKind.NO_MATCH)


@cache
def conditions() -> CelConditions:
    return CelConditions()


def judge(text: str, value: Json = None, *, before: Json = None, change: str = "new", now: datetime = NOW) -> Verdict:
    condition: Condition = conditions().compile(text)
    poll: dict[str, Json] = {"id": "poll_1", "name": "lamps", "user": "local"}
    return condition.judge(change=change, object=value if value is not None else ITEMS, before=before, poll=poll, now=now)


def error_of(text: str, value: Json = None, before: Json = None) -> str:
    verdict = judge(text, value, before=before)
    assert verdict.kind is VerdictKind.ERROR and verdict.error
    assert len(verdict.error) <= 300
    return verdict.error


@pytest.mark.parametrize(
    "text",
    [
        "change in ['new', 'updated']",
        "object.price < 20",
        "object.count == 3",
        "object.count < 3.5 && object.price > 19",
        "object.big == 9007199254740992.0",
        "object.on",
        "object.none == null",
        "has(object.price) && !has(object.missing)",
        "object.tags.exists(t, t == 'b')",
        "object.tags.size() == 2",
        "object.name.lowerAscii().contains('lamp')",
        "double(object.name.replace('Blue Lamp', '7')) < 8.0",
        "object.name.split(' ')[1] == 'Lamp'",
        "object.name.matches('^Blue [A-Z]')",
        "matches(object.name, r'^Blue\\s')",
        "before == null",
        "poll.name == 'lamps'",
        "now > timestamp('2026-01-01T00:00:00Z')",
        "now - duration('24h') < timestamp('2026-05-01T00:00:00Z')",
        ".object.price < 20",
        "object.price < 20 || object.missing > 1",
        "object.tags.filter(t, t != 'a').all(t, t == 'b')",
    ],
)
def test_true_conditions_match(text: str) -> None:
    """Each way of asking that the documentation shows works; numbers are double, whatever they were in JSON."""
    assert judge(text) == MATCH


def test_false_is_no_match_and_before_is_visible() -> None:
    """False is an answer, not an error; `before` is what was kept."""
    assert judge("object.price > 20") == NO_MATCH
    assert judge("object.price < before.price", {"price": 5}, before={"price": 6}, change="updated") == MATCH
    assert judge("change == ''", change="") == MATCH


def test_text_and_list_payloads_can_be_judged() -> None:
    """A page is a text, an API answer may be a list."""
    assert judge("object.contains('sold out')", "now sold out!") == MATCH
    assert judge("object[0] == 1", [1]) == MATCH


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("object.missing > 1", "missing"),
        ("object.name < 3", "No matching overloads"),
        ("object.tags[9] == 'a'", "index"),
        ("1 / 0 == 1", "divide by zero"),
        ("before.price > 1", ""),
        ("object.name", "string, not true or false"),
        ("object.name.matches('(a{0,1000}){0,1000}')", "repetition"),
        ("int(object.name) > 2", "convert"),
    ],
)
def test_condition_errors_are_verdicts(text: str, says: str) -> None:
    """A missing key or a wrong type is an error verdict with words, never a match and never an exception."""
    assert says.lower() in error_of(text).lower()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("object.", "line 1, column 8"),
        ("true\n && chnage == 'new'", "line 2, column 5: undeclared reference to 'chnage'; did you mean change?"),
        ("price < 20", "object.price"),
        ("double(object.name) < 8", "as 8.0"),
        ("1 +", "line 1, column 4"),
        ("'text'", "must be true or false"),
        ("object.a +", "the end"),
        ("", "empty"),
        ("true || " * 400 + "true", f"at most {LONGEST}"),
        ("(" * 200 + "true" + ")" * 200, "recursion"),
        ("object" + ".a" * 300 + " == 1", "recursion"),
        ("change == '\ud800'", "surrogate"),
        ("object.name.nosuch() == 1", "undeclared reference to 'nosuch'"),
        ("object.tags.join('x') == ''", "join is not offered"),
        ("object.name.replace('a', object.name) == ''", "two literals"),
        ("object.name.replace('a', 'bbbbbb') == ''", "two literals"),
        ("object.name.matches(object.name)", "literal pattern"),
        ("object.name.matches(object.name + 'x')", "literal pattern"),
        ("object.a.all(a, object.a.all(b, object.a.all(c, true)))", "nested 3 deep"),
    ],
)
def test_what_does_not_compile_is_explained(text: str, says: str) -> None:
    """The message names the place and what would be right, in at most 300 characters."""
    with pytest.raises(ValueError) as caught:
        conditions().compile(text)
    assert says in str(caught.value)
    assert len(str(caught.value)) <= 300


DEEP: list[Json] = []
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": "\ud800"}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({"a": 10**400}, "too large"),
        (DEEP, "nested deeper than 64"),
        ({"a": b"bytes"}, "not JSON"),
    ],
)
def test_hostile_data_gives_error_verdicts(value: Json, says: str) -> None:
    """Lone surrogates, huge numbers and deep nesting never reach the engine."""
    assert says in error_of("object == before", value)


def test_data_that_is_not_asked_for_is_not_even_read() -> None:
    """A condition on the change alone judges any payload."""
    assert judge("change == 'new'", DEEP) == MATCH
    assert judge("change == 'new'", {"a": "\ud800"}) == MATCH


NUMBERS: list[Json] = [float(number) for number in range(9_000)]
BOMBS: list[tuple[str, Json]] = [
    ("object.l.all(a, object.l.all(b, a + b >= 0.0))", {"l": NUMBERS}),
    ("object.l.map(a, object.l).size() > 0", {"l": NUMBERS}),
    ("object.l.map(a, object.s + object.s).size() > 0", {"l": NUMBERS, "s": "x" * 100_000}),
    ("object.l.all(x, x.m.all(y, x.m.size() > 0))", {"l": [{"m": NUMBERS}]}),
    ("object.s.replace('x', 'yyyy').replace('y', 'zzzz').replace('z', 'aaaa').size() > 0", {"s": "x" * 1_000_000}),
    ("object.s.matches('(a|b)*a(a|b){900}c')", {"s": "ab" * 100_000}),
    ("[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, object.l.size() > a + b))", {"l": NUMBERS}),
    (" + ".join(["object.s"] * 25) + " == ''", {"s": "x" * 1_000_000}),
]


@pytest.mark.parametrize(("text", "value"), BOMBS)
def test_I33_cost_bombs_end_fast(text: str, value: Json) -> None:
    """Nested loops, copying loops, growing texts and slow patterns end within a second of this process, as an answer or an error verdict."""
    condition = conditions().compile(text)
    started = time.process_time()
    verdict = condition.judge(change="new", object=value, before=None, poll={}, now=NOW)
    assert time.process_time() - started < 1.0
    assert verdict.kind is not VerdictKind.MATCH


def test_I33_catastrophic_patterns_are_harmless() -> None:
    """The pattern that keeps a backtracking engine busy for ever is linear here."""
    started = time.process_time()
    assert judge("object.s.matches('^(a+)+$')", {"s": "a" * 50_000 + "!"}) == NO_MATCH
    assert time.process_time() - started < 1.0


def test_ordinary_large_objects_are_judged() -> None:
    """The bounds leave room: a long list with one loop, and a page of ten million characters with a plain search."""
    rows: list[Json] = [{"id": number, "price": number, "name": f"lamp {number}"} for number in range(5_000)]
    assert judge("object.rows.exists(r, r.price == 4999.0)", {"rows": rows}) == MATCH
    assert judge("object.contains('sold out')", "x" * 9_999_000 + "sold out") == MATCH
    few: list[Json] = [{"price": number, "name": "x" * 500, "tags": ["a", "b", f"t{number}"]} for number in range(300)]
    assert judge("object.rows.exists(r, r.tags.exists(t, t == 't299'))", {"rows": few}) == MATCH
    assert judge("object.rows.exists(r, r.price < object.limit && r.name != '')", {"rows": few, "limit": 5}) == MATCH


def test_strings_cannot_hide_loops_from_the_cost() -> None:
    """Quotes, raw texts and comments are read as the engine reads them."""
    assert cost_of(r"object.s == r'\' && object.l.all(x, object.l == [])").rereads
    assert not cost_of("object.s == '.all(x, object)'").loops
    assert not cost_of("true // object.l.all(x, object.l == [])").loops
    assert cost_of("object.l . all (x, object.l == [])").rereads


def test_refusal_says_how_far_beyond_the_limit() -> None:
    """The error of a too large object shows its size."""
    weight = Weight()
    weight.text(MOST_UNITS)
    assert "30000000 characters" in (cost_of("object == 'x' || object.size() > 1").refusal(weight) or "")
