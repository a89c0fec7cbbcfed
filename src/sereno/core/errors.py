"""The error tree: what a caller can be told, and the one table that maps it to each face.

What the world does (a failed read, a missing reply, a refusal) is not an exception: the core decides on such values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class SerenoError(Exception):
    """Says what happened, to which thing, and what the caller can do.

    `code` is a slug that never changes; `message` is one sentence; `subject` names the thing (an id, a file:line, a
    setting) or is None; `hint` says what to do or is None. None of them ever holds a secret.
    """

    code = "error"

    def __init__(self, message: str, *, subject: str | None = None, hint: str | None = None, code: str | None = None):
        super().__init__(message)
        self.message = message
        self.subject = subject
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        where = f" [{self.subject}]" if self.subject else ""
        return f"{self.message}{where}" + (f" — {self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a configuration: where it is, what is wrong, what would be right."""

    where: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f" — {self.hint}" if self.hint else "")


class SetupError(SerenoError):
    """Nothing was started. All faults are listed at once."""

    code = "setup"

    def __init__(self, message: str, faults: Sequence[Fault] = (), *, hint: str | None = None, code: str | None = None):
        super().__init__(message, hint=hint, code=code)
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {fault}" for fault in self.faults)])


class RequestError(SerenoError):
    """The caller can put it right."""

    code = "request"


class NotFound(RequestError):
    """The named thing does not exist in this workspace."""

    code = "not_found"


class AlreadyExists(RequestError):
    """The name or key is taken."""

    code = "already_exists"


class NotNow(RequestError):
    """The thing is in a state that does not allow this (W02)."""

    code = "not_now"


class NotAllowed(RequestError):
    """This principal, address or credential may not do this."""

    code = "not_allowed"


class TooMuch(RequestError):
    """A size, count or rate cap would be passed."""

    code = "too_much"


class Unavailable(SerenoError):
    """The same call may work later."""

    code = "unavailable"


class LeaseLost(SerenoError):
    """The work was taken over; never leaves the drivers."""

    code = "lease_lost"


class InvariantBroken(SerenoError):
    """Our mistake: recorded, the work is parked, the operator is told."""

    code = "invariant_broken"


@dataclass(frozen=True, slots=True)
class Mapping:
    """What one error class looks like at each face: CLI exit code, HTTP status, JSON-RPC error code."""

    exit_code: int
    http_status: int
    rpc_code: int


MAPPINGS: dict[type[SerenoError], Mapping] = {
    SerenoError: Mapping(1, 500, -32603),
    SetupError: Mapping(2, 500, -32603),
    RequestError: Mapping(2, 400, -32602),
    NotFound: Mapping(6, 404, -32602),
    AlreadyExists: Mapping(6, 409, -32602),
    NotNow: Mapping(6, 409, -32600),
    NotAllowed: Mapping(6, 403, -32600),
    TooMuch: Mapping(6, 413, -32600),
    Unavailable: Mapping(7, 503, -32000),
    LeaseLost: Mapping(1, 500, -32603),
    InvariantBroken: Mapping(1, 500, -32603),
}


def mapping_of(error: SerenoError) -> Mapping:
    """Finds the row of an error: its own class, else the nearest class above it."""
    return next(MAPPINGS[kind] for kind in type(error).__mro__ if kind in MAPPINGS)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Finds the known name that a mistyped word most likely meant, whatever its case; None when nothing is close."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(candidates)}
    found = get_close_matches(word[:100].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Words the hint `did you mean X?`, or None when nothing is close."""
    found = nearest(word, candidates)
    return f"did you mean {found}?" if found else None
