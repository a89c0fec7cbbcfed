"""Artifacts in a folder: `ab/cdef…`, named by their hash and by nothing else."""

import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

from sereno.core.artifact import Artifact
from sereno.core.errors import NotFound, Unavailable
from sereno.outside.artifacts import folder
from sereno.outside.artifacts.taking import Taking, checked_digest

TEMPORARY = "incoming"
"""Where files are while they are written; no hash starts so."""
PIECE = 65_536
LEAST_ROOM = 1_000_000
"""Bytes; with fewer the disk counts as full."""
_SYNC_EVERY = 4_194_304
"""Bytes after which what came is put on the disk, so that no single wait for it is long."""


class FileArtifacts:
    """Implements `ports.ArtifactStore` over a folder, which is made at the first use.

    A file is written under a temporary name, put on the disk, and renamed: what stands under a hash is whole. Temporary files of
    processes that died are removed when the next artifact comes in.
    """

    def __init__(self, root: Path):
        self.root = root

    async def incoming(self, *, types: Sequence[str] = (), max_bytes: int) -> "IncomingFile":
        """A place for one artifact. Raises Unavailable where the folder cannot be written."""
        try:
            with folder.opened(self.root) as root, folder.entered(root, TEMPORARY, make=True) as temporary:
                folder.sweep(temporary)
                return IncomingFile(self.root, folder.new_file(temporary), Taking(types, max_bytes))
        except OSError as error:
            raise _unavailable(error, "written") from error

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """The content in pieces. Raises NotFound; Unavailable where it cannot be read, or (after the last piece) is not what it was."""
        found, descriptor = hashlib.sha256(), self._open(checked_digest(digest))
        try:
            while piece := os.read(descriptor, PIECE):
                found.update(piece)
                yield piece
        except OSError as error:
            raise _unavailable(error, "read") from error
        finally:
            os.close(descriptor)
        if found.hexdigest() != digest:
            raise Unavailable(
                "the kept result is damaged: its content is not what its name says", subject=digest, code="artifact_damaged"
            )

    def trouble(self) -> str | None:
        """Looks at the folder, or at where it will be made: is it a folder, may we write, is there room?"""
        place = next(path for path in (self.root, *self.root.parents) if os.path.lexists(path))
        try:
            if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
                return f"{place} is no folder that can be written"
            room = os.statvfs(place)
        except OSError as error:
            return f"{place} cannot be looked at ({error.strerror})"
        return f"{place} has no room left" if room.f_bavail * room.f_frsize < LEAST_ROOM else None

    def _open(self, digest: str) -> int:
        try:
            with folder.opened(self.root) as root, folder.entered(root, digest[:2]) as parent:
                return folder.open_regular(parent, digest[2:])
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound("there is no kept result of this name", subject=digest) from error
        except OSError as error:
            raise _unavailable(error, "read") from error


class IncomingFile:
    """Implements `ports.Incoming`: one file that is being written."""

    def __init__(self, root: Path, file: tuple[str, int], taking: Taking):
        self._root = root
        self._name, self._descriptor = file
        self._taking = taking
        self._unsynced = 0
        self._open = True

    def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        """True for a whole 2xx answer of an accepted type."""
        return self._taking.begin(status, headers)

    async def write(self, chunk: bytes) -> None:
        """Appends. Raises OSError: EFBIG over the cap, ENOSPC on a full disk."""
        self._taking.add(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._unsynced += len(chunk)
        if self._unsynced >= _SYNC_EVERY:
            os.fdatasync(self._descriptor)
            self._unsynced = 0

    async def finish(self) -> Artifact:
        """Puts it under its hash; whatever stood there is replaced by the same content. Raises Unavailable."""
        artifact = self._taking.artifact()
        try:
            os.fsync(self._descriptor)
            with (
                folder.opened(self._root) as root,
                folder.entered(root, TEMPORARY) as temporary,
                folder.entered(root, artifact.digest[:2], make=True) as parent,
            ):
                os.rename(self._name, artifact.digest[2:], src_dir_fd=temporary, dst_dir_fd=parent)
                os.fsync(parent)
        except OSError as error:
            await self.abandon()
            raise _unavailable(error, "written") from error
        self._close()
        return artifact

    async def abandon(self) -> None:
        """Removes what was written. After `finish` it does nothing."""
        if not self._open:
            return
        with suppress(OSError), folder.opened(self._root) as root, folder.entered(root, TEMPORARY) as temporary:
            os.unlink(self._name, dir_fd=temporary)
        self._close()

    def piece(self, start: int, length: int) -> bytes:
        """A part of what came so far."""
        return os.pread(self._descriptor, length, start)

    def seen(self) -> Artifact:
        """What came so far, as it would be named."""
        return self._taking.artifact()

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._descriptor)


def _unavailable(error: OSError, verb: str) -> Unavailable:
    """Names the reason, not the path: this text is stored with the delivery."""
    why = error.strerror or type(error).__name__
    return Unavailable(
        f"the folder of kept results cannot be {verb} ({why})",
        hint="see [artifacts] in the settings: space, owner and mode of the folder",
        code="artifacts_unavailable",
    )
