"""The shipped contracts against the answers of `cases/*.toml`: every documented word, trap, and submit, read by the real reader."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path as File
from typing import cast

import pytest

from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.contract import with_states
from sereno.core.errors import SetupError
from sereno.core.values import Json
from sereno.service.contracting.cases import (
    Case,
    cancel_differences,
    cancelled,
    differences,
    look,
    read_cases,
    run_cases,
    submit_differences,
    submitted,
)

FOLDER = File(__file__).parent / "cases"
CATALOGUE = Catalogue()
NAMES = CATALOGUE.names()
LEAST = 55


def document(name: str) -> Mapping[str, Json]:
    """A contract's document; the one whose states a caller gives has them in its file of cases."""
    found = CATALOGUE.document(name)
    if not found.get("states_from_caller"):
        return found
    given = read_cases((FOLDER / f"{name}.toml").read_text(), name).caller
    states = cast(Mapping[str, Sequence[str]], {word: words for word, words in given.items() if word != "state"})
    return with_states(found, states, str(given["state"]))


CONTRACTS = {name: CATALOGUE.contract(document(name)) for name in NAMES}


def cases(name: str, kind: str = "case") -> Sequence[Case]:
    """The cases of a contract, as its file has them."""
    file = FOLDER / f"{name}.toml"
    if not file.exists():
        return []
    found = read_cases(file.read_text(), file.name)
    return {"case": found.looks, "submit": found.submits, "cancel": found.cancels}[kind]


CASES = [(name, case) for name in NAMES for case in cases(name)]
SUBMITS = [(name, case) for name in NAMES for case in cases(name, "submit")]
CANCELS = [(name, case) for name in NAMES for case in cases(name, "cancel")]


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}: {case['name']}" for name, case in CASES])
def test_W03_an_answer_means_what_its_case_says(name: str, case: Case) -> None:
    """Each recorded or scripted answer, through the contract."""
    assert list(differences(look(CONTRACTS[name], case), case["expect"])) == []


@pytest.mark.parametrize(("name", "case"), SUBMITS, ids=[f"{name}: {case['name']}" for name, case in SUBMITS])
def test_W31_an_answer_to_a_submit_means_what_its_case_says(name: str, case: Case) -> None:
    """Taken on under which id, refused, or there already."""
    assert list(submit_differences(submitted(CONTRACTS[name], case), case["expect"])) == []


@pytest.mark.parametrize(("name", "case"), CANCELS, ids=[f"{name}: {case['name']}" for name, case in CANCELS])
def test_W24_a_cancel_is_sent_and_read_as_its_case_says(name: str, case: Case) -> None:
    """The filled request whole, and what an answer to it means."""
    request, seen = cancelled(CONTRACTS[name], case)
    assert list(cancel_differences(request, seen, case)) == []


@pytest.mark.parametrize("name", [name for name in NAMES if CONTRACTS[name].cancel is not None])
def test_W24_the_request_of_every_cancel_has_a_case(name: str) -> None:
    """A request that nobody wrote down is one that nobody compared with the documentation."""
    assert any("request" in case for case in cases(name, "cancel"))


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
    file = FOLDER / f"{name}.toml"
    assert run_cases(CONTRACTS[name], read_cases(file.read_text(), file.name)).missing == []


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
