"""Key forms: the same key is always sent as the same text, in the form that the provider wants, and two keys never as one."""

import re
import uuid
from datetime import timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sereno.core.contract import Duplicate, Idempotency, KeyForm, KeyPlace, sent_key

KEY = "sub_01jf0000000000000000000000"
WANTED = {
    KeyForm.UUID: re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
    KeyForm.DASHED: re.compile(r"(?!.{64})[a-z0-9]([a-z0-9-]*[a-z0-9])?"),
    KeyForm.HEX32: re.compile(r"[0-9a-f]{32}"),
}
KEYS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}\Z")


def written(form: KeyForm, key: str) -> str:
    """The key in one form."""
    return sent_key(Idempotency(KeyPlace.BODY, "token", Duplicate.REPLAY, timedelta(hours=1), form), key)


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        (KeyForm.PLAIN, KEY),
        (KeyForm.UUID, "b8536ba5-9286-8bac-b489-f968faf43955"),
        (KeyForm.DASHED, "sub-01jf0000000000000000000000-b8536ba59286"),
        (KeyForm.HEX32, "b8536ba59286cbacb489f968faf43955"),
    ],
)
def test_W21_a_key_is_always_sent_as_the_same_text(form: KeyForm, sent: str) -> None:
    """Pinned: another version of the program that wrote it otherwise would start the job twice."""
    assert written(form, KEY) == sent


def test_W21_without_idempotency_a_key_is_sent_as_it_is() -> None:
    """Nothing says that it should be written otherwise."""
    assert sent_key(None, KEY) == KEY


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(WANTED)), KEYS, KEYS)
def test_W21_every_key_gets_the_form_and_no_two_become_one(form: KeyForm, key: str, other: str) -> None:
    """For any keys that a person may give; writing a written key again changes nothing."""
    assume(key != other)
    sent = written(form, key)
    assert WANTED[form].fullmatch(sent) or sent == key
    assert written(form, sent) == sent
    assert sent != written(form, other)


def test_W21_keys_that_differ_in_a_sign_alone_stay_apart() -> None:
    """Signs are replaced, capitals lowered and long keys cut, but a piece of the digest tells them apart."""
    keys = ["a_b", "a.b", "A-B", "a-b", "a:b", "a-b-", "a" * 64, "a" * 65, "a" * 63]
    assert len({written(KeyForm.DASHED, key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("form", "key"),
    [
        (KeyForm.UUID, "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (KeyForm.DASHED, "nightly-2026"),
        (KeyForm.HEX32, "0" * 32),
    ],
)
def test_W21_a_key_that_has_the_form_is_sent_as_it_is(form: KeyForm, key: str) -> None:
    """Who gives a name, finds the job under that name."""
    assert written(form, key) == key


def test_a_uuid_is_one_by_the_standard_library() -> None:
    """Version 8 of RFC 9562, in its variant."""
    found = uuid.UUID(written(KeyForm.UUID, KEY))
    assert (found.version, found.variant) == (8, uuid.RFC_4122)
