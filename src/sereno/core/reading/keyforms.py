"""Key forms: our idempotency key as a provider wants it written. The same key always gives the same text, so a repeat is one."""

import hashlib
import re
from collections.abc import Callable, Mapping

from sereno.core.reading.calls import Idempotency, KeyForm

MAX_DASHED = 63
"""Characters: a DNS label, which is the strictest rule for names that providers document."""
_TAIL = 12
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_DASHED = re.compile(r"[a-z0-9](?:-*[a-z0-9])*", re.ASCII)
_HEX32 = re.compile(r"[0-9a-f]{32}", re.ASCII)


def sent_key(idempotency: Idempotency | None, key: str) -> str:
    """The key as it is sent. One that has the form already stays as it is; without a form every key does."""
    return key if idempotency is None else _FORMS[idempotency.form](key)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _uuid(key: str) -> str:
    """A UUID of version 8 (RFC 9562, 5.8): made of the key's SHA-256."""
    if _UUID.fullmatch(key):
        return key
    found = _digest(key)
    variant = "89ab"[int(found[16], 16) & 3]
    return f"{found[:8]}-{found[8:12]}-8{found[13:16]}-{variant}{found[17:20]}-{found[20:32]}"


def _dashed(key: str) -> str:
    """Lower-case letters, digits and inner hyphens, at most 63. What has to be replaced or cut is told apart by a piece of the digest."""
    if len(key) <= MAX_DASHED and _DASHED.fullmatch(key):
        return key
    words = re.sub(r"[^a-z0-9]+", "-", key.lower())[: MAX_DASHED - 1 - _TAIL].strip("-")
    return f"{words}-{_digest(key)[:_TAIL]}" if words else _digest(key)[:_TAIL]


def _hex32(key: str) -> str:
    return key if _HEX32.fullmatch(key) else _digest(key)[:32]


_FORMS: Mapping[KeyForm, Callable[[str], str]] = {
    KeyForm.PLAIN: lambda key: key,
    KeyForm.UUID: _uuid,
    KeyForm.DASHED: _dashed,
    KeyForm.HEX32: _hex32,
}
