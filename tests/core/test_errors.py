"""Errors: slugs that never change, one row for each class at each face, words for a person."""

import pytest

from sereno.core import errors
from sereno.core.errors import (
    MAPPINGS,
    Fault,
    NotFound,
    RequestError,
    SerenoError,
    SetupError,
    Unavailable,
    did_you_mean,
    mapping_of,
    nearest,
)

CLASSES = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SerenoError)),
    key=lambda kind: kind.__name__,
)


def test_each_class_has_a_row_and_no_row_is_left_over() -> None:
    """A new error cannot be forgotten at a face."""
    assert set(MAPPINGS) == set(CLASSES)


def test_slugs_never_change() -> None:
    """Programs compare codes; a change here breaks them."""
    assert {kind.__name__: kind.code for kind in CLASSES} == {
        "AlreadyExists": "already_exists",
        "InvariantBroken": "invariant_broken",
        "LeaseLost": "lease_lost",
        "NotAllowed": "not_allowed",
        "NotFound": "not_found",
        "NotNow": "not_now",
        "RequestError": "request",
        "SerenoError": "error",
        "SetupError": "setup",
        "TooMuch": "too_much",
        "Unavailable": "unavailable",
    }


def test_exit_codes_follow_the_documented_list() -> None:
    """1 our bug, 2 usage and set-up, 6 refused or not found, 7 unavailable; HTTP statuses are errors."""
    assert {kind.__name__: row.exit_code for kind, row in MAPPINGS.items() if row.exit_code in (2, 7)} == {
        "SetupError": 2,
        "RequestError": 2,
        "Unavailable": 7,
    }
    assert {row.exit_code for kind, row in MAPPINGS.items() if issubclass(kind, RequestError) and kind is not RequestError} == {6}
    assert all(400 <= row.http_status < 600 and row.rpc_code < 0 for row in MAPPINGS.values())


def test_a_subclass_uses_the_row_above_it() -> None:
    """Plug-ins may refine an error without touching the table."""

    class Busy(Unavailable):
        pass

    assert mapping_of(Busy("busy")) is MAPPINGS[Unavailable]
    assert mapping_of(NotFound("x")) is MAPPINGS[NotFound]


def test_errors_read_as_one_sentence_with_subject_and_hint() -> None:
    """What happened, to which thing, what can be done."""
    error = NotFound("there is no poll named lamp", subject="lamp", hint="did you mean lamps?")
    assert str(error) == "there is no poll named lamp [lamp] — did you mean lamps?"
    assert str(SerenoError("plain")) == "plain"
    assert NotFound("x", code="no_poll").code == "no_poll" and NotFound.code == "not_found"


def test_set_up_errors_list_every_fault() -> None:
    """All faults at once, each with its place."""
    error = SetupError(
        "sereno.toml is not usable", [Fault("sereno.toml:3", "unknown key `evry`", "did you mean every?"), Fault("a:9", "empty")]
    )
    assert str(error).splitlines() == [
        "sereno.toml is not usable",
        "  sereno.toml:3: unknown key `evry` — did you mean every?",
        "  a:9: empty",
    ]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("evry", "every"),
        ("EVERY", "every"),
        ("Cron", "cron"),
        ("jitr", "jitter"),
        ("zzz", None),
        ("", None),
        ("e" * 10_000, None),
    ],
)
def test_the_nearest_name_is_suggested(word: str, found: str | None) -> None:
    """A slip of the finger or of case is understood; what is far off is not guessed."""
    assert nearest(word, ["jitter", "every", "cron"]) == found
    assert did_you_mean(word, {"jitter", "every", "cron"}) == (f"did you mean {found}?" if found else None)
