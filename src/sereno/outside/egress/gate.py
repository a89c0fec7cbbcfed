"""The egress gate, the one way out for HTTP (seam 3): address, credential, size, rate and time are decided here."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, hdrs

from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.outside.credentials import Credentials
from sereno.outside.egress import hops
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.body import Clocked, check_headers, read_body
from sereno.outside.egress.exchange import (
    Exchange,
    GateRequest,
    GateResolver,
    OpenSocket,
    enter,
    leave,
    plain_socket,
    socket_factory,
)
from sereno.outside.egress.failure import BadRedirect, Failures, classify
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.resolve import Refused, Resolve, SystemResolver, check_target
from sereno.outside.egress.url import BadUrl, Target, parse_origin, parse_url
from sereno.outside.redaction import Redaction
from sereno.ports import Fetch

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te", "trailer", "upgrade", "expect"}
    | {"keep-alive", "proxy-authorization", "proxy-connection", "cookie"}
)
_LARGE = 262_144
_NO_TIMEOUT = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


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
        self._session: ClientSession | None = None
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
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._system_resolver is not None:
            self._system_resolver.close()
            self._system_resolver = None

    async def _bounded(self, request: Fetch, hop: _Hop, exchange: Exchange, start: float) -> Reply:
        """Puts the total deadline round everything, and turns failures into values."""
        deadline = start + request.total_deadline.total_seconds()
        progress = _Progress()
        scope = asyncio.timeout_at(deadline)
        clock = Clocked(scope, deadline, self._limits.floor, self._limits.grace)
        try:
            async with scope:
                reply = await self._follow(request, hop, exchange, clock, progress)
                return replace(reply, elapsed=_since(start)) if isinstance(reply, HttpReply) else reply
        except Failures as error:
            if isinstance(error, TimeoutError) and scope.expired():
                kind, message = _timed_out(exchange, clock)
            else:
                kind, message = classify(error, exchange)
        return NoReply(
            kind,
            self._redaction.redact(message),
            sent=exchange.requests > 0,
            elapsed=_since(start),
            status=progress.status,
            hops=exchange.requests,
        )

    async def _follow(self, request: Fetch, hop: _Hop, exchange: Exchange, clock: Clocked, progress: "_Progress") -> HttpReply:
        """Asks, and asks on while a redirect is allowed."""
        while True:
            response = await self._ask(request, hop, exchange)
            try:
                progress.status = response.status
                check_headers(response, self._limits)
                if request.before_hop is None or response.status not in hops.STATUSES:
                    body = await read_body(response, request.max_bytes, clock)
                    return await self._reply(response, body, hop, exchange)
            except BaseException:
                response.close()
                raise
            response.close()
            hop = await self._next_hop(request, hop, response, exchange)

    async def _ask(self, request: Fetch, hop: _Hop, exchange: Exchange) -> ClientResponse:
        """Writes one request and waits for the headers of its answer."""
        headers = dict(hop.headers)
        headers.setdefault(hdrs.USER_AGENT, self._limits.user_agent)
        if request.credential is not None and self._credential_goes(request.credential, hop.target, exchange):
            auth = self._credentials.header(request.credential, hop.target.origin)
            headers = {name: value for name, value in headers.items() if name.lower() != auth.name.lower()}
            headers[auth.name] = auth.value.reveal()
        exchange.arm(hop.target)
        session = self._session or self._open_session()
        return await session.request(hop.method, hop.target.url, headers=headers, data=hop.body, allow_redirects=False)

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
        check_target(target, self._allow)

    async def _next_hop(self, request: Fetch, hop: _Hop, response: ClientResponse, exchange: Exchange) -> _Hop:
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

    async def _reply(self, response: ClientResponse, body: bytes, hop: _Hop, exchange: Exchange) -> HttpReply:
        headers = [(name, _clean(value)) for name, value in response.headers.items()]
        if self._redaction.byte_forms:
            body = await self._scrub(body)
            headers = [(self._redaction.redact(name), self._redaction.redact(value)) for name, value in headers]
        shown = self._redaction.redact(hop.target.shown)
        return HttpReply(response.status, headers, body, shown, timedelta(0), exchange.requests)

    async def _scrub(self, body: bytes) -> bytes:
        """Takes echoed secrets out of a body; a large one gives the loop its turn between spellings."""
        if len(body) < _LARGE:
            return self._redaction.redact_bytes(body)
        for form in self._redaction.byte_forms:
            if form in body:
                return self._redaction.redact_bytes(body)
            await asyncio.sleep(0)
        return body

    def _open_session(self) -> ClientSession:
        """Makes the client: no cookies, no environment, no own redirects, decoding or retries."""
        resolve = self._seams.resolve
        if resolve is None:
            self._system_resolver = resolve = SystemResolver()
        connector = TCPConnector(
            resolver=GateResolver(resolve),
            use_dns_cache=False,
            socket_factory=socket_factory(self._seams.open_socket),
            limit=self._limits.connections,
            keepalive_timeout=self._limits.keep_alive,
            ssl=self._seams.tls or True,
        )
        session = ClientSession(
            connector=connector,
            request_class=GateRequest,
            cookie_jar=DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=_NO_TIMEOUT,
            max_line_size=self._limits.header_line,
            max_field_size=self._limits.header_line,
            max_headers=self._limits.header_count,
        )
        session._retry_connection = False  # has no public switch; `Exchange.leave` stops a second send where this is lost
        self._session = session
        return session


@dataclass(slots=True)
class _Progress:
    """The status of the newest answer whose headers came."""

    status: int | None = None


def _check_header(name: str, value: str) -> None:
    lowered = name.lower()
    if not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
        raise BadUrl(f"the header {lowered[:40]!r} holds characters that a header cannot carry")
    if lowered in _OURS:
        raise BadUrl(f"the header {lowered} is set by the egress gate alone")


def _clean(value: str) -> str:
    """Replaces bytes that are not UTF-8, which the library hands over as lone surrogates."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _timed_out(exchange: Exchange, clock: Clocked) -> tuple[NoReplyKind, str]:
    place = exchange.target.origin
    if clock.too_slow():
        return NoReplyKind.TOO_SLOW, f"the body from {place} came slower than {clock.floor:g} bytes a second"
    return NoReplyKind.TIMEOUT, f"no complete answer from {place} before the total deadline"


def _since(start: float) -> timedelta:
    return timedelta(seconds=asyncio.get_running_loop().time() - start)
