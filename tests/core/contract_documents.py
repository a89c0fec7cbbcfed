"""Contract documents that between them use every key of the format, and a path that needs no library."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from sereno.core.contract import Contract, parse_contract
from sereno.core.errors import Fault
from sereno.core.values import Json


@dataclass(frozen=True)
class Dotted:
    """A path of plain keys."""

    expression: str

    def search(self, value: Json) -> Json:
        for key in self.expression.split("."):
            value = value.get(key) if isinstance(value, dict) else None  # type: ignore[assignment]
        return value


def dotted(text: str) -> Dotted:
    """Compiles one, or refuses it as a library would."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"{text!r} is not a path")
    return Dotted(text)


HEAD: dict[str, object] = {
    "format": 1,
    "contract": "acme",
    "version": 3,
    "title": "Acme job",
    "source": "docs.acme.example",
    "verified": "verified: all",
}
API = "https://api.acme.example/v1/{zone}/jobs"

HTTP: dict[str, object] = {
    **HEAD,
    "states_from_caller": False,
    "status": {
        "via": "http",
        "method": "POST",
        "url": API + "/{job_id}?group={group}",
        "parameters": ["zone", "group"],
        "origins": ["https://api.acme.example", "https://files.acme.example"],
        "observational": "documented read",
        "redirects": True,
        "credential": "acme",
        "headers": {"accept": "application/json", "x-zone": "{zone}"},
        "body": {"query": "query($id: ID!) { node(id: $id) { status } }", "variables": {"id": "{job_id}", "n": 1}},
    },
    "state": {
        "from": "path",
        "path": "status",
        "second": "conclusion",
        "absent": "none",
        "caseless": True,
        "steady": 2,
        "aliases": {"Cancelled": "CANCELED"},
    },
    "states": {
        "pending": ["Queued", 1, True, "none"],
        "success": ["done"],
        "failure": ["failed"],
        "cancelled": ["canceled"],
        "expired": ["late"],
        "needs_input": ["paused"],
        "partial": ["half"],
        "result_expired": ["purged"],
    },
    "rules": [
        {"word": "Done", "path": "error", "meaning": "failure"},
        {"word": "done", "meaning": "contradiction", "tests": [{"path": "a", "above": 0}, {"path": "b", "absent": True}]},
        {"word": "paused", "meaning": "pending", "checks": 24, "then": "needs_input"},
        {"word": "half", "path": "n", "below": 2.5, "meaning": "unknown_state"},
    ],
    "job": {"id": "id", "id_is": "{zone}/{job_id}", "pins": ["uid", "attempt"], "progress": "percent"},
    "handover": [{"path": "next", "url": API + "/{value}?g={group}"}, {"header": "Location"}],
    "http": [
        {
            "status": "404",
            "meaning": "not_found_yet",
            "grace": "30s",
            "checks": 3,
            "then": "expired",
            "path": "code",
            "value": "lag",
        },
        {"status": "5xx", "meaning": "throttled", "header": "x-left", "value": "0", "tests": [{"path": "code", "differs": 1}]},
        {"status": 410, "meaning": "result_expired", "path": "code", "among": ["gone", 2]},
        {"status": 409, "meaning": "pending", "path": "items", "empty": True},
        {"status": 400, "meaning": "authorization_denied", "path": "code", "among": ["denied"]},
    ],
    "result": {
        "allows": "publish",
        "otherwise": "workflow",
        "ref": "url",
        "header": "Location",
        "settle_checks": 2,
        "fields": [
            {
                "path": "output",
                "type": "url",
                "allow_null": True,
                "allow_empty": True,
                "alternative": "files",
                "when": {"path": "count", "above": 0},
            }
        ],
        "keep": {
            "from": "call",
            "path": "file",
            "method": "POST",
            "url": "https://files.acme.example/{zone}/{value}",
            "headers": {"x-group": "{group}"},
            "body": {"job": "{job_id}"},
            "credential": True,
            "max_bytes": 5,
            "types": ["image/*", "application/json"],
        },
    },
    "error": {"code": "error.code", "text": "error.message"},
    "delays": {
        "first": "1s",
        "base": "5s",
        "max": "2m",
        "min_gap": "2s",
        "jitter": "full",
        "typical": "10m",
        "answer_within": "20s",
        "hint_cap": "30m",
    },
    "hints": [{"path": "after", "unit": "milliseconds", "only": "throttled"}, {"header": "x-after", "unit": "http_date"}],
    "limits": {"deadline": "1h", "requests": 60, "transport_failures": 0, "throttles": 4},
    "expiry": {
        "path": "expires",
        "created": "created",
        "ttl": "ttl",
        "ttl_unit": "milliseconds",
        "settle_checks": 3,
        "retention": "1d",
        "counted_from": "creation",
    },
    "submit": {
        "method": "PUT",
        "url": API + "/{key}",
        "headers": {"x-region": "{zone}"},
        "body": {"{input}": True, "hook": "{zone}", "all": ["{input}"], "when": "{null}"},
        "accepts": ["201", 202, "2xx"],
        "effects": "starts a job",
        "status_url": "links.self",
        "parameters": {"group": "group.id"},
        "idempotency": {"place": "job_id", "name": "{zone}-{key}", "form": "dashed", "duplicate": "reject", "window": "24h"},
        "duplicate": {"status": ["409"], "path": "code", "value": "exists"},
        "first": "3s",
    },
    "cancel": {
        "method": "DELETE",
        "url": API + "/{job_id}",
        "headers": {"x-why": "asked"},
        "body": {"why": "{job_id}"},
        "accepts": ["2xx"],
        "effects": "ends as canceled",
        "too_late": ["404", 409],
        "repeatable": True,
        "ends_as": "Failed",
    },
}

