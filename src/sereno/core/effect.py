"""Effects: what a decision wants done outside, as rows, under a dedupe key that is built here and nowhere else."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import quote

from sereno.core.values import Json, digest


class Policy(StrEnum):
    """What may happen when the outcome of an attempt is unknown (reliability-security §3)."""

    KEYED = "keyed"
    """The receiver honours the key: retried with the same key inside its retention."""
    AT_MOST_ONCE = "at_most_once"
    """Never repeated by itself: `ambiguous`, shown to a person."""
    AT_LEAST_ONCE = "at_least_once"
    """Repeated; each repeat carries the same id."""


@dataclass(frozen=True, slots=True)
class ActionRef:
    """One configured action: a stable name inside its poll, its type, its options (credential NAMES only), its policy."""

    name: str
    type: str
    options: dict[str, Json]
    policy: Policy
    origin: str = "config"
    """`config`, `cli`, `api`: where it was written; `command` actions run only from `config` and `cli`."""
    pool: str = "local"
    """The shared limit that its deliveries use (`Place.pool` of the action), filled in when the definition is stored."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A delivery to be: unique `dedupe_key`, what to do and with which content."""

    dedupe_key: str
    action: ActionRef
    pool: str
    title: str
    body: str
    payload: dict[str, Json]
    """Data for webhooks and commands; untrusted content inside is labelled by the key `untrusted`."""
    subject: str
    """The poll, operation or escalation it speaks of."""
    source_object_id: str | None = None
    condition_version: int | None = None
    not_before: datetime | None = None
    keep_trying: timedelta = timedelta(hours=21)
    """How long keyed retries may go on: less than the receiver keeps keys (Stripe 24 h, minus 10 %)."""


_LONGEST_OBJECT = 200


def poll_dedupe_key(  # noqa: PLR0913 - the parts of the key, by name
    *, workspace: str, user: str, poll: str, object_id: str, occurrence: str, action: str, condition_version: int
) -> str:
    """Builds `workspace:user:poll:object@occurrence:action:condition_version` (P07); parts are percent-escaped so that no
    two different tuples give the same key; an object id longer than 200 characters once escaped is replaced by its SHA-256
    (written `sha256=…`, which no escaped id can be)."""
    place = f"{_escaped(workspace)}:{_escaped(user)}:{_escaped(poll)}"
    what = f"{_object_part(object_id)}@{_escaped(occurrence)}"
    return f"{place}:{what}:{_escaped(action)}:{condition_version}"


def operation_dedupe_key(*, workspace: str, operation: str, transition: str, action: str) -> str:
    """Builds the key of an effect of an operation's transition, for example `…:op_x:escalated-1:notify`."""
    return ":".join(_escaped(part) for part in (workspace, operation, transition, action))


def _escaped(part: str) -> str:
    """Escapes all but letters, digits and `-._~/`. Lone surrogates are escaped too, never an error."""
    return quote(part, errors="surrogatepass")


def _object_part(object_id: str) -> str:
    escaped = _escaped(object_id)
    if len(escaped) <= _LONGEST_OBJECT:
        return escaped
    return "sha256=" + digest(object_id.encode("utf-8", "surrogatepass"))
