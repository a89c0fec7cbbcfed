"""A hostile server in a thread: whatever secret it is sent, it says again, in every place and spelling it can think of."""

import base64
import binascii
import html
import json
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import quote, unquote

from tests.outside.test_redaction import ENCODINGS
from tests.security.threaded import Quiet, Threaded

SIGNED = "short-lived-signature-4711"
"""Stands in the query of the address of a result, as a signed URL has it."""
SCHEMES = ("Bearer ", "Basic ", "Token ")


def mixed_html(value: str) -> str:
    """Every other character as an entity: no spelling of the whole value occurs."""
    return "".join(f"&#{ord(c)};" if n % 2 else html.escape(c) for n, c in enumerate(value))


def mixed_json(value: str) -> str:
    """Every third character as a JSON escape."""
    return "".join(f"\\u{ord(c):04x}" if n % 3 == 1 else json.dumps(c)[1:-1] for n, c in enumerate(value))


def mixed_url(value: str) -> str:
    """Every third character percent-encoded, the others as they are unless they must be."""
    return "".join(f"%{ord(c):02x}" if n % 3 == 1 else quote(c, safe="") for n, c in enumerate(value))


class Echo(Threaded):
    """Listens on loopback; `sent` counts the secrets that came, by header value without its scheme."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        self.paths: Counter[str] = Counter()
        echo = self

        class Answers(Quiet):
            def do_GET(self) -> None:
                echo.answer(self, b"")

            def do_PUT(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                echo.bodies.append(body)
                echo.answer(self, body)

        super().__init__(Answers)

    def answer(self, asked: BaseHTTPRequestHandler, body: bytes) -> None:
        """Echoes what was sent as the path says."""
        path = asked.path.partition("?")[0]
        self.paths[path] += 1
        secrets = _secrets(dict(asked.headers.items())) or [unquote(asked.path.partition("leak=")[2]) or "none"]
        self.sent.update(secrets)
        spelled = [encode(secret) for secret in secrets for encode in ENCODINGS.values()]
        status, kind, text, more = _ANSWERS[next(part for part in _ANSWERS if path.startswith(part))](secrets, spelled)
        if isinstance(text, str):  # what only the server knows: its address, and the number of a JSON-RPC request
            number = json.loads(body).get("id") if path.startswith("/mcp") else 0
            text = text.replace("__URL__", self.url).replace('"__ID__"', json.dumps(number))
        payload = text if isinstance(text, bytes) else text.encode()
        asked.send_response(status)
        headers = {f"X-Echo-{n}": value for n, value in enumerate(spelled[:40])} | {
            "X-Request-Id": secrets[0],
            "ETag": f'"{secrets[0]}"',
        }
        for name, value in {**headers, **more, "Content-Type": kind, "Content-Length": str(len(payload))}.items():
            asked.send_header(name, value)
        asked.end_headers()
        asked.wfile.write(payload)


def _secrets(headers: Mapping[str, str]) -> list[str]:
    found = []
    for name, value in headers.items():
        if name.lower() not in ("authorization", "x-api-key", "x-own-key", "x-amz-security-token"):
            continue
        plain = next((value.removeprefix(scheme) for scheme in SCHEMES if value.startswith(scheme)), value)
        found += [value, plain]
        try:
            decoded = base64.b64decode(plain, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if ":" in decoded:
            found += [decoded, decoded.partition(":")[2]]
    return list(reversed(found))


Answer = tuple[int, str, str | bytes, dict[str, str]]


def _items(secrets: list[str], spelled: list[str]) -> Answer:
    items = [{"id": text, "title": text, "nested": {text: [text]}} for text in spelled]
    body = json.dumps({"items": items})
    loose = ",".join(f'{{"id": "m{n}", "title": "{mixed_json(secret)}"}}' for n, secret in enumerate(secrets))
    return 200, "application/json", body[:-2] + "," + loose + "]}", {}


def _page(secrets: list[str], spelled: list[str]) -> Answer:
    lines = "".join(f"<p class=price>{text}</p>" for text in [*spelled, *(mixed_html(secret) for secret in secrets)])
    return 200, "text/html", f"<html><title>{secrets[0]}</title>{lines}</html>", {}


def _wide(secrets: list[str], spelled: list[str]) -> Answer:
    return 200, "text/plain; charset=utf-16-le", "\n".join([*secrets, *spelled]).encode("utf-16-le"), {}


def _feed(secrets: list[str], spelled: list[str]) -> Answer:
    texts = [*(html.escape(text) for text in spelled), *(mixed_html(secret) for secret in secrets)]
    items = "".join(
        f"<item><guid>g{n}-{text}</guid><title>{text}</title><link>https://x.example/?{text}</link></item>"
        for n, text in enumerate(texts)
    )
    title = html.escape(secrets[0])
    return 200, "application/rss+xml", f"<rss version='2.0'><channel><title>{title}</title>{items}</channel></rss>", {}


def _redirect(secrets: list[str], spelled: list[str]) -> Answer:
    return 302, "text/plain", secrets[0], {"Location": f"/landed?x={mixed_url(secrets[0])}&leak={quote(secrets[0], safe='')}"}


def _error(secrets: list[str], spelled: list[str]) -> Answer:
    return 500, "text/html", f"<h1>failed for {secrets[0]}</h1>" + " ".join(spelled), {"Retry-After": secrets[0]}


def _denied(secrets: list[str], spelled: list[str]) -> Answer:
    return (
        401,
        "application/json",
        json.dumps({"error": f"bad key {secrets[0]}", "all": spelled}),
        {"WWW-Authenticate": secrets[-1]},
    )


def _broken(secrets: list[str], spelled: list[str]) -> Answer:
    return 200, "application/json", f'{{"a": "{secrets[0]}", "a": {secrets[0]}', {}


def _job(word: str) -> Any:
    def answer(secrets: list[str], spelled: list[str]) -> Answer:
        error = {"code": secrets[0], "message": f"it failed with {secrets[0]} " + " ".join(spelled[:20])}
        state = secrets[0] if word == "unknown" else word
        body = {
            "id": "job-1",
            "status": state,
            "error": error if word == "failed" else None,
            "output": {"url": spelled, "text": secrets[0]},
            "place": f"__URL__/out/{SIGNED}?X-Amz-Signature={SIGNED}",
            "attempt": secrets[0],
            "progress": " ".join(spelled),
        }
        return 200, "application/json", json.dumps(body), {}

    return answer


def _call(status: int, name: str = "") -> Any:
    """What a submit or cancel is answered with: the job it made, or a refusal, with the secret in all of it."""

    def answer(secrets: list[str], spelled: list[str]) -> Answer:
        error = {"code": secrets[0], "message": f"{mixed_json('x')} {secrets[0]} " + " ".join(spelled)}
        body = {"id": name or secrets[0], "shard": secrets[0], "error": error, "echo": spelled}
        return status, "application/json", json.dumps(body), {"Location": quote(secrets[0], safe=""), "Retry-After": secrets[0]}

    return answer


def _out(secrets: list[str], spelled: list[str]) -> Answer:
    names = {"Content-Disposition": f'attachment; filename="{secrets[0]}.txt"'}
    return 200, "text/plain", "\n".join([*secrets, *spelled]) * 50, names


def _rpc(secrets: list[str], spelled: list[str]) -> Answer:
    error = {"code": -32000, "message": secrets[0] + " ".join(spelled), "data": {secrets[0]: spelled}}
    body = json.dumps({"jsonrpc": "2.0", "id": "__ID__", "error": error})
    return 200, "application/json", body, {"Mcp-Session-Id": secrets[0]}


def _aws(secrets: list[str], spelled: list[str]) -> Answer:
    body = {"message": secrets[0] + " ".join(spelled), "__type": secrets[0], "code": spelled}
    return 400, "application/json", json.dumps(body), {"x-amzn-ErrorType": secrets[0], "x-amzn-RequestId": secrets[0]}


def _bucket(secrets: list[str], spelled: list[str]) -> Answer:
    says = html.escape(secrets[0])
    return (
        403,
        "application/xml",
        f"<Error><Code>{says}</Code><Message>{says} {html.escape(' '.join(spelled))}</Message></Error>",
        {},
    )


_ANSWERS = {
    "/submit/ok": _call(201, "done"),
    "/submit/running": _call(201, "running"),
    "/submit/named": _call(201),
    "/submit/bad": _call(400),
    "/submit/lost": _call(500),
    "/submit/denied": _call(401),
    "/cancel": _call(409),
    "/jobs/running": _job("running"),
    "/out": _out,
    "/mcp": _rpc,
    "/aws": _aws,
    "/bucket": _bucket,
    "/items": _items,
    "/page": _page,
    "/wide": _wide,
    "/feed": _feed,
    "/redirect": _redirect,
    "/landed": _items,
    "/error": _error,
    "/denied": _denied,
    "/broken": _broken,
    "/jobs/unknown": _job("unknown"),
    "/jobs/failed": _job("failed"),
    "/jobs/done": _job("done"),
    "/": _denied,
}
