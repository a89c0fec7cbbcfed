"""The `http` source: conditional GET, content by path and selector, failures as values."""

from datetime import timedelta

import pytest

from sereno.builtin.sources.http import HttpSource
from sereno.core.change import FailedReading, ReadFailure, Reading
from sereno.core.observation import NoReply, NoReplyKind
from tests.builtin.feeds.scripted import NOW, Script, answer, guarded

URL = "https://example.com/items?page=1"
SOURCE = HttpSource()


async def read(options, *replies, cursor=None, **more):
    """Reads once with scripted answers."""
    script = Script(list(replies))
    return await SOURCE.read({"url": URL, **options}, cursor, guarded(script, **more)), script


async def test_P04_a_304_answers_the_validators_of_the_cursor_and_keeps_it():
    """The second read sends ETag and Last-Modified and takes 304 as unchanged."""
    page = answer("<p>Hello</p>", content_type="text/html", etag='W/"a1"', last_modified="Mon, 02 Nov 2026 08:00:00 GMT")
    first, script = await read({}, page)
    assert script.asked[0].headers == {}
    second, script = await read({}, answer(status=304), cursor=first.cursor)
    assert script.asked[0].headers == {"If-None-Match": 'W/"a1"', "If-Modified-Since": "Mon, 02 Nov 2026 08:00:00 GMT"}
    assert second.unchanged and second.cursor == first.cursor and second.requests == 1


async def test_P04_a_200_with_the_same_selected_content_is_unchanged_and_takes_the_new_validator():
    """Noise outside the selection and a new ETag are no change."""
    options = {"select": "#price"}
    first, _ = await read(options, answer("<p>ad 1</p><b id=price>9 EUR</b>", etag='"1"'))
    second, _ = await read(options, answer("<p>ad 2</p><b id=price> 9\n EUR </b>", etag='"2"'), cursor=first.cursor)
    assert second.unchanged and '"2"' in second.cursor.replace("\\", "")
    third, _ = await read(options, answer("<b id=price>8 EUR</b>", etag='"2"'), cursor=second.cursor)
    assert not third.unchanged and third.objects[0].payload == {"text": "8 EUR", "length": 5}


async def test_P04_the_same_etag_with_another_body_is_a_change():
    """The content decides, not the label."""
    first, _ = await read({}, answer("one", etag='"x"'))
    second, _ = await read({}, answer("two", etag='"x"'), cursor=first.cursor)
    assert not second.unchanged


async def test_a_304_without_validators_is_bad_content():
    """A server that says 304 to a plain GET is not believed."""
    result, _ = await read({}, answer(status=304))
    assert isinstance(result, FailedReading) and result.failure is ReadFailure.BAD_CONTENT
    first, _ = await read({}, answer("x"))
    result, _ = await read({}, answer(status=304), cursor=first.cursor)
    assert isinstance(result, FailedReading) and result.failure is ReadFailure.BAD_CONTENT


@pytest.mark.parametrize("cursor", ["", "{", "[]", '{"options":"other","etag":"\\"x\\"","content":"1"}', '{"etag":5}', "\x00"])
async def test_a_broken_or_foreign_cursor_counts_as_nothing_seen(cursor):
    """No validator of unknown origin is sent."""
    result, script = await read({}, answer("x"), cursor=cursor)
    assert script.asked[0].headers == {} and isinstance(result, Reading) and len(result.objects) == 1


async def test_validators_cannot_carry_another_header():
    """A hostile ETag is not kept."""
    first, _ = await read({}, answer("x", etag='"a"\r\nX-Evil: 1', last_modified="x" * 5000))
    assert "Evil" not in first.cursor and len(first.cursor) < 300


async def test_validators_behind_a_redirect_are_not_kept():
    """They belong to the address that answered, not to the one that is asked."""
    first, _ = await read({"redirects": True}, answer("x", hops=2, etag='"a"'))
    assert "etag" not in first.cursor and first.requests == 2


async def test_items_become_objects_with_id_title_link_and_chosen_fields():
    """Fields decide the hash, so a volatile counter outside them is no change."""
    options = {"items": "data[]", "id": "number", "title": "name", "link": "html_url", "fields": ["name", "state"]}
    body = '{"data":[{"number":7,"name":"Fix  it","html_url":"https://e.com/7","state":"open","views":%d},{"number":8,"name":"B","state":"x"}]}'
    first, _ = await read(options, answer(body % 1))
    one, two = first.objects
    assert (one.external_id, one.title, one.url, one.payload) == (
        "7",
        "Fix it",
        "https://e.com/7",
        {"name": "Fix  it", "state": "open"},
    )
    assert two.url is None and first.complete
    second, _ = await read(options, answer(body % 2), cursor=first.cursor)
    assert second.unchanged
    renamed = {**options, "fields": {"n": "name"}}
    third, script = await read(renamed, answer(body % 2), cursor=second.cursor)
    assert not third.unchanged and third.objects[0].payload == {"n": "Fix  it"}, "a cursor of other options does not count"


