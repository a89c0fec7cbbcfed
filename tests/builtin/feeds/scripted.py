"""What the tests of sources and actions share: a scripted transport, deliveries, and a feed that can be edited."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sereno.core.change import KnownObject, Reading
from sereno.core.delivery import Delivery, DeliveryState
from sereno.core.effect import ActionRef, Effect, Policy
from sereno.core.observation import HttpReply, Reply
from sereno.core.values import Json
from sereno.ports import Fetch, Guarded

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@dataclass
class Script:
    """A transport that answers from a list and keeps what it was asked."""

    replies: list[Reply] = field(default_factory=list)
    asked: list[Fetch] = field(default_factory=list)

    async def fetch(self, request: Fetch) -> Reply:
        self.asked.append(request)
        if request.before_first_byte is not None:
            await request.before_first_byte()
        return self.replies.pop(0)

    async def close(self) -> None:
        pass


def answer(body: bytes | str = b"", status: int = 200, *, hops: int = 1, **headers: str) -> HttpReply:
    """An HTTP answer; `content_type="…"` becomes `content-type`."""
    raw = body.encode() if isinstance(body, str) else body
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return HttpReply(status, named, raw, "https://example.com/x", timedelta(milliseconds=20), hops)


def guarded(transport: object = None, seconds: float = 30, **more: object) -> Guarded:
    """What a plug-in gets for one call at the fixed instant of these tests."""
    return Guarded(transport or Script(), NOW, timedelta(seconds=seconds), **more)  # type: ignore[arg-type]


def delivery(
    options: dict[str, Json],
    *,
    type: str = "webhook",
    key: str = "main:local:poll_1:a@1:notify:1",
    policy: Policy = Policy.KEYED,
    title: str = "Price fell",
    body: str = "From 12 to 9",
    payload: dict[str, Json] | None = None,
    origin: str = "config",
    attempts: int = 1,
) -> Delivery:
    """A delivery on its way out."""
    action = ActionRef("notify", type, options, policy, origin)
    effect = Effect(key, action, "host:example.com", title, body, payload or {"untrusted": {"price": 9}}, "poll_1", "a", 1)
    return Delivery("dlv_1", "main", effect, DeliveryState.SENDING, attempts, 8, NOW - timedelta(minutes=5))


def entry(number: int, text: str = "", comments: int = 0) -> str:
    """One RSS entry with a volatile comment count and date beside its content."""
    return (
        f"<item><title>Entry {number} &amp;amp; more</title><link>https://blog.example.org/{number}</link>"
        f'<guid isPermaLink="false">tag:blog.example.org,2026:{number}</guid><pubDate>Mon, 02 Nov 2026 08:{number % 60:02d}:00 GMT</pubDate>'
        f"<slash:comments>{comments}</slash:comments><description><![CDATA[<p>Words {text or number}</p><p>and more</p>]]></description></item>"
    )


def feed(entries: Sequence[str]) -> str:
    """An RSS document around entries, newest first."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><rss version="2.0" xmlns:slash="http://purl.org/rss/1.0/modules/slash/"><channel>'
        "<title>A blog</title><link>https://blog.example.org/</link><description>About things</description>"
        + "".join(entries)
        + "</channel></rss>"
    )


def known(reading: Reading) -> dict[str, KnownObject]:
    """What a store would remember of a reading."""
    return {
        found.external_id: KnownObject(found.external_id, found.content_hash, 1, NOW, NOW) for found in reversed(reading.objects)
    }
