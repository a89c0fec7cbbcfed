"""The HTTP carrier: the one request of a status step, submits and cancels, and nothing the contract did not ask for."""

import json
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qsl

import pytest

from sereno.builtin.providers.http import HttpProvider, build_fetch
from sereno.core.call import CallKind
from sereno.core.contract import Contract
from sereno.core.observation import NoReply, NoReplyKind, ObservationKind, read_observation
from sereno.core.values import Json
from sereno.ports import Fetch
from tests.builtin.carrying import ANSWER, NOW, Hops, Recording, asked, call, check, contract, guarded, operation

ORIGIN = "https://api.acme.example"
STATUS: dict[str, Json] = {"url": f"{ORIGIN}/jobs/{{job_id}}", "origins": [ORIGIN], "headers": {"accept": "application/json"}}
PLAIN = contract(STATUS)


def acme(submit: dict[str, Json] | None = None, cancel: dict[str, Json] | None = None, **status: Json) -> Contract:
    """The contract with a submit, a cancel, and other terms of the status call."""
    sections: dict[str, Json] = {}
    if submit is not None:
        sections["submit"] = {"url": f"{ORIGIN}/jobs", "effects": "starts a job", "job_id": "id", **submit}
    if cancel is not None:
        sections["cancel"] = {"url": f"{ORIGIN}/jobs/{{job_id}}/cancel", "effects": "ends it", **cancel}
    return contract({**STATUS, **status}, **sections)


async def sent(made: Contract, kind: CallKind = CallKind.SUBMIT, given: Json = None, **parameters: str) -> Fetch:
    """The one request that a submit or cancel makes."""
    transport = Recording()
    reply = await HttpProvider().send(operation(account="key", **parameters), made, call(kind, given), guarded(transport))
    assert reply is ANSWER
    (request,) = transport.asked
    return request


async def test_the_request_is_what_the_contract_says() -> None:
    """Address as stored, headers of the contract, the credential by name, the guards handed on."""
    transport = Recording()
    assert await HttpProvider().look(operation(account="acme_key"), PLAIN, guarded(transport)) is ANSWER
    (request,) = transport.asked
    assert (request.url, request.method, request.body) == (f"{ORIGIN}/jobs/j1", "GET", None)
    assert request.headers == {"accept": "application/json"}
    assert request.credential == "acme_key"
    assert request.total_deadline == timedelta(seconds=7)
    assert request.before_first_byte is check
    assert list(request.allowed_origins) == [ORIGIN]


async def test_a_status_call_may_be_a_post_with_a_body() -> None:
    """GraphQL: the texts of the body are filled, and the address stays as it is stored."""
    made = acme(
        url=f"{ORIGIN}/graphql",
        method="POST",
        headers={"x-job": "{job_id}"},
        body={"query": "query { id }", "variables": {"id": "{job_id}"}},
    )
    transport = Recording()
    await HttpProvider().look(operation(f"{ORIGIN}/graphql?v=2", job_id='a"b'), made, guarded(transport))
    (request,) = transport.asked
    assert (request.method, request.url) == ("POST", f"{ORIGIN}/graphql?v=2")
    assert json.loads(request.body or b"") == {"query": "query { id }", "variables": {"id": 'a"b'}}
    assert request.headers == {"x-job": 'a"b', "content-type": "application/json"}


def test_redirects_stay_off_unless_the_contract_follows_them() -> None:
    """A hop callback that the caller offers is not enough."""
    hops = Hops()
    means = guarded(Recording(), hops)
    assert build_fetch(operation(), PLAIN, means).before_hop is None
    following = replace(PLAIN, redirects=True, origins=[ORIGIN, "https://b.example"])
    fetch = build_fetch(operation("https://other.example/x"), following, means)
    assert fetch.before_hop is hops
    assert list(fetch.allowed_origins) == ["https://other.example", ORIGIN, "https://b.example"]


def test_without_an_account_no_credential_goes() -> None:
    """An empty account means none."""
    assert build_fetch(operation(account=""), PLAIN, guarded(Recording())).credential is None


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://u:p@api.acme.example/x", "", "https://a b/"])
async def test_a_stored_address_that_is_no_url_sends_nothing(url: str) -> None:
    """It is a set-up problem: it stops, and the reservation is given back (W33)."""
    transport = Recording()
    reply = await HttpProvider().look(operation(url), PLAIN, guarded(transport))
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.REFUSED_ADDRESS, False)
    assert transport.asked == []
    seen = read_observation(PLAIN, asked(operation(url)), reply, received_at=NOW)
    assert (seen.kind, seen.requests) == (ObservationKind.INTEGRATION_FAILURE, 0)


async def test_what_the_transport_learned_comes_back_as_it_is() -> None:
    """A missing reply is a value, handed on."""
    lost = NoReply(NoReplyKind.TIMEOUT, "slow", sent=True, hops=1)
    assert await HttpProvider().look(operation(), PLAIN, guarded(Recording(lost))) is lost


