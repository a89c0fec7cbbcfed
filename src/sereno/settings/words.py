"""Says in our words what the model found wrong with a value; the value itself is never repeated."""

from collections.abc import Mapping
from typing import Any

_PATTERNS = {
    "^[A-Za-z_][A-Za-z0-9_]*$": "must be the name of an environment variable: letters, digits and _",
    "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$": "must be 1 to 63 letters, digits, dots, underscores or hyphens, the first a letter or digit",
}
_KINDS = {
    "missing": "is missing",
    "string_type": "must be a text in quotes",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "mapping_type": "must be a table",
    "model_type": "must be a table",
    "time_delta_type": "must be a duration such as 90s, 15m, 1h30m or 2d",
    "time_delta_parsing": "must be a duration such as 90s, 15m, 1h30m or 2d",
    "timezone_aware": "must be an instant with its zone, for example 2026-12-01T18:00:00Z",
    "datetime_parsing": "must be an instant, for example 2026-12-01T18:00:00Z",
    "datetime_type": "must be an instant, for example 2026-12-01T18:00:00Z",
}


def says(item: Mapping[str, Any]) -> str:
    """One fault as pydantic lists it (with its context), in one sentence part that follows a name."""
    kind, context = item["type"], item.get("ctx", {})
    match kind:
        case "literal_error":
            return f"must be {context['expected']}"
        case "string_pattern_mismatch":
            return _PATTERNS.get(context["pattern"], f"must look like {context['pattern']}")
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "string_too_long":
            return f"must have at most {context['max_length']} characters"
    return _KINDS.get(kind) or str(item["msg"]).removeprefix("Value error, ")
