"""Names the concrete plug-ins and the way out, and refuses settings that hold secrets."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sereno.builtin.actions.command import CommandAction
from sereno.builtin.actions.console import ConsoleAction
from sereno.builtin.actions.email import EmailAction
from sereno.builtin.actions.notify import NotifyAction
from sereno.builtin.actions.webhook import WebhookAction
from sereno.builtin.providers.aws import AwsProvider
from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.builtin.providers.mcp import McpProvider
from sereno.builtin.sources.command import CommandSource
from sereno.builtin.sources.feed import FeedSource
from sereno.builtin.sources.file import FileSource
from sereno.builtin.sources.http import HttpSource
from sereno.core.contract import Via
from sereno.core.errors import Fault, NotAllowed, SetupError
from sereno.core.observation import Reply
from sereno.outside.cel import CelConditions
from sereno.outside.credentials import Credentials, Unusable, check_credential
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.resolve import Refused, SystemResolver, check_address, check_target, checked_addresses
from sereno.outside.redaction import Redaction
from sereno.outside.secret import looks_like_secret, secrets_in_url
from sereno.outside.url import BAD_PORTS, BadUrl, parse_url
from sereno.ports import Action, CredentialConfig, Fetch, Plugins, SecretPlace, Source
from sereno.settings import Loaded, Settings
from sereno.settings.config import Reference

if TYPE_CHECKING:
    from sereno.outside.egress.gate import Gate

MAIL_PORTS = frozenset({25, 465, 587})


@dataclass(frozen=True, slots=True)
class Outside:
    """The one way out: gate, credentials, redaction, and the address check for what is not HTTP."""

    gate: "LazyGate"
    credentials: Credentials
    redaction: Redaction
    allow: Allow
    resolver: SystemResolver

    @classmethod
    def build(cls, settings: Settings, loaded: Loaded) -> "Outside":
        try:
            allow = Allow.parse(settings.egress.allow)
        except ValueError as error:
            raise SetupError(
                "the settings are not right; nothing was started", [Fault(loaded.where("egress", "allow"), str(error))]
            ) from error
        redaction = Redaction()
        http = {name: model for name, model in settings.credentials.items() if not model.origin.startswith("smtp://")}
        configs = {
            name: CredentialConfig(model.origin, _place(model.value), model.header, model.scheme or "")
            for name, model in http.items()
        }
        if faults := _credential_faults(settings, loaded):
            raise SetupError("the settings are not right; nothing was started", faults)
        try:
            credentials = Credentials(configs, redaction)
        except BadUrl as error:
            raise SetupError(
                "the settings are not right; nothing was started", [Fault(loaded.where("credentials"), str(error))]
            ) from error
        gate = LazyGate(allow, credentials, redaction, GateLimits(body_bytes=settings.egress.max_bytes))
        return cls(gate, credentials, redaction, allow, SystemResolver(threads=4))

    async def address(self, host: str, port: int) -> str:
        """The one address to connect to for what is not HTTP (mail). Raises NotAllowed, OSError."""
        try:
            target = parse_url(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
            if target.port != port or target.url.raw_path_qs != "/":  # a host with a path or query would move the check elsewhere
                raise BadUrl("the host is not a name or an address")
            # Mail's own ports are on the list of ports that HTTP never asks; the others of that list stay closed.
            if port in BAD_PORTS - MAIL_PORTS and not self.allow.opens_port(target.host, target.address, port):
                raise Refused(f"port {port} is never asked")
            if target.address is not None:
                check_address(target.address, target, self.allow)
            return str((await checked_addresses(target, self.allow, self.resolver))[0])
        except (Refused, BadUrl) as error:
            raise NotAllowed(str(error), subject=host, code="egress_refused") from error

    def refusal(self, url: str) -> str | None:
        """Why the gate would refuse a URL by what it shows alone (no DNS); None where it would not, or where the text is no URL."""
        try:
            check_target(parse_url(url), self.allow)
        except Refused as error:
            return str(error)
        except BadUrl:
            return None
        return None

    async def close(self) -> None:
        """Closes idle connections and resolver threads."""
        self.resolver.close()
        await self.gate.close()


class LazyGate:
    """The egress gate, made at the first request: a command that asks nobody outside does not pay for the HTTP client."""

    def __init__(self, allow: Allow, credentials: Credentials, redaction: Redaction, limits: GateLimits):
        self._parts = (allow, credentials, redaction, limits)
        self._gate: Gate | None = None

    async def fetch(self, request: Fetch) -> Reply:
        """See `ports.Transport`."""
        if self._gate is None:
            from sereno.outside.egress.gate import Gate  # noqa: PLC0415 - heavy, and most commands never send

            allow, credentials, redaction, limits = self._parts
            self._gate = Gate(allow=allow, credentials=credentials, redaction=redaction, limits=limits)
        return await self._gate.fetch(request)

    async def close(self) -> None:
        """Closes idle connections."""
        if self._gate is not None:
            await self._gate.close()


def _credential_faults(settings: Settings, loaded: Loaded) -> list[Fault]:
    """What is wrong with each `[credentials.NAME]`, without reading a value. A mail server's origin is no HTTP origin."""
    return [
        Fault(loaded.where("credentials", name, "value"), f"`{fault.where}`: {fault.message}", fault.hint)
        for name, model in settings.credentials.items()
        for fault in check_credential(
            name,
            CredentialConfig(model.origin, _place(model.value), model.header, model.scheme or ""),
            f"credentials.{name}",
        )
        if not (model.origin.startswith("smtp://") and fault.where.endswith(".origin"))
    ]


