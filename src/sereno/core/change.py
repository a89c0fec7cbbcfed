"""Objects and changes: what a source showed now against what was remembered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sereno.core.quick import quick
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


@quick
@dataclass(frozen=True, slots=True)
class KnownObject:
    """What the store remembers of one object.

    `version` starts at 1 and rises by one with each change: an edit, a removal, a return. `kept` is the payload, the chosen
    fields or None by `Keep`; None once removed. `last_seen_at` is exact to a day while nothing changes (`SEEN_PRECISION`).
    `episodes` is the number of false→true episodes of the poll's state condition, `matching` its last observed truth
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


@quick
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


@quick
@dataclass(frozen=True, slots=True)
class Comparison:
    """All that `find_changes` learned: the changes in source order, then removals by id; and the objects to remember."""

    changes: Sequence[Change] = ()
    remember: Mapping[str, KnownObject] = field(default_factory=dict)
    """Only rows that differ from what is known, keyed by external id."""


SEEN_PRECISION = timedelta(days=1)
"""A row whose object did not change is rewritten only when its `last_seen_at` is older than this: quiet runs stay cheap."""


def find_changes(
    reading: Reading, known: Mapping[str, KnownObject], now: datetime, keep: Keep, fields: Sequence[str]
) -> Comparison:
    """Compares a reading with what is known. Pure; an object that comes back after removal is `new` with the next version.

    An object named twice in one reading counts once (the first). `unchanged` readings give an empty comparison. A page of a
    longer reading (`more`) never proves a removal.
    """
    if reading.unchanged:
        return Comparison()
    changes: list[Change] = []
    remember: dict[str, KnownObject] = {}
    seen: set[str] = set()
    for found in reading.objects:
        if found.external_id in seen:
            continue
        seen.add(found.external_id)
        old = known.get(found.external_id)
        if old is not None and old.present and old.content_hash == found.content_hash:
            if now - old.last_seen_at > SEEN_PRECISION:
                remember[old.external_id] = replace(old, last_seen_at=now)
            continue
        change = _change(found, old)
        changes.append(change)
        remember[found.external_id] = _remembered(change, found, old, now, kept=_kept(found.payload, keep, fields))
    if reading.complete and not reading.more:
        for old in sorted((old for old in known.values() if old.present and old.external_id not in seen), key=_by_id):
            changes.append(Change(ChangeKind.REMOVED, old.external_id, old.version + 1, before=old.kept, after=None))
            remember[old.external_id] = replace(old, version=old.version + 1, present=False, kept=None)
    return Comparison(tuple(changes), remember)


def _by_id(known: KnownObject) -> str:
    return known.external_id


def _change(found: SourceObject, old: KnownObject | None) -> Change:
    if old is None:
        return Change(ChangeKind.NEW, found.external_id, 1, before=None, after=found)
    if not old.present:
        return Change(ChangeKind.NEW, found.external_id, old.version + 1, before=None, after=found)
    return Change(ChangeKind.UPDATED, found.external_id, old.version + 1, before=old.kept, after=found)


def _remembered(change: Change, found: SourceObject, old: KnownObject | None, now: datetime, *, kept: Json) -> KnownObject:
    """The row of a new or updated object; the history of its state condition survives (re-armed only by an observed false)."""
    return KnownObject(
        external_id=found.external_id,
        content_hash=found.content_hash,
        version=change.version,
        first_seen_at=old.first_seen_at if old is not None else now,
        last_seen_at=now,
        kept=kept,
        matching=old.matching if old is not None else None,
        episodes=old.episodes if old is not None else 0,
    )


def _kept(payload: Json, keep: Keep, fields: Sequence[str]) -> Json:
    match keep:
        case Keep.DIGEST:
            return None
        case Keep.PAYLOAD:
            return payload
        case Keep.FIELDS:
            return _chosen(payload, fields) if isinstance(payload, dict) else None


def _chosen(payload: dict[str, object], fields: Sequence[str]) -> Json:
    """Keeps the named fields in the payload's own shape, so that `before.price.amount` reads like `object.price.amount`."""
    chosen: dict[str, object] = {}
    for name in fields:
        path = [name] if name in payload else name.split(".")
        value = _at(payload, path)
        if value is not _ABSENT:
            _place(chosen, path, value)
    return chosen


_ABSENT = object()


def _at(value: object, path: Sequence[str]) -> object:
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def _place(target: dict[str, object], path: Sequence[str], value: object) -> None:
    """Puts a value where the payload has it; a field whose parent is kept whole already is there."""
    for step in path[:-1]:
        inner = target.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        target = inner
    target[path[-1]] = value
