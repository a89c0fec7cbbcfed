"""The `email` action: one plain-text message over SMTP."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address

from sereno.builtin.mail import Server, address_rule, build, parse_address, send
from sereno.builtin.message import ResolveSecret, last_check, secret_of
from sereno.builtin.options import Rule, check_options, credential_name, number, one_of, text, texts, texts_of
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault, NotAllowed
from sereno.core.values import Json
from sereno.ports import Guarded, Place

CheckAddress = Callable[[str, int], Awaitable[str]]
"""`(host, port)` → the one IP address to connect to. Raises NotAllowed where the egress rules forbid it, OSError where there is none."""

_PORTS = {"starttls": 587, "tls": 465, "none": 25}


async def public_literal_only(host: str, port: int) -> str:
    """The default address check: takes a public IP literal and nothing else, since it can resolve no name."""
    try:
        address = ip_address(host)
    except ValueError:
        raise NotAllowed("no address check for mail servers is set up", subject=host) from None
    if not address.is_global or address.is_multicast:
        raise NotAllowed("this address is not public", subject=host)
    return str(address)


def _recipients(value: Json) -> str | None:
    return address_rule(value) if isinstance(value, str) else texts(20, item=address_rule)(value)


class EmailAction:
    """Sends to one to twenty recipients, all or none.

    `tls` is `starttls` (default, demanded), `tls` or `none`; a password is sent only inside TLS. `password` is the NAME of a credential.
    Mail servers keep no keys: a repeat carries the same Message-ID, which most mailboxes show once. The action may be declared at most once.
    """

    type = "email"
    default_policy = Policy.AT_LEAST_ONCE

    _rules: Mapping[str, Rule] = {
        "host": text(253),
        "port": number(1, 65_535),
        "tls": one_of(*_PORTS),
        "from": address_rule,
        "to": _recipients,
        "username": text(256),
        "password": credential_name,
    }

    def __init__(self, resolve_secret: ResolveSecret, check_address: CheckAddress = public_literal_only) -> None:
        self._resolve = resolve_secret
        self._check_address = check_address

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        faults = check_options("action", options, self._rules, ["host", "from", "to"])
        if ("username" in options) != ("password" in options):
            missing = "password" if "username" in options else "username"
            faults.append(
                Fault(f"action.{missing}", "is missing", "a login takes username and password (the NAME of a credential)")
            )
        if "password" in options and options.get("tls") == "none":
            faults.append(Fault("action.tls", "would send the password in the clear", "use starttls or tls"))
        return faults

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool of the mail server; the recipients for people."""
        return Place(f"host:{str(options.get('host')).lower()}:{_port(options)}", ", ".join(texts_of(options, "to"))[:200])

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Sends once."""
        options = delivery.effect.action.options
        host, port, tls = str(options["host"]), _port(options), str(options.get("tls", "starttls"))
        password = secret_of(options, "password", f"smtp://{host.lower()}:{port}", self._resolve)
        if isinstance(password, Outcome):
            return password
        sender = parse_address(str(options["from"]))
        recipients = [found for entry in texts_of(options, "to") if (found := parse_address(entry)) is not None]
        if sender is None or not recipients or (password is not None and tls == "none"):
            return Outcome(OutcomeKind.REFUSED, "the options of this action are not valid")
        address = await self._address(host, port)
        if isinstance(address, Outcome):
            return address
        username = options.get("username")
        server = Server(
            host, port, address, tls, str(username) if username else None, password, guarded.total_deadline.total_seconds()
        )
        return await send(server, build(delivery, sender, recipients), partial(last_check, guarded))

    async def _address(self, host: str, port: int) -> str | Outcome:
        try:
            return await self._check_address(host, port)
        except NotAllowed as error:
            return Outcome(OutcomeKind.REFUSED, f"nothing was sent: {error.message}"[:500])
        except OSError as error:
            return Outcome(OutcomeKind.RETRY, f"nothing was sent: the mail server's name has no address ({type(error).__name__})")


def _port(options: Mapping[str, Json]) -> int:
    port = options.get("port")
    return port if isinstance(port, int) else _PORTS.get(str(options.get("tls", "starttls")), 587)