async def test_json_without_items_is_one_object():
    """The document itself is the payload."""
    result, _ = await read({}, answer('{"price": 9}', content_type="application/json; charset=utf-8"))
    assert result.objects[0].payload == {"price": 9} and result.objects[0].external_id == "page"


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ({"format": "json"}, '{"a":1,"a":2}'),
        ({"format": "json"}, '{"a":NaN}'),
        ({"format": "json"}, "[" * 100),
        ({"format": "json"}, b"\xff\xfe\x00"),
        ({"format": "json"}, ""),
        ({"items": "a", "id": "id"}, '{"a":{"id":1}}'),
        ({"items": "a", "id": "id"}, '{"b":[]}'),
        ({"items": "a", "id": "id"}, '{"a":[{"id":1},{"id":null}]}'),
        ({"items": "a", "id": "id"}, '{"a":[{"id":true}]}'),
        ({"items": "a", "id": "id"}, '{"a":[{"id":{}}]}'),
        ({"items": "a", "id": "id"}, '{"a":[5]}'),
        ({"items": "a", "id": "length(id)"}, '{"a":[{"id":5}]}'),
        ({"items": "@", "id": "@"}, "[" + ",".join(str(n) for n in range(5001)) + "]"),
        ({"format": "json"}, '{"a":"' + "x" * 1_000_001 + '"}'),
        ({"select": "#gone"}, "<p>x</p>"),
        ({"select": "p"}, "<p>" * 100_001),
        ({"format": "text"}, b"\x00\x01\x02"),
    ],
)
async def test_content_that_does_not_fit_the_options_is_a_failed_reading(options, body):
    """Nothing is guessed and nothing raises; the cursor stays where it was."""
    result, _ = await read(options, answer(body))
    assert isinstance(result, FailedReading) and result.failure is ReadFailure.BAD_CONTENT and result.requests == 1
    assert result.message and len(result.message) < 300


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (401, ReadFailure.AUTH),
        (403, ReadFailure.AUTH),
        (404, ReadFailure.MISSING),
        (410, ReadFailure.MISSING),
        (429, ReadFailure.THROTTLED),
        (500, ReadFailure.UNREACHABLE),
        (503, ReadFailure.UNREACHABLE),
        (418, ReadFailure.REFUSED),
        (301, ReadFailure.REFUSED),
        (204, ReadFailure.BAD_CONTENT),
        (206, ReadFailure.BAD_CONTENT),
    ],
)
async def test_each_status_has_its_failure_class(status, failure):
    """404 of a page is missing, not empty."""
    result, _ = await read({}, answer("secret body", status))
    assert isinstance(result, FailedReading) and result.failure is failure and "secret" not in result.message


@pytest.mark.parametrize("status", [200, 304, 404, 429, 503])
async def test_W13_retry_after_is_a_minimum_on_any_status(status):
    """The wait counts from the answer, on success too (incident 16)."""
    first, _ = await read({}, answer("x", etag='"1"'))
    result, _ = await read({}, answer("y", status, retry_after="120"), cursor=first.cursor)
    assert result.minimum_wait_until == NOW + timedelta(seconds=120.02)
    if status == 503:
        assert result.failure is ReadFailure.THROTTLED


async def test_W13_a_senseless_retry_after_is_ignored_and_said():
    """Words and infinities are not obeyed (incident 18)."""
    result, _ = await read({}, answer("x", 429, retry_after="inf"))
    assert result.minimum_wait_until is None and "Retry-After ignored" in result.message


@pytest.mark.parametrize(
    ("kind", "sent", "failure", "requests"),
    [
        (NoReplyKind.DNS, False, ReadFailure.UNREACHABLE, 0),
        (NoReplyKind.TIMEOUT, True, ReadFailure.UNREACHABLE, 1),
        (NoReplyKind.REFUSED_ADDRESS, False, ReadFailure.REFUSED, 0),
        (NoReplyKind.NO_CREDENTIAL, False, ReadFailure.REFUSED, 0),
        (NoReplyKind.TOO_LARGE, True, ReadFailure.BAD_CONTENT, 1),
    ],
)
async def test_no_reply_is_a_failed_reading_that_counts_what_left(kind, sent, failure, requests):
    """Requests count only where one left."""
    result, _ = await read({}, NoReply(kind, "no", sent))
    assert (result.failure, result.requests) == (failure, requests)


