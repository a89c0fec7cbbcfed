"""Changes: new, updated, removed; versions that only rise; what is kept."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.change import ChangeKind, Comparison, Keep, KnownObject, Reading, SourceObject, find_changes
from sereno.core.values import Json

NOW = datetime(2026, 5, 1, tzinfo=UTC)
Known = dict[str, KnownObject]


def thing(external_id: str, content: str = "a", payload: Json = None) -> SourceObject:
    return SourceObject(external_id, f"hash-{content}", payload if payload is not None else {"text": content})


def look(
    known: Known, *objects: SourceObject, complete: bool = True, keep: Keep = Keep.PAYLOAD, now: datetime = NOW
) -> Comparison:
    return find_changes(Reading(objects=objects, complete=complete), known, now, keep, ())


def seen(comparison: Comparison) -> list[tuple[str, str, int]]:
    return [(change.kind.value, change.external_id, change.version) for change in comparison.changes]


def test_the_first_reading_is_all_new() -> None:
    """Everything is new with version 1, in the source's order, and remembered."""
    found = look({}, thing("b"), thing("a"))
    assert seen(found) == [("new", "b", 1), ("new", "a", 1)]
    assert found.remember["a"] == KnownObject("a", "hash-a", 1, NOW, NOW, {"text": "a"})


def test_edits_in_place_are_one_change_each() -> None:
    """An edit raises the version by one and shows what was kept before; a second edit is another one."""
    known: Known = dict(look({}, thing("a", "1")).remember)
    second = look(known, thing("a", "2"))
    assert seen(second) == [("updated", "a", 2)]
    assert second.changes[0].before == {"text": "1"}
    known |= second.remember
    assert seen(look(known, thing("a", "3"))) == [("updated", "a", 3)]
    assert seen(look(known, thing("a", "2"))) == []


def test_a_missing_object_of_a_complete_reading_was_removed() -> None:
    """Removal and return are versions of their own; a returned object is new again and keeps its first sight."""
    known: Known = dict(look({}, thing("a"), thing("b")).remember)
    gone = look(known, thing("b"), now=NOW + timedelta(hours=1))
    assert seen(gone) == [("removed", "a", 2)]
    assert (gone.changes[0].before, gone.changes[0].after) == ({"text": "a"}, None)
    known |= gone.remember
    assert seen(look(known, thing("b"))) == []
    back = look(known, thing("a"), thing("b"))
    assert seen(back) == [("new", "a", 3)]
    assert back.remember["a"].first_seen_at == NOW


def test_removals_come_last_by_id() -> None:
    """The order is fixed: changes in source order, then removals by id."""
    known: Known = dict(look({}, thing("z"), thing("y"), thing("b")).remember)
    assert seen(look(known, thing("n"), thing("b", "2"))) == [
        ("new", "n", 1),
        ("updated", "b", 2),
        ("removed", "y", 2),
        ("removed", "z", 2),
    ]


def test_missing_from_a_window_or_a_page_means_nothing() -> None:
    """A feed shows a window; an entry that left it was not removed. Nor does a page of a longer reading prove anything."""
    known: Known = dict(look({}, thing("a"), thing("b")).remember)
    assert seen(look(known, thing("b"), complete=False)) == []
    page = find_changes(Reading(objects=(thing("b"),), more=True), known, NOW, Keep.PAYLOAD, ())
    assert page == Comparison()


def test_an_unchanged_reading_compares_nothing() -> None:
    """After a 304 the empty list of objects is not a removal of all."""
    known: Known = dict(look({}, thing("a")).remember)
    assert find_changes(Reading(unchanged=True), known, NOW, Keep.PAYLOAD, ()) == Comparison()


def test_an_object_named_twice_counts_once() -> None:
    """The first one is taken."""
    found = look({}, thing("a", "1"), thing("a", "2"))
    assert seen(found) == [("new", "a", 1)]
    assert found.remember["a"].content_hash == "hash-1"


