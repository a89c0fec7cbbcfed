"""Path expressions: what they can pick, what is refused, and that no search raises or stalls."""

import json
from time import process_time

import jmespath
import pytest

from sereno.builtin.contracts.paths import MAX_STEPS, PlainPath, compile_path

BODY: dict[str, object] = {"a": {"b": 1}, "c": [{"d": 2}, {"d": 3}], "x y": 3, "n": [3, 1, 2], "t": ["x", "yz"], "l": [[1], [2]]}

SERVICES_STABLE = "length(services[?!(length(deployments) == `1` && runningCount == desiredCount)]) == `0`"
GROUP_IN_SERVICE = "contains(groups[].[length(instances[?state=='InService']) >= least][], `false`)"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", {"b": 1}),
        ("a.b", 1),
        ("a.b.c", None),
        ("c[0].d", 2),
        ("c[-1].d", 3),
        ("e || a.b", 1),
        ("a && c[0].d", 2),
        ("c[?d==`2`].d | [0]", 2),
        ('"x y"', 3),
        ("nope.b", None),
        ("c.d", None),
        ("!e", True),
        ("length(c)", 2),
        ("contains(t, 'x')", True),
        ("starts_with(t[1], 'y')", True),
        ("ends_with(t[1], 'y')", False),
        ("not_null(e, a.b)", 1),
        ("keys(a)", ["b"]),
        ("values(a)", [1]),
        ("type(a)", "object"),
        ("to_number('7')", 7),
        ("to_string(a.b)", "1"),
        ("abs(`-2`)", 2),
        ("ceil(`1.2`)", 2),
        ("floor(`1.8`)", 1),
        ("max(n)", 3),
        ("min(n)", 1),
        ("sum(n)", 6),
        ("join('/', t)", "x/yz"),
        ("c[?d > `2`].d", [3]),
        ("c[?d <= `2`].d", [2]),
        ("l[]", [1, 2]),
        ("n[0:2]", [3, 1]),
        ("n[::-1]", [2, 1, 3]),
        ("a.*", [1]),
        ("[a.b, n[0]]", [1, 3]),
        ("n[?@ > `1`] | length(@)", 2),
    ],
)
def test_paths_pick_values(path: str, found: object) -> None:
    """Fields, places in lists, filters, either-or, order, slices and the functions that need no expression."""
    assert compile_path(path).search(BODY) == found  # type: ignore[arg-type]
    assert compile_path(path).expression == path


def test_waiters_of_aws_can_be_written() -> None:
    """Two of the longest that botocore ships."""
    service = {"deployments": [1], "runningCount": 2, "desiredCount": 2}
    assert compile_path(SERVICES_STABLE).search({"services": [service]}) is True  # type: ignore[arg-type]
    assert compile_path(SERVICES_STABLE).search({"services": [service, {**service, "runningCount": 1}]}) is False  # type: ignore[arg-type]
    group = {"instances": [{"state": "InService"}], "least": 1}
    assert compile_path(GROUP_IN_SERVICE).search({"groups": [group]}) is False  # type: ignore[arg-type]
    assert compile_path(GROUP_IN_SERVICE).search({"groups": [{**group, "least": 2}]}) is True  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("lenght(a)", "uses the function lenght; did you mean 'length'?"),
        ("sort_by(a, &b)", "uses "),
        ("map(&a, b)", "uses "),
        ("reverse(a)", "uses the function reverse"),
        ("length()", "gives length 0 arguments; it takes 1"),
        ("contains(a, b, c)", "gives contains 3 arguments; it takes 2"),
        ("not_null()", "it takes 1 or more"),
        ("{x: a}", "only picks values"),
        ("[a, [b, [c]]]", "makes more than 2 new lists"),
        ("a.", "is not a JMESPath expression"),
        ("!" * 70 + "a", "nests deeper than 64"),
        ("(" * 499 + "a" + ")" * 499, "not a JMESPath"),
        (" && ".join(["a"] * 100), "nests deeper than 64"),
        ("a" * 1001, "more than 1000 characters"),
        ("a[", "not a JMESPath"),
    ],
)
def test_paths_that_do_more_are_refused(path: str, says: str) -> None:
    """No expressions as values, no new objects, no size or depth without bound; never anything but ValueError."""
    with pytest.raises(ValueError, match=r".") as caught:
        compile_path(path)
    assert says in str(caught.value)


