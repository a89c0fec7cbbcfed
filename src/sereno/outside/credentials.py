"""Resolves credentials by name, at the moment of use and only for the origin they are bound to (W25)."""

import base64
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sereno.core.errors import Fault
from sereno.outside.redaction import SHORTEST, Redaction
from sereno.outside.secret import MASK, Secret, looks_like_secret
from sereno.outside.url import BadUrl, parse_origin
from sereno.ports import CredentialConfig, SecretPlace

LONGEST = 16_384
SIGNING = frozenset({"aws4-hmac-sha256"})
"""Schemes, in lower case, whose value is a key that signs each request: it never travels."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_SCHEME = re.compile(r"[A-Za-z0-9._~+/-]{0,32}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class Unusable(Exception):
    """A credential that cannot be used here; the message names it and says why, without its value."""


@dataclass(frozen=True, slots=True)
class AuthHeader:
    """One header to add; the value does not print itself."""

    name: str
    value: Secret


class Credentials:
    """The deployment's credentials. Nothing is read before it is needed; a changed file or variable is seen at the next use."""

    def __init__(
        self, configs: Mapping[str, CredentialConfig], redaction: Redaction, environment: Mapping[str, str] | None = None
    ):
        self._configs = dict(configs)
        self._origins = {name: parse_origin(config.origin) for name, config in configs.items()}
        self._redaction = redaction
        self._environment = os.environ if environment is None else environment

    def names(self) -> Sequence[str]:
        """All names, sorted."""
        return sorted(self._configs)

    def header(self, name: str, origin: str) -> AuthHeader:
        """Resolves a credential for one origin. Raises Unusable: unknown, bound elsewhere, missing, not a header value."""
        config = self._bound(name, origin)
        if config.scheme.lower() in SIGNING:
            raise Unusable(f"credential {name!r} signs requests ({config.scheme}); it is never sent itself")
        value = self._value(name, config)
        if config.scheme.lower() == "basic":
            self._redaction.learn(value.partition(":")[2])
            value = base64.b64encode(value.encode()).decode()
            self._redaction.learn(value)
        return AuthHeader(config.header, Secret(f"{config.scheme} {value}" if config.scheme else value))

    def signing(self, name: str, origin: str) -> Secret:
        """Resolves a credential that signs, for one origin. Raises Unusable, also for one that is made to be sent.

        The parts of the value after the first colon are learned one by one: the first is the key's public name.
        """
        config = self._bound(name, origin)
        if config.scheme.lower() not in SIGNING:
            raise Unusable(f"credential {name!r} has the scheme {config.scheme!r}; this request needs one that signs it")
        value = self._value(name, config)
        for part in value.split(":")[1:]:
            self._redaction.learn(part)
        return Secret(value)

    def learn(self, name: str) -> None:
        """Teaches the redaction a credential that this process may not have used: for what comes in unasked. One that is not known or
        cannot be read teaches nothing."""
        config = self._configs.get(name)
        if config is None:
            return
        with suppress(Unusable):
            (self.signing if config.scheme.lower() in SIGNING else self.header)(name, self._origins[name])

    def _bound(self, name: str, origin: str) -> CredentialConfig:
        config = self._configs.get(name)
        if config is None:
            raise Unusable(f"there is no credential named {name!r}")
        if self._origins[name] != origin:
            raise Unusable(f"credential {name!r} is bound to {self._origins[name]}, not to {origin}")
        return config

    def _value(self, name: str, config: CredentialConfig) -> str:
        value = self.read(config.value, f"credential {name!r}").reveal()
        if not _VALUE.fullmatch(value):
            raise Unusable(f"credential {name!r} holds characters that a header cannot carry")
        return value

    def bound_to(self, name: str, origin: str) -> bool:
        """True where the credential exists and belongs to the origin."""
        return self._origins.get(name) == origin

    def read(self, place: SecretPlace, subject: str) -> Secret:
        """Reads a secret (one trailing line end dropped) and teaches it to the redaction. Raises Unusable."""
        text = self._read_variable(place.env, subject) if place.env else _read_file(place.file or "", subject)
        value = text.removesuffix("\n").removesuffix("\r")
        if len(value) < SHORTEST:
            raise Unusable(f"{subject} is empty or shorter than {SHORTEST} characters")
        secret = Secret(value)
        self._redaction.learn(secret)
        return secret

    def _read_variable(self, name: str, subject: str) -> str:
        text = self._environment.get(name)
        if text is None:
            raise Unusable(f"{subject}: the environment variable {name} is not set")
        return text


def _read_file(path: str, subject: str) -> str:
    try:
        with Path(path).expanduser().open(encoding="utf-8", newline="") as file:
            text = file.read(LONGEST + 1)
    except OSError as error:
        raise Unusable(f"{subject}: the file {path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise Unusable(f"{subject}: the file {path} is not text") from None
    if len(text) > LONGEST:
        raise Unusable(f"{subject}: the file {path} is longer than {LONGEST} characters")
    return text


def check_credential(name: str, config: CredentialConfig, where: str) -> Sequence[Fault]:
    """Lists what is wrong with a `[credentials.NAME]` table, without reading the value. Literal secrets are never repeated."""
    faults = []
    try:
        origin = parse_origin(config.origin)
        if origin.startswith("http://"):
            faults += _plain_http_faults(origin, where)
    except BadUrl as error:
        faults.append(Fault(f"{where}.origin", str(error), 'write for example origin = "https://api.example.com"'))
    if not _HEADER.fullmatch(config.header):
        faults.append(Fault(f"{where}.header", "is not a header name"))
    if not _SCHEME.fullmatch(config.scheme) or looks_like_secret(config.scheme) or looks_like_secret(config.header):
        faults.append(
            Fault(
                f"{where}.scheme", 'is not a scheme such as "Bearer"', f'the value goes to value = {{ env = "{name.upper()}" }}'
            )
        )
    return faults + list(check_place(config.value, f"{where}.value"))


def _plain_http_faults(origin: str, where: str) -> list[Fault]:
    if re.match(r"http://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?$", origin):
        return []
    return [Fault(f"{where}.origin", "a credential would travel unencrypted over http", "use an https origin")]


def check_place(place: SecretPlace, where: str) -> Sequence[Fault]:
    """Lists what is wrong with `{ env = … }` or `{ file = … }`."""
    if bool(place.env) == bool(place.file):
        return [Fault(where, "names neither or both of env and file", 'write { env = "NAME" } or { file = "/path" }')]
    if looks_like_secret(place.env or place.file or ""):
        return [Fault(where, f"holds a secret itself ({MASK})", "put the value into a variable or file and name that")]
    if place.env and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", place.env):
        return [Fault(f"{where}.env", "is not the name of an environment variable")]
    return []
