"""The playground: a loopback server with a feed that grows, a price page, a JSON API with ETag and a job provider with good and
hostile jobs. `sereno demo` watches it; the tests use it; `python -m sereno.testing.playground` starts it alone.

It prints one line of JSON with its address, then serves until its standard input closes or it is told to end. With `--still` nothing
changes by itself: feed and price move when `/control/feed` and `/control/price` are asked to.
"""

import asyncio
import hashlib
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from aiohttp import web

FEED_ENTRIES = 12
FEED_STEP_S = 9.0
"""A new entry appears this often, three times."""
PRICES = ((0.0, "49.00"), (6.0, "39.00"), (13.0, "52.00"), (20.0, "37.50"))
"""(seconds since start, price): below 40 twice, with a rise between."""
SCRIPTS = {
    "slow": ("queued", "running", "running", "succeeded"),
    "busy": ("503", "running", "succeeded"),
    "brief": ("503", "succeeded"),
    "late": ("404", "404", "running", "succeeded"),
    "hollow": ("running", "succeeded-without-result"),
    "unknown": ("running", "awaiting_review", "awaiting_review", "succeeded"),
    "failing": ("running", "failed"),
    "endless": ("running",),
}
"""What each kind of job answers, look by look; the last answer stays."""


Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Job:
    """One job with the provider's own book of the requests that reached it."""

    id: str
    script: tuple[str, ...]
    looks: int = 0
    looked_at: list[float] = field(default_factory=list)


