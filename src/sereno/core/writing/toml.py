"""Written: JSON values and texts as TOML, for contracts and cases that a program writes."""

import json
import re
from typing import cast

from sereno.core.values import Json

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def toml_text(text: str) -> str:
    """A text in quotes: JSON's escapes are TOML's, but for the delete character. What is no character becomes U+FFFD."""
    proper = text.encode("utf-8", "replace").decode()
    return json.dumps(proper, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_block(text: str) -> str:
    """A long text as it is, between three single quotes, where it can stand so; else in quotes."""
    if "'''" in text or text.endswith("'") or text.startswith("\n") or _CONTROLS.search(text):
        return toml_text(text)
    return f"'''{text}'''"


def toml_value(value: Json) -> str:
    """A value on one line; None, which TOML does not have, is left out of tables and lists. A bare None is an empty table."""
    match value:
        case None:
            return "{}"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return toml_text(value)
        case list():
            return f"[{', '.join(toml_value(cast(Json, one)) for one in value if one is not None)}]"
    pairs = [f"{toml_key(key)} = {toml_value(cast(Json, one))}" for key, one in value.items() if one is not None]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"


def toml_key(key: str) -> str:
    """A key: bare where it can be, else in quotes."""
    return key if _BARE.fullmatch(key) else toml_text(key)


def comment(text: str) -> str:
    """One line of a comment: what could end it, or hide in it, is replaced."""
    return "# " + re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", " ", text)
