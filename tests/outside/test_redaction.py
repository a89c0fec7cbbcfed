"""Canaries: an echoing server returns each secret in every spelling; none is found in replies, texts or logs."""

import asyncio
import base64
import html
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.observation import HttpReply
from sereno.outside.redaction import Redaction, RedactionFilter, forms_of
from sereno.outside.secret import MASK, Secret
from sereno.ports import CredentialConfig, Fetch, SecretPlace
from tests.outside.rawserver import RawServer, make_gate, ok

CANARIES = (
    "sk-canary-0000000000000001",
    "canary2/with+base64==chars",
    'canary3"quote\\backslash',
    "canary4<html>&amp;'x'",
    "canary5 with space % percent",
    "canary6?query=1&b=2#frag",
    "canary7:basic:pair",
    "CANARY8UPPERCASE0123456789",
    "canary9~._-unreserved",
    "canary10",
    "canary11{json:[1,2]}",
    "canary12-" + "x" * 200,
)


def aligned(offset: int) -> Callable[[str], str]:
    """The value inside a longer base64 text, so many bytes in."""
    return lambda value: base64.b64encode(b"abc"[:offset] + value.encode() + b"~tail").decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "base64, aligned 0": aligned(0),
    "base64, aligned 1": aligned(1),
    "base64, aligned 2": aligned(2),
    "base64 url-safe": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "url": lambda value: quote(value, safe=""),
    "url, form": quote_plus,
    "url, lower-case escapes": lambda value: re.sub("%..", lambda match: match[0].lower(), quote(value, safe="")),
    "url, every byte": lambda value: "".join(f"%{byte:02X}" for byte in value.encode()),
    "json": lambda value: json.dumps({"k": value}),
    "html": html.escape,
    "html, every character": lambda value: "".join(f"&#{ord(c)};" for c in value),
    "hex": lambda value: value.encode().hex(),
    "repr": repr,
}


def readings(text: str) -> list[str]:
    """What a reader could make of a text: as it stands, and with each textual escape undone. Written without the code under test."""
    unescaped = text.replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")
    return [text, unquote(text), unquote_plus(text), html.unescape(text), unescaped]


