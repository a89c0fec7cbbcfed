"""Takes known secret values out of text, as a second net: raw, base64 (any alignment), hex, URL-, JSON- and HTML-encoded."""

import base64
import html
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TypeVar, cast
from urllib.parse import quote, quote_plus

from sereno.outside.secret import MASK, Secret

SHORTEST = 6
"""A shorter value would blacken ordinary text; credentials refuse it."""

_NOISY = (
    "aiohttp",
    "aiohttp.access",
    "aiohttp.client",
    "aiohttp.internal",
    "asyncio",
    "botocore",
    "httpx",
    "httpcore",
    "urllib3",
)
_MARKERS = (b"&#", b"\\", b"%")
_MASK_BYTES = MASK.encode()
_MUCH = 1_000_000
T = TypeVar("T")


def forms_of(value: str) -> frozenset[str]:
    """Lists the spellings of a value that are looked for."""
    raw = value.encode()
    forms = {
        value,
        quote(value, safe=""),
        quote_plus(value, safe=""),
        quote(value),
        html.escape(value),
        html.escape(value, quote=False),
    }
    forms |= {_lower_escapes(form) for form in forms if "%" in form}
    forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1].replace("/", "\\/")}
    forms |= {repr(value)[1:-1], raw.hex(), raw.hex().upper()}
    forms |= {"".join(f"%{byte:02x}" for byte in raw), "".join(f"%{byte:02X}" for byte in raw)}
    forms |= {
        "".join(f"&#{ord(c)};" for c in value),
        "".join(f"&#x{ord(c):x};" for c in value),
        "".join(f"\\u{ord(c):04x}" for c in value),
    }
    forms |= {form for offset in range(3) for form in _base64_forms(raw, offset)}
    return frozenset(forms)


def _lower_escapes(text: str) -> str:
    pieces = text.split("%")
    return pieces[0] + "".join("%" + piece[:2].lower() + piece[2:] for piece in pieces[1:])


def _base64_forms(raw: bytes, offset: int) -> Iterable[str]:
    """The characters that the value alone decides when it stands `offset` bytes into a base64 text."""
    start, end = -(-8 * offset // 6), 8 * (offset + len(raw)) // 6
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(b"\0" * offset + raw).decode()[start:end]


def _texts_in(value: object) -> Iterator[str]:
    """Every text inside a record, keys of mappings too."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case bytes() as data:
                yield data.decode("latin-1")
            case Mapping() as table:
                waiting += [*table.keys(), *table.values()]
            case list() | tuple() as items:
                waiting += items
            case record if is_dataclass(record) and not isinstance(record, type):
                waiting += [getattr(record, item.name) for item in fields(record)]


def _by_marker(forms: Iterable[bytes]) -> tuple[tuple[bytes, tuple[bytes, ...]], ...]:
    """Groups the forms by a rare character that each of them holds, so that most data is cleared by looking for that alone."""
    groups: dict[bytes, list[bytes]] = {}
    for form in forms:
        groups.setdefault(next((marker for marker in _MARKERS if marker in form), b""), []).append(form)
    return tuple((marker, tuple(found)) for marker, found in groups.items())


class Redaction:
    """The secrets known to this process and their spellings. One object a process; the gate teaches it what it resolves."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._texts: tuple[str, ...] = ()
        self._bytes: tuple[bytes, ...] = ()
        self._groups: tuple[tuple[bytes, tuple[bytes, ...]], ...] = ()

    def learn(self, secret: Secret | str) -> None:
        """Adds a value (and each line of a longer one); values under 6 characters are not learned."""
        value = secret.reveal() if isinstance(secret, Secret) else secret
        if value in self._known or len(value) < SHORTEST:
            return
        self._known.add(value)
        forms = {*self._texts, *forms_of(value)}
        self._texts = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._bytes = tuple(form.encode("utf-8", "surrogatepass") for form in self._texts)
        self._groups = _by_marker(self._bytes)

    @property
    def byte_forms(self) -> tuple[bytes, ...]:
        """Longest first, for callers that search in steps."""
        return self._bytes

    def occurs(self, data: bytes) -> bool:
        """True where any known spelling stands in the bytes: one pass a spelling, nothing is copied."""
        for marker, forms in self._groups:  # plain loops: this runs for each reply
            if marker in data:
                for form in forms:
                    if form in data:
                        return True
        return False

    def redact(self, text: str) -> str:
        """Replaces every known spelling by `[secret]`; text without one comes back as the same object."""
        for form in self._texts:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def redact_bytes(self, data: bytes) -> bytes:
        """The same for bytes."""
        if not self.occurs(data):
            return data
        for form in self._bytes:
            data = data.replace(form, _MASK_BYTES)
        return data

    def redact_value(self, value: object) -> object:
        """The same through mappings, sequences, bytes and secrets; other objects are kept unless their repr holds a secret."""
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self.redact(value)
            case bytes():
                return self.redact_bytes(value)
            case Mapping():
                return {self.redact_value(key): self.redact_value(inner) for key, inner in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self.redact_value(inner) for inner in value]
            case _:
                shown = repr(value)
                clean = self.redact(shown)
                return value if clean is shown else clean

    def redact_record(self, value: T) -> T:
        """The same through records (dataclasses) and what they hold; without a secret inside, the same object at the cost of a search.

        In more than 1 MB of text only the values themselves are looked for: their other spellings were taken out of the reply already.
        """
        if not self._known:
            return value
        whole = "\0".join(_texts_in(value)).encode("utf-8", "surrogatepass")
        found = self.occurs(whole) if len(whole) <= _MUCH else any(known.encode() in whole for known in self._known)
        return cast("T", self._rebuilt(value)) if found else value

    def _rebuilt(self, value: object) -> object:
        match value:
            case Enum():
                return value
            case str():
                return self.redact(value)
            case bytes():
                return self.redact_bytes(value)
            case Mapping():
                return {self._rebuilt(key): self._rebuilt(inner) for key, inner in value.items()}
            case tuple():
                return tuple(self._rebuilt(inner) for inner in value)
            case list():
                return [self._rebuilt(inner) for inner in value]
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{item.name: self._rebuilt(getattr(value, item.name)) for item in fields(value) if item.init})
        return value

    def processor(self, logger: object, method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
        """A structlog processor; it stands last before the renderer, and once more after traceback formatting."""
        return {self.redact(key): self.redact_value(value) for key, value in event.items()}

    def install(self, *handlers: logging.Handler) -> None:
        """Puts the filter on the given handlers and on every handler of every logger there is, and quiets HTTP libraries."""
        loggers = [
            logging.getLogger(),
            *(item for item in logging.Logger.manager.loggerDict.values() if isinstance(item, logging.Logger)),
        ]
        for handler in (*handlers, *(handler for logger in loggers for handler in logger.handlers)):
            if not any(isinstance(item, RedactionFilter) and item.redaction is self for item in handler.filters):
                handler.addFilter(RedactionFilter(self))
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)


class RedactionFilter(logging.Filter):
    """Rewrites a log record so that message, arguments and traceback hold no known secret."""

    def __init__(self, redaction: Redaction):
        super().__init__()
        self.redaction = redaction

    def filter(self, record: logging.LogRecord) -> bool:
        """Always lets the record through."""
        record.msg, record.args = self.redaction.redact(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text, record.exc_info = self.redaction.redact(record.exc_text), None
        if record.stack_info:
            record.stack_info = self.redaction.redact(record.stack_info)
        return True