def _place(reference: Reference) -> SecretPlace:
    return SecretPlace(env=reference.env, file=reference.file)


def secret_in(text: str) -> str | None:
    """Says why a text that a person wrote holds a secret, or None."""
    in_url = ", ".join(secrets_in_url(text)) if "://" in text else ""
    return f"it carries what looks like a secret: {in_url}" if in_url else looks_like_secret(text)


def refuse_secrets(loaded: Loaded) -> None:
    """A literal secret in the settings is refused: it belongs into the environment or a file. Raises SetupError with each place."""
    faults = [
        Fault(
            loaded.where(*location),
            f"`{'.'.join(map(str, location))}`: {why}",
            'write [credentials.NAME] with value = {env = "…"} and name it here',
        )
        for location, text in loaded.texts()
        if (why := secret_in(text)) is not None
    ]
    if faults:
        raise SetupError(f"{loaded.path} holds secrets; nothing was started", faults, code="literal_secret")


def build_plugins(loaded: Loaded, outside: Outside, console: TextIO) -> Plugins:
    settings = loaded.settings

    def secret(name: str, origin: str) -> str:
        model = settings.credentials.get(name)
        if model is None:
            raise NotAllowed(
                f"there is no credential named {name!r}", subject=name, hint=f"add [credentials.{name}] to the settings"
            )
        if model.origin.rstrip("/") != origin:
            raise NotAllowed(f"credential {name!r} is bound to {model.origin}, not to {origin}", subject=name)
        return _read(outside, model.value, f"credential {name!r}")

    def notify_target(name: str, origin: str) -> str:
        model = settings.notify.get(name)
        if model is None:
            raise NotAllowed(
                f"there is no notify target named {name!r}", subject=name, hint=f"add [notify.{name}] to the settings"
            )
        return _read(outside, model.url, f"notify target {name!r}")

    sources: list[Source] = [HttpSource(secret_in), FeedSource(secret_in), FileSource(), CommandSource(secret_in)]
    actions: list[Action] = [
        ConsoleAction(console),
        EmailAction(secret, outside.address),
        WebhookAction(secret, secret_in),
        CommandAction(secret_in),
        NotifyAction(notify_target),
    ]
    return Plugins(
        sources={source.type: source for source in sources},
        actions={action.type: action for action in actions},
        providers={Via.HTTP: HttpProvider(), Via.AWS: AwsProvider(), Via.MCP: McpProvider()},
        contracts=build_catalogue(loaded),
        conditions=CelConditions(),
    )


def build_catalogue(loaded: Loaded) -> Catalogue:
    """The contracts that ship with Sereno and those of the settings' folders."""
    folder = loaded.path.parent if loaded.path is not None else Path.cwd()
    return Catalogue([folder / name for name in loaded.settings.contracts], secret_in)


def _read(outside: Outside, place: Reference, subject: str) -> str:
    try:
        return outside.credentials.read(_place(place), subject).reveal()
    except Unusable as error:
        raise NotAllowed(str(error)) from error
