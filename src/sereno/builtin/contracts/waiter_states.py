"""The acceptors of a waiter as the states of a contract.

botocore takes the first acceptor that matches; where none does, an error ends the wait as failed, and anything else is retried.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sereno.core.values import Json
from sereno.core.writing.toml import comment, toml_text, toml_value

MEANINGS = {"success": "success", "failure": "failure", "retry": "pending"}
_UNNAMED = {"success": "as wanted", "failure": "not as wanted", "retry": "not yet"}
ANYTHING_ELSE = "anything else"
NEVER = (401, 403, 429)
"""Statuses that are never a state in a contract."""
THROTTLES = (
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "TransactionInProgressException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
)
"""Error codes that botocore's own client tries again before a waiter sees them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the contract: the word that it gives, what botocore makes of it, the HTTP status and the tests it asks for."""

    word: str
    state: str
    http: str | None
    tests: Sequence[Mapping[str, Json]] = ()
    review: bool = False


@dataclass(slots=True)
class States:
    """What the acceptors became. `words` are all values of the one field that is tested, where there is one."""

    rules: list[Rule] = field(default_factory=list)
    path: str | None = None
    catches_all: bool = False
    differs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    named_errors: list[str] = field(default_factory=list)

    @property
    def by_path(self) -> bool:
        """True where the field alone says the state, and errors only ever mean: look again."""
        return self.path is not None and all(rule.http is None or rule.state == "retry" for rule in self.rules)

    @property
    def fails(self) -> bool:
        """True where some word means failure."""
        return any(rule.state == "failure" for rule in self.rules)

    def add(self, rule: Rule) -> None:
        """Adds a rule; a word that means something else already is written with its meaning."""
        clash = any(rule.word == other.word and rule.state != other.state for other in self.rules)
        word = f"{rule.word} ({MEANINGS[rule.state]})" if clash else rule.word
        self.rules.append(Rule(word, rule.state, rule.http, rule.tests, rule.review))


def states_of(acceptors: Sequence[Mapping[str, Any]], operation: Any) -> States:
    """Turns acceptors into rules, in their order."""
    found = States()
    enum = _one_enum(acceptors, operation)
    for acceptor in acceptors:
        _BY_MATCHER[acceptor["matcher"]](found, acceptor, operation)
    if enum is not None:
        found.path, values = enum
        named = {rule.word for rule in found.rules}
        for value in values:
            if value and value not in named:
                found.add(Rule(value, "retry", None, [{"path": found.path, "value": value}], review=True))
    elif not any(rule.http == "2xx" and not rule.tests for rule in found.rules):
        found.catches_all = True
        found.rules.append(Rule(ANYTHING_ELSE, "retry", None))
    return found


def _one_enum(acceptors: Sequence[Mapping[str, Any]], operation: Any) -> tuple[str, Sequence[str]] | None:
    """The field and its values, where all that is said of good answers is said of one field that botocore knows all values of."""
    good = [one for one in acceptors if _speaks_of_good(one)]
    paths = {one.get("argument") for one in good if one["matcher"] == "path" and isinstance(one["expected"], str)}
    if len(paths) != 1 or any(one["matcher"] != "path" or not isinstance(one["expected"], str) for one in good):
        return None
    path = str(next(iter(paths)))
    shape = operation.output_shape
    for name in path.split("."):
        members = shape.members if shape is not None and shape.type_name == "structure" else {}
        shape = members.get(name)
    return (path, shape.enum) if shape is not None and shape.type_name == "string" and shape.enum else None


def _speaks_of_good(acceptor: Mapping[str, Any]) -> bool:
    if acceptor["matcher"] == "error":
        return bool(acceptor["expected"] is False)
    return acceptor["matcher"] != "status" or 200 <= int(acceptor["expected"]) < 300


def _path(found: States, acceptor: Mapping[str, Any], operation: Any) -> None:
    expected = acceptor["expected"]
    word = expected if isinstance(expected, str) else _UNNAMED[acceptor["state"]]
    found.add(Rule(word, acceptor["state"], None, [{"path": acceptor["argument"], "value": expected}]))


def _path_all(found: States, acceptor: Mapping[str, Any], operation: Any) -> None:
    """A list that is not empty, in which nothing is something else."""
    path, expected = acceptor["argument"], acceptor["expected"]
    tests: list[Mapping[str, Json]] = [
        {"path": f"{path} | [0]"},
        {"path": f"{path} | [?@ != {_literal(expected)}]", "empty": True},
    ]
    found.add(Rule(_word(expected, acceptor), acceptor["state"], None, tests))


def _path_any(found: States, acceptor: Mapping[str, Any], operation: Any) -> None:
    path, expected = acceptor["argument"], acceptor["expected"]
    tests: list[Mapping[str, Json]] = [{"path": f"{path} | [?@ == {_literal(expected)}] | [0]"}]
    found.add(Rule(_word(expected, acceptor), acceptor["state"], None, tests))


def _word(expected: Any, acceptor: Mapping[str, Any]) -> str:
    return expected if isinstance(expected, str) and expected else _UNNAMED[acceptor["state"]]


