"""Redirects: our own rules, since the library's would forward headers and bodies to whoever it is told."""

from collections.abc import Mapping

from sereno.outside.egress.failure import BadRedirect
from sereno.outside.url import BadUrl, Target, resolve_location

STATUSES = frozenset({301, 302, 303, 307, 308})
_KEPT_ELSEWHERE = frozenset({"accept", "accept-language", "user-agent"})


def next_target(current: Target, location: str | None) -> Target:
    """Reads where a redirect leads. Raises BadRedirect."""
    try:
        target = resolve_location(current, location or "")
    except BadUrl as error:
        raise BadRedirect(f"a redirect from {current.origin} that is not followed: {error}") from error
    if current.scheme == "https" and target.scheme == "http":
        raise BadRedirect(f"a redirect from {current.origin} to unencrypted http is not followed")
    return target


def next_method(status: int, method: str) -> str:
    """The next hop's method: 303 asks by GET, 301 and 302 continue a GET or HEAD only, 307 and 308 keep. Raises BadRedirect."""
    if status == 303:
        return "HEAD" if method == "HEAD" else "GET"
    if status in (301, 302) and method not in ("GET", "HEAD"):
        raise BadRedirect(f"a {status} answer to {method} is not followed")
    return method


def headers_for(current: Target, target: Target, headers: Mapping[str, str], *, keeps_body: bool) -> dict[str, str]:
    """The caller's headers for the next hop: another origin gets only harmless ones, since any other may carry a secret."""
    if current.origin != target.origin:
        if keeps_body:
            raise BadRedirect(f"a redirect of a request with a body from {current.origin} to another origin is not followed")
        headers = {name: value for name, value in headers.items() if name.lower() in _KEPT_ELSEWHERE}
    return {name: value for name, value in headers.items() if keeps_body or not name.lower().startswith("content-")}
