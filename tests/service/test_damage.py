"""A damaged database, and the log of another one, in the assembled app (I30)."""

import asyncio
import io
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sereno.app import open_app
from sereno.app.home import MOST_SET_ASIDE, OWNER, Home, set_foreign_log_aside
from sereno.core.errors import Unavailable
from sereno.settings import Loaded, parse_settings

SETTINGS = (
    '[lease]\nlease = "3s"\ntotal_deadline = "1s"\nguard = "0.3s"\ncommit_time = "0.5s"\ntick = "0.05s"\n'
    '[[poll]]\nname = "p"\nevery = "1s"\nsource = { type = "file", path = "/etc/hostname" }\n'
)


def settled(folder: Path) -> Loaded:
    """The settings of one poll."""
    return parse_settings(SETTINGS, folder / "sereno.toml")


def lose_rows(database: Path) -> None:
    """Lets the indexes of the polls name rows that the table has not: what no statement meets as an error."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'poll' AND sql IS NOT NULL")
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def overwrite(database: Path) -> None:
    """Overwrites every page but the first, once a write made the others' caches stale."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        with database.open("r+b") as file:
            file.seek(size)
            file.write(b"\xaa" * (database.stat().st_size - size))


async def test_I30_a_loop_whose_database_is_damaged_ends(tmp_path: Path) -> None:
    """It is no passing trouble: the loop says so and ends, where it would have tried again without end."""
    loaded = settled(tmp_path)
    with pytest.raises(Unavailable, match="the database file is damaged") as told:
        async with open_app(loaded, console=io.StringIO()) as app:
            await app.apply()
            running = asyncio.create_task(app.run())
            async with asyncio.timeout(60):
                while not await app.runs.list(limit=1):
                    continue
            overwrite(loaded.database)
            await asyncio.wait_for(running, 90)
    assert "sereno restore" in (told.value.hint or "")


async def test_I30_damage_that_no_statement_meets_is_found_by_doctor_and_at_a_start(tmp_path: Path) -> None:
    """Reading and writing go well; only the check of the whole file shows it."""
    loaded = settled(tmp_path)
    async with open_app(loaded, console=io.StringIO()) as app:
        await app.apply()
        health = await app.doctor.look()
        assert (health.ok, health.checks[0].says) == (True, f"{loaded.database} can be read and written, and is whole")
    lose_rows(loaded.database)
    async with open_app(loaded, console=io.StringIO()) as app:
        assert (await app.doctor.look(whole=False)).ok
        found = await app.doctor.look()
        assert (found.ok, found.checks[0].level) == (False, "bad")
        assert "the database file is damaged" in found.checks[0].says
        assert "sereno restore FILE" in (found.checks[0].hint or "")
        with pytest.raises(Unavailable, match="the database file is damaged"):
            await asyncio.wait_for(app.run(), 90)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A file and a log that says it belongs to it; skipped where the filesystem cannot say so."""
    path = tmp_path / "s.db"
    path.write_bytes(b"first")
    log_of(path).write_bytes(b"its log")
    Home(path).opened()
    try:
        os.getxattr(log_of(path), OWNER)
    except (OSError, AttributeError) as error:
        pytest.skip(f"the filesystem of this test keeps no extended attributes: {error}")
    return path


def log_of(path: Path, more: str = "") -> Path:
    """The log's place, or that of one set aside."""
    return path.with_name(f"{path.name}-wal{more}")


def replace_with(path: Path, content: bytes) -> None:
    """Puts another file in the place of one."""
    other = path.with_name("other")
    other.write_bytes(content)
    os.replace(other, path)


def test_I30_each_log_that_is_set_aside_keeps_a_name_of_its_own(database: Path) -> None:
    """`.replaced`, `.replaced-2` and so on; the last name is used again, so the folder does not fill without end."""
    for count in range(MOST_SET_ASIDE + 2):
        log_of(database).write_bytes(f"log {count}".encode())
        Home(database).opened()
        replace_with(database, f"file {count}".encode())
        set_foreign_log_aside(database)
        assert not log_of(database).exists()
    assert log_of(database, ".replaced").read_bytes() == b"log 0"
    assert log_of(database, ".replaced-2").read_bytes() == b"log 1"
    assert log_of(database, f".replaced-{MOST_SET_ASIDE}").read_bytes() == f"log {MOST_SET_ASIDE + 1}".encode()
    assert len(list(database.parent.glob("*.replaced*"))) == MOST_SET_ASIDE


def test_I30_a_log_stays_with_its_own_file(database: Path) -> None:
    """Also where both were moved together, and where the attribute was copied along with both."""
    set_foreign_log_aside(database)
    assert log_of(database).exists()
    moved = database.with_name("moved.db")
    database.rename(moved)
    log_of(database).rename(log_of(moved))
    assert not Home(moved).doubtful
    assert log_of(moved).exists()
    copied = database.with_name("copied.db")
    copied.write_bytes(moved.read_bytes())
    log_of(copied).write_bytes(b"its log")
    os.setxattr(log_of(copied), OWNER, os.getxattr(log_of(moved), OWNER))
    assert Home(copied).doubtful, "nothing is known of it"
    assert log_of(copied).exists()


def test_I30_the_log_of_a_file_that_is_gone_is_kept_from_a_new_one(database: Path) -> None:
    """A new database is made under the name; the old log is whole for the file it belongs to."""
    database.unlink()
    Home(database)
    assert (log_of(database).exists(), log_of(database, ".replaced").read_bytes()) == (False, b"its log")


def test_I30_a_file_that_is_replaced_while_it_is_opened_is_refused(database: Path) -> None:
    """And nothing is written on the log of the later one."""
    home = Home(database)
    replace_with(database, b"second")
    os.unlink(log_of(database))
    log_of(database).write_bytes(b"another log")
    with pytest.raises(Unavailable, match="taken away"):
        home.opened()
    assert OWNER not in os.listxattr(log_of(database))
