"""The shipped contracts against the answers of `cases/*.toml`: every documented word, trap, and submit, read by the real reader."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path as File
from typing import cast

import pytest

from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.budget import Allowance, Spend
from sereno.core.call import CallAnswer, CallKind, CallState, ProviderCall
from sereno.core.contract import Contract, fill_call, status_url, with_states
from sereno.core.errors import SetupError
from sereno.core.observation import Asked, DelaySource, HttpReply, Observation, read_observation
from sereno.core.operation import Operation, OperationState
from sereno.core.values import Json, canonical, parse_duration
from sereno.core.waiting.answering import read_call

FOLDER = File(__file__).parent / "cases"
CATALOGUE = Catalogue()
NAMES = CATALOGUE.names()
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOST = "https://service.example"
"""Stands in for the host of a service that has no fixed address."""
LEAST = 55

Case = Mapping[str, Json]


def document(name: str) -> Mapping[str, Json]:
    """A contract's document; the one whose states a caller gives is filled with states."""
    found = CATALOGUE.document(name)
    if found.get("states_from_caller"):
        return with_states(found, {"pending": ["busy"], "success": ["done"], "failure": ["broken"]}, "job.state")
    return found


CONTRACTS = {name: CATALOGUE.contract(document(name)) for name in NAMES}


def cases(name: str, kind: str = "case") -> Sequence[Case]:
    """The cases of a contract, as its file has them."""
    file = FOLDER / f"{name}.toml"
    found = tomllib.loads(file.read_text()).get(kind, []) if file.exists() else []
    assert isinstance(found, list)
    return found


CASES = [(name, case) for name in NAMES for case in cases(name)]
SUBMITS = [(name, case) for name in NAMES for case in cases(name, "submit")]


def texts(table: Json) -> dict[str, str]:
    """A table of texts."""
    assert table is None or isinstance(table, dict)
    return {key: str(value) for key, value in (table or {}).items()}


def address(contract: Contract, case: Case) -> str:
    """What was asked: the case's own address, or the contract's."""
    if "url" in case:
        return str(case["url"])
    parameters = texts(case.get("parameters"))
    base = parameters.pop("base", HOST if contract.status.url.startswith("{base}") else None)
    return status_url(contract, job_id=str(case.get("job_id", "job-1")), parameters=parameters, base=base)


def reply_of(answer: Json, url: str) -> HttpReply:
    """The answer as it came."""
    assert isinstance(answer, dict)
    given = cast(Mapping[str, Json], answer)
    body = canonical(given["json"]) if "json" in given else str(given.get("body", "")).encode()
    headers = texts(given.get("headers"))
    if body and all(name.lower() != "content-type" for name in headers):
        headers["content-type"] = "application/json"
    status = given["status"]
    assert isinstance(status, int)
    return HttpReply(status, list(headers.items()), body, url, timedelta(seconds=1))


def look(contract: Contract, case: Case) -> Observation:
    """Reads the answer of a case."""
    url = address(contract, case)
    asked = Asked(
        job_id=str(case.get("job_id", "job-1")),
        started_at=NOW - parse_duration(str(case.get("after", "60s"))),
        url=url,
        parameters=texts(case.get("parameters")),
        not_found=int(str(case.get("not_found", 0))),
        tolerated=int(str(case.get("tolerated", 0))),
        pins=texts(case.get("pins")),
    )
    return read_observation(contract, asked, reply_of(case["answer"], url), received_at=NOW)


def wait(seen: Observation) -> str | None:
    """The longest wait that the answer asks for."""
    spans = [hint.until - NOW for hint in seen.hints if hint.until is not None]
    return f"{max(spans).total_seconds():g}s" if spans else None


def differences(seen: Observation, wanted: Json) -> Iterator[str]:
    """What a case expects and the reading does not show."""
    assert isinstance(wanted, dict)
    shown = {
        "kind": seen.kind.value,
        "state": seen.state,
        "result_ref": seen.result_ref,
        "error_code": seen.error_code,
        "error_text": seen.error_text,
        "next_url": seen.next_url,
        "tolerated": seen.tolerated,
        "expires_at": seen.expires_at.isoformat() if seen.expires_at else None,
        "requests": seen.requests,
    }
    for key, value in wanted.items():
        if key == "reason":
            if str(value) not in seen.reason:
                yield f"reason: {value!r} is no part of {seen.reason!r}"
        elif key == "wait":
            if parse_duration(str(value)) != parse_duration(wait(seen) or "0s"):
                yield f"wait: {wait(seen)} instead of {value}"
        elif shown[key] != value:
            yield f"{key}: {shown[key]!r} instead of {value!r} ({seen.reason})"


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}: {case['name']}" for name, case in CASES])
def test_W03_an_answer_means_what_its_case_says(name: str, case: Case) -> None:
    """Each recorded or scripted answer, through the contract."""
    assert list(differences(look(CONTRACTS[name], case), case["expect"])) == []


