"""Many rows in one step: every row is written once, and what fills a statement up changes nothing."""

import sqlite3

import pytest

from sereno.store.executor import MEMORY, connect
from sereno.store.many import WIDEST, write_many

INSERT = "INSERT INTO thing (name, number) SELECT * FROM (VALUES (?, ?)) WHERE column1 IS NOT NULL"
UPDATE = "WITH n (name, number) AS (VALUES (?, ?)) UPDATE thing SET number = n.number FROM n WHERE thing.name = n.name"
DELETE = "DELETE FROM thing WHERE (name, number) IN (VALUES (?, ?))"


@pytest.fixture
def connection() -> sqlite3.Connection:
    made = connect(MEMORY)
    made.execute("CREATE TABLE thing (name TEXT, number INTEGER) STRICT")
    return made


def rows_of(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    return [tuple(row) for row in connection.execute("SELECT name, number FROM thing ORDER BY rowid")]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100, WIDEST, WIDEST + 1, 3 * WIDEST - 1])
def test_each_row_is_written_once(connection: sqlite3.Connection, count: int) -> None:
    """Whatever their number: inserted in order, then changed, then all but one deleted; a row of nulls is never touched."""
    connection.execute("INSERT INTO thing VALUES (NULL, -1)")
    rows = [(f"n{number}", number) for number in range(count)]
    write_many(connection, INSERT, rows)
    assert rows_of(connection) == [(None, -1), *rows]
    write_many(connection, UPDATE, [(name, number + 1) for name, number in rows])
    assert rows_of(connection) == [(None, -1), *((name, number + 1) for name, number in rows)]
    write_many(connection, DELETE, [(name, number + 1) for name, number in rows[1:]])
    assert rows_of(connection) == [(None, -1), *((name, number + 1) for name, number in rows[:1])]


def test_texts_are_kept_to_the_last_byte(connection: sqlite3.Connection) -> None:
    """A NUL does not cut a text, and nothing in it is read as SQL or JSON."""
    rows = [("a\0b", 1), ("'; DROP TABLE thing; --", 2), ('["\u2028"]', 3)]
    write_many(connection, INSERT, rows)
    assert rows_of(connection) == rows


def test_few_statements_are_made(connection: sqlite3.Connection) -> None:
    """Every number of rows is one step up to the widest, and all these numbers share nine texts, so that each stays prepared."""
    ran: list[str] = []
    connection.set_trace_callback(ran.append)
    for count in range(1, WIDEST + 1):
        write_many(connection, DELETE, [("x", 1)] * count)
    connection.set_trace_callback(None)
    steps = [text for text in ran if text.startswith("DELETE")]
    assert len(steps) == WIDEST
    assert len({text.count("(") for text in steps}) == WIDEST.bit_length()
