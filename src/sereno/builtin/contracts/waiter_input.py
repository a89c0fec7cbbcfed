"""The input of a waiter's operation as a template: which member is the job, and which are parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sereno.core.values import Json

_VERBS = ("BatchGet", "Describe", "Get", "List", "Head")
_ENDINGS = ("Identifiers", "Identifier", "Ids", "Id", "Names", "Name", "Arns", "Arn", "ARNs", "ARN")
_RESERVED = ("job_id", "base", "key", "value", "input", "region")
_DEPTH = 4


@dataclass(slots=True)
class Input:
    """The template, the parameters that it uses beside `region`, what to review, and the members that were left out."""

    body: dict[str, Json] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    review: list[str] = field(default_factory=list)
    others: Sequence[str] = ()

    def parameter(self, member: str) -> str:
        """Takes a member up as a parameter; answers its template."""
        from botocore import xform_name  # noqa: PLC0415 - the declared extra `aws`

        name = str(xform_name(member)).replace("-", "_")
        name = f"{name}_name" if name in _RESERVED else name
        if name not in self.parameters:
            self.parameters.append(name)
        return f"{{{name}}}"


class NotSayable(ValueError):
    """The input cannot be written as a template of texts."""


def input_of(operation: Any) -> Input:
    """Builds the template of an operation (botocore's model). Raises NotSayable where nothing can hold the job id."""
    shape = operation.input_shape
    found = Input()
    members: Mapping[str, Any] = shape.members if shape is not None else {}
    required = list(shape.required_members) if shape is not None else []
    if required:
        *others, job = required
        for member in others:
            found.body[member] = _filled(members[member], found.parameter(member), found)
        found.body[job] = _filled(members[job], "{job_id}", found)
    else:
        _choose(operation.name, members, found)
    found.others = [name for name in members if name not in found.body]
    return found


def _choose(operation: str, members: Mapping[str, Any], found: Input) -> None:
    """Nothing is required: takes the member that names the thing, or a filter."""
    member = named_member(operation, members)
    if member is not None:
        found.review.append(f"the job id goes into {member}, which the operation does not require")
        found.body[member] = _filled(members[member], "{job_id}", found)
        return
    for name, shape in members.items():
        if (
            shape.type_name == "list"
            and shape.member.type_name == "structure"
            and {"Name", "Values"} <= set(shape.member.members)
        ):
            found.review.append(f"the job id is a value of {name}; the parameter filter_name says of which filter")
            found.parameters.append("filter_name")
            found.body[name] = [{"Name": "{filter_name}", "Values": ["{job_id}"]}]
            return
    if {"FilterVariable", "EQ"} <= set(members):
        found.review.append("the parameter filter_variable says what the job id is compared with (Name, for one)")
        found.body["FilterVariable"] = found.parameter("FilterVariable")
        found.body["EQ"] = "{job_id}"
        return
    for name, shape in members.items():
        if shape.type_name == "structure":
            found.review.append(f"the job id goes into a part of {name}, which the operation does not require")
            found.body[name] = _filled(shape, "{job_id}", found)
            return
    raise NotSayable(f"{operation} takes nothing that could name a job")


def named_member(operation: str, members: Mapping[str, Any]) -> str | None:
    """The text (or list of texts) whose name says that it names the thing that the operation reads."""
    thing = next((operation.removeprefix(verb) for verb in _VERBS if operation.startswith(verb)), operation)
    thing = f"{thing[:-3]}y" if thing.endswith("ies") else thing.removesuffix("s")
    able = [name for name, shape in members.items() if _is_texts(shape) and _stem(name) is not None]
    return max(able, key=lambda name: _nearness((_stem(name) or "").lower(), thing.lower()), default=None)


def _is_texts(shape: Any) -> bool:
    return bool(shape.type_name == "string" or (shape.type_name == "list" and shape.member.type_name == "string"))


def _stem(name: str) -> str | None:
    upper = name[:1].upper() + name[1:]
    return next((upper.removesuffix(ending) for ending in _ENDINGS if upper.endswith(ending)), None)


def _nearness(stem: str, thing: str) -> int:
    if stem == thing:
        return 1000
    if stem and thing.endswith(stem):
        return 500 + len(stem)
    if stem and thing.startswith(stem):
        return 300 + len(stem)
    return next(
        (at for at, (one, other) in enumerate(zip(stem, thing, strict=False)) if one != other), min(len(stem), len(thing))
    )


def _filled(shape: Any, text: str, found: Input, depth: int = 0) -> Json:
    """A value of the shape that holds the text."""
    kind = shape.type_name
    if depth > _DEPTH:
        raise NotSayable("the input nests too deep")
    if kind == "string":
        return text
    if kind in ("integer", "long"):  # the carrier writes it as a number
        return text
    if kind == "list":
        return [_filled(shape.member, text, found, depth + 1)]
    if kind == "structure":
        return _structure(shape, text, found, depth)
    raise NotSayable(f"a {kind} cannot be filled with a text")


def _structure(shape: Any, text: str, found: Input, depth: int) -> Json:
    required = list(shape.required_members)
    able = [name for name in required if shape.members[name].type_name == "string" and not shape.members[name].enum]
    job = able[-1] if able else required[-1] if required else _leaf(shape)
    filled: dict[str, Json] = {}
    for name in required:
        if name != job:
            filled[name] = _filled(shape.members[name], found.parameter(name), found, depth + 1)
    found.review.append(f"of its members {', '.join(list(shape.members)[:12])} the template fills {job}")
    return {**filled, job: _filled(shape.members[job], text, found, depth + 1)}


def _leaf(shape: Any) -> str:
    names = list(shape.members)
    texts = [name for name in names if _is_texts(shape.members[name])]
    named = [name for name in texts if _stem(name) is not None] or texts[-1:]
    if named or names:
        return str((named or names)[0])
    raise NotSayable("an empty structure holds no job id")
