"""The `email` action: message, outcomes by phase, address check; once against a real SMTP server on loopback."""

import asyncio
import email
import email.policy
import socket
from contextlib import asynccontextmanager

import pytest
from aiosmtpd.controller import Controller

from sereno.builtin.actions.email import EmailAction, public_literal_only
from sereno.builtin.mail import build, parse_address
from sereno.core.delivery import OutcomeKind
from sereno.core.errors import LeaseLost, NotAllowed
from tests.builtin.feeds.scripted import delivery, guarded

OPTIONS = {
    "host": "mail.example.org",
    "from": "Sereno <sereno@example.org>",
    "to": ["me@example.org", "Ü <you@example.org>"],
    "tls": "none",
}
HOSTILE = "Price\r\nBcc: all@example.org\r\n\r\n\x1b[31m \u202efdp.exe\u200b"


def secret(name: str, origin: str) -> str:
    """Knows every name."""
    return "hunter2"


async def loopback(host: str, port: int) -> str:
    """Approves the test's own server for the name in the options."""
    assert host == "mail.example.org"
    return "127.0.0.1"


ACTION = EmailAction(secret, loopback)


def message(title: str = HOSTILE, body: str = HOSTILE):
    """The message as a receiver would read it."""
    made = build(
        delivery(OPTIONS, title=title, body=body), parse_address(OPTIONS["from"]), [parse_address(to) for to in OPTIONS["to"]]
    )
    return made.as_bytes(), email.message_from_bytes(made.as_bytes(), policy=email.policy.default)


def test_P13_watched_content_adds_no_header_and_hides_nothing():
    """Line ends, escapes, bidi and zero-width characters of a title are shown as text."""
    raw, read = message()
    assert read["Subject"] == "Price Bcc: all@example.org \\x1b[31m \\u202efdp.exe\\u200b"
    assert read["Bcc"] is None and raw.count(b"\r\n\r\n") == 1
    text = read.get_content()
    assert "\\x1b[31m \\u202efdp.exe\\u200b" in text and "\x1b" not in text and "Bcc: all@example.org" in text
    assert text.rstrip().endswith("Sereno " + read["X-Sereno-Id"])
    assert read["Auto-Submitted"] == "auto-generated" and read.get_content_type() == "text/plain"


def test_the_message_id_and_all_bytes_are_the_same_on_each_try():
    """A mailbox that drops repeats can do so."""
    assert message()[0] == message()[0] and message()[1]["Message-ID"].endswith("@example.org>")


@pytest.mark.parametrize(
    "address",
    ["a@b\r\nBcc: c@d", "a@b, c@d", "a", "@b", "a@", "<a@b", "a b@c d", "a@b\x00", "", 5, "x" * 400 + "@e.com", "ü@e.com"],
)
def test_check_refuses_addresses_that_could_be_more_than_one(address):
    """One address, nothing else."""
    assert ACTION.check({**OPTIONS, "to": address}, origin="cli") and ACTION.check({**OPTIONS, "from": address}, origin="cli")


def test_check_lists_faults_and_keeps_passwords_out_of_the_clear():
    """Both halves of a login, and TLS around it."""
    assert ACTION.check(OPTIONS, origin="api") == [] and ACTION.check({**OPTIONS, "to": "me@example.org"}, origin="api") == []
    told = "\n".join(map(str, ACTION.check({**OPTIONS, "password": "MAIL"}, origin="cli")))
    assert "action.username: is missing" in told and "in the clear" in told
    assert "did you mean starttls" in str(ACTION.check({**OPTIONS, "tls": "startls"}, origin="cli")[0])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "::1", "169.254.169.254", "224.0.0.1", "localhost", "mail.example.org"]
)
async def test_the_default_address_check_refuses_private_addresses_and_names(host):
    """Without the egress rules only a public literal is taken, and nothing is opened."""
    with pytest.raises(NotAllowed):
        await public_literal_only(host, 25)
    outcome = await EmailAction(secret).perform(delivery({**OPTIONS, "host": host}), guarded())
    assert outcome.kind is OutcomeKind.REFUSED
    assert await public_literal_only("8.8.8.8", 25) == "8.8.8.8"


async def say(writer, text):
    """Answers, hangs up on None, and is silent on "hang"."""
    if text is None:
        writer.close()
    elif text != "hang":
        writer.write(text.encode() + b"\r\n")
        await writer.drain()


@asynccontextmanager
async def server(replies: dict[str, str], *, end_of_data: str | None = "250 ok"):
    """A scripted SMTP server: answers by verb; None drops the connection, "hang" says nothing. Yields port and what was received."""
    got: list[str] = []

    talks = []

    async def talk(reader, writer):
        talks.append(asyncio.current_task())
        try:
            await answer(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def answer(reader, writer):
        await say(writer, replies.get("greeting", "220 hi"))
        data = False
        while not writer.is_closing() and (raw := await reader.readline()):
            line = raw.decode().rstrip("\r\n")
            got.append(line)
            if data:
                if line == ".":
                    data = False
                    await say(writer, end_of_data)
                continue
            verb = line.split()[0].upper()
            data = verb == "DATA" and "DATA" not in replies
            await say(writer, replies.get(verb, "354 go" if verb == "DATA" else "250 ok"))

    listener = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1], got
    finally:
        listener.close()
        await asyncio.wait_for(asyncio.gather(*talks), 60)  # each ends when the client has hung up: it must have
        await asyncio.sleep(0)


