"""The egress gate, the one way out for HTTP (seam 3): address, credential, size, rate and time are decided here."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache

from aiohttp import hdrs

from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.outside.credentials import Credentials
from sereno.outside.egress import hops
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.body import Clocked, check_headers, read_body
from sereno.outside.egress.deadline import Deadlines
from sereno.outside.egress.exchange import Exchange, OpenSocket, enter, leave, plain_socket
from sereno.outside.egress.failure import BadRedirect, Failures, classify
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.resolve import Refused, Resolve, SystemResolver, check_target
from sereno.outside.egress.sinking import MOST_DECLINED, Scrubbed, stream_body
from sereno.outside.egress.wire import Answer, Wire
from sereno.outside.redaction import Redaction
from sereno.outside.signing import authorized
from sereno.outside.url import BadUrl, Target, parse_origin, parse_url
from sereno.ports import Fetch

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te", "trailer", "upgrade", "expect"}
    | {"keep-alive", "proxy-authorization", "proxy-connection", "cookie"}
)
_LARGE = 262_144
_ORIGINS_KEPT = 4_096


@dataclass(frozen=True, slots=True)
class Seams:
    """What tests replace: the resolver, the opening of sockets, the trust in certificates."""

    resolve: Resolve | None = None
    open_socket: OpenSocket = plain_socket
    tls: ssl.SSLContext | None = None


@dataclass(slots=True)
class _Hop:
    """The request of one hop."""

    target: Target
    method: str
    headers: Mapping[str, str]
    body: bytes | None = field(repr=False)


class Gate:
    """Implements `ports.Transport` over aiohttp. Bound to the event loop of its first fetch."""

    def __init__(
        self,
        *,
        allow: Allow,
        credentials: Credentials,
        redaction: Redaction,
        limits: GateLimits | None = None,
        seams: Seams | None = None,
    ):
        self._allow = allow
        self._credentials = credentials
        self._redaction = redaction
        self._limits = limits or GateLimits()
        self._seams = seams or Seams()
        self._wire: Wire | None = None
        self._deadlines: Deadlines | None = None
        self._places: set[str] = set()
        """Origins that passed `check_target`, which looks at nothing else of a URL."""
        self._system_resolver: SystemResolver | None = None

    async def fetch(self, request: Fetch) -> Reply:
        """Sends at most once, plus the hops that `before_hop` allowed. What the world does is a value."""
        start = asyncio.get_running_loop().time()
        try:
            hop = self._first_hop(request)
        except (BadUrl, Refused) as error:
            return NoReply(NoReplyKind.REFUSED_ADDRESS, self._redaction.redact(str(error)), sent=False)
        exchange = Exchange(self._allow, request.before_first_byte, hop.target)
        token = enter(exchange)
        try:
            return await self._bounded(request, hop, exchange, start)
        finally:
            leave(token)

    async def close(self) -> None:
        """Closes idle connections. A later fetch opens anew."""
        wire, self._wire, self._deadlines = self._wire, None, None
        if wire is not None:
            await wire.close()
        if self._system_resolver is not None:
            self._system_resolver.close()
            self._system_resolver = None

    async def _bounded(self, request: Fetch, hop: _Hop, exchange: Exchange, start: float) -> Reply:
        """Puts the total deadline round everything, and turns failures into values."""
        deadline = start + request.total_deadline.total_seconds()
        if self._deadlines is None:
            self._deadlines = Deadlines()
        scope = self._deadlines.until(deadline)
        clock = Clocked(scope, start, deadline, self._limits)
        try:
            with scope:
                return await self._follow(request, hop, exchange, clock)
        except Failures as error:
            if isinstance(error, TimeoutError) and scope.expired:
                kind, message = _timed_out(exchange, clock)
            else:
                kind, message = classify(error, exchange)
        return NoReply(
            kind,
            self._redaction.redact(message),
            sent=exchange.requests > 0,
            elapsed=_since(start),
            status=exchange.status,
            hops=exchange.requests,
        )

    async def _follow(self, request: Fetch, hop: _Hop, exchange: Exchange, clock: Clocked) -> HttpReply:
        """Asks, and asks on while a redirect is allowed."""
        while True:
            response = await self._ask(request, hop, exchange)
            try:
                exchange.status = response.status
                check_headers(response, self._limits)
                if request.before_hop is None or response.status not in hops.STATUSES:
                    body = await self._body(request, response, exchange, clock)
                    return self._reply(response, body, exchange, clock)
            except BaseException:
                response.close()
                raise
            response.close()
            hop = await self._next_hop(request, hop, response, exchange)

    async def _body(self, request: Fetch, response: Answer, exchange: Exchange, clock: Clocked) -> bytes:
        """The body as it is collected; nothing where the request's sink took it."""
        cap = request.max_bytes
        if request.sink is not None:
            seen = self._reply(response, b"", exchange, clock)
            if request.sink.begin(seen.status, seen.headers):
                await stream_body(response, Scrubbed(request.sink, self._redaction), cap, clock)
                return b""
            cap = min(cap, MOST_DECLINED)
        body = await read_body(response, min(cap, self._limits.body_bytes), clock)
        return await self._scrub(body) if self._redaction.byte_forms else body

    def _ask(self, request: Fetch, hop: _Hop, exchange: Exchange) -> Awaitable[Answer]:
        """Writes one request and waits for the headers of its answer."""
        headers = hop.headers
        if request.credential is not None and self._credential_goes(request.credential, hop.target, exchange):
            written = replace(request, url=str(hop.target.url), method=hop.method, headers=hop.headers, body=hop.body)
            headers = authorized(self._credentials, request.credential, hop.target.origin, written)
        exchange.arm(hop.target)
        wire = self._wire or self._open_wire()
        return wire.ask(exchange, hop.method, headers, hop.body)

    def _credential_goes(self, name: str, target: Target, exchange: Exchange) -> bool:
        """The first hop must carry its credential or fail; a later hop carries it only where it belongs."""
        return exchange.requests == 0 or self._credentials.bound_to(name, target.origin)

    def _first_hop(self, request: Fetch) -> _Hop:
        target = parse_url(request.url)
        method = request.method.upper()
        if method not in _METHODS:
            raise BadUrl("this HTTP method is not used")
        for name, value in request.headers.items():
            _check_header(name, value)
        self._check_place(target, request)
        return _Hop(target, method, request.headers, request.body)

    def _check_place(self, target: Target, request: Fetch) -> None:
        if request.allowed_origins and target.origin not in map(parse_origin, request.allowed_origins):
            raise Refused(f"{target.origin} is not one of the origins allowed here")
        if target.origin not in self._places:
            check_target(target, self._allow)
            if len(self._places) >= _ORIGINS_KEPT:
                self._places.clear()
            self._places.add(target.origin)

    async def _next_hop(self, request: Fetch, hop: _Hop, response: Answer, exchange: Exchange) -> _Hop:
        """Decides a redirect anew: place, method, headers, count. Raises BadRedirect."""
        if exchange.requests > self._limits.hops:
            raise BadRedirect(f"more than {self._limits.hops} redirects")
        target = hops.next_target(hop.target, response.headers.get(hdrs.LOCATION))
        try:
            self._check_place(target, request)
        except Refused as error:
            raise BadRedirect(f"a redirect from {hop.target.origin} that is not followed: {error}") from error
        method = hops.next_method(response.status, hop.method)
        body = hop.body if method == hop.method else None
        headers = hops.headers_for(hop.target, target, hop.headers, keeps_body=body is not None)
        assert request.before_hop is not None
        if not await request.before_hop(target.origin):
            raise BadRedirect("the redirect was not followed: no request is left for it")
        return _Hop(target, method, headers, body)

    def _reply(self, response: Answer, body: bytes, exchange: Exchange, clock: Clocked) -> HttpReply:
        headers = [*response.headers.items()]
        if not "".join(response.headers.values()).isascii():
            headers = [(name, _clean(value)) for name, value in headers]
        shown = exchange.target.shown
        if self._redaction.byte_forms and self._redaction.occurs(_flat(response, shown)):
            redact = self._redaction.redact
            headers = [(redact(name), redact(value)) for name, value in headers]
            shown = redact(shown)
        return HttpReply(response.status, headers, body, shown, _since(clock.began), exchange.requests)

    async def _scrub(self, body: bytes) -> bytes:
        """Takes echoed secrets out of a body; a large one gives the loop its turn between spellings."""
        if len(body) < _LARGE:
            return self._redaction.redact_bytes(body)
        for form in self._redaction.byte_forms:
            if form in body:
                return self._redaction.redact_bytes(body)
            await asyncio.sleep(0)
        return body

    def _open_wire(self) -> Wire:
        resolve = self._seams.resolve
        if resolve is None:
            self._system_resolver = resolve = SystemResolver()
        self._wire = Wire(limits=self._limits, resolve=resolve, open_socket=self._seams.open_socket, tls=self._seams.tls)
        return self._wire