async def test_the_request_carries_caps_credential_and_redirect_rule():
    """Redirects stay off unless the poll allows them."""

    async def before_hop(origin: str) -> bool:
        return True

    _, script = await read(
        {"credential": "SHOP", "headers": {"Accept": "text/plain"}, "max_bytes": 5000}, answer("x"), before_hop=before_hop
    )
    asked = script.asked[0]
    assert (asked.credential, asked.headers, asked.max_bytes, asked.before_hop) == ("SHOP", {"Accept": "text/plain"}, 5000, None)
    assert asked.total_deadline == timedelta(seconds=30)
    _, script = await read({"redirects": True}, answer("x"), before_hop=before_hop)
    assert script.asked[0].before_hop is before_hop


def test_check_lists_every_fault_at_once_with_the_nearest_name():
    """One pass, all faults."""
    options = {
        "ulr": "x",
        "headers": {"Authorization": "Bearer abc"},
        "items": "a[",
        "redirects": "yes",
        "format": "jsn",
        "select": "p[",
    }
    told = "\n".join(map(str, SOURCE.check(options, origin="cli")))
    for words in (
        "source.url: is missing",
        "did you mean url?",
        "would hold a secret",
        "not a JMESPath",
        "true or false",
        "mean json?",
        "not a CSS selector",
        "source.id: is missing",
    ):
        assert words in told
    assert "abc" not in told


@pytest.mark.parametrize(
    "url",
    [
        "ftp://e.com/",
        "e.com",
        "http://",
        "http:///x",
        "https://u:p@e.com/",
        "https://e.com/a b",
        "https://e.com\\@x/",
        "https://e.com:99999/",
        "https://e.com/\r\nX: 1",
        "https://[::1",
        5,
        "",
        None,
        "https://" + "a" * 3000,
    ],
)
def test_check_refuses_urls_that_are_not_plain_web_addresses(url):
    """Parser tricks, user names and other schemes never reach the gate."""
    assert SOURCE.check({"url": url}, origin="cli")


def test_check_asks_the_secret_check_that_was_handed_in():
    """A key in the query is the deployment's rule to find."""
    source = HttpSource(secret_check=lambda url: "carries a key" if "api_key" in url else None)
    assert [str(fault) for fault in source.check({"url": "https://e.com/?api_key=1"}, origin="cli")] == [
        "source.url: carries a key"
    ]
    assert not source.check({"url": "https://e.com/?q=1"}, origin="cli")


def test_place_names_the_pool_by_host_and_hides_the_query():
    """The usual port is left out, another one is part of the pool."""
    assert SOURCE.place({"url": "HTTPS://Example.COM:443/a?q=1#f"}) == SOURCE.place(
        {"url": "https://example.com./a?q=2"}
    ).__class__("host:example.com", "https://Example.COM:443/a?…")
    assert SOURCE.place({"url": "http://example.com:8080/"}).pool == "host:example.com:8080"


async def test_P13_html_becomes_plain_text_without_scripts():
    """Markup and scripts of a page never become part of an object."""
    html = "<head><title>T</title><style>x</style></head><body><h1>A</h1><script>alert(1)</script><p>b <b>c</b><br>d&nbsp;&lt;e&gt;</p><!-- no -->"
    result, _ = await read({}, answer(html, content_type="text/html"))
    assert result.objects[0].payload["text"] == "T\nA\nb c\nd <e>"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("naïve – €".encode("cp1252"), "text/plain; charset=iso-8859-1"),
        (b'<meta charset="windows-1252"><p>' + "naïve – €".encode("cp1252"), "text/html"),
        ("\ufeffnaïve – €".encode("utf-16-le"), "text/plain"),
        ("naïve – €".encode(), "text/plain; charset=utf-7"),
        ("naïve – €".encode(), 'text/plain; charset="nonsense'),
    ],
)
async def test_odd_encodings_are_decoded_and_unknown_ones_are_utf8(body, content_type):
    """The charset of the header, the document or the byte order mark; never a codec with side effects."""
    result, _ = await read({}, answer(body, content_type=content_type))
    assert result.objects[0].payload["text"] == "naïve – €"


@pytest.mark.parametrize(
    "bomb",
    [
        "<div>" * 100_000,
        "".join(f"<p><b a={n}>x" for n in range(20_000)),
        "<div " + " ".join(f"a{n}=1" for n in range(100_000)) + ">x",
        "<!--" * 100_000,
        "<script>" * 100_000,
        "<" * 300_000,
        "<table>" * 100_000,
        '<a b="' * 100_000,
    ],
)
async def test_P13_hostile_markup_stays_cheap(bomb):
    """What takes a tree builder minutes or gigabytes (each of the first two alone) is over within the test's own limit."""
    for options in ({"select": "p, b"}, {"format": "html"}):
        result, _ = await read(options, answer(bomb, content_type="text/html"))
        assert isinstance(result, (Reading, FailedReading))
