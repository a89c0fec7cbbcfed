"""`[egress] allow`: the special addresses that a deployment opens by name, each with an optional port."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network

from sereno.outside.egress.address import Address, embedded
from sereno.outside.url import BadUrl, parse_url

Network = IPv4Network | IPv6Network

_ENTRY = re.compile(r"(?:\[([^\]]+)\]|([^\[\]:]+)|([0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:/\d+)?))(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class _Entry:
    network: Network | None
    host: str | None
    port: int | None


@dataclass(frozen=True, slots=True)
class Allow:
    """What is opened. Entries: `10.0.0.0/8`, `127.0.0.1:8080`, `[::1]:9000`, `intranet.example`, `intranet.example:8443`.

    An entry with a port opens that port alone, also one of the bad ports; without a port it opens every other port.
    """

    entries: tuple[_Entry, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Allow":
        """Reads the settings' entries. Raises ValueError naming the first entry that cannot be read."""
        return cls(tuple(_parse_entry(text) for text in texts))

    def names(self, host: str, port: int) -> bool:
        """True where the host is opened by its name."""
        return any(entry.host == host and entry.port in (None, port) for entry in self.entries)

    def opens(self, address: Address, port: int) -> bool:
        """True where the address is opened; an embedded IPv4 address counts as itself."""
        forms: tuple[Address, ...] = (address,)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            forms = (address, *embedded(address))
        return any(
            entry.network is not None and entry.port in (None, port) and any(form in entry.network for form in forms)
            for entry in self.entries
        )

    def opens_port(self, host: str, address: Address | None, port: int) -> bool:
        """True where an entry names exactly this port for the host or address: bad ports need that."""
        return any(
            entry.port == port
            and (entry.host == host or (entry.network is not None and address is not None and address in entry.network))
            for entry in self.entries
        )


def _parse_entry(text: str) -> _Entry:
    match = _ENTRY.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not an address, network or host; write for example 127.0.0.1:8080, 10.0.0.0/8 or [::1]:9000"
        )
    place = match[1] or match[2] or match[3]
    port = int(match[4]) if match[4] else None
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"{text!r}: the port is not a number from 1 to 65535")
    try:
        return _Entry(ip_network(place), None, port)
    except ValueError:
        if "/" in place or ":" in place:
            raise ValueError(f"{text!r} is not an address or network (host bits must be zero)") from None
    try:
        return _Entry(None, parse_url(f"http://{place}/").host, port)
    except BadUrl as error:
        raise ValueError(f"{text!r}: {error}") from error
