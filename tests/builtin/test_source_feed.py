"""The `feed` source: stable ids, hashes without noise, windows, odd and hostile documents."""

from pathlib import Path

import pytest

from sereno.builtin.sources.feed import FeedSource
from sereno.core.change import ChangeKind, FailedReading, Keep, ReadFailure, Reading, find_changes
from tests.builtin.feeds.malformed import BOMBS, MALFORMED
from tests.builtin.feeds.scripted import NOW, Script, answer, entry, feed, guarded, known

FEEDS = Path(__file__).parent / "feeds"
SOURCE = FeedSource()
URL = "https://example.com/feed"


async def read(body, cursor=None, **headers):
    """Reads one answer."""
    return await SOURCE.read({"url": URL}, cursor, guarded(Script([answer(body, **headers)])))


def changes(reading, before):
    """What is new or updated against what was known."""
    return [(change.kind, change.external_id) for change in find_changes(reading, before, NOW, Keep.PAYLOAD, ()).changes]


async def test_P05_a_feed_of_300_entries_one_added_one_edited_one_deleted():
    """Added is new, edited is updated each time, deleted is nothing, noise is unchanged."""
    entries = [entry(number) for number in range(300, 0, -1)]
    first = await read(feed(entries))
    assert len(first.objects) == 300 and not first.complete and first.requests == 1
    assert [found.external_id for found in first.objects[:2]] == [
        "tag:blog.example.org,2026:300",
        "tag:blog.example.org,2026:299",
    ]

    noisy = await read(feed([entry(number, comments=number) for number in range(300, 0, -1)]), first.cursor)
    assert noisy.unchanged, "comment counts are not content"

    added = await read(feed([entry(301), *entries]), first.cursor)
    assert changes(added, known(first)) == [(ChangeKind.NEW, "tag:blog.example.org,2026:301")]

    edited = await read(feed([entry(300), entry(299, "edited"), *entries[2:]]), first.cursor)
    assert changes(edited, known(first)) == [(ChangeKind.UPDATED, "tag:blog.example.org,2026:299")]
    again = await read(feed([entry(300), entry(299, "edited twice"), *entries[2:]]), edited.cursor)
    assert changes(again, known(edited)) == [(ChangeKind.UPDATED, "tag:blog.example.org,2026:299")]

    deleted = await read(feed(entries[:-1]), first.cursor)
    assert not deleted.unchanged and changes(deleted, known(first)) == []


async def test_P04_a_feed_is_read_conditionally():
    """The second request carries the validators; 304 is unchanged."""
    first = await read(feed([entry(1)]), etag='"f1"')
    script = Script([answer(status=304)])
    second = await SOURCE.read({"url": URL}, first.cursor, guarded(script))
    assert script.asked[0].headers == {"If-None-Match": '"f1"'} and second.unchanged


async def test_atom_takes_the_alternate_link_and_plain_texts():
    """Relative links are made whole, enclosures are no link, scripts vanish."""
    reading = await read((FEEDS / "atom.xml").read_bytes(), content_type="application/atom+xml")
    one, two = reading.objects
    assert one.url == "https://example.com/releases/tag/v2.1.0" and one.title == "v2.1.0"
    assert (
        one.payload["summary"] == "Fixed\nA & B" and one.payload["author"] == "Ada" and one.payload["feed"] == "Releases & notes"
    )
    assert two.title == "v2.0.0 big > small" and two.payload["summary"] == "Second"
    assert one.payload["updated"].startswith("2026-11-20T10:00:00")


async def test_json_feed_ids_may_be_numbers_or_missing():
    """A link stands in for an id; plain text is not read as markup."""
    reading = await read((FEEDS / "jsonfeed.json").read_bytes(), content_type="application/feed+json")
    three, two, one = reading.objects
    assert (three.external_id, three.payload["author"], three.payload["summary"]) == ("3", "Bo", "Third note")
    assert two.url == "https://n.example.org/2" and two.payload["summary"] == "1 < 2, as plain text"
    assert one.external_id == "https://example.com/1"


async def test_rdf_entries_are_read():
    """RSS 1.0 keeps its items beside the channel."""
    reading = await read((FEEDS / "rdf.xml").read_bytes())
    assert [found.title for found in reading.objects] == ["Alpha", "Beta"]


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "cp1251", "koi8-r", "utf-8-sig"])
async def test_encodings_of_the_declaration_and_of_the_mark(codec):
    """The same feed in five encodings gives the same objects."""
    text = f'<?xml version="1.0" encoding="{codec.removesuffix("-sig")}"?>' + feed([entry(1, "Привет")]).partition("?>")[2]
    reading = await read(text.encode(codec))
    assert reading.objects[0].payload["summary"] == "Words Привет\nand more"


async def test_the_charset_of_the_header_wins_over_the_declaration():
    """As RFC 7303 has it."""
    text = '<?xml version="1.0" encoding="utf-8"?>' + feed([entry(1, "Привет")]).partition("?>")[2]
    reading = await read(text.encode("cp1251"), content_type="text/xml; charset=windows-1251")
    assert "Привет" in reading.objects[0].payload["summary"]


async def test_entries_without_id_use_the_link_and_then_a_digest():
    """An entry keeps its id when its text changes."""

    def bare(text: str) -> str:
        rest = f"<description>{text}</description></item>"
        return feed([f"<item><link>https://e.com/a</link>{rest}", f"<item><title>T</title>{rest}"])

    first, second = await read(bare("x")), await read(bare("y"))
    assert [found.external_id for found in first.objects] == [found.external_id for found in second.objects]
    assert first.objects[0].external_id == "https://e.com/a" and first.objects[1].external_id.startswith("sha256:")


