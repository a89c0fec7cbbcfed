"""The `file` source: one regular file of this machine."""

import os
import stat
from collections.abc import Mapping, Sequence

from sereno.builtin.options import Rule, check_options, flag, number, only_local, text
from sereno.builtin.page import CONTENT_RULES, BadContent, check_content, extract
from sereno.core.change import FailedReading, ReadFailure, Reading
from sereno.core.errors import Fault
from sereno.core.values import Json, canonical, digest
from sereno.ports import Guarded, Place

MAX_BYTES = 10_000_000
_SYSTEM = ("/dev", "/proc", "/sys")


def _path(value: Json) -> str | None:
    problem = text(4096)(value)
    if problem or not isinstance(value, str):
        return problem
    if not os.path.isabs(value):
        return "must be an absolute path"
    clean = os.path.normpath(value)
    inside = next((root for root in _SYSTEM if clean == root or clean.startswith(root + "/")), None)
    return f"lies in {inside}, which holds no files to watch" if inside else None


class FileSource:
    """Reads a file whole, as JSON, HTML, text or lines; what it holds is everything there is.

    Only a regular file is read, never a device, pipe or directory. A symbolic link as the last part of the path is refused unless
    `symlinks = true`, so that nobody who may write the folder can point it elsewhere; links among the folders are followed. It may be
    set only from the configuration or the local command line. The read is done inline: at most 10 MB from a local disk.
    """

    type = "file"

    _rules: Mapping[str, Rule] = {"path": _path, "symlinks": flag, "max_bytes": number(1, MAX_BYTES), **CONTENT_RULES}

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        faults = check_options("source", options, self._rules, ["path"])
        return [*only_local("source", "file source", origin), *faults, *check_content("source", options)]

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool and reference of checked options."""
        return Place("local:file", str(options.get("path", "")))

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Reads once; the cursor is the hash of the content, with the options it was read under."""
        body = _read(options)
        if isinstance(body, FailedReading):
            return body
        mark = digest(canonical(dict(options)))[:16] + ":" + digest(body)
        if mark == cursor:
            return Reading(cursor=cursor, unchanged=True)
        try:
            return Reading(extract(options, body, None, "file"), cursor=mark)
        except BadContent as error:
            return FailedReading(ReadFailure.BAD_CONTENT, str(error))


def _read(options: Mapping[str, Json]) -> bytes | FailedReading:
    """Opens without waiting (a pipe would wait), looks at what was really opened, and reads up to the cap."""
    limit = options.get("max_bytes")
    limit = limit if isinstance(limit, int) else MAX_BYTES
    follow = 0 if options.get("symlinks") is True else os.O_NOFOLLOW
    path = str(options["path"])
    try:
        if not stat.S_ISREG((os.stat if not follow else os.lstat)(path).st_mode):
            return FailedReading(ReadFailure.REFUSED, "this is not a regular file" + _symlink_hint(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | follow)
    except (FileNotFoundError, NotADirectoryError):
        return FailedReading(ReadFailure.MISSING, "the file is not there")
    except (OSError, ValueError) as error:
        return FailedReading(ReadFailure.REFUSED, f"the file cannot be opened: {getattr(error, 'strerror', None) or 'bad path'}")
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return FailedReading(ReadFailure.REFUSED, "this is not a regular file")
        try:
            body = opened.read(limit + 1)
        except OSError as error:
            return FailedReading(ReadFailure.UNREACHABLE, f"the file cannot be read: {error.strerror}")
    return body if len(body) <= limit else FailedReading(ReadFailure.BAD_CONTENT, f"the file is larger than {limit:,} bytes")


def _symlink_hint(path: str) -> str:
    return "; it is a symbolic link: set symlinks = true to follow it" if os.path.islink(path) else ""
