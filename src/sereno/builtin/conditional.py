"""Conditional GET: one request with ETag and Last-Modified, and what its answer means for a poll. Shared by `http` and `feed`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from sereno.builtin.options import Rule, SecretCheck, credential_name, flag, http_url, number
from sereno.core.change import FailedReading, ReadFailure, Reading, SourceObject
from sereno.core.delay import read_retry_after
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.quick import quick
from sereno.core.values import Json, canonical, digest
from sereno.ports import Fetch, Guarded

MAX_BYTES = 10_000_000
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_FIELD = re.compile(r"[\x20-\x7e]{1,1024}")
_SECRET_HEADER = re.compile(r"auth|cookie|token|secret|api-?key|password|session|signature|credential", re.IGNORECASE)
_OURS = frozenset(
    "host content-length transfer-encoding connection accept-encoding if-none-match if-modified-since range te upgrade trailer expect"
    " proxy-connection keep-alive user-agent".split()
)


def headers_rule(value: Json) -> str | None:
    """A table of plain request headers; what carries a secret is refused with the way to do it right."""
    if not isinstance(value, dict) or len(value) > 32:
        return "must be a table of at most 32 header names with texts"
    for name, text in value.items():
        if not _TOKEN.fullmatch(name):
            return f"{name[:64]!r} is not a header name"
        if name.lower() in _OURS:
            return f"{name} is set by Sereno itself"
        if _SECRET_HEADER.search(name):
            return f'{name} would hold a secret; write credential = "NAME" and a [credentials.NAME] section instead'
        if not isinstance(text, str) or not _FIELD.fullmatch(text):
            return f"{name} must be a text of 1 to 1,024 printable ASCII characters"
    return None


def request_rules(secret_check: SecretCheck) -> Mapping[str, Rule]:
    """The options of a source that is read with one GET."""
    return {
        "url": http_url(secret_check),
        "credential": credential_name,
        "headers": headers_rule,
        "redirects": flag,
        "max_bytes": number(1_000, MAX_BYTES),
    }


@quick
@dataclass(frozen=True, slots=True)
class Seen:
    """The cursor: validators of the last answer, the hash of its content, and `shared`, what a source adds of its own (≤ 100 texts).

    It counts only for the options it was made with; under other options the source is read whole.
    """

    options: str
    etag: str | None = None
    modified: str | None = None
    content: str | None = None
    shared: Sequence[str] = ()
    text: str | None = None
    """What it was read from."""

    def encode(self) -> str:
        """The cursor as small JSON text."""
        known: dict[str, Json] = {
            "options": self.options,
            "etag": self.etag,
            "modified": self.modified,
            "content": self.content,
            "shared": [*self.shared],
        }
        return canonical({name: value for name, value in known.items() if value}).decode()


def seen_before(cursor: str | None, options: Mapping[str, Json]) -> Seen:
    """Reads a cursor that `encode` wrote; an absent, broken or foreign one counts as nothing seen."""
    mark = digest(orjson.dumps(dict(options), option=orjson.OPT_SORT_KEYS))[:16]
    try:
        known = orjson.loads(cursor) if cursor else None
    except orjson.JSONDecodeError:
        known = None
    if not isinstance(known, dict) or known.get("options") != mark:
        return Seen(mark)
    return Seen(mark, known.get("etag"), known.get("modified"), known.get("content"), known.get("shared", ()), cursor)


async def get(options: Mapping[str, Json], seen: Seen, guarded: Guarded, most: int = MAX_BYTES) -> Reply:
    """Sends the one GET, with the validators of the last answer; `most` caps the decoded bytes where the options name no cap."""
    extra = options.get("headers")
    headers = {name: str(value) for name, value in extra.items()} if isinstance(extra, dict) else {}
    if seen.content:
        headers |= {"If-None-Match": seen.etag} if seen.etag else {}
        headers |= {"If-Modified-Since": seen.modified} if seen.modified else {}
    credential, cap = options.get("credential"), options.get("max_bytes")
    return await guarded.transport.fetch(
        Fetch(
            url=str(options["url"]),
            headers=headers,
            credential=credential if isinstance(credential, str) else None,
            total_deadline=guarded.total_deadline,
            max_bytes=cap if isinstance(cap, int) else most,
            before_hop=guarded.before_hop if options.get("redirects") is True else None,
            before_first_byte=guarded.before_first_byte,
        )
    )


def settle_early(reply: Reply, seen: Seen, now: datetime) -> Reading | FailedReading | HttpReply:
    """Settles every answer that brings no content: no reply, an error status, 304. Returns a 200 as it is."""
    if isinstance(reply, NoReply):
        return _no_reply(reply)
    wait, note = _wait(reply, now)
    if reply.status == 304:
        if not seen.content or not (seen.etag or seen.modified):
            return FailedReading(
                ReadFailure.BAD_CONTENT, "the server said 304 Not Modified to a request without validators", reply.hops, wait
            )
        return Reading(cursor=seen.text, unchanged=True, requests=reply.hops, minimum_wait_until=wait, note=note)
    if reply.status in (200, 203):
        return reply
    failure, message = _status(reply.status, wait is not None)
    return FailedReading(
        failure, f"the server answered {reply.status}: {message}" + (f"; {note}" if note else ""), reply.hops, wait
    )


def settle(
    objects: Sequence[SourceObject], reply: HttpReply, seen: Seen, now: datetime, *, complete: bool, note: str | None = None
) -> Reading:
    """Makes the reading of a 200: `unchanged` where the content is what it was, else the objects, with the next cursor.

    Validators of an answer behind a redirect are not kept: they belong to another address.
    """
    wait, rejected = _wait(reply, now)
    content = digest(canonical([[found.external_id, found.content_hash] for found in objects]))
    direct = reply.hops == 1
    after = replace(
        seen,
        etag=_validator(reply.header("etag")) if direct else None,
        modified=_validator(reply.header("last-modified")) if direct else None,
        content=content,
    )
    same = content == seen.content
    notes = "; ".join(filter(None, (note, rejected))) or None
    return Reading(
        objects=() if same else objects,
        cursor=after.encode(),
        complete=complete,
        unchanged=same,
        requests=reply.hops,
        minimum_wait_until=wait,
        note=notes,
    )


def bad_content(message: str, reply: HttpReply, now: datetime) -> FailedReading:
    """A 200 whose content cannot be read as the options say."""
    return FailedReading(ReadFailure.BAD_CONTENT, message, reply.hops, _wait(reply, now)[0])


def _validator(value: str | None) -> str | None:
    return value if value and _FIELD.fullmatch(value) else None


def _wait(reply: HttpReply, now: datetime) -> tuple[datetime | None, str | None]:
    """Retry-After on any status (W13): the instant, or why it was not obeyed."""
    value = reply.header("retry-after")
    if value is None:
        return None, None
    read = read_retry_after(value, received_at=now + reply.elapsed, date_header=reply.header("date"))
    return (None, f"Retry-After ignored: {read}"[:200]) if isinstance(read, str) else (read, None)


_STATUS = {
    401: (ReadFailure.AUTH, "the credential is missing or not accepted"),
    403: (ReadFailure.AUTH, "access is denied"),
    404: (ReadFailure.MISSING, "it is not there"),
    407: (ReadFailure.REFUSED, "a proxy asks for a credential"),
    408: (ReadFailure.UNREACHABLE, "it waited too long for the request"),
    410: (ReadFailure.MISSING, "it is gone for good"),
    425: (ReadFailure.UNREACHABLE, "it is too early"),
    429: (ReadFailure.THROTTLED, "too many requests"),
}


def _status(status: int, says_when: bool) -> tuple[ReadFailure, str]:
    if status in _STATUS:
        return _STATUS[status]
    if status == 503 and says_when:
        return ReadFailure.THROTTLED, "it is busy and says when to come back"
    if status >= 500:
        return ReadFailure.UNREACHABLE, "it failed"
    if 300 <= status < 400:
        return ReadFailure.REFUSED, "it points elsewhere; give the new address, or set redirects = true"
    if status >= 400:
        return ReadFailure.REFUSED, "it refused the request"
    return ReadFailure.BAD_CONTENT, "no content came"


_NO_REPLY = {
    NoReplyKind.REFUSED_ADDRESS: ReadFailure.REFUSED,
    NoReplyKind.NO_CREDENTIAL: ReadFailure.REFUSED,
    NoReplyKind.REDIRECT: ReadFailure.REFUSED,
    NoReplyKind.TOO_LARGE: ReadFailure.BAD_CONTENT,
    NoReplyKind.BAD_ENCODING: ReadFailure.BAD_CONTENT,
    NoReplyKind.PROTOCOL: ReadFailure.BAD_CONTENT,
}


def _no_reply(reply: NoReply) -> FailedReading:
    failure = _NO_REPLY.get(reply.kind, ReadFailure.UNREACHABLE)
    return FailedReading(failure, reply.message[:500], max(reply.hops, 1 if reply.sent else 0))
