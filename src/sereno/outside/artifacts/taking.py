"""What one artifact has to be while it comes in: of an accepted media type, within its cap, hashed on the way."""

import errno
import hashlib
import re
from collections.abc import Sequence

from sereno.core.artifact import Artifact
from sereno.core.errors import NotFound
from sereno.core.reading.answer import clean

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TYPE_CHARS = 200
UNKNOWN_TYPE = "application/octet-stream"


class Taking:
    """Judges and measures one body. Nothing that the other side says becomes part of a path."""

    def __init__(self, types: Sequence[str], max_bytes: int):
        self._types = [word.lower() for word in types]
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._content_type = UNKNOWN_TYPE
        self.size = 0

    def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        """True for a whole 2xx answer of an accepted type. 206 is a part of something."""
        found = next((value for name, value in headers if name.lower() == "content-type"), "")
        media = found.split(";")[0].strip().lower()
        if not 200 <= status < 300 or status == 206 or not self._accepts(media):
            return False
        self._content_type = clean(found.strip(), _TYPE_CHARS) or UNKNOWN_TYPE
        return True

    def _accepts(self, media: str) -> bool:
        if not self._types or "*/*" in self._types:
            return True
        return media in self._types or f"{media.partition('/')[0]}/*" in self._types

    def add(self, chunk: bytes) -> None:
        """Counts and hashes. Raises OSError (EFBIG) over the cap, before anything is written."""
        if self.size + len(chunk) > self._max_bytes:
            raise OSError(errno.EFBIG, "over the size cap")
        self.size += len(chunk)
        self._hash.update(chunk)

    def artifact(self) -> Artifact:
        """What came in."""
        return Artifact(self._hash.hexdigest(), self.size, self._content_type)


def checked_digest(digest: str) -> str:
    """The same text where it is a SHA-256 in lower-case hex. Raises NotFound for anything else: only such names are ever opened."""
    if not _DIGEST.fullmatch(digest):
        raise NotFound(
            "there is no kept result of this name", subject=clean(digest, 80), hint="a name is a SHA-256 in lower-case hex"
        )
    return digest
