"""The `webhook` action: a signed POST as the Standard Webhooks specification has it, with an idempotency key."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime

from sereno.builtin.conditional import headers_rule
from sereno.builtin.message import MAX_DOCUMENT, ResolveSecret, document, secret_of, stable_id
from sereno.builtin.options import (
    SecretCheck,
    check_options,
    credential_name,
    flag,
    host_pool,
    http_url,
    split_url,
    url_reference,
    userinfo_in_url,
)
from sereno.core.delay import read_retry_after
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.values import Json, digest
from sereno.ports import Fetch, Guarded, Place

SHORTEST_KEY = 24
"""Bytes; the specification asks for 24 to 64."""
_MAX_REPLY = 65_536
_LATER = frozenset({408, 425, 429})


class WebhookAction:
    """Posts the document of an effect.

    Each try carries the same `webhook-id`, `Idempotency-Key` and bytes, so that the receiver can tell a repeat; timestamp and signature
    are new. `secret` names a key `whsec_…`; without one `unsigned = true` must be said. `credential` adds an authorization header in the gate.
    Redirects are never followed.
    """

    type = "webhook"
    default_policy = Policy.KEYED

    def __init__(self, resolve_secret: ResolveSecret, secret_check: SecretCheck = userinfo_in_url) -> None:
        self._resolve = resolve_secret
        self._rules = {
            "url": http_url(secret_check),
            "secret": credential_name,
            "unsigned": flag,
            "credential": credential_name,
            "headers": headers_rule,
        }

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        faults = check_options("action", options, self._rules, ["url"])
        if "secret" not in options and options.get("unsigned") is not True:
            faults.append(Fault("action.secret", "is missing", "name the signing key, or say unsigned = true"))
        if "secret" in options and options.get("unsigned") is True:
            faults.append(Fault("action.unsigned", "contradicts secret"))
        return faults

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool and reference of checked options."""
        url = str(options.get("url", ""))
        return Place(host_pool(url), url_reference(url))

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Posts once."""
        options = delivery.effect.action.options
        url, body = str(options["url"]), document(delivery)
        if len(body) > MAX_DOCUMENT:
            return Outcome(OutcomeKind.REFUSED, f"the document is larger than {MAX_DOCUMENT:,} bytes; keep fewer fields")
        secret = secret_of(options, "secret", origin_of(url), self._resolve)
        if isinstance(secret, Outcome):
            return secret
        try:
            signed = signature_headers(secret, "msg_" + stable_id(delivery), guarded.now, body)
        except ValueError as error:
            return Outcome(OutcomeKind.RETRY, f"nothing was sent: {error}")
        reply = await guarded.transport.fetch(_request(delivery, url, body, signed, guarded))
        return read_outcome(reply, guarded.now, delivery.effect.action.policy)


def _request(delivery: Delivery, url: str, body: bytes, signed: Mapping[str, str], guarded: Guarded) -> Fetch:
    options = delivery.effect.action.options
    extra, credential = options.get("headers"), options.get("credential")
    headers = {name: str(value) for name, value in extra.items()} if isinstance(extra, dict) else {}
    return Fetch(
        url=url,
        method="POST",
        headers={
            **headers,
            "Content-Type": "application/json",
            "Idempotency-Key": digest(delivery.effect.dedupe_key.encode()),
            "Sereno-Fence": str(delivery.attempts),
            **signed,
        },
        body=body,
        credential=credential if isinstance(credential, str) else None,
        total_deadline=guarded.total_deadline,
        max_bytes=_MAX_REPLY,
        before_first_byte=guarded.before_first_byte,
    )


def origin_of(url: str) -> str:
    """`scheme://host[:port]` of a checked URL, as credentials are bound: lower case, without the scheme's own port."""
    parts = split_url(url)
    return f"{parts.scheme}://{host_pool(url).removeprefix('host:')}" if parts else ""


def signature_headers(secret: str | None, identity: str, now: datetime, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`. Raises ValueError for a key that is none."""
    stamp = str(int(now.timestamp()))
    headers = {"webhook-id": identity, "webhook-timestamp": stamp}
    if secret is None:
        return headers
    try:
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the signing key is not base64, with or without whsec_ before it") from None
    if len(key) < SHORTEST_KEY:
        raise ValueError(f"the signing key is shorter than {SHORTEST_KEY} bytes")
    mac = hmac.new(key, f"{identity}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {**headers, "webhook-signature": "v1," + base64.b64encode(mac).decode()}


def read_outcome(reply: Reply, now: datetime, policy: Policy) -> Outcome:
    """Reads what the receiver said; a lost answer after bytes left is unknown."""
    if isinstance(reply, HttpReply):
        return _status(reply.status, policy, _retry_after(reply, now))
    if reply.kind is NoReplyKind.REFUSED_ADDRESS:
        return Outcome(OutcomeKind.REFUSED, reply.message[:500])
    if not reply.sent:
        return Outcome(OutcomeKind.RETRY, f"nothing was sent: {reply.message}"[:500])
    return _lost(reply, policy)


def _lost(reply: NoReply, policy: Policy) -> Outcome:
    """An answer whose status came is judged by it: a body over the cap does not undo a 200."""
    if reply.status is not None:
        return _status(reply.status, policy, None)
    return Outcome(OutcomeKind.UNKNOWN, f"the answer was lost: {reply.message}"[:500])


def _status(status: int, policy: Policy, not_before: datetime | None) -> Outcome:
    said = f"the receiver answered {status}"
    if 200 <= status < 300:
        return Outcome(OutcomeKind.DONE, said, receipt=str(status))
    if status >= 500 and status != 503 and policy is Policy.AT_MOST_ONCE:
        return Outcome(OutcomeKind.UNKNOWN, f"{said}: it may have acted before it failed")
    if status in _LATER or status >= 500:
        return Outcome(OutcomeKind.RETRY, said, not_before)
    if 300 <= status < 400:
        return Outcome(OutcomeKind.REFUSED, f"{said}: redirects are not followed; give the new address")
    return Outcome(OutcomeKind.REFUSED, said)


def _retry_after(reply: HttpReply, now: datetime) -> datetime | None:
    value = reply.header("retry-after")
    if value is None:
        return None
    read = read_retry_after(value, received_at=now + reply.elapsed, date_header=reply.header("date"))
    return None if isinstance(read, str) else read
