"""Opening: makes the database file or checks the one that is there, brings its schema up to date, and puts the store together."""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sereno.core.errors import SetupError
from sereno.ports import Clock, Ids
from sereno.store.definitions import Definitions
from sereno.store.executor import MEMORY, Executor, InlineExecutor, ThreadExecutor, connect, translated
from sereno.store.migrate import APPLICATION_ID, migrate
from sereno.store.reads import Reads
from sereno.store.work.store import SqliteWork

NETWORK_FILESYSTEMS = frozenset(
    {
        "9p", "afs", "afpfs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.cephfs", "fuse.davfs2", "fuse.gcsfuse",
        "fuse.glusterfs", "fuse.goofys", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.smbnetfs", "gfs2",
        "glusterfs", "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "smb", "smb2", "smb3", "smbfs", "webdav",
    }
)  # fmt: skip
"""Where SQLite's locks and shared memory do not work between machines, or at all."""


@dataclass(frozen=True, slots=True)
class Store:
    """The store of one database, by reader: engine and drivers, service, faces (through service)."""

    work: SqliteWork
    definitions: Definitions
    reads: Reads
    executor: Executor
    path: str

    async def mark(self) -> None:
        """Commits one small write, which shows that the disk takes one. Raises Unavailable."""
        await self.executor.write(_mark)

    async def close(self) -> None:
        """Finishes what was handed in and closes the file."""
        await self.executor.close()


def _mark(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('marked', '1')"
        " ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)"
    )


def open_store(path: str | Path, *, clock: Clock, ids: Ids, executor: Callable[[str], Executor] | None = None) -> Store:
    """Opens (or makes) the database at `path`, `:memory:` included.

    `executor` makes the executor for a path: threads by default, inline for memory and where the simulation says so. Raises
    SetupError for a file that is not ours, was made by a newer version, or lies on a network filesystem; Unavailable where the
    disk does not do its part.
    """
    place = str(path)
    if place == MEMORY:
        inline = InlineExecutor(MEMORY)
        migrate(inline.connection, subject=MEMORY)
        made: Executor = inline
    else:
        prepare(Path(place))
        made = (executor or ThreadExecutor)(place)
    return Store(
        work=SqliteWork(made, clock=clock, ids=ids),
        definitions=Definitions(made, clock=clock, ids=ids),
        reads=Reads(made, clock=clock),
        executor=made,
        path=place,
    )


def prepare(path: Path) -> None:
    """Makes the file (0600) and its folder (0700) where needed, checks that it is ours, and migrates it."""
    _refuse_network(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size == 0:
            _make(path)
        _refuse_foreign(path)
    except OSError as error:
        raise SetupError(f"the database cannot be made or read: {error.strerror}: {path}", code="database_place") from error
    connection = connect(path)
    try:
        migrate(connection, subject=str(path))
    except sqlite3.Error as error:
        raise translated(error) from error
    finally:
        connection.close()


def _make(path: Path) -> None:
    """Makes an empty database that is marked as ours before it switches to WAL, so that the mark is in the file itself."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    except sqlite3.Error as error:
        raise translated(error) from error
    finally:
        connection.close()


def _refuse_foreign(path: Path) -> None:
    """Reads the header itself, since opening a foreign database would already change it."""
    with path.open("rb") as file:
        header = file.read(100)
    if header[:16] != b"SQLite format 3\0":
        raise SetupError(
            f"this is not a database: {path}",
            hint="choose another path for the database; the file was not changed",
            code="database_foreign",
        )
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise SetupError(
            f"this is a database of another program: {path}",
            hint="choose another path for the database; the file was not changed",
            code="database_foreign",
        )


def _refuse_network(path: Path) -> None:
    mounts = Path("/proc/self/mountinfo")
    kind = network_filesystem(os.path.realpath(path), mounts.read_text("utf-8", "replace")) if mounts.exists() else None
    if kind is not None:
        raise SetupError(
            f"the database would lie on a network filesystem ({kind}), where SQLite's locks do not hold: {path}",
            hint="put it on a local disk, or use PostgreSQL for several machines",
            code="database_network",
        )


def network_filesystem(path: str, mountinfo: str) -> str | None:
    """Names the network filesystem that holds `path`, by the text of /proc/self/mountinfo (proc(5)), or None for a local one."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _unescaped(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, found = len(point), after.split(" ")[0]
    return found if found in NETWORK_FILESYSTEMS else None


def _unescaped(text: str) -> str:
    """Undoes the octal escapes of mountinfo."""
    for code, mark in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, mark)
    return text
