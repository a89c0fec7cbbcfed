"""Copying one result: where it is, whether what came is it, and how it is remembered. Addresses are used and forgotten (W25, W30)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import unquote, urlsplit

from sereno.core.artifact import Artifact
from sereno.core.contract import Contract, fill_call, origin_of, word_of
from sereno.core.delay import read_retry_after
from sereno.core.delivery import Outcome, OutcomeKind
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.reading.answer import clean, is_url, reference
from sereno.core.reading.calls import Keep, KeepFrom
from sereno.core.values import Json
from sereno.ports import Incoming

MOST_PARTS = 20
"""Addresses or calls of one result."""
NAME_CHARS = 200
GONE = "result_expired"
"""The code that a delivery's last outcome starts with where the provider has the result no longer."""


class Stop(Exception):
    """Ends the copying with an outcome."""

    def __init__(self, kind: OutcomeKind, message: str, not_before: datetime | None = None):
        super().__init__(message)
        self.outcome = Outcome(kind, clean(message, 500), not_before)


def refuse(message: str) -> Stop:
    """It will never work."""
    return Stop(OutcomeKind.REFUSED, message)


@dataclass(frozen=True, slots=True)
class Job:
    """Whose result it is, as the core put it into the options of the delivery."""

    operation: str
    contract_digest: str
    account: str
    job_id: str
    url: str
    parameters: Mapping[str, str]
    pins: Mapping[str, str]

    @classmethod
    def read(cls, options: Mapping[str, Json]) -> "Job":
        """Raises Stop for options that the core did not build."""
        if problems := [name for name in OPTIONS if not _fits(name, options.get(name))] + sorted(set(options) - set(OPTIONS)):
            raise refuse(f"the delivery was not made by a wait: {', '.join(problems)[:100]}")
        return cls(**options)  # type: ignore[arg-type]  # each was looked at


TEXTS = ("operation", "contract_digest", "account", "job_id", "url")
TABLES = ("parameters", "pins")
OPTIONS = (*TEXTS, *TABLES)


def _fits(name: str, value: Json) -> bool:
    if name in TEXTS:
        return isinstance(value, str)
    return isinstance(value, dict) and all(isinstance(inner, str) for inner in value.values())


@dataclass(frozen=True, slots=True)
class Part:
    """Where one part of a result is fetched; it does not print its address, which may be a key to it."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    credential: str | None = None


def places(contract: Contract, keep: Keep, job: Job, body: Json) -> list[Part]:
    """The addresses that the status answer names, or the calls that fetch what it names. Raises Stop."""
    found = keep.path.search(body) if keep.path is not None else None
    values = found if isinstance(found, list) else [found]
    if keep.path is not None and (not values or not all(isinstance(value, str | int | float) for value in values)):
        raise refuse(f"the status answer names no place of the result at {keep.path.expression}")
    if len(values) > MOST_PARTS:
        raise refuse(f"too_large: the result has {len(values)} parts; at most {MOST_PARTS} are copied")
    try:
        if keep.source is KeepFrom.URL:
            return [_address(contract, keep, job, value) for value in values]
        return [_call(contract, keep, job, value) for value in values]  # type: ignore[arg-type]  # a list of Json holds Json
    except ValueError as error:  # our own sentences, which repeat no value
        raise refuse(f"the place of the result cannot be used: {error}") from None


def _address(contract: Contract, keep: Keep, job: Job, value: object) -> Part:
    if not isinstance(value, str) or not is_url(value):
        raise ValueError("it is no http or https URL")
    return Part("GET", value, credential=_credential(contract, keep, job, value))


def _call(contract: Contract, keep: Keep, job: Job, value: Json) -> Part:
    assert keep.call is not None, "a contract that keeps from a call has one"
    values = {**job.parameters, "job_id": job.job_id}
    if keep.path is not None:
        values["value"] = word_of(value) or ""
    filled = fill_call(contract, keep.call, values, base=job.parameters.get("base"))
    return Part(filled.method, filled.url, filled.headers, filled.body, _credential(contract, keep, job, filled.url))


def _credential(contract: Contract, keep: Keep, job: Job, url: str) -> str | None:
    """The account's credential where the contract asks for it and the place is one of the provider's own; None elsewhere."""
    own = {*contract.origins, *([origin_of(job.url)] if job.url else [])}
    origin = origin_of(url)
    return job.account or None if keep.credential and origin in own else None


class Watched:
    """A sink that notes what came, so that a refusal can be told; the artifact itself is written by the store."""

    def __init__(self, incoming: Incoming):
        self._incoming = incoming
        self.media_type = ""
        self.file_name = ""
        self.taken = False

    def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        """True where the store takes it."""
        named = {name.lower(): value for name, value in reversed(headers)}
        self.media_type = clean(named.get("content-type", ""), NAME_CHARS)
        self.file_name = file_name(named.get("content-disposition", ""))
        self.taken = self._incoming.begin(status, headers)
        return self.taken

    async def write(self, chunk: bytes) -> None:
        """Hands on. Raises OSError."""
        await self._incoming.write(chunk)


_QUOTED = re.compile(r"""filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))""", re.IGNORECASE)
_EXTENDED = re.compile(r"filename\*\s*=\s*utf-8'[^']*'([^;\s]+)", re.IGNORECASE)


def file_name(disposition: str) -> str:
    """What a Content-Disposition header calls a file (RFC 6266): data for people, never a path."""
    disposition = disposition[:2_000]
    if extended := _EXTENDED.search(disposition):
        return clean(unquote(extended[1]), NAME_CHARS)
    quoted = _QUOTED.search(disposition)
    return clean(re.sub(r"\\(.)", r"\1", quoted[1] or quoted[2] or ""), NAME_CHARS) if quoted else ""


def last_piece(url: str) -> str:
    """The last piece of an address's path: what to call a file that has no other name."""
    return clean(unquote(urlsplit(url).path.rpartition("/")[2][:2_000]), NAME_CHARS)


