"""Fills the requests of a contract for one operation: the look, and the submit or cancel with its idempotency key in place."""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

from sereno.core.call import CallKind, ProviderCall
from sereno.core.contract import Contract
from sereno.core.operation import Operation
from sereno.core.reading.address import Filled, fill_body, fill_call
from sereno.core.reading.calls import Call, Idempotency, KeyPlace
from sereno.core.reading.keyforms import sent_key
from sereno.core.values import Json, canonical

FORM = "application/x-www-form-urlencoded"


def look_request(operation: Operation, contract: Contract) -> Filled:
    """The status request: address as stored (it may have been handed over), the rest by the contract. Raises ValueError."""
    return fill_call(contract, replace(contract.status, url=operation.url), look_values(operation))


def send_request(operation: Operation, contract: Contract, call: ProviderCall) -> Filled:
    """The submit or cancel. Raises ValueError saying what is missing or does not fit."""
    template, body = template_of(contract, call), send_body(operation, contract, call)
    key = _key_of(contract, call)
    extra = {key.name: sent_key(key, call.key)} if key is not None and key.place is KeyPlace.HEADER else {}
    values, base = send_values(operation, contract, call), operation.parameters.get("base")
    filled = fill_call(contract, replace(template, body=None), values, base=base, extra=extra)
    if body is None:
        return filled
    named = next((text for name, text in filled.headers.items() if name.lower() == "content-type"), None)
    headers = filled.headers if named is not None else {**filled.headers, "content-type": "application/json"}
    return replace(filled, headers=headers, body=_form(body) if (named or "").startswith(FORM) else canonical(body))


def send_body(operation: Operation, contract: Contract, call: ProviderCall) -> Json:
    """What a submit or cancel carries, with the key where the contract wants it in the body. Raises ValueError."""
    body = fill_body(template_of(contract, call), send_values(operation, contract, call), call.input)
    key = _key_of(contract, call)
    if key is None or key.place is not KeyPlace.BODY:
        return body
    return _placed(body, key.name.split("."), sent_key(key, call.key))


def template_of(contract: Contract, call: ProviderCall) -> Call:
    """The contract's request for this call. Raises ValueError where it has none."""
    described = contract.submit if call.kind is CallKind.SUBMIT else contract.cancel
    if described is None:
        raise ValueError(f"{contract.name} does not say how to {call.kind}")
    return described.call


def look_values(operation: Operation) -> Mapping[str, str]:
    """The names that the texts of a status request may use."""
    return {**_parameters(operation), "job_id": operation.job_id}


def send_values(operation: Operation, contract: Contract, call: ProviderCall) -> Mapping[str, str]:
    """The names that the texts of a submit or cancel may use; a submit has no job yet."""
    job = {} if call.kind is CallKind.SUBMIT else {"job_id": operation.job_id}
    return {**_parameters(operation), **job, "key": sent_key(_key_of(contract, call), call.key)}


def _parameters(operation: Operation) -> Mapping[str, str]:
    return {name: value for name, value in operation.parameters.items() if name != "base"}


def _key_of(contract: Contract, call: ProviderCall) -> Idempotency | None:
    return contract.submit.idempotency if call.kind is CallKind.SUBMIT and contract.submit is not None else None


def _placed(body: Json, place: list[str], key: str) -> Json:
    """The body with the key at its dotted place; objects on the way are made. Raises ValueError where something else stands there."""
    if body is not None and not isinstance(body, dict):
        raise ValueError(f"the key goes to {'.'.join(place)} in the body, and the body is no object there")
    inside = body or {}
    name, *deeper = place
    return {**inside, name: _placed(inside.get(name), deeper, key) if deeper else key}  # type: ignore[arg-type]  # what JSON holds


def _form(body: Json) -> bytes:
    """A form of the body's fields; inner names in brackets (`a[b][]`), as Stripe and others read them. Raises ValueError."""
    if not isinstance(body, dict):
        raise ValueError("a form is made of named fields, and the body is none")
    return urlencode([pair for name, value in body.items() for pair in _fields(name, value)]).encode()


def _fields(name: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in _fields(f"{name}[{key}]", inner)]
    if isinstance(value, list):
        return [pair for inner in value for pair in _fields(f"{name}[]", inner)]
    if value is None:
        return []
    return [(name, str(value).lower() if isinstance(value, bool) else str(value))]
