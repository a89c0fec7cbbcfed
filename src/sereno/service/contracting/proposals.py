"""Proposals: what sample answers show of a provider: places of the state, the id, errors and results, and the words seen.

Places are proposed by the names of fields; what a word means is never guessed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sereno.core.reading.document import UNDECIDED
from sereno.core.values import Json
from sereno.service.contracting.answers import Answer

_MAX_DEPTH = 6
_MAX_LEAVES = 1000
_MAX_ITEMS = 20
_LONGEST_PATH = 500
"""Characters: a longer path is not one that a person would choose."""
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_STATE = (
    "status",
    "state",
    "phase",
    "job_status",
    "task_status",
    "stage",
    "statuscode",
    "state_name",
    "done",
    "finished",
    "completed",
)
_ID = ("id", "job_id", "jobid", "task_id", "taskid", "uuid", "guid", "request_id", "requestid", "token", "name")
_TEXT = ("message", "error_message", "errormessage", "failure_reason", "failure_detail", "reason", "detail", "error", "messages")
_CODE = ("code", "error_code", "errorcode", "type", "error_type", "failure")
_RESULT = re.compile(
    r"(.*_)?(outputs?|results?|urls?|uris?|href|files?|artifacts?|images?|videos?|audio|download|sample|transcript|playback_ids)"
)
_HINT = re.compile(r"retry_?after.*|poll_?(after|interval|in).*|next_?(poll|check).*|refresh_?interval.*")
_EXPIRY = re.compile(r"expire(s|d)?(_?(at|on|date|time))?|expiry|expiration(_?(at|time|date))?")
_LONGEST_WORD = 60


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value of an answer: its path as JMESPath, the last name of it in lower case, and how deep it is. `listed`: it is inside a
    list, so the path finds several."""

    path: str
    name: str
    depth: int
    value: Json
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A field that may be what is looked for, and an example of its value."""

    path: str
    value: Json


@dataclass(frozen=True, slots=True)
class Proposals:
    """What the samples show. The first of several is the likeliest."""

    states: Sequence[Place] = ()
    words: Sequence[str] = ()
    """Every value of the first state place, as it is written in `[states]`."""
    ids: Sequence[Place] = ()
    codes: Sequence[Place] = ()
    texts: Sequence[Place] = ()
    results: Sequence[Place] = ()
    hints: Sequence[Place] = ()
    expiries: Sequence[Place] = ()
    statuses: Sequence[int] = ()
    """HTTP statuses other than 2xx."""
    only_bad_errors: bool = False
    """No answer of 2xx has an error in it, so that the places of errors are those of other answers."""


def propose(answers: Sequence[Answer], url: str | None) -> Proposals:
    """Reads the samples. Fields count where they stand in answers of 2xx; errors too, unless no such answer has one: a 404 says why
    there is no job, and a failed job why it failed."""
    good = [answer for answer in answers if 200 <= answer.status < 300]
    bad = [answer for answer in answers if not 200 <= answer.status < 300]
    found = [leaf for answer in good for leaf in leaves(answer.json)]
    single = [leaf for leaf in found if not leaf.listed]
    states = _ranked([leaf for leaf in single if _may_be_state(leaf)], _STATE)
    words = [word for answer in good if states and (word := word_at(answer, states[0].path)) is not None]
    told = _errors(found)
    errors = told if any(leaf.value is not None for leaf in told) else [*told, *_errors([x for a in bad for x in leaves(a.json)])]
    return Proposals(
        states=states,
        words=list(dict.fromkeys(words)),
        ids=_ids(single, url),
        codes=_ranked([leaf for leaf in errors if _is_scalar(leaf.value)], _CODE),
        texts=_ranked([leaf for leaf in errors if isinstance(leaf.value, str)], _TEXT)
        or _ranked([leaf for leaf in errors if leaf.value is None], _TEXT),
        results=_results(good, states),
        hints=_matching(single, _HINT),
        expiries=_matching(single, _EXPIRY),
        statuses=sorted({answer.status for answer in answers} - {answer.status for answer in good}),
        only_bad_errors=not told,
    )


def _errors(found: Sequence[Leaf]) -> list[Leaf]:
    return [leaf for leaf in found if not leaf.listed and re.search("error|fail", leaf.path.lower())]


def _results(good: Sequence[Answer], states: Sequence[Place]) -> list[Place]:
    """What may be a result: a field that answers of every word hold is none, since a pending one has it too."""
    by_word: dict[str, set[str]] = {}
    for answer in good:
        word = word_at(answer, states[0].path) if states else None
        if word is not None:
            by_word.setdefault(word, set()).update(place.path for place in _matching(list(leaves(answer.json)), _RESULT))
    always = set.intersection(*by_word.values()) if len(by_word) > 1 else set[str]()
    found = _matching([leaf for answer in good for leaf in leaves(answer.json)], _RESULT)
    return [place for place in found if place.path not in always]


def text_at(answer: Answer, path: str) -> str | None:
    """The text of an answer at a proposed place, or None where there is no word there."""
    found = word_at(answer, path)
    return found or None


def word_at(answer: Answer, path: str) -> str | None:
    """The word of an answer at a proposed place, as `[states]` writes it."""
    found = next((leaf.value for leaf in leaves(answer.json) if leaf.path == path), None)
    return None if found is None or not _is_scalar(found) else as_word(found)


def as_word(value: Json) -> str:
    """A scalar as the word it is looked up by."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def leaves(value: Json) -> Iterator[Leaf]:
    """Every value inside an object that is no object itself, lists whole and then by the objects in them, nulls too, shallow first."""
    waiting: list[tuple[str, int, Mapping[str, object]]] = [("", 1, value)] if isinstance(value, dict) else []
    count = 0
    while waiting:
        path, depth, table = waiting.pop(0)
        for key, inner in table.items():
            count += 1
            if count > _MAX_LEAVES:
                return
            here = _joined(path, key)
            if len(here) > _LONGEST_PATH:
                continue
            if not isinstance(inner, dict):
                yield Leaf(here, key.lower(), depth, inner, "[]" in path)  # type: ignore[arg-type]  # a value of parsed JSON
            if depth < _MAX_DEPTH:
                waiting += [(name, depth + 1, one) for name, one in _inner(here, inner)]


