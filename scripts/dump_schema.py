"""Writes src/sereno/store/schema/sqlite.sql from the migrations."""

from pathlib import Path

from sereno.store.executor import MEMORY, connect
from sereno.store.migrate import migrate, schema_dump

if __name__ == "__main__":
    connection = connect(MEMORY)
    migrate(connection, subject=MEMORY)
    target = Path(__file__).parent.parent / "src/sereno/store/schema/sqlite.sql"
    target.write_text(schema_dump(connection), "utf-8")
    print(f"wrote {target}")
