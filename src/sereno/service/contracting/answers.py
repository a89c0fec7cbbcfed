"""Saved answers: what `curl -i` printed, or a bare JSON body, as an HTTP answer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sereno.core.errors import Fault, SetupError
from sereno.core.values import BadJson, Json, parse_json

MAX_ANSWER = 1_000_000
"""Bytes of one saved answer."""
_STATUS = re.compile(rb"HTTP/[0-9.]+ ([1-5][0-9][0-9])\b[^\r\n]*", re.ASCII)
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*(.*)", re.ASCII)
_KEPT = re.compile(r"content-type|location|operation-location|date|.*(retry|poll|ratelimit|rate-limit|expires).*", re.IGNORECASE)
"""Headers that a case may need; the others, among them cookies and tokens, are left out of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One saved answer. `name` is where it was saved."""

    name: str
    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Json:
        """The body as JSON, or None where it is none."""
        try:
            return parse_json(self.body)
        except BadJson:
            return None

    @property
    def kept_headers(self) -> dict[str, str]:
        """The headers that a case keeps."""
        return {name: value for name, value in self.headers.items() if _KEPT.fullmatch(name)}

    def case_answer(self) -> dict[str, Json]:
        """The answer as a case holds it."""
        return {"status": self.status, "headers": dict(self.headers), "body": self.body}


def read_answer(content: bytes, name: str) -> Answer:
    """Reads what `curl -i` printed (the last answer, after redirects and `100 Continue`), or a bare JSON body as a 200 answer.

    Raises SetupError for anything else.
    """
    if len(content) > MAX_ANSWER:
        raise _unreadable(name, f"is larger than {MAX_ANSWER // 1000} kB")
    status, headers, body = 200, dict[str, str](), content
    while (match := _STATUS.match(body)) is not None:
        head, body = _split(body)
        status, headers = int(match[1]), _headers(head)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise _unreadable(name, "is not UTF-8") from None
    answer = Answer(name, status, headers, text)
    if body is content and answer.json is None:
        raise _unreadable(name, "is neither JSON nor what `curl -i` prints", "save it with `curl -i … > FILE`")
    return answer


def _unreadable(name: str, says: str, hint: str | None = None) -> SetupError:
    return SetupError("the answer cannot be read", [Fault(name, says, hint)])


def _split(content: bytes) -> tuple[bytes, bytes]:
    match = re.search(rb"\r?\n\r?\n", content)
    return (content, b"") if match is None else (content[: match.start()], content[match.end() :])


def _headers(head: bytes) -> dict[str, str]:
    lines: Sequence[str] = head.decode("latin-1").splitlines()[1:]
    found: dict[str, str] = {}
    for line in lines:
        match = _HEADER.fullmatch(line.strip())
        if match is not None:
            found.setdefault(match[1].lower(), match[2])
    return found
