"""Secret values that do not print themselves, and the search for secrets written where they do not belong."""

import hmac
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Never
from urllib.parse import parse_qsl, urlsplit

MASK = "[secret]"


class Secret:
    """Holds a value that only `reveal()` shows: not str, repr, format, pickle, copy or JSON. Compared in constant time."""

    __slots__ = ("__value",)

    def __init__(self, value: str):
        self.__value = value

    def reveal(self) -> str:
        """The value. Call it where the value is used and keep no copy."""
        return self.__value

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self.__value.encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return id(self)

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a secret cannot be pickled")


# Prefixes that their makers publish so that scanners find them.
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|sk_(?:live|test)_[A-Za-z0-9]{10,}|rk_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|ntn_[A-Za-z0-9]{20,}|secret_[A-Za-z0-9]{30,}"
    r"|hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}|discord(?:app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{20,}"
    r"|\d{6,12}:AA[A-Za-z0-9_-]{32,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)"
)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_AUTH_VALUE = re.compile(r"\s*(?:bearer|basic|token|apikey)\s+(\S{8,})\s*", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:access_?token|token|api_?key|key|secret|client_?secret|password|passwd|pwd|pass|sig|signature|auth|authorization"
    r"|credential|session|jwt|x-amz-signature|x-amz-credential|x-goog-signature)$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HARMLESS = re.compile(r"\$?\{[^{}]*\}|<[^<>]*>|")


def looks_like_secret(text: str) -> str | None:
    """Says why a literal looks like a secret (a published prefix, a private key, an Authorization value), or None."""
    if (match := _KNOWN.search(text)) is not None:
        return f"it holds what looks like a key ({match[0][:4]}…)"
    if _PEM.search(text):
        return "it holds a private key"
    if (auth := _AUTH_VALUE.fullmatch(text)) is not None and not _HARMLESS.fullmatch(auth[1]):
        return "it is an Authorization value"
    return None


_USERINFO = re.compile(r"(?<=://)[^\s/?#@]*:[^\s/?#@]*(?=@)")
_PARAMETER = re.compile(r"(?<=[?&#])([A-Za-z0-9_.-]{1,64})=([^\s&#'\"`]{8,})")
_CARRIED = re.compile(r"\b(bearer|basic|token|apikey)(\s+)[^\s'\"`]{8,}", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """Puts `[secret]` where a text that goes back to its writer repeats what looks like a secret: keys, userinfo, telling parameters."""
    text = _KNOWN.sub(MASK, _USERINFO.sub(MASK, text))
    text = _PARAMETER.sub(lambda match: f"{match[1]}={MASK}" if named_like_secret(match[1]) else match[0], text)
    return _CARRIED.sub(lambda match: f"{match[1]}{match[2]}{MASK}" if looks_random(match[0].split()[-1]) else match[0], text)


def named_like_secret(name: str) -> bool:
    """True for names under which secrets travel: `api_key`, `X-Api-Key`, `accessToken`, `sig` …"""
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None


def looks_random(text: str) -> bool:
    """True for 20 or more characters without spaces whose entropy is that of a key rather than of words."""
    if len(text) < 20 or not re.fullmatch(r"[A-Za-z0-9+/=_.~-]+", text):
        return False
    counts = Counter(text)
    entropy = -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
    return entropy >= 3.0 and any(c.isdigit() for c in text)


def secrets_in_url(url: str) -> Sequence[str]:
    """Lists what in a URL looks like a secret, in words that do not repeat it: userinfo, telling parameters, known prefixes.

    A parameter counts where its name tells (`token=`, `sig=` …) and its value is 8 or more characters, or where the value has a
    published prefix. The path counts by prefix alone.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    found = ["a user name or password before the @"] if "@" in parts.netloc else []
    for name, value in parse_qsl(parts.query, keep_blank_values=True) + parse_qsl(parts.fragment):
        telling = named_like_secret(name) and (len(value) >= 8 or looks_random(value)) and not _HARMLESS.fullmatch(value)
        if telling or looks_like_secret(value):
            found.append(f"the parameter {name!r}")
    if looks_like_secret(parts.path):
        found.append("a key in the path")
    return tuple(found)
