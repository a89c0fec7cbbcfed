"""The strict URL parser: one reading, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from sereno.outside.url import BadUrl, parse_origin, parse_url, resolve_location


@pytest.mark.parametrize(
    ("text", "origin", "written"),
    [
        ("http://example.com", "http://example.com", "/"),
        ("HTTPS://Example.COM:443/A?b=C", "https://example.com", "/A?b=C"),
        ("http://example.com.:8080/", "http://example.com:8080", "/"),
        ("http://example.com?x=1", "http://example.com", "/?x=1"),
        ("http://example.com/a%2Fb%20c?d=%26&e=+#frag?x", "http://example.com", "/a%2Fb%20c?d=%26&e=+"),
        ("http://bücher.example/ü?q=ß", "http://xn--bcher-kva.example", "/%C3%BC?q=%C3%9F"),
        ("http://ｅｘａｍｐｌｅ.com/", "http://example.com", "/"),
        ("http://93.184.215.14/", "http://93.184.215.14", "/"),
        ("http://[2606:4700:0:0::1111]:81/", "http://[2606:4700::1111]:81", "/"),
        ("http://_dmarc.a-b.example/../x", "http://_dmarc.a-b.example", "/../x"),
        ('http://example.com/"<>{}|^`', "http://example.com", "/%22%3C%3E%7B%7D|%5E%60"),
    ],
)
def test_good_urls_have_one_form(text: str, origin: str, written: str) -> None:
    """Scheme and host in lower case, default port dropped, path and query as given, the fragment gone."""
    target = parse_url(text)
    assert (target.origin, target.url.raw_path_qs) == (origin, written)
    assert target.shown == origin + written.split("?")[0]
    assert parse_url(str(target.url)) == target


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://user@example.com/", "user name"),
        ("http://user:pw@example.com/", "user name"),
        ("http://a\\@b/", "backslash"),
        ("http://exa mple.com/", "white space"),
        ("http://example.com/\t", "white space"),
        ("ftp://example.com/", "only http"),
        ("file:///etc/passwd", "only http"),
        ("example.com", "only http"),
        ("http:///x", "no host"),
        ("http://127.1/", "four decimal"),
        ("http://0x7f.1/", "four decimal"),
        ("http://2130706433/", "four decimal"),
        ("http://1.2.3.4.5/", "four decimal"),
        ("http://256.0.0.1/", "four decimal"),
        ("http://01.2.3.4/", "four decimal"),
        ("http://example.com:0/", "port"),
        ("http://example.com:65536/", "port"),
        ("http://example.com:/", "port"),
        ("http://[::1%25lo]/", "zone"),
        ("http://[::g]/", "IPv6"),
        ("http://a..b/", "no host"),
        ("http://-a.b/", "no host"),
        ("http://a%2eb/", "no host"),
        ("http://xn--\u00fc.example/", "international"),
    ],
)
def test_bad_urls_are_refused_with_a_reason(text: str, why: str) -> None:
    """Each refusal says what is wrong and repeats nothing of the text."""
    with pytest.raises(BadUrl, match=why) as caught:
        parse_url(text)
    assert "pw" not in str(caught.value)


@given(st.text(alphabet="ht:/@\\#?[]%.0123456789abx-_\t\n ￥。①é", max_size=40).map(lambda rest: "http://" + rest))
def test_what_is_accepted_is_read_the_same_by_the_client_library(text: str) -> None:
    """No parser difference: host, port and scheme are those that aiohttp's own URL type reads back."""
    try:
        target = parse_url(text)
    except BadUrl:
        return
    again = URL(str(target.url))
    assert (again.raw_host, again.port, again.scheme) == (target.host, target.port, target.scheme)
    assert again.raw_user is None and again.raw_password is None and target.host.isascii() and target.host == target.host.lower()


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/c", "https://example.com/c"),
        ("c?d", "https://example.com/a/c?d"),
        ("../c", "https://example.com/c"),
        ("?q=1", "https://example.com/a/b?q=1"),
        ("//other.example/x", "https://other.example/x"),
        ("http://other.example/x", "http://other.example/x"),
    ],
)
def test_locations_are_read_relative_to_the_answer(location: str, expected: str) -> None:
    """RFC 3986 reference resolution for relative ones, the strict parser for the rest."""
    assert str(resolve_location(parse_url("https://example.com/a/b?old"), location).url) == expected


@pytest.mark.parametrize(
    "location", ["", "http:x", "https:/x", "javascript:x", "file:///x", "//a@b/", "/\\evil.example", "/a\tb", "data:,x", "///x"]
)
def test_doubtful_locations_are_refused(location: str) -> None:
    """What browsers read in different ways is not read at all."""
    with pytest.raises(BadUrl):
        resolve_location(parse_url("https://example.com/a/b"), location)


def test_origins_are_compared_in_one_form() -> None:
    """Default port, trailing slash and case do not matter; a path, query or user does."""
    assert parse_origin("HTTPS://Api.Example.com:443/") == parse_origin("https://api.example.com")
    for text in ("https://a.example/x", "https://a.example/?", "https://a.example/#", "https://u@a.example", "a.example"):
        with pytest.raises(BadUrl):
            parse_origin(text)
