"""What a match says: plain text a person likes to read, data within bounds, watched content quoted and never obeyed (P13, P14)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.effect import ActionRef, Effect, Policy
from sereno.core.telling.matches import About, Match, match_effects, news_effects
from sereno.core.telling.message import BODY_CAP, PAYLOAD_CAP, TITLE_CAP, excerpt, plain, plain_lines
from sereno.core.values import Json, canonical

MAIL = ActionRef("mail", "email", {"to": "me"}, Policy.AT_LEAST_ONCE)
ABOUT = About("main", "local", "poll_1", "lamps", 1, (MAIL,))


def told(change: str = "new", payload: Json = None, before: Json = None, title: str = "Blue lamp", **more: object) -> Effect:
    match = Match("id-1", "v1", change, title, "https://shop.example/1", payload, before)
    (effect,) = match_effects(ABOUT, [match], None, **more)  # type: ignore[arg-type]
    return effect


def test_a_match_reads_well() -> None:
    """Title, what happened, where to look, and what changed first."""
    effect = told("updated", {"price": 19.0, "name": "lamp", "stock": True, "tags": ["x"]}, {"price": 25.0, "name": "lamp"})
    assert effect.title == "lamps: Blue lamp"
    assert effect.body == "Changed: Blue lamp\nhttps://shop.example/1\nprice: 25 → 19\nname: lamp\nstock: true"


def test_a_changed_text_shows_its_new_lines() -> None:
    """Of a page only what was not there before is quoted."""
    assert told("updated", "one\ntwo\nthree", "one\nthree").body.endswith("/1\ntwo")
    assert excerpt("one\n\n  two  ", None) == "one\ntwo"


def test_a_removed_object_shows_what_was_kept() -> None:
    """There is nothing to see any more but the memory."""
    effect = told("removed", None, {"title": "Old lamp", "price": 3}, title="")
    assert effect.title == "lamps: Old lamp" and "price: 3" in effect.body and effect.body.startswith("Removed: Old lamp")


def test_untitled_objects_are_named_by_data_or_id() -> None:
    """Something always names the object."""
    assert told(payload={"name": "From data"}, title="").title == "lamps: From data"
    assert told(payload="text", title="").title == "lamps: id-1"


def test_P13_content_cannot_choose_anything() -> None:
    """Recipients, keys and pools come from the definition; content stands under `untrusted` only."""
    effect = told(payload={"to": "thief", "pool": "other", "dedupe_key": "x", "event": "disabled"})
    assert effect.action == MAIL and effect.pool == "local" and effect.dedupe_key == "main:local:poll_1:id-1@v1:mail:1"
    assert effect.payload["event"] == "match"
    assert "thief" not in json.dumps({name: value for name, value in effect.payload.items() if name != "object"})


def test_the_payload_names_poll_change_and_quoted_object() -> None:
    """The shape that webhooks and commands get."""
    assert told("updated", {"a": 1}, {"a": 0}).payload == {
        "event": "match",
        "poll": {"id": "poll_1", "name": "lamps", "workspace": "main"},
        "change": "updated",
        "occurrence": "v1",
        "object": {
            "untrusted": {
                "id": "id-1",
                "title": "Blue lamp",
                "url": "https://shop.example/1",
                "payload": {"a": 1},
                "before": {"a": 0},
            }
        },
        "cut": False,
    }


@pytest.mark.parametrize(
    ("payload", "before", "kept"),
    [
        ({"a": "x" * 40_000}, {"a": "y" * 40_000}, {"a": "x" * 40_000}),
        ({"a": "x" * 70_000, "b": 5}, None, f"a: {'x' * 159}…\nb: 5"),
        ("z" * 70_000, None, "z" * 499 + "…"),
        (["x" * 70_000], None, None),
        ({"a": "\ud800"}, None, "a: \ufffd"),
        ({"a": float("nan")}, None, "a: nan"),
    ],
)
def test_payloads_are_cut_with_a_flag(payload: Json, before: Json, kept: Json) -> None:
    """At most 64 KB leave: first the old content goes, then the new is cut to an excerpt; `cut` says so."""
    effect = told(payload=payload, before=before)
    assert effect.payload["cut"] is True
    assert len(canonical(dict(effect.payload))) <= PAYLOAD_CAP
    described = effect.payload["object"]
    assert isinstance(described, dict) and isinstance(quoted := described["untrusted"], dict)
    assert quoted["payload"] == kept and quoted["before"] is None


def test_control_and_direction_characters_are_stripped() -> None:
    """Nothing in a title or text can steer a terminal or turn the reading direction; joiners of scripts stay."""
    assert plain("\x1b[31mred\x07\u202eevil\u2066 a\tb\r\nc\u200b", 100) == "[31mredevil a b c"
    assert plain_lines("a\x00b\n\n\u2028c\ud800", 100) == "ab\nc\ufffd"
    assert plain("नि\u200dष", 100) == "नि\u200dष"


TEXT = st.text(max_size=300) | st.text(st.characters(exclude_categories=()), max_size=300)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=8),
    max_leaves=20,
)


@given(TEXT, JSON, JSON, st.sampled_from(["new", "updated", "removed", ""]))
def test_any_content_gives_bounded_safe_text_and_data(title: str, payload: Json, before: Json, change: str) -> None:
    """Whatever a source holds: bounded, printable, encodable."""
    effect = told(change, payload, before, title)
    assert 0 < len(effect.title) <= TITLE_CAP and len(effect.body) <= BODY_CAP
    assert not any(ord(letter) < 32 and letter != "\n" for letter in effect.title + effect.body)
    effect.body.encode()
    assert len(canonical(dict(effect.payload))) <= PAYLOAD_CAP


def test_news_about_the_poll_go_to_actions_that_tell() -> None:
    """A command, an agent or a workflow is never started because a poll ended."""
    actions = tuple(
        ActionRef(kind, kind, {}, Policy.AT_MOST_ONCE) for kind in ("notify", "command", "agent", "workflow", "webhook")
    )
    about = About("main", "local", "poll_1", "lamps", 1, actions)
    effects = news_effects(about, "disabled", 4, "switched off after 3 authorization failures in a row", ("Last error: 401",))
    assert [effect.action.name for effect in effects] == ["notify", "webhook"]
    assert effects[0].body == "This poll was switched off after 3 authorization failures in a row.\nLast error: 401"


def test_a_flood_names_the_rest() -> None:
    """The summary effect counts all and names the first of the rest; its key is that of just this rest."""
    matches = [Match(f"id-{n}", "v1", "new", f"Lamp {n}", None, None, None) for n in range(130)]
    rest = match_effects(ABOUT, matches, None)[-1]
    assert rest.body.startswith("And 30 more matches in the same run.\n- Lamp 100\n")
    assert rest.payload["objects"] == {"untrusted": [f"id-{n}" for n in range(100, 130)]}
    assert rest.dedupe_key == match_effects(ABOUT, matches, None)[-1].dedupe_key
    assert rest.dedupe_key != match_effects(ABOUT, matches[:-1], None)[-1].dedupe_key