def _literal(value: Any) -> str:
    """A value inside a path."""
    if isinstance(value, str) and value.isprintable() and not set("'\\`") & set(value):
        return f"'{value}'"
    return f"`{toml_value(value)}`".replace("\\`", "`")


def _status(found: States, acceptor: Mapping[str, Any], operation: Any) -> None:
    status, state = acceptor["expected"], acceptor["state"]
    if status in NEVER:
        if not (status == 429 and state == "retry"):
            found.differs.append(f"HTTP {status} is {state} for botocore; here it is never a state, and stops for a person")
        return
    if status >= 500 and state == "retry":
        found.notes.append(f"HTTP {status} is tried again without a line here, within the limit of transport failures")
        return
    found.add(Rule(f"HTTP {status}", state, str(status)))


def _error(found: States, acceptor: Mapping[str, Any], operation: Any) -> None:
    code, state = acceptor["expected"], acceptor["state"]
    if code is False:
        found.add(Rule("no error", state, "2xx"))
        return
    if code is True:
        found.differs.append(f"any error is {state} for botocore; here 401, 403, 429 and 5xx never are")
        found.add(Rule("any error", state, "4xx", [{"path": "Error.Code"}]))
        return
    found.named_errors.append(code)
    for status in _statuses(code, operation):
        _coded(found, code, state, status)


def _coded(found: States, code: str, state: str, status: int) -> None:
    usual = (status == 429 or status >= 500) and state == "retry"
    if usual:
        found.notes.append(f"{code} (HTTP {status}) is tried again without a line here")
    elif status in NEVER:
        found.differs.append(f"{code} (HTTP {status}) is {state} for botocore; here it is never a state, and stops for a person")
    else:
        rule = Rule(code, state, f"{status // 100}xx", [{"path": "Error.Code", "value": code}])
        if rule not in found.rules:
            found.add(rule)


def _statuses(code: str, operation: Any) -> Sequence[int]:
    """The HTTP statuses that the service model gives an error; 400 where it says none."""
    about = [shape.metadata.get("error", {}) for shape in operation.error_shapes if code in (shape.error_code, shape.name)]
    return sorted({int(one.get("httpStatusCode", 400)) for one in about}) or [400]


_BY_MATCHER = {"path": _path, "pathAll": _path_all, "pathAny": _path_any, "status": _status, "error": _error}


def written(found: States, waiter: str) -> Iterator[str]:
    """The sections `[state]`, `[states]`, `[[conditions]]` and `[[http]]`."""
    yield "[state]"
    yield f"path = {toml_text(found.path or '')}" if found.by_path else 'from = "conditions"'
    yield ""
    yield from _words(found, waiter)
    if not found.by_path:
        for rule in found.rules:
            yield ""
            yield from _condition(rule)
    for note in found.notes:
        yield ""
        yield comment(note)
    yield from _signatures(found)


def _words(found: States, waiter: str) -> Iterator[str]:
    yield "[states]"
    rules = [rule for rule in found.rules if not (found.by_path and rule.http is not None)]
    for state, meaning in MEANINGS.items():
        words = dict.fromkeys(rule.word for rule in rules if rule.state == state and not rule.review)
        others = dict.fromkeys(rule.word for rule in rules if rule.state == state and rule.review)
        if others:
            yield f"{meaning} = ["
            yield from (f"    {toml_text(word)}," for word in words)
            yield "    # REVIEW: botocore knows these values and the waiter names none of them; it retries. Is the job still at it in each?"
            yield from (f"    {toml_text(word)}," for word in others)
            yield "]"
        elif words:
            yield f"{meaning} = {toml_value(list(words))}"
    if not any(rule.state == "failure" for rule in rules):
        yield f'no_failure = "{waiter} has no failure acceptor: botocore waits until its attempts are used up"'


def _condition(rule: Rule) -> Iterator[str]:
    if rule.word == ANYTHING_ELSE and not rule.tests:
        yield "# REVIEW: botocore's rule is that whatever matches no acceptor is retried. A state that the job never leaves is then waited for"
        yield "# until the limits end it. Name the states that mean failure, and leave this out where the others are known."
    yield "[[conditions]]"
    yield f"word = {toml_text(rule.word)}"
    if rule.http is not None:
        yield f"http = {toml_text(rule.http)}"
    if len(rule.tests) == 1:
        yield from (f"{key} = {toml_value(value)}" for key, value in rule.tests[0].items())
    elif rule.tests:
        yield "tests = ["
        yield from (f"    {toml_value(dict(test))}," for test in rule.tests)
        yield "]"


def _signatures(found: States) -> Iterator[str]:
    if found.by_path:
        for rule in found.rules:
            if rule.http is not None:
                yield ""
                yield "[[http]]"
                yield f"status = {toml_text(rule.http)}"
                for test in rule.tests:
                    yield from (f"{key} = {toml_value(value)}" for key, value in test.items())
                yield 'meaning = "pending"'
    codes: Json = [code for code in THROTTLES if code not in found.named_errors]
    for status in ("4xx", "503"):
        yield ""
        yield "[[http]]"
        yield f"status = {toml_text(status)}"
        yield 'path = "Error.Code"'
        yield f"among = {toml_value(codes)}"
        yield 'meaning = "throttled"'
