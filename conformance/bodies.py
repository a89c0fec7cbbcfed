"""Bodies that are no answer, and values that headers are made of."""

import gzip
import io
import json
import re
from datetime import timedelta
from email.utils import format_datetime
from functools import cache

from conformance.clock import START

HTML = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
HUGE = 80 << 20
"""Bytes of the huge body, and of what the bomb unpacks to."""


@cache
def _bomb() -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed:
        packed.write(b'{"log": "')
        for _ in range(HUGE >> 20):
            packed.write(b"x" * (1 << 20))
        packed.write(b'"}')
    return buffer.getvalue()


def body_of(kind: str, good: dict[str, object]) -> tuple[bytes, dict[str, str]]:
    """The bytes of a kind of body and the headers that go with it; `good` is the answer that it spoils."""
    text = json.dumps(good)
    plain = {"Content-Type": "application/json"}
    spoiled = {
        "html": (HTML, {"Content-Type": "text/html; charset=utf-8"}),
        "empty": (b"", plain),
        "truncated": (text.encode()[: max(1, len(text) * 2 // 3)], plain),
        "text": (b"OK", {"Content-Type": "text/plain"}),
        "list": (b"[]", plain),
        "null": (b"null", plain),
        "deep": (b'{"a":' * 20000 + b"1" + b"}" * 20000, plain),
        "nan": (text[:-1].encode() + b', "progress": NaN}', plain),
        "utf16": (text.encode("utf-16"), plain),
    }
    if kind == "huge":
        return b"", plain
    if kind == "bomb":
        return _bomb(), {**plain, "Content-Encoding": "gzip"}
    return spoiled[kind]


def http_date(seconds: float) -> str:
    """An instant as HTTP writes it."""
    return format_datetime(START + timedelta(seconds=seconds), usegmt=True)


_DATE = re.compile(r"\{(date|rfc850|asctime):([+-]\d+)\}")
_FORMS = {"rfc850": "%A, %d-%b-%y %H:%M:%S GMT", "asctime": "%a %b %e %H:%M:%S %Y"}


def header_value(template: str, now: float) -> str:
    """Puts dates in: {date:+120} is the HTTP date in 120 seconds; rfc850 and asctime are the two old forms."""

    def put(match: re.Match[str]) -> str:
        at = now + int(match[2])
        return http_date(at) if match[1] == "date" else (START + timedelta(seconds=at)).strftime(_FORMS[match[1]])

    return _DATE.sub(put, template)