async def test_W31_a_submit_carries_the_input_as_its_body() -> None:
    """Without a body in the contract the input goes as it is; parameters fill the address; no redirect is ever followed."""
    made = acme(
        {"url": f"{ORIGIN}/{{project}}/jobs"}, parameters=["project"], url=f"{ORIGIN}/{{project}}/jobs/{{job_id}}", redirects=True
    )
    request = await sent(made, given={"prompt": "a {key} b", "n": [1, None]}, project="p/1")
    assert (request.method, request.url) == ("POST", f"{ORIGIN}/p%2F1/jobs")
    assert json.loads(request.body or b"") == {"prompt": "a {key} b", "n": [1, None]}
    assert (request.credential, request.before_hop, list(request.allowed_origins)) == ("key", None, [ORIGIN])


async def test_W31_the_base_moves_submits_and_cancels_too() -> None:
    """A self-hosted provider, or a test server, is asked for everything."""
    made = acme({}, {})
    assert (await sent(made, base="http://127.0.0.1:9/v1")).url == "http://127.0.0.1:9/v1/jobs"
    request = await sent(made, CallKind.CANCEL, base="http://127.0.0.1:9/v1")
    assert (request.url, list(request.allowed_origins)) == ("http://127.0.0.1:9/v1/jobs/j1/cancel", ["http://127.0.0.1:9"])


def _idempotency(place: str, name: str) -> dict[str, Json]:
    return {"place": place, "name": name, "duplicate": "replay", "window": "24h"}


async def test_W21_the_key_goes_into_the_header_that_the_contract_names() -> None:
    """It replaces a header of that name whatever its case."""
    request = await sent(acme({"idempotency": _idempotency("header", "Idempotency-Key")}), given={})
    assert {name.lower(): value for name, value in request.headers.items()}["idempotency-key"] == "key-1"


@pytest.mark.parametrize("given", [{"n": 1, "options": {"keep": True}}, {"n": 1}, {}, None])
async def test_W21_the_key_goes_to_its_dotted_place_in_the_body(given: Json) -> None:
    """Objects on the way are made; what stands there already is kept."""
    request = await sent(acme({"idempotency": _idempotency("body", "options.token")}), given=given)
    body = json.loads(request.body or b"")
    assert body["options"]["token"] == "key-1"
    assert all(body[name] == value for name, value in (given or {}).items() if name != "options")  # type: ignore[union-attr]
    assert body["options"].get("keep") is (True if given and "options" in given else None)


async def test_W21_a_body_that_cannot_hold_the_key_is_not_sent() -> None:
    """A list has no named place: nothing leaves, and the answer says why."""
    transport, made = Recording(), acme({"idempotency": _idempotency("body", "token")})
    reply = await HttpProvider().send(operation(), made, call(given=[1]), guarded(transport))
    assert isinstance(reply, NoReply) and not reply.sent and "no object" in reply.message
    assert transport.asked == []


async def test_W21_the_key_is_the_job_id_where_the_caller_chooses_it() -> None:
    """`{key}` in address and body."""
    made = contract(
        STATUS,
        submit={
            "method": "PUT",
            "url": f"{ORIGIN}/jobs/{{key}}",
            "effects": "starts a job",
            "body": {"name": "{key}", "spec": "{input}"},
            "idempotency": _idempotency("job_id", "{key}"),
        },
    )
    request = await sent(made, given={"x": 1})
    assert (request.method, request.url) == ("PUT", f"{ORIGIN}/jobs/key-1")
    assert json.loads(request.body or b"") == {"name": "key-1", "spec": {"x": 1}}


async def test_a_form_is_written_where_the_contract_says_so() -> None:
    """Inner names stand in brackets, as Stripe reads them; null is left out."""
    made = acme({"headers": {"content-type": "application/x-www-form-urlencoded"}})
    request = await sent(made, given={"report": "a&b", "parameters": {"from": 1, "live": True}, "tags": ["x", "y"], "none": None})
    assert parse_qsl((request.body or b"").decode()) == [
        ("report", "a&b"),
        ("parameters[from]", "1"),
        ("parameters[live]", "true"),
        ("tags[]", "x"),
        ("tags[]", "y"),
    ]
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"


async def test_W24_a_cancel_names_its_job_and_carries_no_key() -> None:
    """The key is a submit's; what the contract writes is all that goes."""
    made = acme(
        {"idempotency": _idempotency("header", "Idempotency-Key")}, {"method": "DELETE", "url": f"{ORIGIN}/jobs/{{job_id}}"}
    )
    request = await sent(made, CallKind.CANCEL)
    assert (request.method, request.url, request.body) == ("DELETE", f"{ORIGIN}/jobs/j1", None)
    assert "key-1" not in str(request.headers)


@pytest.mark.parametrize("kind", list(CallKind))
async def test_W40_what_the_contract_does_not_describe_is_not_sent(kind: CallKind) -> None:
    """No guessed address: nothing leaves."""
    transport = Recording()
    reply = await HttpProvider().send(operation(), PLAIN, call(kind), guarded(transport))
    assert isinstance(reply, NoReply) and (reply.sent, transport.asked) == (False, [])
    assert f"does not say how to {kind}" in reply.message