def words(text: str) -> Iterator[bytes]:
    """What base64 and hex runs of a text decode to, at every offset."""
    for word in re.findall(r"[A-Za-z0-9+/_-]{8,}", text):
        for start in range(4):
            run = word[start:].replace("-", "+").replace("_", "/")
            run = run[:-1] if len(run) % 4 == 1 else run
            yield base64.b64decode(run + "=" * (-len(run) % 4))
    for word in re.findall(r"[0-9a-fA-F]{12,}", text):
        for start in range(2):
            run = word[start:]
            yield bytes.fromhex(run[: len(run) // 2 * 2])


def leaks(text: str, canary: str) -> bool:
    """True where the canary can be read out of the text again."""
    return any(canary in reading for reading in readings(text)) or any(canary.encode() in word for word in words(text))


def test_the_leak_detector_finds_every_encoding() -> None:
    """Control: unredacted, each spelling of each canary is found."""
    for canary in CANARIES:
        for name, encode in ENCODINGS.items():
            text = f"before {encode(canary)} after"
            assert leaks(text, canary), (name, canary)


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_spelling_is_taken_out_of_text_and_bytes(name: str) -> None:
    """12 canaries in each encoding: the mask stands in their place and nothing can be decoded again."""
    redaction = Redaction()
    for canary in CANARIES:
        redaction.learn(Secret(canary))
    for canary in CANARIES:
        text = f'{{"a": "before {ENCODINGS[name](canary)} after"}}'
        clean = redaction.redact(text)
        assert MASK in clean and not leaks(clean, canary), (canary, clean)
        assert redaction.redact_bytes(text.encode()).decode() == clean
        assert clean.startswith('{"a": "before ') and clean.endswith(' after"}')


@given(st.text(min_size=6, max_size=60), st.binary(max_size=20), st.binary(max_size=20))
def test_any_secret_is_found_inside_any_base64_text(secret: str, before: bytes, after: bytes) -> None:
    """Whatever stands before and after it, and for any characters."""
    try:
        raw = secret.encode()
    except UnicodeEncodeError:
        return
    redaction = Redaction()
    redaction.learn(secret)
    assert MASK in redaction.redact(base64.b64encode(before + raw + after).decode())
    assert (
        MASK in redaction.redact(f"x{secret}y")
        and MASK in redaction.redact(json.dumps(secret))
        and MASK in redaction.redact(html.escape(secret))
    )


def test_texts_without_a_secret_are_the_same_object() -> None:
    """Nothing is copied where nothing is found; short values are not learned."""
    redaction = Redaction()
    redaction.learn("abc")
    text = "abc def"
    assert redaction.redact(text) is text and not redaction.byte_forms
    redaction.learn("abcdef-secret")
    assert redaction.redact(text) is text and len(forms_of("abcdef-secret")) >= 8


def test_values_are_cleaned_through_containers() -> None:
    """Mappings, lists, bytes, nested; numbers stay."""
    redaction = Redaction()
    redaction.learn("canary-value")
    value = {
        "a": ["x canary-value", 1, None, {"canary-value": b"canary-value"}],
        "s": Secret("canary-value"),
        "e": ValueError("canary-value"),
    }
    assert "canary-value" not in repr(redaction.redact_value(value))
    assert redaction.redact_value([1, 2.5, True, None]) == [1, 2.5, True, None]


async def test_W25_an_echoing_server_s_replies_hold_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    """12 canaries, each sent as a credential and echoed in 14 encodings in headers, body and error text: 0 hits in replies and logs
    (incident 22)."""

    async def echo(request: bytes, writer: asyncio.StreamWriter) -> None:
        sent = next(line.split(b": ", 1)[1].decode() for line in request.split(b"\r\n") if line.lower().startswith(b"x-key:"))
        echoes = [encode(sent) for encode in ENCODINGS.values()]
        headers = "".join(f"X-Echo-{n}: {text}\r\n" for n, text in enumerate(echoes)) + f"Location: /x?{quote(sent, safe='')}\r\n"
        body = json.dumps({"error": f"bad token {sent}", "echoes": echoes, "pad": "x" * (300_000 if b"/large" in request else 0)})
        writer.write(ok(body.encode(), headers=headers.encode(), status=b"401 " + sent.encode()))

    caplog.set_level(logging.DEBUG)
    async with RawServer(echo) as server:
        configs = {
            f"k{n}": CredentialConfig(server.url, SecretPlace(env=f"K{n}"), header="X-Key", scheme="")
            for n in range(len(CANARIES))
        }
        environment = {f"K{n}": canary for n, canary in enumerate(CANARIES)}
        gate = make_gate("127.0.0.1", credentials=configs, environment=environment)
        for n, canary in enumerate(CANARIES):
            for path in ("/x", "/large"):
                reply = await gate.fetch(Fetch(server.url + path, credential=f"k{n}"))
                assert isinstance(reply, HttpReply) and canary.encode() in server.requests[-1]
                shown = repr(reply.headers) + reply.body.decode() + repr(reply)
                assert MASK in shown and not leaks(shown, canary), canary
        await gate.close()
    assert not any(leaks(record.getMessage(), canary) for record in caplog.records for canary in CANARIES)


@pytest.fixture
def logger() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger with its own handler."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    found = logging.getLogger("sereno-test-redaction")
    found.addHandler(handler)
    found.setLevel(logging.DEBUG)
    found.propagate = False
    yield found, out
    found.removeHandler(handler)


def test_log_records_are_cleaned_on_every_handler(logger: tuple[logging.Logger, io.StringIO]) -> None:
    """Message, arguments, traceback and stack of every record; installing twice adds one filter (incident 22)."""
    log, out = logger
    redaction = Redaction()
    for canary in CANARIES:
        redaction.learn(canary)
    redaction.install()
    redaction.install()
    assert sum(isinstance(item, RedactionFilter) and item.redaction is redaction for item in log.handlers[0].filters) == 1
    for canary in CANARIES:
        for encode in ENCODINGS.values():
            log.info("plain %s", encode(canary))
            log.info(f"formatted {encode(canary)}", stack_info=False)
        try:
            raise RuntimeError(f"failed with {canary}")
        except RuntimeError:
            log.exception("error %(a)s", {"a": canary})
    text = out.getvalue()
    assert "Traceback" in text and text.count("\n") > 300 and MASK in text
    assert not any(leaks(text, canary) for canary in CANARIES)
    assert logging.getLogger("aiohttp.client").level == logging.getLogger("httpx").level == logging.WARNING
    for handler in (*logging.getLogger().handlers, *log.handlers):
        for item in [item for item in handler.filters if isinstance(item, RedactionFilter)]:
            handler.removeFilter(item)


def test_structured_log_events_are_cleaned() -> None:
    """The structlog processor cleans keys, values, nested ones and rendered tracebacks."""
    redaction = Redaction()
    redaction.learn("canary-value")
    out = io.StringIO()
    log = structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=[structlog.processors.format_exc_info, redaction.processor, structlog.processors.JSONRenderer(default=repr)],
    )
    try:
        raise ValueError("canary-value")
    except ValueError:
        log.error("failed canary-value", url="https://x/?t=canary-value", nested={"a": ["canary-value"]}, exc_info=True)
    assert "canary-value" not in out.getvalue() and out.getvalue().count(MASK) >= 4
