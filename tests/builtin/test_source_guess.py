"""Guessing the type of a URL from one sample."""

import pytest

from sereno.builtin.sources.feed import FeedSource
from sereno.builtin.sources.guess import guess
from sereno.builtin.sources.http import HttpSource
from sereno.core.change import Reading
from tests.builtin.feeds.scripted import Script, answer, entry, feed, guarded

URL = "https://example.com/x"


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (answer(feed([entry(1)]), content_type="text/html"), ("feed", {})),
        (answer("<!-- c --><feed xmlns='http://www.w3.org/2005/Atom'></feed>", content_type="text/plain"), ("feed", {})),
        (answer('{"version": "https://jsonfeed.org/version/1.1", "items": []}', content_type="application/json"), ("feed", {})),
        (answer("<html><p>x", content_type="text/html; charset=utf-8"), ("http", {"format": "html"})),
        (answer("<p>x</p>", content_type="application/rss+xml"), ("http", {"format": "text"})),
        (answer('{"a": 1}', content_type="application/json"), ("http", {"format": "json"})),
        (
            answer('[{"id": 1, "name": "x"}, {"id": 2, "name": "x"}]'),
            ("http", {"format": "json", "items": "@", "id": "id", "title": "name"}),
        ),
        (
            answer('{"n": 2, "the list": [{"key": "a", "url": "https://e.com"}]}', content_type="application/vnd.x+json"),
            ("http", {"format": "json", "items": '"the list"', "id": "key", "link": "url"}),
        ),
        (answer('[{"id": 1}, {"id": 1}]', content_type="application/json"), ("http", {"format": "json"})),
        (answer("{not json", content_type="text/plain"), ("http", {"format": "text"})),
        (answer(""), ("http", {"format": "text"})),
    ],
)
async def test_a_sample_gives_type_and_options_that_check_and_read(sample, expected):
    """What is guessed is valid, and reading the sample with it works."""
    kind, options = guess(URL, sample)
    assert (kind, options) == (expected[0], {"url": URL, **expected[1]})
    source = FeedSource() if kind == "feed" else HttpSource()
    assert source.check(options, origin="cli") == []
    if sample.body and b"<feed" not in sample.body:
        assert isinstance(await source.read(options, None, guarded(Script([sample]))), Reading)
