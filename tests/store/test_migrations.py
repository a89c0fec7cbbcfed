"""Opening and migrating: what is made, what is refused, and that the committed schema is the one the migrations lead to."""

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sereno.core.errors import SetupError
from sereno.core.work import OperationWork, Principal
from sereno.ports import Page
from sereno.store.executor import MEMORY, connect
from sereno.store.migrate import APPLICATION_ID, migrate, migrations, newest, schema_dump, statements, version
from sereno.store.open import network_filesystem, prepare
from tests.store.stage import Stage

COMMITTED = Path(__file__).parents[2] / "src/sereno/store/schema/sqlite.sql"


def test_the_committed_schema_is_what_the_migrations_make() -> None:
    """A change of the schema shows as a change of one readable file."""
    connection = connect(MEMORY)
    assert migrate(connection, subject=MEMORY) == newest()
    assert schema_dump(connection) == COMMITTED.read_text("utf-8"), "refresh it with: python scripts/dump_schema.py"


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    """Opening an up-to-date database takes no step."""
    prepare(tmp_path / "s.db")
    connection = connect(tmp_path / "s.db")
    before = schema_dump(connection)
    assert migrate(connection, subject="s") == 0 and schema_dump(connection) == before and version(connection) == newest()


def test_a_new_database_is_private_and_marked_as_ours(tmp_path: Path) -> None:
    """Folder 0700, file 0600; the mark is in the file's own header, before any write-ahead log."""
    path = tmp_path / "deep" / "er" / "s.db"
    prepare(path)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID
    connection = connect(path)
    connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    assert path.with_name("s.db-wal").stat().st_mode & 0o777 == 0o600


def test_a_database_of_a_newer_version_is_refused_unchanged(tmp_path: Path) -> None:
    """An old program does not touch what it does not know."""
    path = tmp_path / "s.db"
    prepare(path)
    connection = connect(path)
    connection.execute(f"PRAGMA user_version = {newest() + 1}")
    with pytest.raises(SetupError, match="schema version") as caught:
        prepare(path)
    assert caught.value.code == "database_newer" and version(connection) == newest() + 1


def test_a_foreign_database_is_refused_unchanged(tmp_path: Path) -> None:
    """Not even its journal mode changes."""
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(SetupError) as caught:
        prepare(path)
    assert caught.value.code == "database_foreign" and path.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello, this is a text file\n" * 10, b"SQLite format 3"])
def test_a_file_that_is_no_database_is_refused_unchanged(tmp_path: Path, content: bytes) -> None:
    """A wrong path in the configuration must not cost a file."""
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(SetupError):
        prepare(path)
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A file where the folder should be gives a set-up error with the path."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(SetupError, match="cannot be made"):
        prepare(tmp_path / "file" / "s.db")


MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:40 / /home/anna/share rw,relatime shared:2 - nfs4 server:/export rw
31 27 0:41 / /mnt/with\040space rw - cifs //server/share rw
32 30 0:42 / /home/anna/share/local rw - tmpfs tmpfs rw
33 27 0:43 / /mnt/ssh rw - fuse.sshfs host:/ rw
34 27 0:44 / /pool rw - 9p host rw
"""


@pytest.mark.parametrize(
    "path, kind",
    [
        ("/home/anna/.sereno/sereno.db", None),
        ("/home/anna/share/sereno.db", "nfs4"),
        ("/home/anna/shared.db", None),
        ("/home/anna/share/local/sereno.db", None),
        ("/mnt/with space/sereno.db", "cifs"),
        ("/mnt/ssh/x/y.db", "fuse.sshfs"),
        ("/pool/x.db", "9p"),
        ("/poolside/x.db", None),
    ],
)
def test_network_filesystems_are_found_by_the_mount_that_holds_the_path(path: str, kind: str | None) -> None:
    """The longest mount point counts, by whole path parts."""
    assert network_filesystem(path, MOUNTS) == kind


def test_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says which kind it is and what to do."""
    monkeypatch.setattr("sereno.store.open.network_filesystem", lambda path, mounts: "nfs4")
    with pytest.raises(SetupError, match="nfs4") as caught:
        prepare(tmp_path / "s.db")
    assert caught.value.code == "database_network" and not (tmp_path / "s.db").exists()


def test_migrations_are_numbered_and_split_into_whole_statements() -> None:
    """Triggers keep their inner semicolons."""
    text = "-- c\nCREATE TABLE a (x);\nCREATE TRIGGER t BEFORE DELETE ON a BEGIN SELECT 1; SELECT 2; END;\n"
    assert [one.count(";") for one in statements(text)] == [1, 3]
    assert [number for number, _ in migrations()] == list(range(1, newest() + 1))


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction each: no half schema."""
    path = tmp_path / "s.db"
    prepare(path)
    connection = connect(path)
    before = schema_dump(connection)
    broken = [*migrations(), (newest() + 1, "CREATE TABLE extra (x);\nCREATE TABLE meta (y);")]
    monkeypatch.setattr("sereno.store.migrate.migrations", lambda: broken)
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, subject="s")
    assert schema_dump(connection) == before and not connection.in_transaction


async def test_two_processes_may_make_the_same_database_at_once(tmp_path: Path) -> None:
    """Both end with one whole schema."""
    path = tmp_path / "s.db"
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, prepare, path) for _ in range(4)))
    stage = Stage(path, inline=False)
    await stage.poll()
    assert len(await stage.claim()) == 1
    await stage.close()


def released(place: Path) -> Path:
    """The database of the first release on main, with waits in the middle: tests/store/data/schema_1.sql is its dump."""
    connection = sqlite3.connect(place)
    connection.executescript((Path(__file__).parent / "data/schema_1.sql").read_text("utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    return place


async def test_a_database_of_the_release_before_is_upgraded_and_goes_on(tmp_path: Path) -> None:
    """Opened by this version it has this schema, every wait is there with its counters, is claimed, and can be answered."""
    place = released(tmp_path / "old.db")
    before = sqlite3.connect(place).execute("SELECT id, state, status_requests_used FROM operation ORDER BY id").fetchall()
    stage = Stage(place)
    try:
        assert schema_dump(connect(place)) == COMMITTED.read_text("utf-8")
        assert [
            tuple(row.values()) for row in await stage.sql("SELECT id, state, status_requests_used FROM operation ORDER BY id")
        ] == before
        stage.clock.at = datetime(2026, 6, 1, 0, 4, tzinfo=UTC)
        who = Principal(user="sim")
        works = [work for work in await stage.claim(100) if isinstance(work, OperationWork)]
        assert {work.operation.id for work in works} >= {subject for subject, state, _ in before if state == "waiting"}
        asking = [work for work in works if work.operation.reserved]
        assert asking and all(work.operation.spend.status_requests > 0 for work in asking)
        for question in await stage.store.reads.escalations(who, Page(state="open")):
            assert question.options and (await stage.store.reads.operation(who, question.operation)).operation.pins == {}
        assert await stage.store.reads.steps(who, before[0][0])
        for work in works:
            assert await stage.store.reads.contract(work.operation.contract_digest)
    finally:
        await stage.store.close()
