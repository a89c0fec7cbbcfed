"""Contract documents: every fault at once, with its place; limits that add up; the caller's own states."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.budget import Limits
from sereno.core.contract import Contract, Meaning, check_limits, parse_contract, with_states
from sereno.core.values import Json, canonical, digest


@dataclass(frozen=True)
class Dotted:
    """A path of plain keys: enough to test the core without a library."""

    expression: str

    def search(self, value: Json) -> Json:
        for key in self.expression.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value


def dotted(text: str) -> Dotted:
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"{text!r} is not a path")
    return Dotted(text)


GOOD: dict[str, Json] = {
    "format": 0,
    "contract": "acme",
    "version": 3,
    "title": "Acme job",
    "source": "https://docs.acme.example/jobs",
    "verified": "verified",
    "status": {
        "url": "https://api.acme.example/v1/{zone}/jobs/{job_id}",
        "origins": ["https://api.acme.example"],
        "parameters": ["zone"],
        "observational": "documented read",
        "headers": {"accept": "application/json"},
    },
    "job": {"id": "id", "progress": "percent"},
    "state": {"from": "path", "path": "status"},
    "states": {"pending": ["queued", 1, True], "success": ["done"], "failure": ["broken"], "needs_input": ["ask"]},
    "rules": [{"word": "done", "path": "error", "meaning": "failure"}],
    "result": {"ref": "url", "fields": [{"path": "output", "type": "url"}]},
    "error": {"code": "error.code", "text": "error.message"},
    "http": [{"status": "404", "meaning": "not_found_yet", "grace": "30s", "checks": 3}],
    "delays": {"first": "1s", "base": "5s", "max": "2m", "min_gap": "2s", "jitter": "full", "hint_cap": "10m"},
    "hints": [{"path": "poll_after", "unit": "seconds"}],
    "limits": {"deadline": "1h", "requests": 60, "transport_failures": 5, "throttles": 4},
    "expiry": {"path": "expires_at", "retention": "1d", "counted_from": "creation"},
    "cancel": {"method": "POST", "url": "https://api.acme.example/v1/cancel", "effects": "ends as cancelled"},
}


def changed(path: str, value: object) -> dict[str, Json]:
    """GOOD with one place set, or removed where the value is `...`."""
    document = deepcopy(GOOD)
    here: dict[str, object] = document
    *parents, last = path.split(".")
    for key in parents:
        here = here.setdefault(key, {})  # type: ignore[assignment]
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return document


def faults_of(document: Mapping[str, Json]) -> dict[str, str]:
    found = parse_contract(document, dotted)
    assert not isinstance(found, Contract), "the document was accepted"
    return {fault.where: str(fault) for fault in found}


def test_W03_a_whole_document_becomes_a_contract() -> None:
    """Every section arrives where the contract keeps it."""
    contract = parse_contract(GOOD, dotted)
    assert isinstance(contract, Contract), contract
    assert contract.digest == digest(canonical(GOOD))
    assert (contract.name, contract.version, contract.parameters) == ("acme", 3, ["zone"])
    assert contract.states == {
        "queued": Meaning.PENDING,
        "1": Meaning.PENDING,
        "true": Meaning.PENDING,
        "done": Meaning.SUCCESS,
        "broken": Meaning.FAILURE,
        "ask": Meaning.NEEDS_INPUT,
    }
    assert contract.limits == Limits(3600.0, 60, 5, 4)
    assert (contract.delays.min_gap, contract.delays.maximum, contract.delays.jitter) == (
        timedelta(seconds=2),
        timedelta(minutes=2),
        "full",
    )
    assert contract.hint_cap == timedelta(minutes=10)
    assert contract.retention_from == "creation"
    assert contract.signatures[0].grace_checks == 3
    assert contract.document == GOOD
    assert not contract.takes_states
    assert contract.allows == "read_result"


FAULTS: list[tuple[str, object, str, str]] = [
    ("format", ..., "format", "is missing"),
    ("format", 2, "format", "from 0 to 1"),
    ("contract", "Acme!", "contract", "lower-case"),
    ("contract", ..., "contract", "is missing"),
    ("version", ..., "version", "is missing"),
    ("version", 0, "version", "whole number"),
    ("title", "", "title", "not empty"),
    ("source", ..., "source", "is missing"),
    ("verified", ..., "verified", "is missing"),
    ("statuss", {}, "statuss", "did you mean 'status'?"),
    ("status.urll", "x", "status.urll", "did you mean 'url'?"),
    ("status.url", ..., "status.url", "is missing"),
    ("status.url", "http://api.acme.example/{zone}/{job_id}", "status.url", "https://host/"),
    ("status.url", "https://api.acme.example/{job_id}", "status.url", "{zone} does not occur"),
    ("status.url", "https://api.acme.example/{zone}/{jobid}", "status.url", "did you mean 'job_id'"),
    ("status.url", "https://{zone}/{job_id}", "status.url", "https://host/"),
    ("status.url", "https://api.acme.example/{zone}/{job_id}#x", "status.url", "characters"),
    ("status.origins", [], "status.origins", "does not list https://api.acme.example"),
    ("status.origins", ["https://api.acme.example/"], "status.origins[0]", "without path"),
    ("status.origins", ["http://api.acme.example"], "status.origins[0]", "origin such as"),
    ("status.parameters", ["zone", "job_id"], "status.parameters[1]", "neither job_id"),
    ("status.method", "PUT", "status.method", "not valid"),
    ("status.redirects", "no", "status.redirects", "true or false"),
    ("status.headers", {"Authorization": "Bearer x"}, "status.headers.Authorization", "carries a secret"),
    ("status.headers", {"x": "a\r\nb"}, "status.headers.x", "plain ASCII"),
    ("state.path", ..., "state.path", "is missing"),
    ("state.path", "a b", "state.path", "is not a path"),
    ("state.from", "body", "state.from", "not valid"),
    ("state.absent", "nope", "state.absent", "not a word of [states]"),
    ("states.pending", ["queued", "done"], "states.success[0]", "already means pending"),
    ("states.pending", [None], "states.pending[0]", "must be a text"),
    ("states.sucess", ["x"], "states.sucess", "did you mean 'success'?"),
    ("states.success", ..., "states.success", "names no word"),
    ("states.pending", "queued", "states.pending", "must be a list"),
    ("rules", [{"word": "gone", "path": "x", "meaning": "failure"}], "rules[0].word", "not a word of [states]"),
    ("rules", [{"word": "done", "path": "x", "meaning": "failed"}], "rules[0].meaning", "did you mean 'failure'?"),
    ("rules", [{"word": "done", "meaning": "failure"}], "rules[0].path", "is missing"),
    ("rules", [{"word": "done", "path": "x", "meaning": "failure", "absent": True, "value": 1}], "rules[0].value", "exclude"),
    ("rules", ["x"], "rules[0]", "must be a table"),
    ("result.fields", [{"path": "x", "type": "uri"}], "result.fields[0].type", "did you mean 'url'?"),
    ("result.fields", [{"type": "url"}], "result.fields[0].path", "is missing"),
    ("http", [{"status": "404", "meaning": "success"}], "http[0].meaning", "not valid"),
    ("http", [{"status": "404", "meaning": "not_found_yet"}], "http[0].grace", "needs a window"),
    ("http", [{"status": "410", "meaning": "expired", "grace": "1s"}], "http[0].meaning", "mean nothing"),
    ("http", [{"status": "4x4", "meaning": "expired"}], "http[0].status", "must be a status"),
    ("http", [{"status": "400", "meaning": "throttled", "value": "x"}], "http[0].value", "needs the path"),
    ("delays.base", "5 bananas", "delays.base", "not a duration"),
    ("delays.base", 5, "delays.base", "must be a text"),
    ("delays.base", "1h", "delays.base", "at most max"),
    ("delays.min_gap", "500ms", "delays.min_gap", "less than one second"),
    ("delays.jitter", "none", "delays.jitter", "not valid"),
    ("delays.min_gap", "1d", "delays.min_gap", "not shorter than expiry.retention"),
    ("hints", [{"unit": "minutes", "path": "x"}], "hints[0].unit", "not valid"),
    ("hints", [{"unit": "seconds"}], "hints[0].header", "exactly one"),
    ("limits.requests", ..., "limits.requests", "all four"),
    ("limits.requests", 0, "limits.requests", "whole number from 1"),
    ("limits.requests", True, "limits.requests", "whole number"),
    ("limits.deadline", "0s", "limits.deadline", "more than 0"),
    ("limits.deadline", "2d", "limits.deadline", "later than the provider keeps it: 1d"),
    ("limits.requests", 5000, "limits.requests", "5000 requests at least 2s apart take 2h46m38s"),
    ("cancel.effects", ..., "cancel.effects", "is missing"),
    ("expiry.counted_from", "start", "expiry.counted_from", "not valid"),
    ("title", date(2026, 1, 1), "title", "is a date or a time"),
    ("version", float("nan"), "version", "not a number"),
]


@pytest.mark.parametrize(("path", "value", "where", "says"), FAULTS, ids=[f"{n}-{f[0]}" for n, f in enumerate(FAULTS)])
def test_W03_a_fault_is_named_with_its_place(path: str, value: object, where: str, says: str) -> None:
    """One thing wrong gives a fault at its dotted path that says what would be right."""
    found = faults_of(changed(path, value))
    assert where in found, found
    assert says in found[where]


def test_all_faults_are_listed_at_once() -> None:
    """Five faults in five sections come in one answer."""
    document = changed("version", "one")
    document["extra"] = 1
    document["delays"] = {"base": "soon"}
    document["states"] = {"pending": [[]], "success": ["done"], "failure": ["f"]}
    document["limits"] = {}
    assert {"version", "extra", "delays.base", "states.pending[0]", "limits.deadline", "limits.throttles"} <= set(
        faults_of(document)
    )


def test_caseless_words_are_compared_without_case() -> None:
    """Two spellings of one word clash in a caseless contract."""
    document = changed("state.caseless", True)
    document["states"] = {"pending": ["Running"], "success": ["running", "done"], "failure": ["broken"]}
    assert "already means pending" in faults_of(document)["states.success[0]"]


def test_http_states_are_statuses() -> None:
    """Where the HTTP status is the state, words are statuses, and 401, 403 and 429 never are (W17)."""
    document = changed("state", {"from": "http"})
    document["rules"] = []
    document["states"] = {"pending": ["202"], "success": ["200", "fine"], "failure": ["403"]}
    found = [fault.message for fault in parse_contract(document, dotted)]  # type: ignore[union-attr]
    assert len(found) == 2
    assert "'fine'" in found[0] and "'403'" in found[1]


def test_the_digest_follows_the_content_not_the_order() -> None:
    """The same document in another key order has the same digest; another word another one."""
    turned = dict(reversed(list(GOOD.items())))
    other = changed("states.pending", ["queued"])
    digests = [found.digest for doc in (GOOD, turned, other) if isinstance(found := parse_contract(doc, dotted), Contract)]
    assert digests[0] == digests[1] != digests[2]


def test_W41_limits_that_cannot_fit_are_refused_with_the_arithmetic() -> None:
    """What a caller asks is checked like the contract's own limits."""
    contract = parse_contract(GOOD, dotted)
    assert isinstance(contract, Contract)
    assert check_limits(contract, Limits(3600, 100, 1, 1)) == []
    assert "the deadline is 1m" in str(check_limits(contract, Limits(60, 100, 1, 1))[0])
    assert "1d from creation" in str(check_limits(contract, Limits(100_000, 10, 1, 1))[0])


