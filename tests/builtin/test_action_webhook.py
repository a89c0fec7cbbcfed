"""The `webhook` action: signature, keys, outcomes; once against a real server on loopback."""

import base64
import json
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web
from standardwebhooks import Webhook

from sereno.builtin.actions.webhook import WebhookAction, origin_of, signature_headers
from sereno.core.delivery import OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import NotAllowed
from sereno.core.observation import HttpReply, NoReply, NoReplyKind
from tests.builtin.feeds.scripted import NOW, Script, answer, delivery, guarded

KEY = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OPTIONS = {"url": "https://hooks.example.com/in", "secret": "HOOK"}


def resolve(name: str, origin: str) -> str:
    """Knows one key, for one origin."""
    if (name, origin) != ("HOOK", "https://hooks.example.com"):
        raise NotAllowed(f"credential {name} is not for {origin}")
    return KEY


ACTION = WebhookAction(resolve)


async def perform(*replies, options=OPTIONS, **more):
    """Posts once with scripted answers."""
    script = Script(list(replies))
    return await ACTION.perform(delivery(options, **more), guarded(script)), script


def test_the_signature_is_that_of_the_reference_library():
    """Same key, id, instant and bytes give the same signature."""
    headers = signature_headers(KEY, "msg_1", NOW, b'{"a":1}')
    expected = Webhook(KEY).sign(msg_id="msg_1", timestamp=NOW, data='{"a":1}')
    assert headers["webhook-signature"] == expected and headers["webhook-timestamp"] == str(int(NOW.timestamp()))


async def test_each_try_carries_the_same_id_key_and_bytes_and_a_higher_fence():
    """What the receiver needs to tell a repeat."""
    _, one = await perform(answer())
    _, two = await perform(answer(), attempts=2)
    first, second = one.asked[0], two.asked[0]
    assert first.body == second.body and first.method == "POST" and first.before_hop is None
    for name in ("webhook-id", "Idempotency-Key"):
        assert first.headers[name] == second.headers[name]
    assert (first.headers["Sereno-Fence"], second.headers["Sereno-Fence"]) == ("1", "2")
    assert "." not in first.headers["webhook-id"] and len(first.headers["Idempotency-Key"]) == 64
    _, other = await perform(answer(), key="main:local:poll_1:a@2:notify:1")
    assert other.asked[0].headers["webhook-id"] != first.headers["webhook-id"]


async def test_P13_watched_content_is_data_in_the_document():
    """The payload is passed on under its own label, as JSON."""
    _, script = await perform(answer(), title="x\u202e\n", payload={"untrusted": {"t": "\x1b[31m"}})
    document = json.loads(script.asked[0].body)
    assert document["type"] == "sereno.poll.matched" and document["timestamp"] == "2026-11-30T11:55:00Z"
    assert document["data"]["payload"] == {"untrusted": {"t": "\x1b[31m"}} and b"\x1b" not in script.asked[0].body


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, OutcomeKind.DONE),
        (202, OutcomeKind.DONE),
        (204, OutcomeKind.DONE),
        (408, OutcomeKind.RETRY),
        (425, OutcomeKind.RETRY),
        (429, OutcomeKind.RETRY),
        (500, OutcomeKind.RETRY),
        (503, OutcomeKind.RETRY),
        (400, OutcomeKind.REFUSED),
        (401, OutcomeKind.REFUSED),
        (404, OutcomeKind.REFUSED),
        (409, OutcomeKind.REFUSED),
        (410, OutcomeKind.REFUSED),
        (302, OutcomeKind.REFUSED),
    ],
)
async def test_each_status_has_its_outcome(status, kind):
    """Later, never or done; nothing else."""
    outcome, _ = await perform(answer("secret body", status))
    assert outcome.kind is kind and "secret" not in outcome.message


async def test_W13_retry_after_is_obeyed():
    """The next try is not before it (incident 16)."""
    outcome, _ = await perform(answer("", 429, retry_after="60"))
    assert outcome.not_before == NOW + timedelta(seconds=60.02)


