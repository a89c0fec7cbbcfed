"""Builds one plain-text message and speaks SMTP over a socket that was opened to a checked address."""

import asyncio
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime

import aiosmtplib

from sereno.builtin.message import BeforeSend, body_of, short_id, stable_id, title_of
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.values import Json

_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_NAMED = re.compile(r"([^<>@,;:\x00-\x1f\x7f]{0,100})<([^<>\s]{3,320})>")
_HELO = "[127.0.0.1]"
"""An address literal (RFC 5321 §4.1.3): says nothing about this machine, and asks no resolver."""


@dataclass(frozen=True, slots=True)
class Server:
    """An SMTP server: the checked address to connect to, the name its certificate must carry, and how TLS begins."""

    host: str
    port: int
    address: str
    tls: str
    """`tls` at once, `starttls` (demanded, never optional), or `none`."""
    username: str | None = None
    password: str | None = None
    seconds: float = 30.0

    def __repr__(self) -> str:
        return f"Server({self.host}:{self.port})"


def address_rule(value: Json) -> str | None:
    """One mail address, with or without a name before it; nothing that could begin another header."""
    if not isinstance(value, str) or len(value) > 320 or re.search("[\x00-\x1f\x7f]", value):
        return "must be a mail address"
    return None if parse_address(value) is not None else "is not a mail address such as me@example.org or Me <me@example.org>"


def parse_address(text: str) -> Address | None:
    """Reads `user@host` or `Name <user@host>`, exactly one."""
    match = _NAMED.fullmatch(text.strip())
    name, plain = (match[1].strip().strip('"'), match[2]) if match else ("", text.strip())
    if not _ADDRESS.fullmatch(plain):
        return None
    try:
        return Address(display_name=name, addr_spec=plain)
    except (HeaderParseError, ValueError, IndexError):
        return None


def build(delivery: Delivery, sender: Address, recipients: Sequence[Address]) -> EmailMessage:
    """Builds the message: the same bytes on each try, with a Message-ID made from the dedupe key.

    Title and body come from outside: control, bidi and zero-width characters are escaped and line ends cannot leave the subject.
    """
    message = EmailMessage(policy=SMTP_POLICY)
    message["From"] = sender
    message["To"] = list(recipients)
    message["Subject"] = title_of(delivery)
    message["Date"] = format_datetime(delivery.created_at)
    message["Message-ID"] = f"<{stable_id(delivery)}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Sereno-Id"] = short_id(delivery)
    message.set_content(body_of(delivery), cte="base64")
    return message


async def send(server: Server, message: EmailMessage, before_data: BeforeSend) -> Outcome:
    """Sends to all recipients or to none. What the server says is the outcome; silence after DATA is unknown.

    `before_data` is the last check before the message leaves; what it raises passes through.
    """
    talk = _Talk(server, message)
    try:
        async with asyncio.timeout(server.seconds):
            return await talk.run(before_data)
    except aiosmtplib.SMTPResponseException as error:
        return _response(error.code, accepted=talk.handed_over)
    except (aiosmtplib.SMTPException, OSError, TimeoutError, ssl.SSLError, ValueError) as error:
        return talk.broken(error)
    finally:
        talk.close()


class _Talk:
    """One conversation; `handed_over` is True from the moment the message may have reached the server."""

    def __init__(self, server: Server, message: EmailMessage) -> None:
        self._server = server
        self._message = message
        self._socket: socket.socket | None = None
        self._client: aiosmtplib.SMTP | None = None
        self.handed_over = False

    async def run(self, before_data: BeforeSend) -> Outcome:
        server = self._server
        client = self._client = aiosmtplib.SMTP(
            hostname=server.host,
            local_hostname=_HELO,
            timeout=server.seconds,
            use_tls=server.tls == "tls",
            start_tls=server.tls == "starttls",
            tls_context=None if server.tls == "none" else ssl.create_default_context(),
            sock=await self._connect(),
        )
        await client.connect()
        if server.password is not None:
            await client.login(server.username or "", server.password)
        await client.mail(self._message["From"].addresses[0].addr_spec)
        for recipient in self._message["To"].addresses:
            await client.rcpt(recipient.addr_spec)
        await before_data()
        self.handed_over = True
        response = await client.data(self._message.as_bytes())
        return Outcome(OutcomeKind.DONE, f"accepted: {response.code}", receipt=self._message["Message-ID"])

    async def _connect(self) -> socket.socket:
        """Connects to exactly the checked address: no name is looked up again."""
        family = socket.AF_INET6 if ":" in self._server.address else socket.AF_INET
        self._socket = opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, (self._server.address, self._server.port))
        return opened

    def broken(self, error: Exception) -> Outcome:
        """Names a conversation that ended without an answer."""
        if self.handed_over:
            return Outcome(OutcomeKind.UNKNOWN, f"the answer to the message was lost: {type(error).__name__}")
        return Outcome(OutcomeKind.RETRY, f"nothing was sent to {self._server.host}: {type(error).__name__}")

    def close(self) -> None:
        """Drops the connection; a QUIT would only add a wait."""
        if self._client is not None:
            self._client.close()
        if self._socket is not None:
            self._socket.close()


def _response(code: int, *, accepted: bool) -> Outcome:
    """4xx is tried again, 5xx is final (RFC 5321 §4.2.1); anything else after the message left is unknown."""
    words = f"the mail server answered {code}"
    if 400 <= code < 500:
        return Outcome(OutcomeKind.RETRY, words)
    if 500 <= code < 600:
        return Outcome(OutcomeKind.REFUSED, f"{words}: {'message' if accepted else 'sender, recipient or login'} refused")
    return Outcome(OutcomeKind.UNKNOWN if accepted else OutcomeKind.RETRY, f"{words}, which is no reply to this")
