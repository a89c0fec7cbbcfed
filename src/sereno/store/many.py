"""Many rows in few steps: a statement with one row of values is widened to many rows of bound values.

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
_WIDEST = 128
"""Rows of one step. 128 rows of 20 values are far below SQLite's limit of 32,766 bound values."""


def write_many(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Runs a statement that holds one `VALUES (?, …)` for all rows, in steps of 128, 64, 32 … rows: so few texts are prepared."""
    at = 0
    while at < len(rows):
        width = min(_WIDEST, 1 << (len(rows) - at).bit_length() - 1)
        connection.execute(_widened(statement, width), tuple(chain.from_iterable(rows[at : at + width])))
        at += width


@cache
def _widened(statement: str, width: int) -> str:
    widened, found = _ROW.subn(lambda row: "VALUES " + ", ".join([row[1]] * width), statement)
    assert found == 1, "one list of values"
    return widened
