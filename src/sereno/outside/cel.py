"""The CEL port: conditions compiled and judged in process, behind the engine's iteration budget and our own size limits (I33).

The library loads about 14 MB of native code, so only `app` imports this module, and only where conditions are judged.
"""

import re
from collections.abc import Mapping
from datetime import datetime

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from sereno.core.errors import did_you_mean
from sereno.core.telling.message import plain
from sereno.core.telling.verdict import Verdict, VerdictKind
from sereno.core.values import MAX_DEPTH, Json
from sereno.outside.cel_cost import Cost, Weight, cost_of
from sereno.ports import Condition

LONGEST = 2_048
"""Bytes of an expression."""
MESSAGE_CAP = 300
NAMES = ("change", "object", "before", "poll", "now")
_TYPES = {
    "change": cel.Type.STRING,
    "object": cel.Type.DYN,
    "before": cel.Type.DYN,
    "poll": cel.Type.DYN,
    "now": cel.Type.TIMESTAMP,
}
_Data = object
# What the binding raises: its own errors are RuntimeError; bad text or numbers end in the others.
_FAULTS = (RuntimeError, ValueError, TypeError, OverflowError)
_MATCH = Verdict(VerdictKind.MATCH)
_NO_MATCH = Verdict(VerdictKind.NO_MATCH)


class CelConditions:
    """Compiles conditions (implements `ports.Conditions`). One environment for all; compiled conditions hold no data."""

    def __init__(self) -> None:
        self._environment = cel.NewEnv(variables=_TYPES, extensions=[ext_strings.ExtStrings()])

    def compile(self, text: str) -> Condition:
        """Raises ValueError with a message for a person for what does not compile, is not boolean or could cost too much."""
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise ValueError("the condition is not valid text (a lone surrogate)") from error
        if not text.strip():
            raise ValueError("the condition is empty; write for example change == 'new'")
        if size > LONGEST:
            raise ValueError(f"the condition has {size} bytes; at most {LONGEST} are allowed")
        try:
            expression = self._environment.compile(text)
            result = expression.return_type().name()
        except _FAULTS as error:
            raise ValueError(_explain(str(error))) from error
        if result not in ("BOOL", "DYN"):
            raise ValueError(f"the condition gives {result.lower()}, but must be true or false; compare it with something")
        return _CelCondition(expression, cost_of(text))


class _CelCondition:
    """One compiled condition."""

    def __init__(self, expression: cel.Expression, cost: Cost) -> None:
        self._expression = expression
        self._cost = cost

    def judge(self, *, change: str, object: Json, before: Json, poll: Mapping[str, Json], now: datetime) -> Verdict:
        """Evaluates once. Never raises for what data can be: an error is a verdict. Names that the text does not use cost nothing."""
        weight = Weight()
        try:
            values: dict[str, _Data] = {"change": change, "poll": dict(poll), "now": now}
            values["object"] = _entering(object, weight, 0) if "object" in self._cost.names else None
            values["before"] = _entering(before, weight, 0) if "before" in self._cost.names else None
            if (refusal := self._cost.refusal(weight)) is not None:
                return _error(refusal)
            found = self._expression.eval(data=values)
            kind, value = found.type().name(), found.value()
        except _FAULTS as error:
            return _error(_without_code(str(error)))
        if kind == "BOOL":
            return _MATCH if value else _NO_MATCH
        if kind == "ERROR":
            return _error(_without_code(str(value)))
        return _error(f"the condition gave {kind.lower()}, not true or false")


def _error(message: str) -> Verdict:
    return Verdict(VerdictKind.ERROR, plain(message, MESSAGE_CAP) or "the condition failed")


def _entering(value: object, weight: Weight, depth: int) -> object:
    """Copies JSON the way CEL sees it: numbers are double. Raises ValueError for what no condition should see, and weighs it."""
    if isinstance(value, str):
        weight.text(len(value))
        if not value.isascii():
            value.encode()  # a lone surrogate would end in an obscure error of the engine
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return float(value)
    if depth >= MAX_DEPTH:
        raise ValueError(f"the data is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        weight.container(len(value), depth)
        return {_key(name, weight): _entering(inner, weight, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        weight.container(len(value), depth)
        return [_entering(inner, weight, depth + 1) for inner in value]
    raise TypeError(f"{type(value).__name__} is not JSON")


def _key(name: object, weight: Weight) -> str:
    if not isinstance(name, str):
        raise TypeError("a key that is not text")
    weight.text(len(name))
    name.encode()
    return name


_PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_CODE = re.compile(r"^[A-Z_]{3,}: | \[[A-Z_]+\]$")


def _without_code(message: str) -> str:
    """Drops the status words that the engine puts round its messages (`NOT_FOUND: …`, `… [INTERNAL]`)."""
    return _CODE.sub("", _CODE.sub("", message.strip()))


def _explain(message: str) -> str:
    """Turns the compiler's report into one sentence with the first place and what would be right."""
    place = _PLACE.search(message)
    if place is None:
        return plain(f"the condition does not compile: {_without_code(message)}", MESSAGE_CAP)
    line, column, reason = place.groups()
    reason = reason.split(" expecting {")[0].split(" (in container")[0].replace("'<EOF>'", "the end")
    if line == "-1":
        return plain(f"the condition does not compile: {_without_code(reason)}", MESSAGE_CAP)
    text = f"the condition does not compile: line {line}, column {column}: {_without_code(reason)}"
    unknown = _UNDECLARED.search(reason)
    if unknown:
        text += f"; {_advice(unknown[1])}"
    elif "'(double, int)'" in reason or "'(int, double)'" in reason:
        text += "; write both numbers with a decimal point, as 8.0"
    return plain(text, MESSAGE_CAP)


def _advice(name: str) -> str:
    known = f"known names are {', '.join(NAMES)}"
    return did_you_mean(name, NAMES) or (
        f"{known}; a field of the object is written object.{name}" if name.isidentifier() else known
    )
