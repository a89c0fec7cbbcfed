"""The JSON schema of the contract format (draft 2020-12), for editors and other programs.

It knows every key, type and word. What needs more than one place to see (words of `[states]`, names in templates, origins, sums of
times) only `parse_contract` checks: every contract that is accepted there fits the schema, not the other way round.
"""

from collections.abc import Iterable, Mapping, Sequence

from sereno.core.reading import requests, sections, timing
from sereno.core.reading.calls import Duplicate, KeepFrom, KeyForm, KeyPlace, Via
from sereno.core.reading.terms import (
    FORMAT,
    OLDEST_FORMAT,
    RULE_MEANINGS,
    SIGNATURE_MEANINGS,
    STATE_MEANINGS,
    HintUnit,
)
from sereno.core.values import Json

Schema = dict[str, object]

_TEXT: Schema = {"type": "string", "pattern": r"\S"}
_FLAG: Schema = {"type": "boolean"}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_DURATION: Schema = {"type": "string", "pattern": r"^\s*([Pp]\S+|(\s*[0-9]+(\.[0-9]+)?\s*(ms|[smhdw])\s*)+)$"}
_STATUS: Schema = {
    "anyOf": [{"type": "string", "pattern": "^[2-5]([0-9][0-9]|xx)$"}, {"type": "integer", "minimum": 200, "maximum": 599}]
}
_PATH: Schema = {**_TEXT, "description": "A JMESPath expression."}
_TEMPLATE: Schema = {**_TEXT, "description": "A text with {names} in it."}
_COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": sections.MAX_CHECKS}
_SETTLING: Schema = {"type": "integer", "minimum": 0, "maximum": 3}
_ANY: Schema = {}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_STATUSES: Schema = {"type": "array", "items": _STATUS, "minItems": 1}
_HEADERS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}

_JUDGES: Schema = {
    "absent": _FLAG,
    "value": _SCALAR,
    "differs": _SCALAR,
    "above": {"type": "number"},
    "below": {"type": "number"},
    "among": {"type": "array", "items": _SCALAR, "minItems": 1},
    "empty": _FLAG,
}


