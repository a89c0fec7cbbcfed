"""Moving: where a job is looked at from now on, as an answer says it. An address is given or filled in, never guessed (W15), and
leads nowhere but to the origin that was asked or one of the contract's, because the credential goes along."""

from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from sereno.core.contract import Call, Contract, Handover, fill_call, origin_of, word_of
from sereno.core.observing.seen import Asked, HttpReply
from sereno.core.reading.templates import CALLER_URL
from sereno.core.values import Json

BASE = "base"
"""The name under which an operation's parameters hold the address that replaces the contract's own."""


def next_address(contract: Contract, asked: Asked, reply: HttpReply, body: Json) -> str | None:
    """The status address that an answer hands the job over to, or None where it stays. Raises ValueError for one that is not allowed."""
    for handover in contract.handovers:
        found = reply.header(handover.header) if handover.header else handover.path.search(body) if handover.path else None
        if found is None or found == "":
            continue
        value = word_of(found)
        if value is None:
            raise ValueError("the new status address is no text")
        address = _filled(contract, handover, asked, value)
        return None if address == asked.url else address
    return None


def _filled(contract: Contract, handover: Handover, asked: Asked, value: str) -> str:
    if handover.url is None:
        return allowed_address(contract, value, asked.url)
    values = {**without_base(asked.parameters), "job_id": asked.job_id, "value": value}
    base = asked.parameters.get(BASE, origin_of(asked.url) if handover.url.startswith("{base}") else None)
    return allowed_address(contract, fill_call(contract, Call("GET", handover.url), values, base=base).url, asked.url)


def without_base(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters that the contract itself names."""
    return {name: value for name, value in parameters.items() if name != BASE}


def allowed_address(contract: Contract, address: str, asked_url: str) -> str:
    """An address as the provider gave it, made whole against the one that was asked. Raises ValueError saying why it is refused."""
    path = urlsplit(address).path.lower().replace("%2e", ".")
    if any(piece in (".", "..") for piece in path.replace("%2f", "/").replace("%5c", "/").replace("\\", "/").split("/")):
        raise ValueError("the new status address holds a '.' or '..' path segment")
    whole = fill_call(contract, Call("GET", CALLER_URL), {"job_id": urljoin(asked_url, address)}).url
    if origin_of(whole) not in (origin_of(asked_url), *contract.origins):
        raise ValueError(f"the new status address is of another origin: {origin_of(whole)}")
    return whole