def submitted(contract: Contract, case: Case) -> CallAnswer:
    """Reads the answer to a submit."""
    assert contract.submit is not None
    template, key, parameters = contract.submit.call.url, str(case.get("key", "sub_01")), texts(case.get("parameters"))
    if template.startswith("{base}"):
        parameters.setdefault("base", HOST)
    values = {"key": key, **{name: value for name, value in parameters.items() if name != "base"}}
    url = fill_call(contract, contract.submit.call, values, base=parameters.get("base")).url if template else HOST
    call = ProviderCall("op_1:submit", CallKind.SUBMIT, "op_1:submit", key, case.get("input"), CallState.SENDING, NOW)
    operation = Operation(
        id="op_1",
        workspace="main",
        contract=contract.name,
        contract_digest=contract.digest,
        account="",
        job_id="",
        url="",
        parameters=parameters,
        fingerprint="f" * 64,
        state=OperationState.SUBMITTING,
        revision=1,
        allowance=Allowance(NOW + timedelta(hours=1), None, 10, 3, 3),
        spend=Spend(),
        pool="",
        created_at=NOW,
        next_poll_at=NOW,
        delay_source=DelaySource.CONTRACT_SCHEDULE,
        call=call,
    )
    return read_call(contract, operation, call, reply_of(case["answer"], url), received_at=NOW)


@pytest.mark.parametrize(("name", "case"), SUBMITS, ids=[f"{name}: {case['name']}" for name, case in SUBMITS])
def test_W31_an_answer_to_a_submit_means_what_its_case_says(name: str, case: Case) -> None:
    """Taken on under which id, refused, or there already."""
    seen, wanted = submitted(CONTRACTS[name], case), case["expect"]
    assert isinstance(wanted, dict)
    shown = {"outcome": seen.outcome.value, "job_id": seen.job_id, "url": seen.url}
    assert {key: shown[key] for key in wanted} == wanted, seen.reason


def test_there_are_as_many_contracts_as_promised_and_each_has_cases() -> None:
    """At least 55; no file without a contract either; names of cases are unique in their file."""
    assert len(NAMES) >= LEAST
    assert sorted(file.stem for file in FOLDER.glob("*.toml")) == list(NAMES)
    for name in NAMES:
        named = [case["name"] for case in cases(name)]
        assert len(named) == len(set(named)) > 0, name


@pytest.mark.parametrize("name", NAMES)
def test_W03_every_documented_word_has_a_case(name: str) -> None:
    """A word of a table that no case shows is a claim that nothing tests."""
    shown = {look(CONTRACTS[name], case).state for case in cases(name)}
    assert set(CONTRACTS[name].states) - {str(word).lower() if CONTRACTS[name].caseless else word for word in shown} == set()


@pytest.mark.parametrize("name", [name for name in NAMES if CONTRACTS[name].submit is not None])
def test_W31_every_submit_has_a_case(name: str) -> None:
    """At least the answer that takes it on, and the one that says there is one already where the contract knows it."""
    outcomes = {submitted(CONTRACTS[name], case).outcome.value for case in cases(name, "submit")}
    assert "accepted" in outcomes
    submit = CONTRACTS[name].submit
    assert submit is not None and (not submit.duplicate or "duplicate" in outcomes)


def without(found: Mapping[str, Json]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The document without one of its rules, signatures, result fields or aliases at a time."""
    for section in ("rules", "http"):
        lines = found.get(section, [])
        assert isinstance(lines, list)
        for index in range(len(lines)):
            yield f"{section}[{index}]", {**found, section: lines[:index] + lines[index + 1 :]}
    result = found.get("result")
    fields = result.get("fields", []) if isinstance(result, dict) else []
    assert isinstance(fields, list)
    for index in range(len(fields)):
        changed = deepcopy(dict(found))
        changed["result"] = {**result, "fields": fields[:index] + fields[index + 1 :]}  # type: ignore[dict-item]
        yield f"result.fields[{index}]", changed


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_of_a_contract_is_shown_by_a_case(name: str) -> None:
    """Without any one rule, signature or result field, a case reads differently (or the contract is none): no line is untested."""
    for place, changed in without(document(name)):
        try:
            contract = CATALOGUE.contract(changed)
        except SetupError:
            continue
        assert any(list(differences(look(contract, case), case["expect"])) for case in cases(name)), f"{name}: {place}"


@pytest.mark.parametrize("name", NAMES)
def test_W12_every_contract_says_where_its_facts_come_from(name: str) -> None:
    """Source, what was and was not verified, and evidence that a look changes nothing, where there are looks."""
    found = CONTRACTS[name]
    assert found.source and found.verified.startswith(("verified", "unverified"))
    assert found.via == "push" or found.observational
    assert not found.redirects


@pytest.mark.parametrize("name", [name for name in NAMES if CONTRACTS[name].limits is not None])
def test_W41_the_limits_of_a_contract_fit_its_delays(name: str) -> None:
    """The requests last until the deadline at the contract's own pace, and a result is looked for before it is gone."""
    found = CONTRACTS[name]
    assert found.limits is not None
    if found.via == "push":
        return
    reach = found.longest_gap.total_seconds() * 0.75 * found.limits.max_status_requests
    assert reach >= found.limits.deadline_s, f"{reach:.0f} s of looks for {found.limits.deadline_s:.0f} s"
