"""Objects and changes: what a source showed now against what was remembered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sereno.core.values import Json


class ChangeKind(StrEnum):
    NEW = "new"
    UPDATED = "updated"
    REMOVED = "removed"


class Keep(StrEnum):
    """How much of each object is stored between runs (`keep =` of a poll)."""

    DIGEST = "digest"
    FIELDS = "fields"
    PAYLOAD = "payload"


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One thing in a source: external id (≤ 512 characters), content hash, payload, and where a person can look at it."""

    external_id: str
    content_hash: str
    payload: Json
    title: str = ""
    url: str | None = None


@dataclass(frozen=True, slots=True)
class KnownObject:
    """What the store remembers of one object.

    `version` starts at 1 and rises by one with each change of hash; `kept` is the payload, the chosen fields or None by
    `Keep`. `episodes` is the number of false→true episodes of the poll's state condition, `matching` its last observed truth
    (None = never observed; P07).
    """

    external_id: str
    content_hash: str
    version: int
    first_seen_at: datetime
    last_seen_at: datetime
    kept: Json = None
    present: bool = True
    matching: bool | None = None
    episodes: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What one `Source.read` learned.

    `complete` = the objects are everything there is now, so that a known object that is missing was removed; False = only a
    window (a feed), where missing means nothing. `unchanged` = the source said nothing changed (304, same hash): objects are
    empty and mean nothing. `cursor` is opaque text in the source's own words. `more` = call again with the new cursor at once.
    `requests` counts what really left towards the source; `minimum_wait_until` is a Retry-After to obey.
    """

    objects: Sequence[SourceObject] = ()
    cursor: str | None = None
    complete: bool = True
    unchanged: bool = False
    more: bool = False
    requests: int = 0
    minimum_wait_until: datetime | None = None
    note: str | None = None


class ReadFailure(StrEnum):
    """Why a read failed; `auth` counts towards disabling the poll, `throttled` backs off steeply."""

    AUTH = "auth"
    THROTTLED = "throttled"
    UNREACHABLE = "unreachable"
    BAD_CONTENT = "bad_content"
    REFUSED = "refused"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class FailedReading:
    """A read that gave nothing: class, one line for a person (no secrets), and any Retry-After."""

    failure: ReadFailure
    message: str
    requests: int = 0
    minimum_wait_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A new, updated or removed object: `before` is what was kept (None for new), `after` the object now (None for removed)."""

    kind: ChangeKind
    external_id: str
    version: int
    before: Json
    after: SourceObject | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that `find_changes` learned: the changes in source order, then removals by id; and the objects to remember."""

    changes: Sequence[Change] = ()
    remember: Mapping[str, KnownObject] = field(default_factory=dict)
    """Only rows that differ from what is known, keyed by external id."""


def find_changes(reading: Reading, known: Mapping[str, KnownObject], now: datetime, keep: Keep, fields: Sequence[str]) -> Comparison:
    """Compares a reading with what is known. Pure; an object that comes back after removal is `new` with the next version.

    An object named twice in one reading counts once (the first). `unchanged` readings give an empty comparison.
    """
    raise NotImplementedError