async def test_a_guid_shared_by_different_entries_is_told_apart_and_stays_so():
    """A feed that gives every entry one guid is still read entry by entry, also when only one of them is left."""

    def item(number: int) -> str:
        return f"<item><guid>same</guid><title>{number}</title><link>https://e.com/{number}</link></item>"

    first = await read(feed([item(2), item(1)]))
    assert [found.external_id for found in first.objects] == ["same https://e.com/2", "same https://e.com/1"]
    later = await read(feed([item(2)]), first.cursor)
    assert changes(later, known(first)) == []


async def test_a_repeated_entry_counts_once():
    """The same guid with the same link is one object."""
    reading = await read(feed([entry(1), entry(1)]))
    assert changes(reading, {}) == [(ChangeKind.NEW, "tag:blog.example.org,2026:1")]


async def test_long_and_unprintable_ids_become_digests():
    """No id is longer than 512 characters."""
    reading = await read(feed(["<item><guid>" + "x" * 600 + "</guid></item>"]))
    assert reading.objects[0].external_id.startswith("sha256:")


async def test_at_most_5000_entries_are_taken_and_the_rest_is_said():
    """The first of the document are the newest."""
    reading = await read(feed([f"<item><guid>{number}</guid></item>" for number in range(5_003)]))
    assert len(reading.objects) == 5_000 and reading.objects[0].external_id == "0" and "3 entries" in reading.note


async def test_an_empty_feed_is_a_reading_without_entries():
    """A feed that has nothing is not an error."""
    reading = await read(feed([]))
    assert isinstance(reading, Reading) and reading.objects == () or list(reading.objects) == []


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_feeds_are_read_or_refused_and_never_raise(name):
    """Values only; what is read is bounded and has ids."""
    reading = await read(MALFORMED[name])
    if isinstance(reading, FailedReading):
        assert reading.failure is ReadFailure.BAD_CONTENT and reading.message and len(reading.message) < 300
        return
    for found in reading.objects:
        assert 0 < len(found.external_id) <= 512 and len(found.content_hash) == 64 and len(found.title) <= 200
        assert found.url is None or found.url.startswith(("http://", "https://"))
        assert "\x00" not in str(found.payload) and "\x1b" not in found.external_id


def test_the_corpus_of_malformed_feeds_is_large_enough():
    """At least 30 kinds of wrong."""
    assert len(MALFORMED) >= 30


@pytest.mark.parametrize("name", BOMBS)
async def test_P13_document_types_and_entities_are_refused_before_parsing(name, monkeypatch):
    """The parser never sees such a document."""
    monkeypatch.setattr("fastfeedparser.parse", lambda *_args, **_kwargs: pytest.fail("parsed"))
    reading = await read(BOMBS[name])
    assert isinstance(reading, FailedReading) and reading.failure is ReadFailure.BAD_CONTENT and "declares" in reading.message


async def test_an_article_about_document_types_is_no_bomb():
    """A declaration inside an entry's text is text."""
    reading = await read(feed(["<item><guid>1</guid><description><![CDATA[Write <!DOCTYPE html> first]]></description></item>"]))
    assert "Write" in reading.objects[0].payload["summary"]


async def test_readable_feeds_of_the_corpus_are_read():
    """Faults that readers forgive are forgiven: the test of the corpus would pass if all were refused."""
    forgiven = [
        "junk before",
        "bare ampersands",
        "wrong encoding label",
        "junk after",
        "two declarations",
        "control characters",
        "utf-16 label on ascii",
        "bad dates",
        "misnested formatting in an entry",
    ]
    for name in forgiven:
        reading = await read(MALFORMED[name])
        assert isinstance(reading, Reading) and reading.objects, name


async def test_a_feed_that_is_cut_off_is_refused_whole():
    """Half an entry would look like an edited one."""
    whole = feed([entry(2), entry(1)])
    for length in range(200, len(whole) - 10, 37):
        reading = await read(whole[:length])
        assert isinstance(reading, FailedReading) and "cut off" in reading.message


def test_check_and_place():
    """Content options belong to `http`."""
    told = [str(fault) for fault in SOURCE.check({"url": URL, "select": "p"}, origin="api")]
    assert told and told[0].startswith("source.select: is not an option")
    assert SOURCE.check({"url": URL}, origin="api") == [] and SOURCE.place({"url": URL}).pool == "host:example.com"


async def test_an_id_is_never_taken_for_a_date():
    """An entry without a date has none, whatever its id looks like; the id stays as it is."""
    items = "<item><title>a</title><guid>3</guid></item><item><title>b</title><guid isPermaLink='false'>2026-01</guid></item>"
    found = await read(f"<?xml version='1.0'?><rss version='2.0'><channel><title>t</title>{items}</channel></rss>".encode())
    assert [one.external_id for one in found.objects] == ["3", "2026-01"]
    assert all("published" not in one.payload or not one.payload["published"] for one in found.objects)
    assert "id.invalid" not in repr(found)


async def test_a_feed_is_capped_lower_than_a_page_unless_its_poll_says_otherwise():
    """Parsing holds the event loop, so the default is small; `max_bytes` opens it."""
    script = Script([answer(feed([entry(1)])), answer(feed([entry(1)]))])
    await SOURCE.read({"url": URL}, None, guarded(script))
    await SOURCE.read({"url": URL, "max_bytes": 9_000_000}, None, guarded(script))
    assert [request.max_bytes for request in script.asked] == [2_000_000, 9_000_000]
