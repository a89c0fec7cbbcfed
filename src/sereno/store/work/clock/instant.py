"""The database's instant on SQLite: the host's wall clock, held against the time since the host started (I4, I6, I7, I23).

`meta` keeps a high-water mark, the latest instant seen, and for the running start of the host how far the wall clock was from the time
since that start. Where that distance has changed by more than a minute the wall clock was set, forward or back, and all open waits are
moved by the same. A machine that sleeps changes no distance: the time since its start goes on. After a new start only a step back is
noticed, by the mark. Every write looks, inside its transaction, so each step is found once, whatever number of processes there is.
"""

import sqlite3
from dataclasses import dataclass

from sereno.core.values import to_micros
from sereno.ports import Clock
from sereno.store.work.clock.steps import STEP_US, move, number, write

SAVE_EVERY_US = 1_000_000
SAVE_IDLE_US = 30_000_000
"""How old the mark may get while nothing is claimed: an idle process does not write each second."""
MARK, BOOT = "high_water", "boot"
"""Keys in `meta`. The value of the second: the id of the host's start, a space, wall clock less time since it, in microseconds."""
_TRIES = 5
_SURE_US = 500_000
"""Two clocks that were read within so long belong together."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The host's clocks at one moment, in microseconds. `offset`: wall clock less time since the start; None = could not be told."""

    now: int
    boot: str = ""
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What `meta` says."""

    mark: int
    boot: str
    offset: int | None


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
        """Called by every write before anything else."""
        reading = self._read()
        known = _load(connection)
        same = self._same_start(known, reading)
        step = _step(known, reading, same=same)
        if step:
            move(connection, reading.now, step)
        # Where no start is named, the first look of a process cannot tell a new start from a step: a process that knows may come next.
        unsure = not same and not reading.boot and self._seen is None and known.offset is not None
        if step or reading.now - known.mark > SAVE_IDLE_US or not (same or unsure or reading.offset is None):
            _save(connection, Reading(reading.now) if unsure else reading)
        self._seen = reading.offset
        return reading

    def keep(self, connection: sqlite3.Connection, reading: Reading) -> None:
        """Moves the mark on with a claim that found work, once a second."""
        if reading.now - _load(connection).mark > SAVE_EVERY_US:
            _save(connection, reading)

    def _read(self) -> Reading:
        """Reads both clocks at one moment: a process that is held up between them would see a step that never was."""
        now = 0
        for _ in range(_TRIES):
            before = self.clock.boot()
            now = to_micros(self.clock.now())
            boot = self.clock.boot()
            since = round(boot.seconds * 1_000_000)
            if boot.id == before.id and since - round(before.seconds * 1_000_000) <= _SURE_US:
                return Reading(now, boot.id, now - since)
        return Reading(now)

    def _same_start(self, known: _Known, reading: Reading) -> bool:
        """Whether the two offsets can be compared. Where no start is named, only a process that lived then knows."""
        if known.offset is None or reading.offset is None or known.boot != reading.boot:
            return False
        return bool(reading.boot) or (self._seen is not None and abs(self._seen - known.offset) <= STEP_US)


def _step(known: _Known, reading: Reading, *, same: bool) -> int:
    """How far the clock was set, in microseconds; 0 = not."""
    if same and known.offset is not None and reading.offset is not None and abs(reading.offset - known.offset) > STEP_US:
        return reading.offset - known.offset
    back = reading.now - known.mark
    return back if back < -STEP_US else 0


def _load(connection: sqlite3.Connection) -> _Known:
    """What cannot be read counts as never written."""
    rows = dict(connection.execute("SELECT key, value FROM meta WHERE key IN (?, ?)", (MARK, BOOT)).fetchall())
    boot, _, offset = str(rows.get(BOOT, "")).rpartition(" ")
    return _Known(number(rows.get(MARK)) or 0, boot, number(offset))


def _save(connection: sqlite3.Connection, reading: Reading) -> None:
    write(connection, MARK, str(reading.now))
    if reading.offset is not None:
        write(connection, BOOT, f"{reading.boot} {reading.offset}")
