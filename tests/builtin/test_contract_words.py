"""The words of shipped contracts against lists that others wrote: the service models of botocore."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.session import get_session

from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.contract import Contract, Via, sent_key

CATALOGUE = Catalogue()
CONTRACTS = {name: CATALOGUE.contract(CATALOGUE.document(name)) for name in CATALOGUE.names()}
AWS = [name for name, contract in CONTRACTS.items() if contract.via is Via.AWS]
LEFT_OUT = {"aws-redshift-data": {"ALL"}}
"""Values of an enumeration that are no state: they stop as unknown."""
_PIECE = re.compile(r"\w+")
MODELS: dict[str, Any] = {}


def model_of(contract: Contract) -> Any:
    """The service model, read once."""
    service = contract.status.service
    assert service is not None
    if service not in MODELS:
        MODELS[service] = get_session().get_service_model(service)
    return MODELS[service]


def shape_at(contract: Contract, path: str) -> Any:
    """The shape that a plain path leads to in the answer. Raises KeyError for a field that the service does not send."""
    shape = model_of(contract).operation_model(contract.status.operation).output_shape
    for piece in path.split("."):
        name, *indexes = _PIECE.findall(piece)
        shape = shape.members[name]
        for _ in indexes:
            shape = shape.member
    return shape


def paths(contract: Contract) -> Iterator[str]:
    """Every field that the contract reads from an answer that is no error, less those of filters."""
    found = [
        contract.job_id,
        contract.state.path,
        contract.progress,
        contract.result_ref,
        contract.error_code,
        contract.error_text,
    ]
    found += [
        *contract.pins,
        *(field.path for field in contract.result),
        *(test.path for rule in contract.rules for test in rule.tests),
    ]
    found += [contract.keep.path] if contract.keep is not None else []
    for path in found:
        for part in path.expression.split(" || ") if path is not None else []:
            if not part.startswith("Error.") and "?" not in part:
                yield part


@pytest.mark.parametrize("name", AWS)
def test_W03_the_words_of_an_aws_contract_are_those_of_the_service(name: str) -> None:
    """Neither a word too few, which would stop a wait, nor one that the service does not have."""
    contract = CONTRACTS[name]
    assert contract.state.path is not None
    words = set(shape_at(contract, contract.state.path.expression).enum)
    assert words - LEFT_OUT.get(name, set()) == set(contract.states)


@pytest.mark.parametrize("name", AWS)
def test_the_fields_of_an_aws_contract_are_those_of_the_service(name: str) -> None:
    """Each path leads somewhere in the model's answer."""
    for path in paths(CONTRACTS[name]):
        shape_at(CONTRACTS[name], path)


@pytest.mark.parametrize("name", AWS)
def test_the_calls_of_an_aws_contract_are_those_of_the_service(name: str) -> None:
    """The inputs of look and cancel name members of the operation, all required ones among them; a key has its place in a submit."""
    contract = CONTRACTS[name]
    calls = [contract.status, *([contract.cancel.call] if contract.cancel is not None else [])]
    for call in calls:
        wanted = model_of(contract).operation_model(call.operation).input_shape
        assert isinstance(call.body, dict)
        assert set(wanted.required_members) <= set(call.body) <= set(wanted.members)
    if contract.submit is not None and contract.submit.idempotency is not None:
        wanted = model_of(contract).operation_model(contract.submit.call.operation).input_shape
        assert contract.submit.idempotency.name in wanted.members


KEY = "sub_" + "0123456789abcdefghjkmnpqrs"
"""The form of our keys."""
ODD = "Nightly/2026.11:a_" + "b" * 180
"""One that a person may give."""


@pytest.mark.parametrize("key", [KEY, ODD], ids=["own", "odd"])
@pytest.mark.parametrize("name", AWS)
def test_W21_a_key_has_the_form_that_the_service_takes(name: str, key: str) -> None:
    """Length and pattern, as the service model has them: a key that is refused is worse than none."""
    contract = CONTRACTS[name]
    if contract.submit is None or contract.submit.idempotency is None:
        return
    member = model_of(contract).operation_model(contract.submit.call.operation).input_shape.members
    limits = member[contract.submit.idempotency.name].metadata
    sent = sent_key(contract.submit.idempotency, key)
    assert limits.get("min", 0) <= len(sent) <= limits.get("max", 10_000)
    assert re.fullmatch(limits.get("pattern", ".*").strip("^$"), sent)
