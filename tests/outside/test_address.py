"""The deny table of special addresses, its unwrapping of embedded ones, and the list that opens some of them."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.outside.egress.address import embedded, why_name_denied, why_special
from sereno.outside.egress.allow import Allow

SPECIAL = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255"),
    *(
        "169.254.169.254",
        "169.254.170.2",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.31.196.1",
    ),
    *(
        "192.52.193.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.175.48.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.255",
    ),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1"),
    *(
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1:7f00:0:100::",
        "64:ff9b:1::808:808",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::",
    ),
    *(
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "2620:4f:8000::1",
        "3fff::1",
        "5f00::1",
    ),
    *("fc00::1", "fd00:ec2::254", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "4000::1", "8000::1"),
    *("2a00:1450::5efe:127.0.0.1", "2a00:1450::200:5efe:10.0.0.1"),
)
ORDINARY = (
    *(
        "1.1.1.1",
        "8.8.8.8",
        "93.184.215.14",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
    ),
    *("11.0.0.1", "126.255.255.255", "128.0.0.1", "169.253.1.1", "192.167.1.1", "223.255.255.254", "168.63.129.17"),
    *(
        "2606:4700::1111",
        "2a00:1450:4001:80b::200e",
        "2001:4860:4860::8888",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2a00:1450::5efe:8.8.8.8",
    ),
)


@pytest.mark.parametrize("text", SPECIAL)
def test_special_addresses_are_named(text: str) -> None:
    """Each address of the special registries has a reason, whatever the standard library of this Python thinks."""
    why = why_special(ip_address(text))
    assert why and "not global" not in why.removeprefix("not global unicast")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_addresses_pass(text: str) -> None:
    """Public addresses beside the special ranges are open."""
    assert why_special(ip_address(text)) is None


def wrapped(inner: IPv4Address) -> list[IPv6Address]:
    """The IPv6 addresses that carry an IPv4 address."""
    n = int(inner)
    return [
        IPv6Address(0xFFFF << 32 | n),
        IPv6Address(0xFFFF << 48 | n),
        IPv6Address(0x0064FF9B << 96 | n),
        IPv6Address(0x0064FF9B0001 << 80 | n),
        IPv6Address(0x0064FF9B0001 << 80 | (n >> 16) << 64 | (n & 0xFFFF) << 40),
        IPv6Address(0x2002 << 112 | n << 80),
        IPv6Address(0x20010000 << 96 | n << 64),
        IPv6Address(0x20010000 << 96 | n ^ 0xFFFFFFFF),
        IPv6Address(0x2A001450 << 96 | 0x5EFE << 32 | n),
        IPv6Address(0x2A001450 << 96 | 0x02005EFE << 32 | n),
    ]


@given(st.ip_addresses(v=4).map(IPv4Address))
def test_an_embedding_is_never_weaker_than_what_it_carries(inner: IPv4Address) -> None:
    """For any IPv4 address: it is found inside each embedding, and if it is special so is each embedding."""
    for outer in wrapped(inner):
        assert inner in embedded(outer), outer
        if why_special(inner):
            assert why_special(outer), outer


@given(st.ip_addresses())
def test_what_the_standard_library_calls_not_global_is_never_open(address: IPv4Address | IPv6Address) -> None:
    """Our table is at least as strict as the second net, but for embeddings judged by what they carry."""
    if not address.is_global and not (isinstance(address, IPv6Address) and embedded(address)):
        assert why_special(address)


@pytest.mark.parametrize("name", ["localhost", "a.localhost", "metadata.google.internal", "metadata", "localhost.localdomain"])
def test_names_of_this_machine_and_of_metadata_services_are_denied(name: str) -> None:
    """They are not even looked up."""
    assert why_name_denied(name)
    assert why_name_denied(name + ".example") is None


@pytest.mark.parametrize(
    ("entry", "opened", "closed"),
    [
        ("127.0.0.1", ("127.0.0.1", 80), ("127.0.0.2", 80)),
        ("127.0.0.1:8080", ("127.0.0.1", 8080), ("127.0.0.1", 8081)),
        ("10.0.0.0/8", ("10.9.8.7", 1234), ("11.0.0.1", 1234)),
        ("10.0.0.0/8:443", ("10.9.8.7", 443), ("10.9.8.7", 444)),
        ("[::1]:9000", ("::1", 9000), ("::1", 9001)),
        ("::1", ("::1", 1), ("::2", 1)),
        ("fd00::/8", ("fd12::1", 1), ("fe80::1", 1)),
        ("[fd00::/8]:443", ("fd12::1", 443), ("fd12::1", 80)),
        ("192.168.1.0/24", ("::ffff:192.168.1.5", 1), ("::192.168.1.5", 1)),
    ],
)
def test_allow_opens_exactly_what_it_names(entry: str, opened: tuple[str, int], closed: tuple[str, int]) -> None:
    """An address, a network, each with or without a port; a mapped address counts as itself."""
    allow = Allow.parse([entry])
    assert allow.opens(ip_address(opened[0]), opened[1])
    assert not allow.opens(ip_address(closed[0]), closed[1])


def test_allow_opens_hosts_by_name() -> None:
    """A host entry counts for the name alone, in any spelling of it."""
    allow = Allow.parse(["Intranet.Example:8443", "bücher.example", "db.example:5432"])
    assert allow.names("intranet.example", 8443) and not allow.names("intranet.example", 443)
    assert allow.names("xn--bcher-kva.example", 80) and not allow.names("a.intranet.example", 8443)
    assert allow.opens_port("db.example", None, 5432) and not allow.opens_port("intranet.example", None, 5432)
    assert not allow.opens(ip_address("127.0.0.1"), 8443)


@pytest.mark.parametrize(
    "entry", ["", "10.0.0.1/8", "host:0", "host:99999", "http://host", "a b", "*.example", "host/8", "[::1", "::1/x", "user@host"]
)
def test_allow_refuses_what_it_cannot_read(entry: str) -> None:
    """A wrong entry is an error that repeats it, not a silent hole."""
    with pytest.raises(ValueError, match=r".+"):
        Allow.parse([entry])
