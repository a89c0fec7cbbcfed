"""Dedupe keys: the same thing gives the same key, different things never do (P07, I17)."""

from hypothesis import given
from hypothesis import strategies as st

from sereno.core.effect import operation_dedupe_key, poll_dedupe_key

PARTS = st.text(max_size=12) | st.sampled_from(["a:b", "a@b", "%3A", "sha256=x", "\ud800"])


def poll_key(*parts: str, version: int = 1) -> str:
    workspace, user, poll, object_id, occurrence, action = parts
    return poll_dedupe_key(
        workspace=workspace,
        user=user,
        poll=poll,
        object_id=object_id,
        occurrence=occurrence,
        action=action,
        condition_version=version,
    )


def test_P07_key_has_the_documented_form() -> None:
    """The key reads workspace:user:poll:object@occurrence:action:condition_version."""
    assert poll_key("main", "local", "poll_1", "42", "v3", "mail", version=2) == "main:local:poll_1:42@v3:mail:2"


def test_P07_separators_inside_parts_are_escaped() -> None:
    """A colon or an at sign inside a part cannot move the border between two parts."""
    assert poll_key("a:b", "c", "p", "o", "v1", "x") != poll_key("a", "b:c", "p", "o", "v1", "x")
    assert poll_key("a", "b", "p", "o@v1", "v2", "x") != poll_key("a", "b", "p", "o", "v1@v2", "x")


def test_P07_long_object_ids_become_a_digest_and_stay_apart() -> None:
    """Ids beyond 200 escaped characters are hashed; an id that looks like the digest is another object."""
    long, other = "x" * 201, "x" * 202
    key = poll_key("main", "local", "p", long, "v1", "a")
    assert "sha256=" in key and len(key) < 120
    assert key != poll_key("main", "local", "p", other, "v1", "a")
    lookalike = key.split(":")[3].split("@")[0]
    assert poll_key("main", "local", "p", lookalike, "v1", "a") != key
    assert "x" * 200 in poll_key("main", "local", "p", "x" * 200, "v1", "a")


@given(st.tuples(*[PARTS] * 6), st.tuples(*[PARTS] * 6))
def test_P07_different_tuples_never_share_a_key(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    """Keys are equal exactly when every part is equal."""
    assert (poll_key(*left) == poll_key(*right)) == (left == right)


@given(st.text(max_size=600))
def test_keys_are_short_printable_ascii(object_id: str) -> None:
    """A key fits a header: ASCII without spaces, and bounded whatever the object id."""
    key = poll_key("main", "local", "poll_x", object_id, "v1", "mail")
    assert key.isascii() and key.isprintable() and " " not in key and len(key) <= 260


def test_operation_key_names_transition_and_action() -> None:
    """An operation's effect is keyed by its transition, so a second escalation is another effect."""
    first = operation_dedupe_key(workspace="main", operation="op_x", transition="escalated-1", action="notify")
    second = operation_dedupe_key(workspace="main", operation="op_x", transition="escalated-2", action="notify")
    assert first == "main:op_x:escalated-1:notify" and first != second


@given(st.tuples(*[PARTS] * 4), st.tuples(*[PARTS] * 4))
def test_operation_keys_are_one_to_one(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    """No two different operation tuples share a key."""

    def key(parts: tuple[str, ...]) -> str:
        return operation_dedupe_key(workspace=parts[0], operation=parts[1], transition=parts[2], action=parts[3])

    assert (key(left) == key(right)) == (left == right)
