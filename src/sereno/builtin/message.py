"""What actions send: stable ids from the dedupe key, one document for machines, safe texts for people."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from sereno.builtin.text import many_lines, one_line
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.errors import NotAllowed
from sereno.core.values import Json, canonical, digest
from sereno.ports import Guarded

ResolveSecret = Callable[[str, str], str]
"""`(NAME, origin)` → the secret, for that origin alone. Raises `NotAllowed` where it is unknown, unreadable or bound elsewhere."""

MAX_TITLE = 200
MAX_BODY = 20_000
MAX_DOCUMENT = 1_000_000

_KINDS = {"poll": "sereno.poll.matched", "op": "sereno.operation.changed", "esc": "sereno.escalation.opened"}


def stable_id(delivery: Delivery) -> str:
    """32 hex digits that are the same on each try of one effect and differ between effects."""
    return digest(delivery.effect.dedupe_key.encode())[:32]


def short_id(delivery: Delivery) -> str:
    """Eight hex digits by which a person recognises a repeat."""
    return stable_id(delivery)[:8]


def title_of(delivery: Delivery) -> str:
    """The title as one safe line."""
    return one_line(delivery.effect.title, MAX_TITLE) or "(no title)"


def body_of(delivery: Delivery, limit: int = MAX_BODY) -> str:
    """The body as safe lines, with the short id below it."""
    body = many_lines(delivery.effect.body, limit).strip()
    return (body + "\n\n" if body else "") + f"-- \nSereno {short_id(delivery)}\n"


def document(delivery: Delivery) -> bytes:
    """One effect as JSON for machines: the same bytes on each try. Watched content is inside `data.payload`, as data."""
    effect = delivery.effect
    data: Json = {
        "title": effect.title,
        "body": effect.body,
        "subject": effect.subject,
        "object": effect.source_object_id,
        "payload": effect.payload,
    }
    kind = _KINDS.get(effect.subject.partition("_")[0], "sereno.effect")
    return canonical({"type": kind, "timestamp": rfc3339(delivery.created_at), "data": data})


def rfc3339(instant: datetime) -> str:
    """Writes an instant in UTC with whole seconds."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def secret_of(options: Mapping[str, Json], option: str, origin: str, resolve: ResolveSecret) -> str | Outcome | None:
    """Resolves the secret that an option names; None where it names none. A secret that cannot be used now means: nothing was sent."""
    name = options.get(option)
    if not isinstance(name, str):
        return None
    try:
        return resolve(name, origin)
    except NotAllowed as error:
        return Outcome(OutcomeKind.RETRY, f"nothing was sent: {error.message}"[:500])


async def last_check(guarded: Guarded) -> None:
    """Checks lease and deadline once more right before the effect. Raises LeaseLost: then nothing happened."""
    if guarded.before_first_byte is not None:
        await guarded.before_first_byte()


BeforeSend = Callable[[], Awaitable[None]]
"""The last check before an effect leaves; raises LeaseLost."""
