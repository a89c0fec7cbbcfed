"""The generated reference pages: each is a function from the code to Markdown, listed in `PAGES`."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from scripts.reference_cli import commands
from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.contract import Contract, Via
from sereno.core.errors import MAPPINGS
from sereno.core.escalation import OPTIONS
from sereno.core.values import format_duration, parse_duration
from sereno.core.waiting.lifecycle import TERMINAL, TRANSITIONS, OperationState, diagram
from sereno.faces.cli.commands import build
from sereno.settings import config_schema


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Writes a Markdown table; a pipe inside a cell is escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return (
        "\n".join("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines) + "\n"
    )


def operation_states() -> str:
    """The life of an operation, drawn from its table."""
    rows = [(f"`{before}`", f"`{event}`", f"`{after}`") for (before, event), after in TRANSITIONS.items()]
    ends = ", ".join(f"`{state}`" for state in OperationState if state in TERMINAL)
    return f"""# States of an operation

An operation is one job at a provider that Sereno waits for. It moves only as this table says; any other move is refused as a fault of
Sereno's own and recorded. Final states ({ends}) have no moves: once there, it stays there, whatever arrives later.

```mermaid
{diagram().rstrip()}
```

{_table(("from", "what happened", "to"), rows)}
`hit_limit` is a deadline or a budget that was used up; `saw_trouble` is anything that is not a known, valid answer: an unknown state, a
contradiction, a refused credential. Both stop the requests and ask a person. While the question is open, facts are recorded and move nothing.
"""


def escalations() -> str:
    """What each category means to a person: the answers it allows."""
    rows = [(f"`{category}`", ", ".join(f"`{option.key}`" for option in options)) for category, options in OPTIONS.items()]
    keys = {option.key: option for options in OPTIONS.values() for option in options}
    bounds = [
        (f"`{key}`", f"{option.minutes} minutes" if option.minutes else "–", f"{option.checks} checks" if option.checks else "–")
        for key, option in keys.items()
    ]
    return f"""# Escalations

When an operation cannot go on inside its limits, Sereno stops and asks. The category says why. It decides which answers are allowed; an
answer never does more than the question said. Nobody answers: the same as `stop`, which sends nothing and keeps the handle of the job.

{_table(("category", "allowed answers"), rows)}
## What an answer grants at most

{_table(("answer", "time", "status requests"), bounds)}"""


def errors() -> str:
    """Error codes and how each face shows them."""
    rows = [
        (
            f"`{error.code}`",
            (error.__doc__ or "").strip().splitlines()[0],
            str(shown.exit_code),
            str(shown.http_status),
            str(shown.rpc_code),
        )
        for error, shown in MAPPINGS.items()
    ]
    return f"""# Errors and exit codes

Every error says what happened, to which thing, and what you can do. Its code never changes. What the outside world does (a failed read,
a missing reply, a refusal) is not an error of Sereno: it is recorded and decided on.

{_table(("code", "meaning", "exit code", "HTTP status", "JSON-RPC code"), rows)}
## Exit codes of the commands

