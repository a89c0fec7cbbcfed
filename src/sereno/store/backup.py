"""Backup and restore of the database file (online, checked). Plain functions that block; the CLI calls them, or an executor's lane."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sereno.core.errors import AlreadyExists, InvariantBroken, NotFound, NotNow, SetupError, Unavailable
from sereno.core.values import to_micros
from sereno.store import restored
from sereno.store.executor import BUSY_TIMEOUT_S, connect, translated
from sereno.store.migrate import APPLICATION_ID, migrate, newest, version

_SIDES = ("-wal", "-shm", "-journal")
_DAMAGED = "restore a backup: sereno restore FILE"


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A finished and checked backup: where it is, its size, and the schema version in it."""

    path: Path
    size_bytes: int
    version: int


@dataclass(frozen=True, slots=True)
class Restored:
    """A finished restore: where the replaced database was kept (None where there was none), and what was voided and marked."""

    path: Path
    kept: Path | None
    leases_voided: int
    operations_marked: int


def backup(database: Path, target: Path, *, overwrite: bool = False) -> BackedUp:
    """Writes one consistent copy of a database that others go on using, as one file, checked before it gets its name.

    Raises NotFound without a database, AlreadyExists where the target is there and `overwrite` is False, SetupError for a database
    that is damaged or not ours, Unavailable where the disk does not do its part. A target that was there stays as it was until the new copy is whole.
    """
    if not database.exists():
        raise NotFound(f"there is no database at {database}; nothing was written", subject=str(database))
    _refuse_foreign(database)
    with _closing(connect(database, read_only=True)) as source:
        return backup_from(source, target, overwrite=overwrite)


def backup_from(source: sqlite3.Connection, target: Path, *, overwrite: bool = False) -> BackedUp:
    """`backup` from a connection that is open: `await executor.read(lambda connection: backup_from(connection, target))`.

    The whole copy is one step, and so one snapshot; writers go on meanwhile.
    """
    if target.exists() and not overwrite:
        raise AlreadyExists(
            f"{target} is there already; nothing was written", subject=str(target), hint="choose another name, or add --overwrite"
        )
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        found = _copy_checked(source, partial)
        _give_name(partial, target, overwrite=overwrite)
    except OSError as error:
        raise Unavailable(f"the backup cannot be written: {error.strerror}: {target}", code="backup_place") from error
    finally:
        _remove(partial)
    return BackedUp(target, target.stat().st_size, found)


def restore(source: Path, database: Path, *, now: datetime, force: bool = False) -> Restored:
    """Puts a backup in the place of the database, and makes what is in it safe to go on with. The replaced one is kept beside.

    The backup must be a whole Sereno database of this version or an older one (which is migrated). While somebody holds a lease in
    the database that is there, NotNow is raised; `force` takes the leases away, and what those workers bring is refused by their
    fence. All is prepared in a file of its own and then written in one transaction: a crash leaves the old content or the new.
    Processes that have the database open see the restored content with their next statement; but a database that is damaged is moved
    away as it is, and processes that had it open must be started again.

    What holds after restoring yesterday's file:

    * Everything is as it was when the backup was made; what was committed since is gone from the database (and is in the kept file).
    * Leases are void: runs that were under way then are closed as `abandoned`, and their work is due at once. A delivery that was
      being sent then counts as interrupted, so that its policy decides (again under the same key, or `ambiguous`).
    * Polls go on from the cursor and snapshot of the backup. Changes noticed since are noticed again, under the same dedupe keys;
      receivers that honour keys take them once, others get them again: deliveries made since the backup are at least once.
    * Operations go on with the counters of the backup, or the higher ones of the replaced database where that can be read: requests
      sent since still count. Where it cannot be read, an operation may spend again what it had spent since. Each open operation gets
      a journal row `restored` that says which.
    * A submit or cancel that was still to be sent counts as perhaps sent, unless the replaced database says that it was not tried: it
      is repeated only under a key that the provider honours, else a person is asked. A submit that was registered since is gone with
      its operation; the same key given again makes the provider answer with the job it has, where it honours keys.
    * An answer given since the backup is gone; the question is open again until its time is over.

    Raises NotFound, SetupError (foreign, newer, damaged), NotNow, Unavailable.
    """
    _check(source)
    kept = database.with_name(f"{database.name}.replaced-{now.strftime('%Y%m%dT%H%M%SZ')}")
    readable = database.exists() and _copy_replaced(database, kept, now=now, force=force)
    partial = database.with_name(f".{database.name}.restoring-{os.getpid()}")
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with _open_backup(source) as backup_file:
            _copy_checked(backup_file, partial)
        voided, marked = _settle(partial, kept if readable else None, now, source.name)
        if readable:
            _write_over(partial, database)
        else:
            _move_away(database, kept)
            os.replace(partial, database)
            _sync(database.parent)
    except OSError as error:
        raise Unavailable(f"the backup cannot be put in place: {error.strerror}: {database}", code="backup_place") from error
    finally:
        _remove(partial)
    return Restored(database, kept if kept.exists() else None, voided, marked)


