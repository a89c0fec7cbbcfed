"""The database's instant on SQLite: the host's wall clock, held against the time since the host started (I4, I6, I7, I23).

`meta` keeps a high-water mark, the latest instant seen, and for the running start of the host how far the wall clock was from the time
since that start. Where that distance has changed by more than two seconds the wall clock was set, forward or back, and all open waits are
moved by the same. The distance on record follows only as fast as a clock may drift, so small steps add up until they are one. A machine
that sleeps changes no distance: the time since its start goes on. After a new start only a step back is noticed, by the mark. Every write
looks, inside its transaction, so each step is found once, whatever number of processes there is.
"""

import sqlite3
from dataclasses import dataclass, replace

from sereno.core.errors import Unavailable
from sereno.core.values import to_micros
from sereno.ports import Clock
from sereno.store.work.clock.steps import EARLIEST_US, LATEST_US, STEP_US, move, moved, number, write

SAVE_EVERY_US = 1_000_000
SAVE_IDLE_US = 30_000_000
"""How old the mark may get while nothing is claimed: an idle process does not write each second."""
MARK, BOOT = "high_water", "boot"
"""Keys in `meta`. The value of the second: the id of the host's start, the settled distance of the wall clock from the time since it, and
the time since it when that was written; in microseconds, with spaces between."""
DRIFT = 2_000
"""A clock may be off by one part in so many (500 ppm, the most that the kernel's own discipline of the clock ever slews)."""
_TRIES = 5
_SURE_US = 500_000
"""Two clocks that were read within so long belong together."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The host's clocks at one moment, in microseconds. `offset`: wall clock less time since the start; None = could not be told."""

    now: int
    boot: str = ""
    offset: int | None = None
    since: int = 0
    """Time since the start."""


@dataclass(slots=True)
class HostTime:
    """Gives each transaction its instant, and moves the waits where the clock was set."""

    clock: Clock
    _seen: int | None = None
    """The offset of the last look of this process: all there is where the host names no start."""

    def now(self) -> int:
        """The instant, for what only reads."""
        return to_micros(self.clock.now())

    def enter(self, connection: sqlite3.Connection) -> Reading:
        """Called by every write before anything else. Raises Unavailable where the clock stands where no wait can be reckoned."""
        reading = self._read()
        if reading.offset is None:  # nothing can be told of a step, and a mark alone would be taken for one
            return reading
        known = _load(connection)
        same = self._same_start(known, reading)
        step = _step(known, reading, same=same)
        if step:
            move(connection, reading.now, step)
        settled, sure = reading.offset, True
        if same:
            settled = reading.offset if step else _drifted(known, reading)
        elif not reading.boot and self._seen is None and known.offset is not None:
            # Where no start is named, the first look of a process cannot tell a new start from a step. A process that knows may come
            # next: what it finds on record goes with what was moved here.
            settled, sure = known.offset + step, False
        self._seen = reading.offset
        reading = replace(reading, offset=settled)
        if step or reading.now - known.now > SAVE_IDLE_US or (sure and not same):
            _save(connection, reading)
        return reading

    def keep(self, connection: sqlite3.Connection, reading: Reading) -> None:
        """Moves the mark on with a claim that found work, once a second."""
        if reading.offset is not None and reading.now - _load(connection).now > SAVE_EVERY_US:
            _save(connection, reading)

    def _read(self) -> Reading:
        """Reads both clocks at one moment: a process that is held up between them would see a step that never was."""
        now = 0
        for _ in range(_TRIES):
            before = self.clock.boot()
            now = _sane(to_micros(self.clock.now()))
            boot = self.clock.boot()
            since = round(boot.seconds * 1_000_000)
            if boot.id == before.id and since - round(before.seconds * 1_000_000) <= _SURE_US:
                return Reading(now, boot.id, now - since, since)
        return Reading(now)

    def _same_start(self, known: Reading, reading: Reading) -> bool:
        """Whether the two offsets can be compared. Where no start is named, only a process that lived then knows."""
        if known.offset is None or reading.offset is None or known.boot != reading.boot:
            return False
        return bool(reading.boot) or (self._seen is not None and abs(self._seen - known.offset) <= STEP_US)


def follow(connection: sqlite3.Connection, schema: str) -> None:
    """Brings all open waits to the clock of an attached database, and takes over what that knows of the clock.

    Where that one went on from what is here, the steps since are on record there; else the rule for a look at the clock holds.
    """
    known, theirs = _load(connection), _load(connection, schema)
    if theirs.offset is None:
        return
    if _went_on(connection, schema):
        step = moved(connection, schema) - moved(connection)
    else:
        step = _step(known, theirs, same=bool(theirs.boot) and theirs.boot == known.boot and known.offset is not None)
    if step:
        move(connection, theirs.now, step)
    _save(connection, theirs)


def mark(connection: sqlite3.Connection) -> int | None:
    """The latest instant that a write has seen, by the clock in which all waits here are told; None = none is on record."""
    return _load(connection).now or None


def _went_on(connection: sqlite3.Connection, schema: str) -> bool:
    """Whether the newest line of the journal here stands in the other's too."""
    rows = connection.execute(
        f"SELECT o.seq FROM (SELECT * FROM main.journal ORDER BY seq DESC LIMIT 1) AS m JOIN {schema}.journal AS o"  # noqa: S608 - our own name
        " ON (o.seq, o.workspace, o.subject, o.run, o.at, o.facts) = (m.seq, m.workspace, m.subject, m.run, m.at, m.facts)"
    )
    return rows.fetchone() is not None


def _sane(now: int) -> int:
    if EARLIEST_US <= now <= LATEST_US:
        return now
    raise Unavailable(
        "the clock of this host stands outside the years 2 to 9998; nothing was done",
        code="clock",
        hint="set the clock of the host",
    )


def _step(known: Reading, reading: Reading, *, same: bool) -> int:
    """How far the clock was set, in microseconds; 0 = not."""
    if same and known.offset is not None and reading.offset is not None:
        if abs(reading.offset - _drifted(known, reading)) > STEP_US:
            return reading.offset - known.offset
    back = reading.now - known.now
    return back if back < -STEP_US else 0


def _drifted(known: Reading, reading: Reading) -> int:
    """The offset on record, brought as near to the one that was read as a clock may have drifted since it was written."""
    assert known.offset is not None and reading.offset is not None
    most = max(0, reading.since - known.since) // DRIFT
    return known.offset + max(-most, min(most, reading.offset - known.offset))


def _load(connection: sqlite3.Connection, schema: str = "main") -> Reading:
    """What `meta` says. What cannot be read counts as never written."""
    rows = dict(
        connection.execute(f"SELECT key, value FROM {schema}.meta WHERE key IN (?, ?)", (MARK, BOOT)).fetchall()  # noqa: S608 - our own name
    )
    boot, offset, since = ["", "", *str(rows.get(BOOT, "")).rsplit(" ", 2)][-3:]
    read = number(offset), number(since)
    instant = number(rows.get(MARK)) or 0
    if read[0] is None or read[1] is None:
        return Reading(instant)
    return Reading(instant, boot, read[0], read[1])


def _save(connection: sqlite3.Connection, reading: Reading) -> None:
    write(connection, MARK, str(reading.now))
    if reading.offset is not None:
        write(connection, BOOT, f"{reading.boot} {reading.offset} {reading.since}")
