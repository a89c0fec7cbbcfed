"""Makes frozen records cheap to make. The library's own `__init__` pays a look-up by name for each field of a frozen class;
a run of an unchanged poll makes about a hundred fields, and most of its processor time went there."""

from dataclasses import MISSING, fields
from typing import TypeVar

T = TypeVar("T")
_ABSENT = object()


def quick(made: type[T]) -> type[T]:
    """Gives a frozen dataclass with slots (and no `__post_init__`) an `__init__` that sets its slots directly. Nothing else changes:
    what was made cannot be changed."""
    assert "__slots__" in made.__dict__
    assert not hasattr(made, "__post_init__")
    scope: dict[str, object] = {"_absent": _ABSENT}
    parameters, lines = [], []
    for item in fields(made):  # type: ignore[arg-type]  # a dataclass, by the first assertion's table of fields
        name = item.name
        scope[f"_set_{name}"] = getattr(made, name).__set__
        if item.default is not MISSING:
            scope[f"_default_{name}"] = item.default
            parameters.append(f"{name}=_default_{name}")
        elif item.default_factory is not MISSING:
            scope[f"_make_{name}"] = item.default_factory
            parameters.append(f"{name}=_absent")
            lines.append(f"    if {name} is _absent: {name} = _make_{name}()")
        else:
            parameters.append(name)
        lines.append(f"    _set_{name}(self, {name})")
    text = "\n".join([f"def __init__(self, {', '.join(parameters)}):", *lines])
    exec(text, scope)  # noqa: S102 - written above from the field names alone, as the library writes its own
    setattr(made, "__init__", scope["__init__"])  # noqa: B010 - a plain assignment is not typed for a class
    return made
