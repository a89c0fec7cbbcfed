"""Which IP addresses are special. Our own table: the standard library's opinion differs between Python releases.

Sources: the IANA IPv4 and IPv6 Special-Purpose Address Registries (2026), RFC 4291, 6052, 8215, 3056, 4380, 5214.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_V4 = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "a cloud's host services",  # public by number, reachable only from inside Azure machines
    "169.254.0.0/16": "link-local (cloud metadata)",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments (cloud metadata)",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112",
    "192.52.193.0/24": "AMT",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "AS112",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_V6 = {
    "2001::/23": "protocol assignments, Teredo",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "2620:4f:8000::/48": "AS112",
    "3fff::/20": "documentation",
}
_V6_OUTSIDE = {
    "::1/128": "loopback",
    "::/128": "unspecified",
    "::/96": "IPv4-compatible",
    "64:ff9b:1::/48": "local NAT64",
    "100::/64": "discard",
    "fc00::/7": "private (ULA)",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
_V4_TABLE = tuple((IPv4Network(net), why) for net, why in _V4.items())
_V6_TABLE = tuple((IPv6Network(net), why) for net, why in _V6.items())
_V6_OUTSIDE_TABLE = tuple((IPv6Network(net), why) for net, why in _V6_OUTSIDE.items())
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = IPv6Network("::/96")


def embedded(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Lists the IPv4 addresses that an IPv6 address carries: mapped, translated, compatible, NAT64, 6to4, Teredo, ISATAP."""
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    if address in _MAPPED or address in _TRANSLATED or address in _NAT64:
        return (low,)
    if address in _SIX_TO_FOUR:
        return (IPv4Address(number >> 80 & 0xFFFFFFFF),)
    if address in _TEREDO:
        return (IPv4Address(number >> 64 & 0xFFFFFFFF), IPv4Address(~number & 0xFFFFFFFF))
    if address in _NAT64_LOCAL:  # RFC 6052: bits 48–87 without the octet at 64–71, or the last 32 bits
        high = (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF
        return (IPv4Address(high), low)
    if address in _COMPATIBLE and number > 1:
        return (low,)
    if number >> 32 & 0xFDFFFFFF == 0x5EFE:  # ISATAP interface id, universal bit either way
        return (low,)
    return ()


@lru_cache(maxsize=65_536)
def why_special(address: Address) -> str | None:
    """Says why an address must not be asked by default, or None for an ordinary public one."""
    if isinstance(address, IPv4Address):
        return _why_v4(address)
    for inner in embedded(address):
        if (why := _why_v4(inner)) is not None:
            return f"{why}, inside an IPv6 address"
    if address in _MAPPED or address in _NAT64:
        return None
    if address not in _GLOBAL_UNICAST:
        return next((why for net, why in _V6_OUTSIDE_TABLE if address in net), "not global unicast")
    why = next((why for net, why in _V6_TABLE if address in net), None)
    return why or (None if address.is_global else "not global")


def _why_v4(address: IPv4Address) -> str | None:
    why = next((why for net, why in _V4_TABLE if address in net), None)
    return why or (None if address.is_global else "not global")


def parse_address(text: str) -> Address:
    """Reads what a resolver or a socket gave, a zone id dropped. Raises ValueError."""
    return ip_address(text.split("%", 1)[0])


_DENIED_NAMES = frozenset(
    {"localhost", "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)


def why_name_denied(host: str) -> str | None:
    """Says why a host name is never looked up by default: loopback names (RFC 6761) and metadata services."""
    if host in _DENIED_NAMES or host.endswith((".localhost", ".localdomain")):
        return "a name of this machine or of a metadata service"
    return None
