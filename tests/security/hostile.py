"""A server whose texts try to steer a terminal, turn lines round, hide, and be endless."""

import html
import json
from collections import Counter

from tests.security.threaded import Quiet, Threaded

MARK = "EVILMARK"
EVIL = (
    f"{MARK}\x1b[31m\x1b]0;title\x07\x1b]8;;https://evil.example\x1b\\\x9b2J\x9d0;x\x9c\r\n\b\x7f\x00"
    "\u202egnp.exe\u2066\u2069\u200b\u200e\ufeff\u061c\u2028\u2029\u00ad\U000e0041\U000e007f"
)
LONG = EVIL + "A" * 990_000 + EVIL


def _xml(text: str) -> str:
    """The text inside XML: control characters, which XML forbids, twice escaped, so that only reading it as HTML brings them back."""
    return "".join(f"&amp;#{ord(c)};" if ord(c) < 32 or 127 <= ord(c) < 160 else html.escape(c) for c in text.replace("\x00", ""))


_HEADS = {"Content-Disposition": f"attachment; filename*=utf-8''..%2f..%2f{MARK}%1b%5b31m%e2%80%ae{'A' * 9000}"}
_ENDS = {"ok": 201, "run": 201, "odd": 201, "bad": 400, "lost": 503, "html": 201}


class Hostile(Threaded):
    """Listens on loopback; `paths` counts what was asked, `bodies` holds what was posted."""

    def __init__(self) -> None:
        self.paths: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        hostile = self

        class Answers(Quiet):
            def do_GET(self) -> None:
                hostile.paths[self.path] += 1
                status, kind, text = _answer(self.path)
                payload = text.encode("utf-8", "surrogatepass")
                self.send_response(status)
                for name, value in _HEADS.items() if self.path.startswith("/out") else ():
                    self.send_header(name, value)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(payload)))
                self.send_header("X-Request-Id", f"{MARK}-\x1b[31m")
                self.end_headers()
                self.wfile.write(payload)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path != "/hook":
                    self.do_GET()
                    return
                hostile.paths[self.path] += 1
                hostile.bodies.append(body)
                self.send_response(204)
                self.end_headers()

        super().__init__(Answers)


def _answer(path: str) -> tuple[int, str, str]:
    if path.startswith("/feed"):
        entries = "".join(
            f"<item><guid>{n}-{_xml(text[:100])}</guid><title>{_xml(text)}</title><link>javascript:{MARK}</link>"
            f"<description>{_xml(text)}</description></item>"
            for n, text in enumerate((EVIL, LONG))
        )
        return 200, "application/rss+xml", f"<rss version='2.0'><channel><title>{_xml(EVIL)}</title>{entries}</channel></rss>"
    if path.startswith("/items"):
        items = [
            {"id": f"1{EVIL}", "title": EVIL, "link": EVIL, EVIL: EVIL},
            {"id": "2", "title": LONG, "link": f"javascript:{EVIL}", "deep": [EVIL] * 3},
        ]
        return 200, "application/json", json.dumps({"items": items})
    if path.startswith("/page"):
        return 200, "text/html", f"<title>{html.escape(LONG)}</title><p>{html.escape(EVIL)}</p><p>&#27;[31m&#x202e;</p>"
    if path.startswith("/jobs"):
        return 200, "application/json", json.dumps({"status": LONG, "id": EVIL, "error": {"code": EVIL, "message": LONG}})
    if path.startswith("/submit"):
        shard = {"id": EVIL, "shard": "s"} if path.endswith("/odd") else {"id": "7", "shard": "s"}
        error = {"code": LONG, "message": LONG}
        return _ENDS[path.rpartition("/")[2]], "application/json", json.dumps({**shard, "error": error, EVIL: LONG})
    if path.startswith("/cancel"):
        return 409, "application/json", json.dumps({"error": {"code": EVIL, "message": LONG}})
    if path.startswith("/asked"):
        said = {"status": "running" if path.endswith("/run") else "done", "progress": LONG, "uid": LONG[:5000], "place": "/out"}
        port = path.split("/")[2]
        return 200, "application/json", json.dumps({**said, "place": f"http://127.0.0.1:{port}/out/{MARK}%1b%5b31m%e2%80%ae"})
    if path.startswith("/out"):
        return 200, f"text/plain; name={MARK}\x9b31m", EVIL
    if path.startswith("/done"):
        return 200, "application/json", json.dumps({"status": "done", "result": EVIL, EVIL: EVIL})
    return 500, "text/html", LONG
