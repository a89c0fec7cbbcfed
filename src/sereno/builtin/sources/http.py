"""The `http` source: one conditional GET; JSON by JMESPath, HTML by CSS selector, or text."""

from collections.abc import Mapping, Sequence

from sereno.builtin.conditional import bad_content, get, request_rules, seen_before, settle, settle_early
from sereno.builtin.options import SecretCheck, check_options, host_pool, url_reference, userinfo_in_url
from sereno.builtin.page import CONTENT_RULES, BadContent, check_content, extract
from sereno.core.change import FailedReading, Reading
from sereno.core.errors import Fault
from sereno.core.observation import HttpReply
from sereno.core.values import Json
from sereno.ports import Guarded, Place


class HttpSource:
    """Reads a web address. With `items` and `id` each item is an object, and all of them are everything there is; else the page is one
    object called `page`."""

    type = "http"

    def __init__(self, secret_check: SecretCheck = userinfo_in_url) -> None:
        self._rules = {**request_rules(secret_check), **CONTENT_RULES}

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        return [*check_options("source", options, self._rules, ["url"]), *check_content("source", options)]

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool and reference of checked options."""
        url = str(options.get("url", ""))
        return Place(host_pool(url), url_reference(url))

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Reads once; the cursor holds validators and the hash of the selected content, so a 200 with the same content is unchanged."""
        seen = seen_before(cursor, options)
        reply = settle_early(await get(options, seen, guarded), seen, guarded.now)
        if not isinstance(reply, HttpReply):
            return reply
        try:
            objects = extract(options, reply.body, reply.header("content-type"), "page")
        except BadContent as error:
            return bad_content(str(error), reply, guarded.now)
        return settle(objects, reply, seen, guarded.now, complete=True, note=repeated(objects))


def repeated(objects: Sequence[object]) -> str | None:
    """Says how many objects repeat the id of an earlier one, which alone counts."""
    ids = [getattr(found, "external_id", None) for found in objects]
    count = len(ids) - len(set(ids))
    return f"{count} items repeat an id; the first of each counts" if count else None
