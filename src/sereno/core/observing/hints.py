"""Hints: when the provider wants to be asked again, as it says in headers and body; and the name of its own record (W07, W13, W18)."""

from collections.abc import Sequence
from datetime import datetime

from sereno.core.contract import Contract, word_of
from sereno.core.delay import read_hint, read_retry_after
from sereno.core.observing.seen import DelaySource, HttpReply, ReadHint
from sereno.core.reading.answer import STATE_CHARS, clean
from sereno.core.values import Json, canonical

REQUEST_ID_HEADERS = (
    "x-request-id",
    "request-id",
    "x-github-request-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "x-ms-request-id",
    "apim-request-id",
    "x-goog-request-id",
    "x-correlation-id",
    "x-trace-id",
    "cf-ray",
)


def request_id(reply: HttpReply) -> str | None:
    """The provider's own name of this request, cleaned, or None."""
    found = next((found for name in REQUEST_ID_HEADERS if (found := reply.header(name))), None)
    return clean(found, STATE_CHARS) if found else None


def read_hints(contract: Contract, reply: HttpReply, body: Json, kind: str, received_at: datetime) -> Sequence[ReadHint]:
    """Retry-After on any status, then the contract's own hints that count in an answer of this kind."""
    found = _retry_after(reply, received_at)
    for hint in contract.hints:
        value = reply.header(hint.header) if hint.header else hint.path.search(body) if hint.path else None
        if value is None or (hint.only is not None and hint.only.value != kind):
            continue
        until = read_hint(value, hint.unit, received_at=received_at, cap=contract.hint_cap)
        found.append(_hint(DelaySource.PROVIDER_POLL_HINT, word_of(value) or canonical(value).decode(), until))
    return found


def _retry_after(reply: HttpReply, received_at: datetime) -> list[ReadHint]:
    """The longest wait of the Retry-After headers that can be read; where none can, the first with why. An answer through proxies may
    bring several: the shorter one would be too soon for whoever set the longer (W13)."""
    values = [value for name, value in reply.headers if name.lower() == "retry-after"]
    sent = reply.header("date")
    hints = [
        _hint(DelaySource.PROVIDER_RETRY_AFTER, value, read_retry_after(value, received_at=received_at, date_header=sent))
        for value in values
    ]
    return sorted(hints, key=lambda hint: (hint.until is not None, hint.until or received_at), reverse=True)[:1]


def _hint(source: DelaySource, raw: str, until: datetime | str) -> ReadHint:
    shown = clean(raw, STATE_CHARS)
    return ReadHint(source, shown, None, clean(until, STATE_CHARS)) if isinstance(until, str) else ReadHint(source, shown, until)
