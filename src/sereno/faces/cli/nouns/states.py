"""Words that a person may type for one of a few things."""

from collections.abc import Iterable

from sereno.core.errors import RequestError, nearest


def one_of(word: str | None, known: Iterable[str], flag: str = "--state") -> str | None:
    """The word, where it is one of those known or None. Raises RequestError with the words there are."""
    words = [str(one) for one in known]
    if word is None or word in words:
        return word
    near = nearest(word, words)
    hint = (f"did you mean `{near}`? " if near else "") + f"there are: {', '.join(words)}"
    raise RequestError(f"{flag}: there is no `{word[:60]}`", hint=hint, code="usage")


def at_least_one(limit: int) -> None:
    """Raises RequestError for a limit of a list that would show nothing."""
    if limit < 1:
        raise RequestError(f"--limit must be 1 or more, not {limit}", code="usage")
