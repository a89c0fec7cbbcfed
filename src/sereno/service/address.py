"""Addresses that the settings do not open: why, and the line that opens them."""

from urllib.parse import urlsplit

from sereno.service.deps import Deps

_MOST_MERGED = 5


def refusal_hint(deps: Deps, url: str, message: str) -> str | None:
    """What to do about a refusal; None where it has nothing to do with the allow list.

    `message` is the refusal's text: after a redirect it speaks of another host than that of `url`.
    """
    if deps.address_check(url) is None and "is special" not in message and "is never asked" not in message:
        return None
    place = _place(url)
    if place is None or (deps.address_check(url) is None and place.rpartition(":")[0].strip("[]") not in message):
        return "if it is meant, add the host that is named here to [egress] allow in the settings"
    return allow_line(deps, place)


def allow_line(deps: Deps, place: str) -> str:
    """The line of the settings that opens `host:port`, beside what is open already."""
    present = deps.loaded.settings.egress.allow
    if len(present) > _MOST_MERGED:
        return f'if it is meant, add "{place}" to [egress] allow in the settings'
    entries = ", ".join(f'"{entry}"' for entry in (*present, place))
    return f"if it is meant, write in the settings: [egress] allow = [{entries}]"


def _place(url: str) -> str | None:
    """`host:port` as an entry of the allow list; None where the address is none."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host, port = parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return None
    if not host:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
