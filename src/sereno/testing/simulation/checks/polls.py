"""Polls: what a feed showed and a poll says it has read is stored, told once under its key, and read no sooner than asked (P04–P07, P10)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sereno.core.effect import poll_dedupe_key
from sereno.core.values import to_micros
from sereno.testing.simulation.checks.evidence import Evidence, Facts
from sereno.testing.simulation.outside.sources import Feed, ReadingTaken, Version


def cursors(world: Evidence) -> Iterator[str]:
    """P04: the cursor never passes a change that is not stored: whatever a reading with that cursor showed is in the snapshot."""
    for poll, feed, stored in _polls(world):
        cursor = poll["cursor"]
        if cursor is None or poll["state"] == "removed":
            continue
        candidates = [reading for reading in feed.readings if reading.next_cursor == cursor and not reading.failed]
        if not candidates:
            yield f"P04 {poll['id']}: the cursor is {cursor}, and no reading gave it"
        elif not any(_holds(feed, reading.at, int(cursor), stored) for reading in candidates):
            missing = _missing(feed, candidates[-1].at, int(cursor), stored)
            yield f"P04 {poll['id']}: the cursor is {cursor}, and {missing} is not stored"


def _polls(world: Evidence) -> Iterator[tuple[Facts, Feed, Mapping[str, Facts]]]:
    stored: dict[str, dict[str, Facts]] = {}
    for row in world.rows.get("poll_object", ()):
        stored.setdefault(row["poll"], {})[row["external_id"]] = row
    for poll in world.rows.get("poll", ()):
        feed = world.feeds.get(poll["id"])
        if feed is not None:
            yield poll, feed, stored.get(poll["id"], {})


def _holds(feed: Feed, at: datetime, cursor: int, stored: Mapping[str, Facts]) -> bool:
    return _missing(feed, at, cursor, stored) is None


def _missing(feed: Feed, at: datetime, cursor: int, stored: Mapping[str, Facts]) -> str | None:
    """The first thing that a reading at that instant showed up to the cursor and that the snapshot does not hold."""
    for version in feed.shown(at):
        if version.seq > cursor:
            continue
        found = stored.get(version.object)
        gone = not version.content_hash
        if gone and (found is None or not found["present"] or _in_part(feed, version)):
            continue
        if gone or found is None or (found["content_hash"] != version.content_hash and not _later(feed, found, version.seq)):
            return f"change {version.seq} ({version.object})"
    return None


def _in_part(feed: Feed, gone: Version) -> bool:
    """A reading that said that there is more had gone past a removal: by the contract of sources it proves none."""
    return any(
        one.more and not one.failed and not one.unchanged and one.at >= gone.at and int(one.next_cursor or 0) >= gone.seq
        for one in feed.readings
    )


def _later(feed: Feed, found: Facts, seq: int) -> bool:
    """A reading after that one, with the same cursor still to be written, showed a later state."""
    return any(version.content_hash == found["content_hash"] and version.seq > seq for version in feed.versions)


def told(world: Evidence) -> Iterator[str]:
    """P01, P07, I17: each stored version has one delivery for each action, under the key of that version, and nothing else has one."""
    specs = {row["poll"]: json.loads(row["spec"]) for row in world.rows.get("poll_spec", ())}
    keys: dict[str, set[str]] = {}
    for delivery in world.deliveries:
        if delivery.effect.source_object_id is not None:
            keys.setdefault(delivery.effect.subject, set()).add(delivery.effect.dedupe_key)
    for poll, feed, stored in _polls(world):
        spec = specs.get(poll["id"], {})
        actions = [str(action["name"]) for action in spec.get("actions", ())]
        if poll["state"] == "removed" or int(poll["condition_version"]) != 1:
            continue
        first = 2 if spec.get("baseline", True) else 1
        may, must = _keys(poll, stored, actions, first=None if first == 2 and _paged(feed) else first)
        have = keys.get(poll["id"], set())
        for key in sorted(must - have):
            yield f"P01 {poll['id']}: the stored change {key} was never told"
        for key in sorted(have - may):
            yield f"P07 {poll['id']}: {key} was told, and no stored version has that key"


def _keys(poll: Facts, stored: Mapping[str, Facts], actions: Sequence[str], *, first: int | None) -> tuple[set[str], set[str]]:
    """The keys that may be told, and those that must: of versions from `first` on; None = of none."""
    may, must = set[str](), set[str]()
    for thing, row in stored.items():
        for number in range(1, int(row["version"]) + 1):
            for action in actions:
                key = poll_dedupe_key(
                    workspace=poll["workspace"],
                    user=poll["user"],
                    poll=poll["id"],
                    object_id=thing,
                    occurrence=f"v{number}",
                    action=action,
                    condition_version=int(poll["condition_version"]),
                )
                may.add(key)
                if first is not None and number >= first:
                    must.add(key)
    return may, must


def _paged(feed: Feed) -> bool:
    """The baseline may have come in pages: what changed between two of them is no news either."""
    asked = {reading.cursor: place for place, reading in enumerate(feed.readings)}
    for place, reading in enumerate(feed.readings):
        if reading.more:
            return True
        if _good(reading) and asked.get(reading.next_cursor, -1) > place:
            return False  # committed, since a later reading came with its cursor
    return False


def up_to_date(world: Evidence) -> Iterator[str]:
    """P01: once faults are over, every reading that a poll lived to see is committed: the cursor is that of the last one."""
    late = world.ended - 2 * world.times.lease
    stale = [subject for subject, poll in _by_id(world).items() if poll["state"] != "active" or poll["lease_until"] is not None]
    for poll, feed, _ in _polls(world):
        calm = [reading for reading in feed.readings if reading.at > world.calm + 2 * world.times.lease and _good(reading)]
        if not calm or poll["id"] in stale or calm[-1].at > late:
            continue
        if poll["cursor"] != calm[-1].next_cursor:
            yield f"P01 {poll['id']}: the cursor is {poll['cursor']}, and the last reading gave {calm[-1].next_cursor}"


def _by_id(world: Evidence) -> Mapping[str, Facts]:
    return {poll["id"]: poll for poll in world.rows.get("poll", ())}


def _good(reading: ReadingTaken) -> bool:
    return reading.answered is not None and not reading.failed and reading.fault != "after the deadline"


def waits(world: Evidence) -> Iterator[str]:
    """P10, I4: a feed that asked not to be read before an instant is not, where that answer was committed and no person asked for a run."""
    runs: dict[str, list[Facts]] = {}
    for run in world.rows.get("run", ()):
        if run["status"] == "failed":
            runs.setdefault(run["subject"], []).append(run)
    for poll, feed, _ in _polls(world):
        asked = [act.at for act in world.people.acts if act.accepted and act.subject == feed.name]
        for reading, following in zip(feed.readings, feed.readings[1:], strict=False):
            if reading.waits_until is None or reading.answered is None:
                continue
            gone, wait = world.planned(reading.at, following.at), reading.waits_until - reading.at
            if gone >= wait - world.rounding or any(reading.at < at <= following.at for at in asked):
                continue
            if any(_committed(run, reading) for run in runs.get(poll["id"], ())):
                yield f"I4 {poll['id']}: read {wait - gone} before the end of a wait (reading {following.number})"


def _committed(run: Facts, reading: ReadingTaken) -> bool:
    """The run of that reading was committed as failed."""
    ended = run["finished_at"]
    return bool(
        run["claimed_by"] == reading.process and ended is not None and run["started_at"] <= to_micros(reading.host_at) <= ended
    )
