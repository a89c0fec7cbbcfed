"""Migrations: numbered files, forward only, one transaction each; and the dump of the schema they lead to."""

import sqlite3
from collections.abc import Iterator
from importlib import resources

from sereno.core.errors import SetupError

APPLICATION_ID = 0x53524E4F
"""`SRNO`, in the header of every database file of ours."""


def migrations() -> list[tuple[int, str]]:
    """Lists (number, SQL text), in order, without gaps from 1."""
    folder = resources.files("sereno.store") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith("sqlite_") and entry.name.endswith(".sql"))
    found = [(int(name.removeprefix("sqlite_").removesuffix(".sql")), (folder / name).read_text("utf-8")) for name in names]
    assert [number for number, _ in found] == list(range(1, len(found) + 1)), "migrations are numbered without gaps"
    return found


def newest() -> int:
    """The schema version of this release."""
    return len(migrations())


def version(connection: sqlite3.Connection) -> int:
    """The schema version of a database; 0 = nothing there yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, *, subject: str) -> int:
    """Brings a database to the newest schema; returns how many steps it took. Raises SetupError for one of a newer version."""
    if version(connection) == newest():
        return 0
    steps = 0
    for number, text in migrations():
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version(connection) < number:
                for statement in statements(text):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
                steps += 1
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    if version(connection) > newest():
        raise SetupError(
            f"the database has schema version {version(connection)}, this version of Sereno knows {newest()} at most: {subject}",
            hint="use the newer Sereno that made it; nothing was changed",
            code="database_newer",
        )
    return steps


def statements(text: str) -> Iterator[str]:
    """Splits SQL text into statements; triggers stay whole."""
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending.strip()
            pending = ""
    assert not pending.strip(), "a statement without its end"


def schema_dump(connection: sqlite3.Connection) -> str:
    """Writes the whole schema as text, by name, so that two databases can be compared."""
    rows = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY tbl_name, type DESC, name"
    ).fetchall()
    head = f"-- Made by scripts/dump_schema.py; schema version {version(connection)}.\n\n"
    return head + "".join(f"{row[0]};\n\n" for row in rows).rstrip("\n") + "\n"
