"""Small values: strict JSON, durations, ids, instants, canonical bytes."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.values import (
    MAX_NODES,
    BadJson,
    canonical,
    digest,
    format_duration,
    format_id,
    from_micros,
    parse_duration,
    parse_json,
    run_id,
    to_micros,
)

REFUSED: list[tuple[bytes | str, str]] = [
    (b"", "not JSON"),
    (b" ", "not JSON"),
    (b"{", "not JSON"),
    (b'{"a": 1', "not JSON"),
    (b'{"a": 1,}', "not JSON"),
    (b"[1 2]", "not JSON"),
    (b"[1] x", "not JSON"),
    (b"<html>502 Bad Gateway</html>", "not JSON"),
    (b"{'a': 1}", "not JSON"),
    (b"nul", "not JSON"),
    (b"01", "not JSON"),
    (b"+1", "not JSON"),
    (b".5", "not JSON"),
    (b"0x10", "not JSON"),
    (b'"a\x01b"', "not JSON"),
    (b'"\\x41"', "not JSON"),
    ("[١]", "not JSON"),
    ("\u00a0[1]", "not JSON"),
    (b'\xef\xbb\xbf{"a": 1}', "not JSON"),
    ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    (b'"\xff"', "not UTF-8"),
    (b'"\xed\xa0\x80"', "not UTF-8"),
    ('"\ud800"', "not UTF-8"),
    (b'{"a": 1, "a": 2}', "same key twice"),
    (b'[{"b": {"a": 1, "\\u0061": 2}}]', "same key twice"),
    (b"NaN", "NaN is not JSON"),
    (b'{"a": -Infinity}', "-Infinity is not JSON"),
    (b"[Infinity]", "Infinity is not JSON"),
    (b"1e400", "number too large"),
    (b"[-1.5E+0999]", "number too large"),
    (b"1" * 400 + b".5", "number too large"),
    (b"9" * 5000, "more than 64 digits"),
    (b"-" + b"9" * 65, "more than 64 digits"),
    (b'"\\ud800"', "lone surrogate"),
    (b'{"\\uDC00": 1}', "lone surrogate"),
    (b'["\\ud83d\\ud83d\\ude00"]', "lone surrogate"),
    (b"[" * 65 + b"]" * 65, "deeper than 64"),
    (b'{"a":' * 1000 + b"1" + b"}" * 1000, "deeper than 64"),
    (b"[" * 1_000_000, "more than 200000"),
    (b"[" + b"1," * MAX_NODES + b"1]", "more than 200000"),
    (b'"' + b'\\"' * 1_000_000, "not JSON"),
    (b'"' + b'\\"' * 1_000_000 + b"\\", "not JSON"),
    (b'"a' * 1_000_000, "more than 200000"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[f"{number}-{says}" for number, (_, says) in enumerate(REFUSED)])
def test_foreign_json_is_refused_with_its_reason(text: bytes | str, says: str) -> None:
    """Malformed, ambiguous, overflowing and oversized texts raise BadJson, never RecursionError, and fast."""
    with pytest.raises(BadJson, match=says):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": [1, -2.5, "x", true, null]}', {"a": [1, -2.5, "x", True, None]}),
        (b" \t\r\n[] ", []),
        (b"0", 0),
        (b"1e99", 1e99),
        (b"1e-400", 0.0),
        (b"[1e300, 3e123]", [1e300, 3e123]),
        (b"9" * 64, int("9" * 64)),
        (b"-" + b"9" * 64, -int("9" * 64)),
        (b'"3e1234"', "3e1234"),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"é😀"'.encode(), "é😀"),
        ('"é"', "é"),
        (b'"\\\\ud800"', "\\ud800"),
        (b"[" * 64 + b"]" * 64, json.loads("[" * 64 + "]" * 64)),
        (b'["' + b"[" * 500 + b'"]', ["[" * 500]),
        (b'["\\"' + b"[" * 500 + b'"]', ['"' + "[" * 500]),
        (b"[" + b"[]," * 100 + b"1]", [[]] * 100 + [1]),
        (b'["' + b"," * 250_000 + b'"]', ["," * 250_000]),
    ],
)
def test_good_json_is_read(text: bytes | str, value: object) -> None:
    """What RFC 8259 allows within the bounds is read, whatever brackets and commas stand inside texts."""
    assert parse_json(text) == value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


@given(VALUES)
def test_what_we_write_we_read(value: object) -> None:
    """Canonical bytes and ordinary JSON both come back as the same value."""
    assert parse_json(canonical(value)) == value  # type: ignore[arg-type]
    assert parse_json(json.dumps(value)) == value


@given(st.text() | st.text('[]{},:"\\ue0918-+. truefalsn', max_size=40))
def test_any_text_is_read_as_the_standard_parser_does_or_refused(text: str) -> None:
    """Only BadJson ever comes out, and what is read agrees with the standard library."""
    try:
        value = parse_json(text)
    except BadJson:
        return
    assert value == json.loads(text)


@given(VALUES)
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(value: object) -> None:
    """The same value gives the same bytes and the same digest."""

    def turned(inner: object) -> object:
        if isinstance(inner, dict):
            return {name: turned(inner[name]) for name in reversed(inner)}
        return [turned(one) for one in inner] if isinstance(inner, list) else inner

    assert canonical(turned(value)) == canonical(value)  # type: ignore[arg-type]


def test_canonical_form_and_digest_are_fixed() -> None:
    """Stored digests stay valid: sorted keys, no spaces, UTF-8."""
    assert canonical({"b": 1, "a": ["é", None]}) == '{"a":["é",null],"b":1}'.encode()
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("500ms", 0.5),
        ("1w", 604_800),
        (" 1h 30m ", 5400),
        ("1.5h", 5400),
        ("0s", 0),
        ("PT1H30M", 5400),
        ("P1DT12H", 129_600),
        ("P2W", 1_209_600),
        ("PT0.5S", 0.5),
        ("pt5m", 300),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """The short and the ISO 8601 way of writing a span."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "90", "s", "-5s", "5 parsecs", "1h30", "P", "PT", "P1M", "1e3s", "infs", "nans", "٣s", "１s", "5S", "1y", "11y", "3661d",
     "9" * 5000 + "s", "PT1H30M5", "1h-30m", "\x00", "P1D2H"],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    """The message is short and shows what would be right, or says that it is too long."""
    with pytest.raises(ValueError, match=r"write for example 90s|longer than ten years") as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 200


