"""Named statements: `-- name: x` blocks in sql/*.sql, read once; SQLite prepares each text once and keeps it."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def named(file: str) -> Mapping[str, str]:
    """Reads `sql/FILE.sql` into statements by name."""
    text = (resources.files("sereno.store") / "sql" / f"{file}.sql").read_text("utf-8")
    parts = _NAME.split(text)[1:]
    found = {name: body.strip().removesuffix(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}
    assert len(found) == len(parts) // 2, "statement names are unique in a file"
    return found