def test_only_changed_rows_are_remembered_but_for_a_daily_sign_of_life() -> None:
    """A quiet reading writes nothing; after a day the row's last sight is refreshed once."""
    known: Known = dict(look({}, thing("a"), thing("b")).remember)
    assert look(known, thing("a"), thing("b", "2")).remember.keys() == {"b"}
    later = NOW + timedelta(days=1, seconds=1)
    refreshed = look(known, thing("a"), now=later, complete=False)
    assert not refreshed.changes and refreshed.remember["a"].last_seen_at == later


PAYLOAD: Json = {"price": {"amount": 5, "unit": "EUR"}, "name": "lamp", "a.b": 1, "list": [1]}


@pytest.mark.parametrize(
    ("keep", "fields", "kept"),
    [
        (Keep.DIGEST, (), None),
        (Keep.PAYLOAD, (), PAYLOAD),
        (Keep.FIELDS, ("name", "price.amount"), {"name": "lamp", "price": {"amount": 5}}),
        (Keep.FIELDS, ("a.b", "missing", "list.0", "price.missing"), {"a.b": 1}),
        (Keep.FIELDS, ("price", "price.amount"), {"price": {"amount": 5, "unit": "EUR"}}),
    ],
)
def test_keep_decides_what_is_remembered(keep: Keep, fields: tuple[str, ...], kept: Json) -> None:
    """Nothing, all, or the named fields in the payload's own shape; absent fields are left out."""
    found = find_changes(Reading(objects=(thing("a", payload=PAYLOAD),)), {}, NOW, keep, fields)
    assert found.remember["a"].kept == kept


def test_kept_fields_do_not_alter_the_payload() -> None:
    """Choosing fields copies; the payload that goes to conditions and webhooks stays whole."""
    payload: Json = {"price": {"amount": 5, "unit": "EUR"}}
    find_changes(Reading(objects=(thing("a", payload=payload),)), {}, NOW, Keep.FIELDS, ("price", "price.amount"))
    assert payload == {"price": {"amount": 5, "unit": "EUR"}}


def test_fields_of_a_text_are_nothing() -> None:
    """A page has no fields."""
    found = find_changes(Reading(objects=(thing("a", payload="text"),)), {}, NOW, Keep.FIELDS, ("x",))
    assert found.remember["a"].kept is None


def test_the_history_of_a_state_survives_edits_and_returns() -> None:
    """Only an observed false re-arms: an edit, a removal or a return does not reset the last truth."""
    known: Known = {"a": KnownObject("a", "hash-1", 4, NOW, NOW, matching=True, episodes=2)}
    assert look(known, thing("a", "2")).remember["a"].matching is True
    gone = look(known).remember["a"]
    assert (gone.matching, gone.episodes, gone.present) == (True, 2, False)
    assert look({"a": gone}, thing("a", "1")).remember["a"].episodes == 2


READINGS = st.lists(
    st.builds(
        Reading,
        objects=st.lists(st.builds(thing, st.sampled_from("abcd"), st.sampled_from("12")), max_size=5),
        complete=st.booleans(),
        unchanged=st.booleans(),
    ),
    max_size=8,
)


@given(READINGS)
def test_versions_rise_by_one_and_the_same_reading_twice_is_quiet(readings: list[Reading]) -> None:
    """Over any history each object's versions are 1, 2, 3 … without a gap, and repeating a reading changes nothing."""
    known: Known = {}
    versions: dict[str, int] = {}
    for number, reading in enumerate(readings):
        now = NOW + timedelta(minutes=number)
        found = find_changes(reading, known, now, Keep.PAYLOAD, ())
        for change in found.changes:
            assert change.version == versions.get(change.external_id, 0) + 1
            versions[change.external_id] = change.version
            assert (change.after is None) == (change.kind is ChangeKind.REMOVED)
        known |= found.remember
        assert find_changes(reading, known, now, Keep.PAYLOAD, ()) == Comparison()