_WORDS: dict[str, object] = {"pending": ["busy"], "success": ["done"], "failure": ["broken"]}
_SMALL: dict[str, object] = {**HEAD, "state": {"path": "status"}, "states": _WORDS}

CONDITIONS: dict[str, object] = {
    **HEAD,
    "status": {"url": "{base}/jobs/{job_id*}"},
    "state": {"from": "conditions"},
    "conditions": [
        {"word": "broken", "http": "404", "path": "error.code", "value": "x"},
        {"word": "done", "tests": [{"path": "a", "empty": True}, {"path": "b", "among": [1, "x", True]}]},
        {"word": "busy"},
    ],
    "states": _WORDS,
    "result": {"keep": {"from": "url", "path": "files"}},
    "submit": {
        "url": "{base}/jobs",
        "effects": "starts",
        "job_id_header": "x-job",
        "job_id_segment": -2,
        "job_id_from": "input.name",
        "status_url_header": "Location",
        "idempotency": {"place": "header", "name": "Idempotency-Key", "duplicate": "replay", "window": "1h"},
    },
}
AWS: dict[str, object] = {
    **_SMALL,
    "status": {
        "via": "aws",
        "service": "athena",
        "operation": "GetQueryExecution",
        "body": {"QueryExecutionId": "{job_id}"},
        "parameters": ["region"],
    },
    "submit": {"service": "athena", "operation": "StartQueryExecution", "effects": "runs a query", "job_id": "QueryExecutionId"},
    "cancel": {
        "service": "athena",
        "operation": "StopQueryExecution",
        "body": {"QueryExecutionId": "{job_id}"},
        "effects": "stops it",
    },
}
MCP: dict[str, object] = {
    **_SMALL,
    "status": {"via": "mcp", "url": "{base}", "operation": "tasks/get", "era": "extension"},
    "submit": {"effects": "calls a tool", "job_id": "result.task.taskId"},
    "cancel": {"effects": "cancels it", "ends_as": "broken"},
}
PUSH: dict[str, object] = {
    **_SMALL,
    "status": {"via": "push", "credential": "acme", "origins": ["https://api.acme.example"]},
    "limits": {"deadline": "1h"},
    "submit": {"url": "https://api.acme.example/listen?callback=x", "effects": "transcribes", "job_id": "request_id"},
}
NO_FAILURE: dict[str, object] = {
    **HEAD,
    "status": {"url": "{base}/jobs/{job_id}"},
    "state": {"path": "status"},
    "states": {"pending": ["busy"], "success": ["done"], "no_failure": "the reference says that a job is tried for ever"},
}

DOCUMENTS = {"http": HTTP, "conditions": CONDITIONS, "aws": AWS, "mcp": MCP, "push": PUSH, "no_failure": NO_FAILURE}
FREE = ("headers", "body", "aliases", "parameters")
"""Tables whose keys are the author's own."""

Place = tuple[str | int, ...]


def places(value: object, at: Place = ()) -> Iterator[tuple[Place, object]]:
    """Every key and list item of a document with its place, the document first; free tables as one value."""
    yield at, value
    if isinstance(value, dict):
        for key, inner in value.items():
            if not (key in FREE and isinstance(inner, dict)):
                yield from places(inner, (*at, key))
            else:
                yield (*at, key), inner
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*at, index))


def changed(document: dict[str, object], at: Place, value: object) -> dict[str, object]:
    """A copy with one place set, or removed where the value is `...`."""
    copy = deepcopy(document)
    here: object = copy
    for key in at[:-1]:
        if isinstance(here, dict) and key not in here:
            here[key] = {}
        here = here[key]  # type: ignore[index]
    if value is ...:
        del here[at[-1]]  # type: ignore[attr-defined]
    else:
        here[at[-1]] = value  # type: ignore[index]
    return copy


def read(document: dict[str, object]) -> Contract:
    """The contract of a document that has no fault."""
    found = parse_contract(document, dotted)
    assert isinstance(found, Contract), [str(fault) for fault in found]
    return found


def faults(document: dict[str, object]) -> list[Fault]:
    """The faults of a document that has some."""
    found = parse_contract(document, dotted)
    assert not isinstance(found, Contract), "the document was accepted"
    return list(found)