class Playground:
    """The state behind the routes, and the books. `still` stops what else would change with time."""

    def __init__(self, *, still: bool = False) -> None:
        self._started = asyncio.get_running_loop().time()
        self.jobs: dict[str, Job] = {}
        self.received: list[dict[str, object]] = []
        self.extra_entries = 0
        self.requests = 0
        self.not_modified: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.prices_shown: list[str] = []
        self._still = still
        self._price: str | None = PRICES[0][1] if still else None

    def seconds(self) -> float:
        """Seconds since the playground opened."""
        return asyncio.get_running_loop().time() - self._started

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(middlewares=[self._count])
        app.add_routes(
            [
                web.get("/feed.xml", self.feed),
                web.get("/shop/kettle", self.price_page),
                web.get("/api/status", self.api),
                web.post("/jobs", self.submit),
                web.get("/jobs/{id}", self.look),
                web.get("/books", self.books),
                web.post("/inbox", self.inbox),
                web.post("/control/feed", self.grow),
                web.post("/control/price", self.reprice),
            ]
        )
        return app

    @web.middleware
    async def _count(self, request: web.Request, handler: Step) -> web.StreamResponse:
        self.requests += 1
        response = await handler(request)
        self.answered[request.path] += 1
        self.not_modified[request.path] += response.status == 304
        return response

    async def feed(self, request: web.Request) -> web.Response:
        """An RSS feed, newest entry first."""
        grown = 0 if self._still else min(3, int(self.seconds() // FEED_STEP_S))
        count = FEED_ENTRIES + grown + self.extra_entries
        items = "".join(
            f"<item><guid>note-{n}</guid><title>{escape(f'Harbour note {n}')}</title><link>http://{request.host}/notes/{n}</link>"
            f"<description>{escape(f'Boat {n} came in with the tide.')}</description></item>"
            for n in range(count, 0, -1)
        )
        text = f'<?xml version="1.0"?><rss version="2.0"><channel><title>Harbour notes</title>{items}</channel></rss>'
        return _with_etag(request, text, "application/rss+xml")

    async def price_page(self, request: web.Request) -> web.Response:
        """A shop page whose price falls, rises and falls again."""
        price = self._price or next(price for start, price in reversed(PRICES) if self.seconds() >= start)
        text = f"<!doctype html><title>Kettle</title><h1>Copper kettle</h1><p class=price>{price}</p><p>In stock.</p>"
        response = _with_etag(request, text, "text/html")
        if response.status == 200:
            self.prices_shown.append(price)
        return response

    async def api(self, request: web.Request) -> web.Response:
        """A JSON API that answers 304 while nothing changes."""
        tide = "high" if not self._still and int(self.seconds() // 15) % 2 else "low"
        return _with_etag(request, json.dumps({"harbour": "open", "tide": tide}), "application/json")

    async def submit(self, request: web.Request) -> web.Response:
        """Takes a job: `{"script": "slow"}`."""
        body = await request.json()
        script = SCRIPTS.get(str(body.get("script", "slow")), SCRIPTS["slow"])
        job = Job(f"job-{len(self.jobs) + 1}", script)
        self.jobs[job.id] = job
        return web.json_response({"id": job.id, "status": "queued"}, status=202, headers={"Location": f"/jobs/{job.id}"})

    async def look(self, request: web.Request) -> web.Response:
        """Answers a status request and writes it into the provider's book."""
        job = self.jobs.get(request.match_info["id"])
        if job is None:
            return web.json_response({"error": "no such job"}, status=404)
        word = job.script[min(job.looks, len(job.script) - 1)]
        job.looks += 1
        job.looked_at.append(self.seconds())
        if word == "503":
            return web.Response(status=503, text="<html>busy</html>", content_type="text/html", headers={"Retry-After": "3"})
        if word == "404":
            return web.json_response({"error": "not here yet"}, status=404)
        body: dict[str, object] = {"id": job.id, "status": word.removesuffix("-without-result")}
        if word == "succeeded":
            body["output"] = {"url": f"http://{request.host}/results/{job.id}", "pages": 3}
        if word == "failed":
            body["error"] = {"code": "paper_jam", "message": "The printer is out of paper."}
        return web.json_response(body)

    async def books(self, request: web.Request) -> web.Response:
        """The provider's own books."""
        jobs = {job.id: {"looks": job.looks, "looked_at": job.looked_at} for job in self.jobs.values()}
        pages = {path: {"answered": count, "not_modified": self.not_modified[path]} for path, count in self.answered.items()}
        body = {"jobs": jobs, "pages": pages, "prices_shown": self.prices_shown, "received": self.received}
        return web.json_response({**body, "requests": self.requests})

    async def inbox(self, request: web.Request) -> web.Response:
        """A receiver that keeps idempotency keys: the same key takes effect once."""
        key = request.headers.get("Idempotency-Key", "")
        known = any(item["key"] == key for item in self.received)
        self.received.append({"key": key, "body": await request.json(), "repeated": known})
        return web.json_response({"taken": not known})

    async def grow(self, request: web.Request) -> web.Response:
        """Adds entries to the feed now."""
        self.extra_entries += int(request.query.get("add", "1"))
        return web.json_response({"extra_entries": self.extra_entries})

    async def reprice(self, request: web.Request) -> web.Response:
        """Sets the price; from then on it stays."""
        self._price = str(request.query["value"])
        return web.json_response({"price": self._price})


def _with_etag(request: web.Request, text: str, content_type: str) -> web.Response:
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={"ETag": tag})
    return web.Response(text=text, content_type=content_type, headers={"ETag": tag})


async def serve(port: int = 0, *, still: bool = False) -> tuple[web.AppRunner, str]:
    """Starts on a free loopback port; answers the runner and the base URL."""
    runner = web.AppRunner(Playground(still=still).app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, bound = runner.addresses[0][:2]
    return runner, f"http://{host}:{bound}"


async def _main() -> None:
    ports = [int(word) for word in sys.argv[1:] if word.isdigit()]
    runner, base = await serve(ports[0] if ports else 0, still="--still" in sys.argv[1:])
    print(json.dumps({"base": base}), flush=True)
    await _until_input_closes()
    await runner.cleanup()


async def _until_input_closes() -> None:
    """Waits for the end of standard input; where that cannot be watched (a file, /dev/null) it never comes, only a signal does."""
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or sys.stdin.isatty()):
        await asyncio.Event().wait()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass


if __name__ == "__main__":
    try:
        asyncio.run(_main())
    except KeyboardInterrupt:
        sys.exit(130)
