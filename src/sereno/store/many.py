"""Many rows in one step: a statement with one row of values is widened to many rows of bound values.

Each step into SQLite costs a turn of Python's lock, so a loop over rows is dear; and handing rows over as JSON text costs twice as
much processor time as binding them, and would cut a text at a NUL.
"""

import re
import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

_ROW = re.compile(r"VALUES (\([?, ]+\))")
WIDEST = 256
"""Rows of one step. So many rows of 20 values are far below SQLite's limit of 32,766 bound values."""


def write_many(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Runs a statement that holds one `VALUES (?, …)` for all rows, 256 in a step.

    Widths are powers of two, so that few texts are prepared. What is too wide is filled up with rows of nulls; the statement has to
    ignore these: no key equals null.
    """
    for start in range(0, len(rows), WIDEST):
        part = rows[start : start + WIDEST]
        width = 1 << (len(part) - 1).bit_length()
        values = list(chain.from_iterable(part))
        values += [None] * ((width - len(part)) * len(part[0]))
        connection.execute(_widened(statement, width), values)


@cache
def _widened(statement: str, width: int) -> str:
    widened, found = _ROW.subn(lambda row: "VALUES " + ", ".join([row[1]] * width), statement)
    assert found == 1, "one list of values"
    return widened
