"""The trap: listeners on every address of this machine, a note of every connection that this process opens, and DNS of our own."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.outside.corpus import NAMES
from tests.outside.rawserver import accepted, listener

_noted: list[Any] | None = None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _noted is not None:
        _noted.append(arguments[1])


sys.addaudithook(_note)

USUAL_PORTS = (80, 443, 25, 587)
"""Ports that a URL or a mail server without one leads to; taken where this user may listen there."""


@dataclass
class Trap:
    """Listening sockets that accept nothing, on one free port and on the usual ones, v4 and v6."""

    port: int
    sockets: list[socket.socket]
    noted: list[Any] = field(default_factory=list)
    spared: set[int] = field(default_factory=set)
    """Ports of servers that the test itself talks to."""

    @property
    def connections(self) -> int:
        """How many came to the listeners since the last look."""
        return accepted(*self.sockets)

    @property
    def opened(self) -> list[Any]:
        """Every address that this process connected to, whether anybody listens there or not."""
        return [address for address in self.noted if not (isinstance(address, tuple) and address[1] in self.spared)]


@contextmanager
def set_trap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    """Listens, notes, and answers for DNS: the names of the corpus, `localhost`, and nothing else."""
    global _noted
    first = listener("0.0.0.0")
    trap = Trap(first.getsockname()[1], [first, listener("::", first.getsockname()[1])])
    for port in USUAL_PORTS:
        for host in ("0.0.0.0", "::"):
            try:
                trap.sockets.append(listener(host, port))
            except OSError:
                break  # not ours to listen on: the note of connections covers it
    monkeypatch.setattr(socket, "getaddrinfo", _dns(socket.getaddrinfo))
    _noted = trap.noted
    try:
        yield trap
    finally:
        _noted = None
        for opened in trap.sockets:
            opened.close()


def _dns(real: Any) -> Any:
    names = {**NAMES, "localhost": ["127.0.0.1", "::1"]}

    def look_up(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host is None or str(host).replace(".", "").isdigit() or ":" in str(host):
            return real(host, port, *more, **named)  # an address: nobody is asked
        if host not in names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [entry for address in names[host] for entry in real(address.partition("%")[0], port, *more, **named)]

    return look_up