@contextlib.contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise SetupError(f"the database is damaged ({error})", hint=_DAMAGED, code="database_damaged") from error
        raise translated(error) from error
    finally:
        connection.close()


def _copy_checked(source: sqlite3.Connection, partial: Path) -> int:
    """Copies into a new file of mode 0600, out of WAL mode so that it is one file, checks it and forces it to disk."""
    _remove(partial)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with _closing(sqlite3.connect(partial, isolation_level=None)) as copy:
        source.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode = DELETE")
        problem = _problem(copy)
        found = version(copy)
    if problem is not None:
        raise SetupError(f"the database is damaged ({problem}); no copy was written", hint=_DAMAGED, code="database_damaged")
    _sync(partial)
    return found


def _problem(connection: sqlite3.Connection) -> str | None:
    """The first line of SQLite's own check, or None."""
    answer = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return None if answer == "ok" else answer[:200]


def _give_name(partial: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(partial, target)
    else:
        try:
            os.link(partial, target)
        except FileExistsError as error:
            raise AlreadyExists(f"{target} is there already; nothing was written", subject=str(target)) from error
        except OSError:  # a filesystem without hard links
            os.replace(partial, target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(partial: Path) -> None:
    for side in ("", *_SIDES):
        partial.with_name(partial.name + side).unlink(missing_ok=True)


def _refuse_foreign(path: Path) -> None:
    """Reads the header itself: opening a foreign file could already change it."""
    with path.open("rb") as file:
        header = file.read(100)
    if header[:16] != b"SQLite format 3\0" or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise SetupError(f"this is not a Sereno database: {path}", hint="nothing was changed", code="database_foreign")


def _check(source: Path) -> None:
    """A backup is whole, ours, and of a version that we know."""
    if not source.is_file():
        raise NotFound(f"there is no backup at {source}", subject=str(source))
    _refuse_foreign(source)
    with _open_backup(source) as connection:
        problem = _problem(connection)
        found = version(connection)
    if problem is not None:
        raise SetupError(f"the backup is damaged ({problem}): {source}", hint="nothing was changed", code="backup_damaged")
    if found > newest():
        raise SetupError(
            f"the backup has schema version {found}, and this version of Sereno knows {newest()} at most: {source}",
            hint="use the newer Sereno that made it; nothing was changed",
            code="database_newer",
        )


@contextlib.contextmanager
def _open_backup(source: Path) -> Iterator[sqlite3.Connection]:
    """Opens without changing the file."""
    try:
        connection = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise SetupError(
            f"the backup cannot be read ({error}): {source}", hint="nothing was changed", code="backup_damaged"
        ) from error


def _copy_replaced(database: Path, kept: Path, *, now: datetime, force: bool) -> bool:
    """Keeps a copy of the database that is to be replaced; False for one that cannot be read. Raises NotNow while runs are under way."""
    if kept.exists():
        raise AlreadyExists(f"{kept} is there already; nothing was changed", subject=str(kept))
    try:
        backup(database, kept)
    except (SetupError, InvariantBroken):
        return False
    with _open_backup(kept) as connection:
        held = restored.held(connection, to_micros(now))
    if held and not force:
        _remove(kept)
        raise NotNow(
            f"{held} runs are under way in {database}; nothing was changed",
            subject=str(database),
            hint="stop the processes that use it, or force the restore: what they bring will be refused",
        )
    return True


def _settle(partial: Path, kept: Path | None, now: datetime, name: str) -> tuple[int, int]:
    """Migrates the restored content and makes it safe, before anybody sees it."""
    with _closing(connect(partial)) as connection:
        migrate(connection, subject=str(partial))
        counted = restored.settle(connection, kept, to_micros(now), name)
        connection.execute("PRAGMA journal_mode = DELETE")
    return counted


def _move_away(database: Path, kept: Path) -> None:
    """Moves a database that cannot be read out of the way as it is, with its side files."""
    for side in (*_SIDES, ""):
        beside = database.with_name(database.name + side)
        if beside.exists():
            os.replace(beside, kept.with_name(kept.name + side))


def _write_over(source: Path, database: Path) -> None:
    """Writes the restored pages into the database in one transaction of SQLite, so that others who have it open stay right."""
    with (
        _open_backup(source) as content,
        _closing(sqlite3.connect(database, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as target,
    ):
        content.backup(target, pages=-1)