@given(st.integers(0, 3660 * 86_400_000))
def test_durations_are_written_as_they_are_read(millis: int) -> None:
    """Writing and reading give the same span, to the millisecond."""
    span = timedelta(milliseconds=millis)
    assert parse_duration(format_duration(span)) == span


def test_negative_spans_are_written_with_a_sign() -> None:
    """A span in the past can be shown."""
    assert format_duration(-timedelta(minutes=90)) == "-1h30m"


IDS = st.integers(0, (1 << 128) - 1)


@given(IDS, IDS)
def test_ids_sort_as_they_were_made(first: int, second: int) -> None:
    """The text of an id keeps the order of its number, and its length is fixed."""
    left, right = format_id("poll_", first), format_id("poll_", second)
    assert (left < right) == (first < second) and len(left) == len(right) == len("poll_") + 26


def test_ids_have_known_prefixes_and_runs_are_numbered() -> None:
    """No other kind of id exists; a run is named by its subject and number."""
    with pytest.raises(AssertionError):
        format_id("user_", 1)
    assert run_id("poll_x", 7) == "poll_x.7"


@given(st.datetimes(datetime(1, 1, 2), datetime(9998, 12, 30), timezones=st.just(UTC)))
def test_instants_survive_as_microseconds(instant: datetime) -> None:
    """Whole microseconds both ways, before 1970 too."""
    assert from_micros(to_micros(instant)) == instant


def test_instants_are_aware() -> None:
    """Another zone is the same instant; a naive one is our mistake."""
    zoned = datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert to_micros(zoned) == to_micros(datetime(2026, 5, 1, 12, tzinfo=UTC))
    with pytest.raises(AssertionError):
        to_micros(datetime(2026, 5, 1))
