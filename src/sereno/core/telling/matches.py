"""Telling: turns the matches and the ending of a poll into effects, one for each action, under the keys of P07."""

from collections.abc import Sequence
from dataclasses import dataclass

from sereno.core.effect import ActionRef, Effect, poll_dedupe_key
from sereno.core.telling.message import TITLE_CAP, Event, body_of, counted, excerpt, fitted, plain
from sereno.core.values import Json, digest

MAX_MATCHES = 100
"""Matches of one run that are told one by one; the rest becomes one summary for each action that tells."""
ACTS = frozenset({"command", "agent", "workflow"})
"""Action types that do something for a match: they get matches only, never news about the poll."""
_IDS_SHOWN = 200
_KINDS = {"new": "New", "updated": "Changed", "removed": "Removed", "": "Condition met"}


@dataclass(frozen=True, slots=True)
class About:
    """The poll that speaks: what a key, a title and a payload need of it."""

    workspace: str
    user: str
    poll: str
    name: str
    condition_version: int
    actions: Sequence[ActionRef]


@dataclass(frozen=True, slots=True)
class Match:
    """One thing to act on. `occurrence` is `v<version>` of a change or `e<episode>` of a state; `change` is "" for an unchanged
    object whose state came to hold."""

    external_id: str
    occurrence: str
    change: str
    title: str
    url: str | None
    payload: Json
    before: Json


def match_effects(about: About, matches: Sequence[Match], last: str | None) -> list[Effect]:
    """One effect for each match and action, in reading order; `last` says that the poll ended with them.

    Beyond MAX_MATCHES the rest is counted and named in one effect for each action that tells, so that a flood stays readable and
    nothing is silently lost.
    """
    effects: list[Effect] = []
    for match in matches[:MAX_MATCHES]:
        title = _title(match)
        heading = plain(f"{plain(about.name, 80)}: {title}", TITLE_CAP)
        body = body_of(
            (
                f"{_KINDS[match.change]}: {title}",
                plain(match.url or "", 500),
                excerpt(match.payload if match.change != "removed" else match.before, match.before),
                f"This poll has {last}." if last else "",
            )
        )
        payload = _match_payload(about, match)
        effects += [_effect(about, action, match, heading, (body, payload)) for action in about.actions]
    if len(matches) > MAX_MATCHES:
        effects += _rest(about, matches[MAX_MATCHES:], last)
    return effects


def news_effects(about: About, event: Event, number: int, notice: str, lines: Sequence[str]) -> list[Effect]:
    """Tells once that the poll was switched off or ended (P10); `number` tells this occasion from a later one."""
    heading = plain(f"{plain(about.name, 80)}: {notice}", TITLE_CAP)
    payload: dict[str, Json] = {"event": event, "poll": _poll(about), "notice": notice}
    where = Match("poll", f"{event}-{number}", "", "", None, None, None)
    body = body_of((f"This poll was {notice}." if event == "disabled" else f"This poll has {notice}.", *lines))
    return [
        _effect(about, action, where, heading, (body, payload), about_poll=True)
        for action in about.actions
        if action.type not in ACTS
    ]


def _rest(about: About, rest: Sequence[Match], last: str | None) -> list[Effect]:
    heading = plain(f"{plain(about.name, 80)}: and {len(rest)} more", TITLE_CAP)
    titles = "\n".join(f"- {plain(_title(match), 120)}" for match in rest[:20])
    ending = f"This poll has {last}." if last else ""
    body = body_of((f"And {counted(len(rest), 'more match', 'more matches')} in the same run.", ending, titles))
    names: list[object] = [plain(match.external_id, 512) for match in rest[:_IDS_SHOWN]]
    payload: dict[str, Json] = {"event": "more_matches", "poll": _poll(about), "more": len(rest), "objects": {"untrusted": names}}
    same = digest("\n".join(f"{match.external_id}@{match.occurrence}" for match in rest).encode("utf-8", "surrogatepass"))
    where = Match("poll", f"more-{same[:32]}", "", "", None, None, None)
    return [
        _effect(about, action, where, heading, (body, fitted(payload)), about_poll=True)
        for action in about.actions
        if action.type not in ACTS
    ]


def _effect(
    about: About, action: ActionRef, match: Match, title: str, content: tuple[str, dict[str, Json]], *, about_poll: bool = False
) -> Effect:
    key = poll_dedupe_key(
        workspace=about.workspace,
        user=about.user,
        poll=about.poll,
        object_id=match.external_id,
        occurrence=match.occurrence,
        action=action.name,
        condition_version=about.condition_version,
    )
    return Effect(
        dedupe_key=key,
        action=action,
        pool=action.pool,
        title=title,
        body=content[0],
        payload=content[1],
        subject=about.poll,
        source_object_id=None if about_poll else match.external_id,
        condition_version=about.condition_version,
    )


def _match_payload(about: About, match: Match) -> dict[str, Json]:
    quoted: dict[str, object] = {
        "id": match.external_id,
        "title": plain(match.title, 500),
        "url": plain(match.url, 2_000) if match.url else None,
        "payload": match.payload,
        "before": match.before,
    }
    return fitted(
        {
            "event": "match",
            "poll": _poll(about),
            "change": match.change,
            "occurrence": match.occurrence,
            "object": {"untrusted": quoted},
        }
    )


def _poll(about: About) -> dict[str, object]:
    return {"id": about.poll, "name": about.name, "workspace": about.workspace}


def _title(match: Match) -> str:
    """The object's own title, else a title or name in its data, else its id."""
    for place in (match.payload, match.before):
        if match.title or not isinstance(place, dict):
            continue
        for name in ("title", "name"):
            if isinstance(found := place.get(name), str) and (shown := plain(found, TITLE_CAP)):
                return shown
    return plain(match.title, TITLE_CAP) or plain(match.external_id, TITLE_CAP)