def _inner(here: str, value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    if isinstance(value, dict):
        yield here, value
    elif isinstance(value, list):
        yield from ((f"{here}[]", one) for one in value[:_MAX_ITEMS] if isinstance(one, dict))


def _joined(path: str, key: str) -> str:
    """A JMESPath name, as a JSON string where it cannot stand bare (or would read as something still to be decided)."""
    name = key if _BARE.fullmatch(key) and not key.startswith(UNDECIDED) else json.dumps(key)
    return f"{path}.{name}" if path else name


def _is_scalar(value: Json) -> bool:
    return isinstance(value, str | int | float | bool)


def _may_be_state(leaf: Leaf) -> bool:
    if leaf.name in ("done", "finished", "completed"):
        return isinstance(leaf.value, bool)
    return isinstance(leaf.value, int) or (isinstance(leaf.value, str) and len(leaf.value) <= _LONGEST_WORD)


def _ids(found: Sequence[Leaf], url: str | None) -> Sequence[Place]:
    able = [leaf for leaf in found if isinstance(leaf.value, str | int) and not isinstance(leaf.value, bool) and leaf.value != ""]
    named = _ranked(able, _ID)
    if url is None or "{job_id}" in url:
        return named
    return [place for place in named if str(place.value) in re.split(r"[/?&=]", url)]


def _ranked(found: Sequence[Leaf], names: Sequence[str]) -> list[Place]:
    """The leaves of the given names: shallow before deep, then in the order of the names; each path once."""
    able = sorted((leaf for leaf in found if leaf.name in names), key=lambda leaf: (leaf.depth, names.index(leaf.name)))
    return _once(able)


def _matching(found: Sequence[Leaf], names: re.Pattern[str]) -> list[Place]:
    able = [leaf for leaf in found if names.fullmatch(leaf.name) and leaf.value not in (None, "", [], {})]
    return _once(sorted(able, key=lambda leaf: leaf.depth))


def _once(found: Sequence[Leaf]) -> list[Place]:
    places: dict[str, Place] = {}
    for leaf in found:
        places.setdefault(leaf.path, Place(leaf.path, leaf.value))
    return list(places.values())
