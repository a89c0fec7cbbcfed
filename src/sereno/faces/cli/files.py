"""Files that a command writes: only new ones, so that nothing of a person's is lost."""

import os
from pathlib import Path

from sereno.core.errors import AlreadyExists, SetupError


def refuse_existing(*paths: Path) -> None:
    """Raises AlreadyExists where one of the files is there, before any is written."""
    for path in paths:
        if path.exists() or path.is_symlink():
            raise AlreadyExists(
                "is there already; nothing was written", subject=str(path), hint="move it away, or name another file"
            )


def write_new(path: Path, text: str) -> None:
    """Writes a new file, and the folder that it is in where that is missing. Raises AlreadyExists, SetupError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise AlreadyExists("is there already; it was left as it is", subject=str(path)) from error
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from error