_LATER = frozenset({408, 425, 429})
_NEVER = {
    NoReplyKind.REFUSED_ADDRESS: "the place of the result is refused",
    NoReplyKind.NO_CREDENTIAL: "the credential cannot be used for the place of the result",
    NoReplyKind.REDIRECT: "the place of the result moves on too often, or to where nothing is asked",
}


def judge(reply: Reply, sink: Watched, keep: Keep, now: datetime) -> Stop | None:
    """Why what came is not the result, or None where it is. Statuses count before anything else."""
    status = reply.status
    if status is not None and not 200 <= status < 300:
        return _by_status(status, reply, now)
    if isinstance(reply, NoReply):
        return _by_kind(reply, keep)
    if sink.taken:
        return None
    if status == 206:
        return refuse("only a part of the result came (206)")
    wanted = ", ".join(keep.types)
    return refuse(f"wrong_type: the result is {sink.media_type or 'of no named type'}; the contract takes {wanted}")


def _by_status(status: int, reply: Reply, now: datetime) -> Stop:
    if status in (403, 404, 410):
        return refuse(f"{GONE}: the place of the result answers {status}; the provider does not have it for us any more")
    if status in _LATER or status >= 500:
        return Stop(OutcomeKind.RETRY, f"the place of the result answers {status}", retry_after(reply, now))
    return refuse(f"the place of the result answers {status}")


def _by_kind(reply: NoReply, keep: Keep) -> Stop:
    if reply.kind is NoReplyKind.TOO_LARGE:
        return refuse(f"too_large: the result has more than {keep.max_bytes:,} bytes, which is what the contract allows")
    if reply.kind in _NEVER:
        return refuse(f"{_NEVER[reply.kind]}: {reply.message}")
    sent = "" if reply.sent else "; nothing was sent"
    return Stop(OutcomeKind.RETRY, f"the result did not come whole: {reply.message}{sent}")


def retry_after(reply: Reply, now: datetime) -> datetime | None:
    """The instant that a Retry-After header asks for."""
    value = reply.header("retry-after") if isinstance(reply, HttpReply) else None
    if value is None or not isinstance(reply, HttpReply):
        return None
    read = read_retry_after(value, received_at=now + reply.elapsed, date_header=reply.header("date"))
    return None if isinstance(read, str) else read


def receipt(parts: Sequence[tuple[Artifact, str]]) -> str:
    """What is remembered of the copy: a JSON list of {digest, size, content_type, name, from}; `from` has no query."""
    rows = [
        {
            "digest": artifact.digest,
            "size": artifact.size,
            "content_type": artifact.content_type,
            "name": artifact.name,
            "from": reference(url) if url else "",
        }
        for artifact, url in parts
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