@lru_cache(maxsize=256)
def _why_not_header(name: str) -> str | None:
    lowered = name.lower()
    if not _NAME.fullmatch(name):
        return f"the header name {lowered[:40]!r} holds characters that a header cannot carry"
    return f"the header {lowered} is set by the egress gate alone" if lowered in _OURS else None


def _check_header(name: str, value: str) -> None:
    why = _why_not_header(name)
    if why is None and _BAD_VALUE.search(value):
        why = f"the value of the header {name} holds characters that a header cannot carry"
    if why is not None:
        raise BadUrl(why)


def _flat(response: Answer, shown: str) -> bytes:
    """Headers and address in one piece, to be searched once."""
    return b"\n".join([shown.encode(), *(part for pair in response.raw_headers for part in pair)])


def _clean(value: str) -> str:
    """Replaces bytes that are not UTF-8, which the library hands over as lone surrogates."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _timed_out(exchange: Exchange, clock: Clocked) -> tuple[NoReplyKind, str]:
    place = exchange.target.origin
    if clock.too_slow():
        return NoReplyKind.TOO_SLOW, f"the body from {place} came slower than {clock.limits.floor:g} bytes a second"
    return NoReplyKind.TIMEOUT, f"no complete answer from {place} before the total deadline"


def _since(start: float) -> timedelta:
    return timedelta(seconds=asyncio.get_running_loop().time() - start)