async def test_a_failure_after_the_receiver_may_have_acted_is_unknown_under_at_most_once():
    """A gateway error does not prove that nothing happened."""
    for status, kind in ((500, OutcomeKind.UNKNOWN), (504, OutcomeKind.UNKNOWN), (503, OutcomeKind.RETRY)):
        outcome, _ = await perform(answer("", status), policy=Policy.AT_MOST_ONCE)
        assert outcome.kind is kind


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (NoReply(NoReplyKind.CONNECT, "refused", sent=False), OutcomeKind.RETRY),
        (NoReply(NoReplyKind.NO_CREDENTIAL, "no", sent=False), OutcomeKind.RETRY),
        (NoReply(NoReplyKind.REFUSED_ADDRESS, "private", sent=False), OutcomeKind.REFUSED),
        (NoReply(NoReplyKind.RESET, "reset", sent=True), OutcomeKind.UNKNOWN),
        (NoReply(NoReplyKind.TIMEOUT, "slow", sent=True), OutcomeKind.UNKNOWN),
        (NoReply(NoReplyKind.TOO_LARGE, "large", sent=True, status=200), OutcomeKind.DONE),
        (NoReply(NoReplyKind.REDIRECT, "moved", sent=True, status=307), OutcomeKind.REFUSED),
    ],
)
async def test_a_lost_answer_is_unknown_and_an_unsent_request_is_tried_again(reply, kind):
    """Only where it is certain that nothing left is it said."""
    outcome, _ = await perform(reply)
    assert outcome.kind is kind


@pytest.mark.parametrize("key", ["", "whsec_", "whsec_AAEC", "not base64!", "whsec_" + base64.b64encode(b"x" * 23).decode()])
async def test_a_key_that_is_none_sends_nothing_and_is_not_repeated_in_the_message(key):
    """Short and broken keys never sign."""
    script = Script([answer()])
    outcome = await WebhookAction(lambda name, origin: key).perform(delivery(OPTIONS), guarded(script))
    assert outcome.kind is OutcomeKind.RETRY and not script.asked and (not key or key not in outcome.message)


async def test_a_key_that_is_bound_elsewhere_sends_nothing():
    """The resolver is asked for the origin of the URL."""
    outcome, script = await perform(options={**OPTIONS, "url": "https://evil.example.com/in"})
    assert outcome.kind is OutcomeKind.RETRY and not script.asked


def test_the_origin_of_a_url_is_written_as_credentials_are_bound():
    """Case, the usual port and a user name make no other origin."""
    assert origin_of("HTTPS://Hooks.Example.com:443/in?x=1") == "https://hooks.example.com"
    assert origin_of("http://[::1]:8080/") == "http://[::1]:8080"


def test_check_wants_a_key_or_the_word_unsigned():
    """Nothing is unsigned by accident."""
    url = {"url": "https://e.com/"}
    assert "say unsigned = true" in str(ACTION.check(url, origin="cli")[0])
    assert ACTION.check({**url, "unsigned": True}, origin="cli") == ACTION.check({**url, "secret": "K"}, origin="cli") == []
    assert ACTION.check({**url, "secret": "K", "unsigned": True}, origin="cli")
    assert "NAME" in str(ACTION.check({**url, "secret": KEY}, origin="cli")[0])


class Direct:
    """A transport without a gate, for loopback."""

    async def fetch(self, request):
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, request.url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response,
        ):
            return HttpReply(response.status, list(response.headers.items()), await response.read(), request.url, timedelta(0))

    async def close(self):
        pass


async def test_a_real_receiver_verifies_the_signature_with_the_reference_library():
    """Bytes on the wire, not objects."""
    got = []

    async def receive(request):
        body = await request.read()
        got.append((body, dict(request.headers)))
        return web.Response(status=202)

    app = web.Application()
    app.router.add_post("/in", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = site._server.sockets[0].getsockname()[1]
        action = WebhookAction(lambda name, origin: KEY if origin == f"http://127.0.0.1:{port}" else "")
        outcome = await action.perform(delivery({"url": f"http://127.0.0.1:{port}/in", "secret": "HOOK"}), guarded(Direct()))
    finally:
        await runner.cleanup()
    ((body, headers),) = got
    lower = {name.lower(): value for name, value in headers.items()}
    assert outcome.kind is OutcomeKind.DONE and lower["content-type"] == "application/json"
    assert lower["webhook-signature"] == Webhook(KEY).sign(msg_id=lower["webhook-id"], timestamp=NOW, data=body.decode())
