"""Paths: compiles the JMESPath expressions of contracts, and bounds what a search may cost and can raise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

from sereno.core.contract import Path
from sereno.core.reading.document import nearest
from sereno.core.values import Json

MAX_EXPRESSION = 1000
"""Characters of one path expression."""
MAX_NESTING = 64
"""Levels of one expression: a search goes a few calls deep for each, and must not meet the interpreter's own limit."""
MAX_STEPS = 500_000
"""Steps of one search: about one for each value that a part of the expression touches, so about a second at most. The largest accepted
answer has 200,000 values."""
MAX_LISTS = 2
"""Multi-select lists (`[a, b]`) of one expression. Each may hold its input several times over, so that a chain of them makes a value
of exponential size; two, and a result that is weighed, keep it small. Objects (`{x: a}`) are not needed to pick a value."""

ALLOWED_NODES = frozenset(
    "and_expression comparator current field filter_projection flatten function_expression identity index index_expression literal"
    " multi_select_list not_expression or_expression pipe projection slice subexpression value_projection".split()
)
ALLOWED_FUNCTIONS = frozenset(
    "abs ceil contains ends_with floor join keys length max min not_null starts_with sum to_number to_string type values".split()
)
"""What the waiters of AWS need and more; none takes an expression, so none runs one over and over."""

_CALL_STEPS = 10
"""What a call costs besides its arguments, in steps."""

_FAILURES = (JMESPathError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError)
_LIBRARY = Functions()
_Node = Any
"""A node of the parsed expression: a table of `type`, `value` and `children`."""


class _TooCostly(ValueError):
    """The search took more steps than one may."""


class _Bounded(TreeInterpreter):
    """Walks an expression and counts what each step costs; beyond `MAX_STEPS` it stops."""

    def __init__(self) -> None:
        super().__init__()
        self._left = MAX_STEPS

    def visit(self, node: _Node, *args: Any, **kwargs: Any) -> Any:
        self.charge(1)
        return super().visit(node, *args, **kwargs)

    def charge(self, steps: int) -> None:
        """Takes steps from what is left. Raises when nothing is."""
        self._left -= steps
        if self._left < 0:
            raise _TooCostly(f"a search of more than {MAX_STEPS} steps")

    def weigh(self, value: object) -> None:
        """Charges for every value inside this one, however deep."""
        waiting: list[Iterator[object]] = [iter((value,))]
        while waiting:
            for item in waiting.pop():
                self.charge(_breadth(item) + 1)
                if isinstance(item, list | dict):
                    waiting.append(iter(item.values() if isinstance(item, dict) else item))

    def visit_comparator(self, node: _Node, value: object) -> object:
        left, right = (self.visit(child, value) for child in node["children"])
        compare = cast(Callable[[object, object], object], self.COMPARATOR_FUNC[node["value"]])
        if node["value"] in ("eq", "ne"):
            if isinstance(left, list | dict) and isinstance(right, list | dict):
                self.weigh(left)
            return compare(left, right)
        return compare(left, right) if _ordered(left, right) else None

    def visit_flatten(self, node: _Node, value: object) -> object:
        found = super().visit_flatten(node, value)
        self.charge(_breadth(found))
        return found

    def visit_slice(self, node: _Node, value: object) -> object:
        self.charge(_breadth(value))
        return super().visit_slice(node, value)

    def visit_function_expression(self, node: _Node, value: object) -> object:
        arguments = [self.visit(child, value) for child in node["children"]]
        name = node["value"]
        self.charge(_CALL_STEPS)
        for argument in arguments:
            self.charge(_breadth(argument))
            if name in ("to_string", "contains"):
                self.weigh(argument)
        if name == "join" and len(arguments) == 2:  # the glue comes as often as there are items
            self.charge((_breadth(arguments[0]) + 1) * _breadth(arguments[1]))
        return _LIBRARY.call_function(name, arguments)


def _breadth(value: object) -> int:
    if isinstance(value, str):
        return len(value) // 100
    return len(value) if isinstance(value, list | dict) else 0


def _ordered(left: object, right: object) -> bool:
    """Whether two values have an order: two numbers, or two texts (instants as texts, as AWS compares them)."""
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str)
    return all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))


@dataclass(frozen=True, slots=True)
class PlainPath:
    """An expression that is only names (`error.code`), as most are: looked up without walking a tree."""

    expression: str
    names: Sequence[str]

    def search(self, value: Json) -> Json:
        """Finds the value, or None where there is none."""
        found: object = value
        for name in self.names:
            if not isinstance(found, dict):
                return None
            found = found.get(name)
        return cast(Json, found)


@dataclass(frozen=True, slots=True)
class CompiledPath:
    """A JMESPath expression that was checked: what it uses, how deep it goes, how many new lists it makes."""

    expression: str
    tree: _Node
    makes_lists: bool

    def search(self, value: Json) -> Json:
        """Finds the value, or None where there is none: an answer in which the search fails or costs too much has none either."""
        walk = _Bounded()
        try:
            found = walk.visit(self.tree, value)
            if self.makes_lists:
                walk.weigh(found)
        except _FAILURES:
            return None
        return cast(Json, found)


def compile_path(text: str) -> Path:
    """Compiles a path expression. Raises ValueError with the reason for a bad one."""
    if len(text) > MAX_EXPRESSION:
        raise ValueError(f"a path of more than {MAX_EXPRESSION} characters")
    try:
        tree: _Node = jmespath.compile(text).parsed
    except (JMESPathError, RecursionError, ValueError) as error:
        raise ValueError(f"{text[:200]!r} is not a JMESPath expression: {str(error).splitlines()[0][:200]}") from None
    names = _plain(tree)
    if names is not None:
        return PlainPath(text, names)
    lists = 0
    for node, depth in _nodes(tree):
        if depth > MAX_NESTING:
            raise ValueError(f"a path that nests deeper than {MAX_NESTING}")
        if problem := _problem(node):
            raise ValueError(f"{text[:200]!r} {problem}")
        lists += node["type"] == "multi_select_list"
    if lists > MAX_LISTS:
        raise ValueError(f"{text[:200]!r} makes more than {MAX_LISTS} new lists")
    return CompiledPath(text, tree, lists > 0)


def _plain(tree: _Node) -> Sequence[str] | None:
    """The names of an expression that is only names, or None."""
    if tree["type"] == "field":
        return [tree["value"]]
    if tree["type"] != "subexpression":
        return None
    names: list[str] = []
    for child in tree["children"]:  # one level is enough: the library hangs all names of a chain under one node
        if child["type"] != "field":
            return None
        names.append(child["value"])
    return names


def _nodes(tree: _Node) -> Iterator[tuple[_Node, int]]:
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in node.get("children", ()) if isinstance(child, dict)]


def _problem(node: _Node) -> str | None:
    kind = str(node["type"])
    if kind not in ALLOWED_NODES:
        return f"uses {kind.replace('_', ' ')}; a path here only picks values"
    if kind != "function_expression":
        return None
    name = str(node["value"])
    if name not in ALLOWED_FUNCTIONS:
        return f"uses the function {name[:80]}" + (f"; {hint}" if (hint := nearest(name, ALLOWED_FUNCTIONS)) else "")
    signature: Sequence[Mapping[str, object]] = Functions.FUNCTION_TABLE[name]["signature"]
    given, many = len(node["children"]), bool(signature[-1].get("variadic"))
    if given < len(signature) or (given > len(signature) and not many):
        return f"gives {name} {given} arguments; it takes {len(signature)}" + (" or more" if many else "")
    return None
