"""The `feed` source: RSS, Atom, RDF and JSON Feed by one conditional GET. A feed is a window: what is missing was not removed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sereno.builtin.conditional import bad_content, get, request_rules, seen_before, settle, settle_early
from sereno.builtin.entries import MAX_ENTRIES, read_feed
from sereno.builtin.options import SecretCheck, check_options, host_pool, url_reference, userinfo_in_url
from sereno.builtin.page import BadContent
from sereno.core.change import FailedReading, Reading
from sereno.core.errors import Fault
from sereno.core.observation import HttpReply
from sereno.core.values import Json
from sereno.ports import Guarded, Place

FEED_BYTES = 2_000_000
"""The default cap. Parsing holds the event loop: a hostile feed of 10 MB, measured on a busy small machine, for almost two seconds."""


class FeedSource:
    """Reads a feed. Each entry is an object, in the order of the feed (newest first, as feeds have it).

    The content hash covers title, link and text; dates, authors and counters around an entry do not make it `updated`.
    """

    type = "feed"

    def __init__(self, secret_check: SecretCheck = userinfo_in_url) -> None:
        self._rules = request_rules(secret_check)

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        return check_options("source", options, self._rules, ["url"])

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool and reference of checked options."""
        url = str(options.get("url", ""))
        return Place(host_pool(url), url_reference(url))

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Reads once; at most 5,000 entries, the first of the document."""
        seen = seen_before(cursor, options)
        reply = settle_early(await get(options, seen, guarded, FEED_BYTES), seen, guarded.now)
        if not isinstance(reply, HttpReply):
            return reply
        try:
            feed = read_feed(reply.body, reply.header("content-type"), str(options["url"]), seen.shared)
        except BadContent as error:
            return bad_content(str(error), reply, guarded.now)
        note = f"{feed.left_out} entries beyond the first {MAX_ENTRIES:,} were left out" if feed.left_out else None
        return settle(feed.entries, reply, replace(seen, shared=feed.shared), guarded.now, complete=False, note=note)