FAILING = ["max(@)", "sum(a)", "abs(a)", "length(a)", "join(',', @)", "keys(a)", "to_number(a)", "ceil(@)", "starts_with(a, b)"]


@pytest.mark.parametrize(
    "path", ["a.b", "a[0]", "a[?b != `1`].c", "a[?b > `1`].c", "a[?b == 'x'] | [0].c", "!a", "a && b", "a[]", "a[::2]", *FAILING]
)
@pytest.mark.parametrize(
    "value", [None, 1, "x", True, [], {}, [1, "x", None], {"a": 1}, {"a": "x"}, {"a": [{"b": "y"}, {"b": 2, "c": 1}, 3]}]
)
def test_W37_a_search_never_raises(path: str, value: object) -> None:
    """Whatever shape the answer has: a search that fails has found nothing."""
    found = compile_path(path).search(value)  # type: ignore[arg-type]
    json.dumps(found)


@pytest.mark.parametrize("path", ["a", "a.b", "a.b.c", '"a b".c', "a.b.c.d.e"])
@pytest.mark.parametrize(
    "value", [None, 1, "x", [], [{"a": 1}], {"a": {"b": {"c": {"d": {"e": 0}}}}}, {"a": None, "a b": {"c": False}}]
)
def test_a_plain_path_finds_what_the_library_finds(path: str, value: object) -> None:
    """Names alone are looked up directly."""
    found = compile_path(path)
    assert isinstance(found, PlainPath)
    assert found.search(value) == jmespath.search(path, value)  # type: ignore[arg-type]


def test_values_without_an_order_do_not_spoil_the_others() -> None:
    """A text beside numbers, and a boolean, are just not above."""
    assert compile_path("a[?b > `1`].b").search({"a": [{"b": "x"}, {"b": True}, {"b": 2}, {}]}) == [2]


ITEMS: list[object] = [{"s": "x" * 90, "n": number} for number in range(60_000)]
LARGE: dict[str, object] = {"a": ITEMS, "b": [dict(item) for item in ITEMS if isinstance(item, dict)], "q": '"' * 1_000_000}

HOSTILE = [
    " || ".join(["a[?s=='y']"] * 50),
    " || ".join(["a[?to_string(@)=='y']"] * 20),
    "a[?contains(to_string(@), 'zz') || contains(to_string(@), 'y') || contains(to_string(@), 'w')]",
    "not_null(" + ", ".join(["to_number(to_string(a))"] * 36) + ")",
    " && ".join(["a == b"] * 50),
    "a[].s | join(@[0], @) | join(@, `" + json.dumps(["q"] * 150) + "`)",
    "join(q, `" + json.dumps(["q"] * 150) + "`)",
    "[" + ",".join(["@"] * 400) + "] | [" + ",".join(["@"] * 50) + "] | to_string(@)",
    "[" + ",".join(["@"] * 400) + "] | [" + ",".join(["@"] * 50) + "]",
    "a[*].[@,@,@,@][].[@,@,@,@,@,@,@][]",
]


@pytest.mark.parametrize("path", HOSTILE, ids=range(len(HOSTILE)))
def test_W37_a_hostile_path_does_not_stall(path: str) -> None:
    """On an answer of about 10 MB each of these would take minutes or gigabytes; it ends within its steps and finds nothing."""
    compiled = compile_path(path)
    started = process_time()
    assert compiled.search(LARGE) is None  # type: ignore[arg-type]
    assert process_time() - started < 5, f"{MAX_STEPS} steps took too long"


def test_an_honest_path_is_not_cut_short() -> None:
    """A filter over 60,000 items stays within the steps."""
    assert compile_path("a[?n == `59999`].s | [0]").search(LARGE) == "x" * 90  # type: ignore[arg-type]
