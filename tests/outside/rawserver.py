"""A loopback server that keeps its own books and says exactly the bytes it is told."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

from sereno.outside.credentials import Credentials
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.gate import Gate, Seams
from sereno.outside.egress.limits import GateLimits
from sereno.outside.redaction import Redaction
from sereno.ports import CredentialConfig

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def ok(body: bytes = b"hello", *, headers: bytes = b"", status: bytes = b"200 OK") -> bytes:
    """A whole response with a right Content-Length."""
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n" + headers + b"\r\n" + body


class RawServer:
    """Counts connections and requests; `answer(request_bytes, writer)` speaks. Requests are read whole (Content-Length)."""

    def __init__(self, answer: Answer | bytes = b"", *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None):
        self._answer = answer
        self._host = host
        self._tls = tls
        self.connections = 0
        self.requests: list[bytes] = []
        self.port = 0
        self._serving: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "RawServer":
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        try:
            while request := await self._read(reader):
                self.requests.append(request)
                if isinstance(self._answer, bytes):
                    writer.write(self._answer or ok())
                else:
                    await self._answer(request, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        return head + await reader.readexactly(length)


def make_gate(
    *allow: str,
    credentials: dict[str, CredentialConfig] | None = None,
    environment: dict[str, str] | None = None,
    redaction: Redaction | None = None,
    limits: GateLimits | None = None,
    seams: Seams | None = None,
) -> Gate:
    """A gate with its parts filled in; nothing special is open but `allow`."""
    redaction = redaction or Redaction()
    return Gate(
        allow=Allow.parse(allow),
        credentials=Credentials(credentials or {}, redaction, environment or {}),
        redaction=redaction,
        limits=limits,
        seams=seams,
    )


def listener(host: str, port: int = 0) -> socket.socket:
    """A listening socket that accepts nothing: its backlog shows whether anybody connected."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind((host, port))
    sock.listen(128)
    sock.setblocking(False)
    return sock


def accepted(*listeners: socket.socket) -> int:
    """How many connections came to the listeners since the last look."""
    count = 0
    for sock in listeners:
        while True:
            try:
                connection, _ = sock.accept()
            except BlockingIOError:
                break
            connection.close()
            count += 1
    return count