def test_W41_a_contract_without_limits_has_none() -> None:
    """Limits are never made up."""
    contract = parse_contract(changed("limits", ...), dotted)
    assert isinstance(contract, Contract) and contract.limits is None


OPEN = {**{k: v for k, v in GOOD.items() if k not in ("states", "rules")}, "states_from_caller": True, "state": {"from": "path"}}


def test_states_come_from_the_caller() -> None:
    """A generic contract is valid as shipped, and complete once filled."""
    shipped = parse_contract(OPEN, dotted)
    assert isinstance(shipped, Contract) and shipped.takes_states
    filled = parse_contract(with_states(OPEN, {"success": ["done"], "pending": ["busy"]}, "data.status"), dotted)
    assert isinstance(filled, Contract) and not filled.takes_states
    assert filled.states == {"done": Meaning.SUCCESS, "busy": Meaning.PENDING}
    assert filled.state.path is not None and filled.state.path.expression == "data.status"
    assert filled.digest != shipped.digest
    assert OPEN["state"] == {"from": "path"}, "the shipped document was changed"


@pytest.mark.parametrize(
    ("states", "path", "where"),
    [
        ({"pending": ["busy"]}, "status", "states.success"),
        ({"success": ["done"]}, None, "state.path"),
        ({"success": ["done"], "sucess": ["x"]}, "status", "states.sucess"),
        ({"success": ["done"], "failure": ["done"]}, "status", "states.failure[0]"),
    ],
)
def test_states_from_the_caller_are_checked(states: dict[str, list[str]], path: str | None, where: str) -> None:
    """A filled contract is held to the same rules."""
    assert where in faults_of(with_states(OPEN, states, path))