def contract_schema() -> Json:
    """Builds the schema, from the same words and bounds that the parser reads with."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sereno contract",
        "description": "How one provider behaves, as data.",
        **_table(_top(), ("format", "contract", "version", "title", "source", "verified", "status")),
        "$defs": {"test": _table({"path": _PATH, **_JUDGES}, ("path",))},
    }


def _table(properties: Mapping[str, object], required: Sequence[str] = ()) -> Schema:
    found: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


def _list(table: Schema) -> Schema:
    return {"type": "array", "items": table}


def _one_of(words: Iterable[str]) -> Schema:
    return {"enum": [str(word) for word in words]}


def _top() -> Schema:
    return {
        "format": {"type": "integer", "minimum": OLDEST_FORMAT, "maximum": FORMAT},
        "contract": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$"},
        "version": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        "title": _TEXT,
        "source": {**_TEXT, "description": "Where the facts come from."},
        "verified": {**_TEXT, "description": "What was seen to be true, and what was not."},
        "states_from_caller": _FLAG,
        "status": _status(),
        "state": _state(),
        "conditions": _list(_tested({"word": _SCALAR, "http": _STATUS}, ("word",))),
        "states": _states(),
        "rules": _list(_rule()),
        "job": _table({"id": _PATH, "id_is": _TEMPLATE, "pins": {"type": "array", "items": _PATH}, "progress": _PATH}),
        "handover": _list(_table({"path": _PATH, "header": _TEXT, "url": _TEMPLATE})),
        "http": _list(_signature()),
        "result": _result(),
        "error": _table({"code": _PATH, "text": _PATH}),
        "delays": _delays(),
        "hints": _list(_hint()),
        "limits": _limits(),
        "expiry": _expiry(),
        "submit": _submit(),
        "cancel": _cancel(),
    }


def _tested(properties: Mapping[str, object], required: Sequence[str]) -> Schema:
    """A table that takes one test inline, or several."""
    tests = {"type": "array", "items": {"$ref": "#/$defs/test"}, "minItems": 1}
    return _table({**properties, "path": _PATH, **_JUDGES, "tests": tests}, required)


def _status() -> Schema:
    return _table(
        {
            "via": _one_of(Via),
            "method": _one_of(requests.STATUS_METHODS),
            "url": _TEMPLATE,
            "parameters": _TEXTS,
            "origins": _TEXTS,
            "observational": {**_TEXT, "description": "Evidence that the call changes nothing."},
            "redirects": _FLAG,
            "credential": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
            "headers": _HEADERS,
            "body": _ANY,
            "service": _TEXT,
            "operation": _TEXT,
            "era": _one_of(requests.ERAS),
        }
    )


def _state() -> Schema:
    return _table(
        {
            "from": _one_of(sections.STATE_SOURCES),
            "path": _PATH,
            "second": _PATH,
            "absent": _SCALAR,
            "caseless": _FLAG,
            "steady": {"type": "integer", "minimum": 1, "maximum": sections.MAX_STEADY},
            "aliases": {"type": "object", "additionalProperties": _SCALAR},
        }
    )


def _states() -> Schema:
    words: Schema = {str(meaning): {"type": "array", "items": _SCALAR} for meaning in STATE_MEANINGS}
    return _table({**words, "no_failure": {**_TEXT, "description": "Why no word means failure."}})


def _rule() -> Schema:
    meaning = _one_of(RULE_MEANINGS)
    return _tested({"word": _SCALAR, "meaning": meaning, "checks": _COUNT, "then": meaning}, ("word", "meaning"))


def _signature() -> Schema:
    meaning = _one_of(SIGNATURE_MEANINGS)
    window = {"grace": _DURATION, "checks": _COUNT, "then": meaning}
    return _tested({"status": _STATUS, "meaning": meaning, "header": _TEXT, **window}, ("status", "meaning"))


def _result() -> Schema:
    field = {
        "path": _PATH,
        "type": _one_of(sections.RESULT_TYPES),
        "allow_null": _FLAG,
        "allow_empty": _FLAG,
        "alternative": _TEXT,
        "when": {"$ref": "#/$defs/test"},
    }
    return _table(
        {
            "allows": _TEXT,
            "otherwise": _one_of(("person", "workflow")),
            "ref": _PATH,
            "header": _TEXT,
            "settle_checks": _SETTLING,
            "fields": _list(_table(field, ("path",))),
            "keep": _keep(),
        }
    )


def _keep() -> Schema:
    return _table(
        {
            "from": _one_of(KeepFrom),
            "path": _PATH,
            "method": _one_of(requests.KEEP_METHODS),
            "url": _TEMPLATE,
            "headers": _HEADERS,
            "body": _ANY,
            "credential": _FLAG,
            "max_bytes": {"type": "integer", "minimum": 1, "maximum": requests.MOST_KEPT},
            "types": _TEXTS,
        }
    )


def _delays() -> Schema:
    spans = ("first", "base", "max", "min_gap", "typical", "answer_within", "hint_cap")
    return _table({**{key: _DURATION for key in spans}, "jitter": _one_of(timing.JITTERS)})


def _hint() -> Schema:
    return _table({"header": _TEXT, "path": _PATH, "unit": _one_of(HintUnit), "only": _one_of(timing.HINT_MEANINGS)}, ("unit",))


def _limits() -> Schema:
    least = {"requests": 1, "transport_failures": 0, "throttles": 0}
    counts = {key: {"type": "integer", "minimum": low, "maximum": 1_000_000} for key, low in least.items()}
    return _table({"deadline": _DURATION, **counts}, ("deadline",))


def _expiry() -> Schema:
    return _table(
        {
            "path": _PATH,
            "created": _PATH,
            "ttl": _PATH,
            "ttl_unit": _one_of(timing.TTL_UNITS),
            "settle_checks": _SETTLING,
            "retention": _DURATION,
            "counted_from": _one_of(timing.COUNTED_FROM),
        }
    )


def _sent() -> Schema:
    return {
        "method": _one_of(requests.SEND_METHODS),
        "url": _TEMPLATE,
        "headers": _HEADERS,
        "body": _ANY,
        "service": _TEXT,
        "operation": _TEXT,
        "accepts": _STATUSES,
        "effects": {**_TEXT, "description": "What it does and may cost, for the person who decides."},
    }


def _submit() -> Schema:
    idempotency = {"place": _one_of(KeyPlace), "name": _TEXT, "duplicate": _one_of(Duplicate), "window": _DURATION}
    form = {"form": _one_of(KeyForm)}
    segments = {"minimum": -requests.MOST_SEGMENTS, "maximum": requests.MOST_SEGMENTS}
    return _table(
        {
            **_sent(),
            "job_id": _PATH,
            "job_id_header": _TEXT,
            "job_id_segment": {"type": "integer", **segments},
            "job_id_from": _PATH,
            "status_url": _PATH,
            "status_url_header": _TEXT,
            "parameters": {"type": "object", "additionalProperties": _PATH},
            "idempotency": _table({**idempotency, **form}, tuple(idempotency)),
            "duplicate": _tested({"status": _STATUSES}, ("status",)),
            "first": _DURATION,
        },
        ("effects",),
    )


def _cancel() -> Schema:
    return _table({**_sent(), "too_late": _STATUSES, "repeatable": _FLAG, "ends_as": _SCALAR}, ("effects",))
