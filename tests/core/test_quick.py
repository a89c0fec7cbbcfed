"""Tests of the quick records: made cheaper, and otherwise what the library makes."""

import copy
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from sereno.core.quick import quick


@dataclass(frozen=True, slots=True)
class Plain:
    name: str
    count: int = 3
    tags: list[str] = field(default_factory=list)
    more: Sequence[str] = ()


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    count: int = 3
    tags: list[str] = field(default_factory=list)
    more: Sequence[str] = ()


def test_it_takes_the_same_arguments_and_fills_the_same_defaults() -> None:
    """By place and by name; a default that is made is made anew each time."""
    for made in (Quick("a"), Quick(name="a"), Quick("a", 3, more=())):
        assert (made.name, made.count, made.tags, made.more) == ("a", 3, [], ())
        assert repr(made) == repr(Plain("a")).replace("Plain", "Quick")
    assert Quick("a").tags is not Quick("a").tags


def test_it_cannot_be_changed() -> None:
    """Neither a field nor anything else can be set or deleted."""
    made = Quick("a")
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.count


def test_it_compares_replaces_and_copies_as_before() -> None:
    """What the library gives a dataclass beside its constructor is untouched."""
    made = Quick("a", more=("x",))
    assert made == Quick("a", more=("x",))
    assert made != Quick("b", more=("x",))
    assert replace(made, count=4) == Quick("a", 4, more=("x",))
    assert copy.deepcopy(made) == made


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), (("a", 1, [], (), 5), {}), (("a",), {"other": 1}), (("a",), {"name": "a"})]
)
def test_wrong_arguments_are_refused(given: tuple[object, ...], named: dict[str, object]) -> None:
    """Too few, too many, unknown and twice."""
    with pytest.raises(TypeError):
        Quick(*given, **named)  # type: ignore[arg-type]