def test_states_cannot_be_given_to_a_contract_that_has_them() -> None:
    """Nobody redefines a documented provider by the way."""
    with pytest.raises(ValueError, match="has its own states"):
        with_states(GOOD, {"success": ["done"]}, None)


def test_W12_a_contract_without_evidence_is_not_observational() -> None:
    """No evidence means None, which makes each request need a grant."""
    contract = parse_contract(changed("status.observational", ...), dotted)
    assert isinstance(contract, Contract) and contract.observational is None


_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["path", "30s", "404"])
)
_trees = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(GOOD)), _trees)
def test_no_document_makes_the_reader_raise(key: str, value: Json) -> None:
    """Whatever stands in a section, the answer is a contract or a list of faults."""
    found = parse_contract({**GOOD, key: value}, dotted)
    assert isinstance(found, Contract) or len(found) >= 1


def test_W03_a_fault_says_what_helps() -> None:
    """Where one key mends it, the hint names the key."""
    document = changed("states", {"pending": ["busy"], "success": ["done"]}) | {"rules": []}
    status = document["status"]
    assert isinstance(status, dict)
    document["status"] = {**status, "url": "https://api.acme.example/{zoo}/{job_id}"}
    document["submit"] = {"idempotency": {"place": "header", "name": "Idempotency-Key", "window": "24h"}}
    read = parse_contract(document, dotted)
    assert not isinstance(read, Contract)
    hints = {fault.where: fault.hint for fault in read}
    assert hints["status.url"] == "list it in status.parameters"
    assert hints["states.failure"] == "where no word means failure, write no_failure with the reason"
    assert "replay" in str(hints["submit.idempotency.duplicate"]) and "reject" in str(hints["submit.idempotency.duplicate"])
