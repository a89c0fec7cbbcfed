"""The faults of an answer to a look, by name: what goes back, whether the wait may go on after it, and whether it ends a job."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from sereno.core.observation import NoReplyKind
from sereno.testing.hostile.options import BASE


@dataclass(frozen=True, slots=True)
class Page:
    """What goes back: an HTTP answer, or (`lost`) no complete one. `seconds` is how long it takes, None = longer than anybody waits."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    lost: NoReplyKind | None = None
    sent: bool = True
    seconds: float | None = 0.2
    late: float | None = None
    """Where set: it comes so many seconds after the last instant that anybody waits for (negative: before it)."""
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `stops`: after it nothing may be asked before a person has answered (W38)."""

    page: Callable[[dict[str, object], Random], Page]
    stops: bool
    tells: bool = False
    """The state that it tells is the true one: where no attempt was seen before, it may end the wait."""


def changed(change: dict[str, object]) -> Callable[[dict[str, object], Random], Page]:
    """The honest answer with some fields changed."""
    return lambda body, dice: Page(body=json.dumps({**body, **change}).encode())


def _without(name: str) -> Callable[[dict[str, object], Random], Page]:
    return lambda body, dice: Page(body=json.dumps({key: value for key, value in body.items() if key != name}).encode())


def raw(body: bytes, content_type: str = "application/json", status: int = 200) -> Callable[[dict[str, object], Random], Page]:
    """An answer with these bytes."""
    return lambda _, dice: Page(status, body, content_type)


def _lost(kind: NoReplyKind, *, sent: bool = True, seconds: float | None = 0.2, status: int = 200) -> Callable[..., Page]:
    return lambda _, dice: Page(status, lost=kind, sent=sent, seconds=seconds)


def _status(*statuses: int) -> Callable[[dict[str, object], Random], Page]:
    return lambda body, dice: Page(dice.choice(statuses), json.dumps({"error": {"code": "x", "message": "y" * 3000}}).encode())


def _unknown(body: dict[str, object], dice: Random) -> Page:
    word = dice.choice(("DONE", "Done", "success", "succeeded ", "awaiting_review", "", "null", "完了", "done\u200b", "running2"))
    return Page(body=json.dumps({**body, "status": word, "result": f"{BASE}/r"}).encode())


def _cut(body: dict[str, object], dice: Random) -> Page:
    text = json.dumps(body).encode()
    return Page(body=text[: dice.randrange(1, len(text))])


def _utf16(body: dict[str, object], dice: Random) -> Page:
    return Page(body=json.dumps(body).encode("utf-16"))


def _bom(body: dict[str, object], dice: Random) -> Page:
    return Page(body=b"\xef\xbb\xbf" + json.dumps(body).encode())


def _twice(body: dict[str, object], dice: Random) -> Page:
    return Page(body=json.dumps(body).encode()[:-1] + b', "status": "done"}')


_GOOD = f'"status": "done", "result": "{BASE}/r"'
_ON, _STOP = False, True

FAULTS: Mapping[str, Fault] = {
    "reset": Fault(_lost(NoReplyKind.RESET), _ON),
    "timeout": Fault(_lost(NoReplyKind.TIMEOUT, seconds=None), _ON),
    "too slow": Fault(_lost(NoReplyKind.TOO_SLOW, seconds=29.0), _ON),
    "too large": Fault(_lost(NoReplyKind.TOO_LARGE, seconds=5.0), _ON),
    "bomb": Fault(_lost(NoReplyKind.BAD_ENCODING), _ON),
    "protocol": Fault(_lost(NoReplyKind.PROTOCOL), _ON),
    "dns": Fault(_lost(NoReplyKind.DNS, sent=False), _ON),
    "refused": Fault(_lost(NoReplyKind.CONNECT, sent=False), _ON),
    "tls": Fault(_lost(NoReplyKind.TLS, sent=False), _ON),
    "redirect": Fault(_lost(NoReplyKind.REDIRECT, status=302), _STOP),
    "5xx": Fault(_status(500, 502, 503, 504, 520), _ON),
    "5xx page": Fault(raw(b"<html><h1>done</h1></html>", "text/html", 502), _ON),
    "408": Fault(_status(408, 425), _ON),
    "429": Fault(_status(429), _ON),
    "4xx": Fault(_status(400, 402, 409, 418, 422), _STOP),
    "denied": Fault(_status(401, 403), _STOP),
    "gone": Fault(_status(404, 410), _STOP),
    "3xx": Fault(_status(304, 301, 308), _STOP),
    "page": Fault(raw(b"<!doctype html><title>done</title>", "text/html"), _STOP),
    "page as json": Fault(raw(b"<!doctype html><title>done</title>"), _STOP),
    "empty": Fault(raw(b""), _STOP),
    "204": Fault(raw(b"", status=204), _STOP),
    "206": Fault(raw(f"{{{_GOOD}}}".encode(), status=206), _STOP),
    "cut": Fault(_cut, _STOP),
    "utf-16": Fault(_utf16, _STOP),
    "bom": Fault(_bom, _STOP),
    "same key twice": Fault(_twice, _STOP),
    "nan": Fault(raw(f'{{{_GOOD}, "percent": NaN}}'.encode()), _STOP),
    "1e400": Fault(raw(f'{{{_GOOD}, "percent": 1e400}}'.encode()), _STOP),
    "long integer": Fault(raw(f'{{{_GOOD}, "percent": {"9" * 5000}}}'.encode()), _STOP),
    "deep": Fault(raw(b"[" * 5000 + b"]" * 5000), _STOP),
    "lone surrogate": Fault(raw(f'{{{_GOOD}, "note": "\\ud800"}}'.encode()), _STOP),
    "other job": Fault(changed({"id": "job-of-another", "status": "done", "result": f"{BASE}/r"}), _STOP),
    "no job": Fault(_without("id"), _STOP),
    "no state": Fault(_without("status"), _STOP),
    "null state": Fault(changed({"status": None}), _STOP),
    "list as state": Fault(changed({"status": ["done"]}), _STOP),
    "unknown state": Fault(_unknown, _STOP),
    "no result": Fault(changed({"status": "done", "result": None}), _STOP),
    "result no address": Fault(changed({"status": "done", "result": "soon"}), _STOP),
    "paused": Fault(changed({"status": "paused"}), _STOP),
    "partial": Fault(changed({"status": "partial"}), _STOP),
    "expired yet running": Fault(changed({"status": "running", "expires_at": "2020-01-01T00:00:00Z"}), _STOP),
    "another attempt": Fault(changed({"attempt": 2}), _ON, tells=True),
    "moved away": Fault(changed({"status": "running", "moved_to": "https://evil.example/jobs/1"}), _STOP),
    "moved back": Fault(changed({"status": "running", "moved_to": "/jobs/../secret"}), _STOP),
}
"""Every one of them must be met in a run of 1,000 operations."""