async def send(replies, *, seconds=90.0, options=None, end_of_data="250 ok", **more):
    """Sends once to the scripted server."""
    async with server(replies, end_of_data=end_of_data) as (port, got):
        outcome = await ACTION.perform(delivery({**OPTIONS, "port": port, **(options or {})}), guarded(seconds=seconds, **more))
    return outcome, got


@pytest.mark.parametrize(
    ("replies", "end_of_data", "kind"),
    [
        ({}, "250 ok", OutcomeKind.DONE),
        ({"greeting": "421 busy"}, "", OutcomeKind.RETRY),
        ({"greeting": "554 no"}, "", OutcomeKind.REFUSED),
        ({"greeting": None}, "", OutcomeKind.RETRY),
        ({"MAIL": "451 later"}, "", OutcomeKind.RETRY),
        ({"MAIL": "550 no"}, "", OutcomeKind.REFUSED),
        ({"RCPT": "450 greylisted"}, "", OutcomeKind.RETRY),
        ({"RCPT": "550 unknown"}, "", OutcomeKind.REFUSED),
        ({"RCPT": None}, "", OutcomeKind.RETRY),
        ({"DATA": "452 full"}, "", OutcomeKind.RETRY),
        ({}, "451 later", OutcomeKind.RETRY),
        ({}, "554 spam", OutcomeKind.REFUSED),
        ({}, None, OutcomeKind.UNKNOWN),
    ],
)
async def test_what_the_server_says_is_the_outcome(replies, end_of_data, kind):
    """4xx later, 5xx never, silence after DATA unknown, silence before it later."""
    outcome, got = await send(replies, end_of_data=end_of_data)
    assert outcome.kind is kind and "hunter2" not in outcome.message
    assert kind is not OutcomeKind.DONE or "RCPT TO:<you@example.org>" in got


@pytest.mark.parametrize(
    ("replies", "end_of_data", "kind", "last"),
    [({"MAIL": "hang"}, "", OutcomeKind.RETRY, "MAIL"), ({}, "hang", OutcomeKind.UNKNOWN, ".")],
)
async def test_a_silent_server_ends_at_the_total_deadline(replies, end_of_data, kind, last):
    """Silence is judged by its phase; a machine that is too busy to get there in time tries again."""
    for _ in range(50):
        outcome, got = await send(replies, end_of_data=end_of_data, seconds=0.5)
        if got and got[-1].startswith(last):
            break
    assert got[-1].startswith(last) and outcome.kind is kind


async def test_starttls_is_demanded_and_no_password_leaves_without_it():
    """A server that offers no TLS gets neither login nor message."""
    outcome, got = await send({}, options={"tls": "starttls", "username": "me", "password": "MAIL"})
    assert outcome.kind is OutcomeKind.RETRY and not any(line.startswith(("AUTH", "MAIL", "DATA")) for line in got)


async def test_a_lost_lease_stops_the_message_before_data():
    """The last check comes when all recipients are accepted."""

    async def lost() -> None:
        raise LeaseLost("taken over")

    async with server({}) as (port, got):
        with pytest.raises(LeaseLost):
            await ACTION.perform(delivery({**OPTIONS, "port": port}), guarded(before_first_byte=lost))
    assert any(line.startswith("RCPT") for line in got) and "DATA" not in got


async def test_a_name_without_address_and_a_closed_port_are_tried_again():
    """Nothing was sent."""

    async def nowhere(host: str, port: int) -> str:
        raise socket.gaierror("no such name")

    assert (await EmailAction(secret, nowhere).perform(delivery(OPTIONS), guarded())).kind is OutcomeKind.RETRY
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        outcome = await ACTION.perform(delivery({**OPTIONS, "port": free.getsockname()[1]}), guarded(seconds=60))
    assert outcome.kind is OutcomeKind.RETRY


class _Box:
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.envelopes = []

    async def handle_DATA(self, server, session, envelope):
        self.envelopes.append(envelope)
        return "250 kept"


async def test_a_real_server_gets_one_message_for_all_recipients():
    """aiosmtpd takes it and the parts are as meant."""
    box = _Box()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        outcome = await ACTION.perform(delivery({**OPTIONS, "port": port}, body=".\r\nlone dot\n..two"), guarded())
    finally:
        controller.stop()
    (envelope,) = box.envelopes
    read = email.message_from_bytes(envelope.content, policy=email.policy.default)
    assert outcome.kind is OutcomeKind.DONE and outcome.receipt == read["Message-ID"]
    assert envelope.mail_from == "sereno@example.org" and envelope.rcpt_tos == ["me@example.org", "you@example.org"]
    assert (
        read.get_content().replace("\r\n", "\n").startswith(".\nlone dot\n..two\n")
        and read["To"].addresses[1].display_name == "Ü"
    )