{_table(("exit code", "meaning"), [
    ("0", "done; a job that was waited for succeeded"), ("1", "a fault of Sereno's own"), ("2", "wrong usage or set-up"),
    ("3", "the job failed, was cancelled or expired"), ("4", "a person is asked for another reason than a limit"),
    ("5", "a deadline or a budget stopped it, and a person is asked (state escalated)"),
    ("6", "refused or not found"), ("7", "not available now; the same command may work later"), ("130", "interrupted; still open"),
])}"""  # fmt: skip


def settings() -> str:
    """Every setting of `sereno.toml`, from its schema."""
    schema = config_schema()
    models = schema["$defs"]
    parts = [
        "# Settings\n",
        "`sereno.toml`, as `sereno config schema` describes it to editors. Durations are written `90s`, `1h30m`, `2d`.\n",
    ]
    parts += list(_section("sereno.toml", schema, models))
    for name in sorted(models, key=_title):
        if "properties" in models[name]:
            parts += list(_section(_title(name), models[name], models))
    return "\n".join(parts)


def _title(model: str) -> str:
    return model.removesuffix("Model")


def _section(title: str, model: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    if model.get("description") and title != "sereno.toml":
        yield model["description"] + "\n"
    needed = model.get("required", ())
    rows = []
    for name, field in model["properties"].items():
        default = "required" if name in needed else _default(field)
        rows.append((f"`{name}`", _kind(field, models), default, field.get("description") or _meaning(field, models)))
    yield _table(("name", "value", "default", "meaning"), rows)


def _meaning(field: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    """What the model says that a field holds, where the field itself says nothing."""
    patterns = next(iter(field.get("patternProperties", {}).values()), {})
    for place in (field, field.get("items") or {}, field.get("additionalProperties") or {}, patterns):
        if "$ref" in place:
            return str(models[place["$ref"].rsplit("/", 1)[-1]].get("description", "")).split("\n")[0]
    return ""


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    if field.get("format") == "duration" or re.fullmatch(r"P[0-9DTHMS.]+", str(value)):
        value = format_duration(parse_duration(str(value))) if value is not None else None
    return (
        "–"
        if value in (None, "", [], {}) or isinstance(value, dict)
        else f"`{value}`".lower()
        if isinstance(value, bool)
        else f"`{value}`"
    )


def _kind(field: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    """Says in a few words what a value looks like."""
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[{_title(name)}](#{_title(name).lower()})" if "properties" in models[name] else _kind(models[name], models)
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_kind(one, models) for one in field["anyOf"] if one.get("type") != "null"))
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        inner = field.get("items") or {}
        return f"list of {_kind(inner, models)}" if inner else "list"
    if field.get("type") == "object":
        inner = field.get("additionalProperties") or next(iter(field.get("patternProperties", {}).values()), None)
        return f"table of {_kind(inner, models)}" if isinstance(inner, dict) and inner else "table"
    low, high = field.get("minimum"), field.get("maximum")
    bounds = f" {low} … {high}" if low is not None and high is not None else f" from {low}" if low is not None else ""
    return str(field.get("type", "any")) + bounds


def contracts() -> str:
    """The contracts that ship with Sereno."""
    catalogue = Catalogue()
    parts = ["# Contracts\n", _CONTRACTS_INTRODUCTION]
    for name in sorted(catalogue.names()):
        parts += list(_contract(catalogue.contract(catalogue.document(name))))
    return "\n".join(parts)


_CONTRACTS_INTRODUCTION = """A contract says how one provider behaves. It is data, in [a format of its own](contract-format.md) with a
[JSON schema](contract.schema.json). Folders with contracts of your own are named by the setting `contracts`; `sereno contract check FILE` lists every
fault of one. A state that is not in the table stops the wait and asks a person.
"""


def _contract(contract: Contract) -> Iterator[str]:
    yield f"## {contract.name}\n"
    yield f"{contract.title}, version {contract.version}. From: {contract.source}. Checked: {contract.verified}.\n"
    yield f"{_status_call(contract)}\n"
    if contract.states:
        yield _table(("state", "means"), [(f"`{word}`", f"{meaning}") for word, meaning in contract.states.items()])
    else:
        yield "The states are given by the caller.\n"
    limits = contract.limits
    if limits is not None and contract.via is Via.PUSH:
        yield f"Deadline unless the caller gives another: {format_duration(timedelta(seconds=limits.deadline_s))}.\n"
    elif limits is not None:
        yield (
            f"Limits unless the caller gives others: {format_duration(timedelta(seconds=limits.deadline_s))}, "
            f"{limits.max_status_requests} status requests, {limits.max_transport_failures} transport failures, {limits.max_throttles} throttles.\n"
        )


def _status_call(contract: Contract) -> str:
    call = contract.status
    if contract.via is Via.PUSH:
        return "No status call: the provider calls back."
    if contract.via is Via.AWS:
        return f"`{call.operation}` of the AWS service `{call.service}`"
    return f"`{call.operation}` at `{call.url}` ({call.era})" if contract.via is Via.MCP else f"`{call.method} {call.url}`"


PAGES: Mapping[str, Callable[[], str]] = {
    "cli.md": lambda: commands(build()),
    "operation-states.md": operation_states,
    "escalations.md": escalations,
    "errors.md": errors,
    "settings.md": settings,
    "contracts.md": contracts,
}
