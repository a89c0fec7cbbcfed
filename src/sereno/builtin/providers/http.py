"""The HTTP carrier: sends the calls of a contract through the gate. What an answer means is read elsewhere, purely."""

from collections.abc import Mapping
from dataclasses import replace

from sereno.builtin.calling import look_request, send_request
from sereno.core.call import ProviderCall
from sereno.core.contract import Contract
from sereno.core.observation import NoReply, NoReplyKind, Reply
from sereno.core.operation import Operation
from sereno.core.reading.address import Filled, origin_of
from sereno.ports import Fetch, Guarded

MAX_BODY = 10_000_000
"""Bytes of a decoded answer."""


class HttpProvider:
    """Implements `ports.Provider`. Stateless: everything comes with the operation, its pinned contract and the guarded means."""

    def problem(self, contract: Contract, parameters: Mapping[str, str]) -> str | None:
        """None: what can be wrong with an address or a header was found when the contract was read and its address filled."""
        return None

    async def look(self, operation: Operation, contract: Contract, guarded: Guarded) -> Reply:
        """Sends the one status request. Never raises for what the world does, nor for a stored address it will not use."""
        try:
            request = build_fetch(operation, contract, guarded)
        except ValueError as error:
            return NoReply(NoReplyKind.REFUSED_ADDRESS, f"the stored status address is not usable: {error}", sent=False)
        return await guarded.transport.fetch(request)

    async def send(self, operation: Operation, contract: Contract, call: ProviderCall, guarded: Guarded) -> Reply:
        """Sends the submit or cancel, once; a redirect is not followed, since what it would lead to was never asked for."""
        try:
            request = send_request(operation, contract, call)
            fetch = _fetch(request, operation, guarded)
        except ValueError as error:
            return NoReply(NoReplyKind.REFUSED_ADDRESS, f"the {call.kind} cannot be made: {error}", sent=False)
        return await guarded.transport.fetch(fetch)


def build_fetch(operation: Operation, contract: Contract, guarded: Guarded) -> Fetch:
    """Makes the one request of a status step. Raises ValueError for an address that is no http or https URL.

    The only origin that may be asked is that of the stored URL; where the contract follows redirects, its own origins too. Redirects
    stay off unless the contract asks for them, whatever the caller offers.
    """
    fetch = _fetch(look_request(operation, contract), operation, guarded)
    if not contract.redirects:
        return fetch
    return replace(fetch, before_hop=guarded.before_hop, allowed_origins=(*fetch.allowed_origins, *contract.origins))


def _fetch(request: Filled, operation: Operation, guarded: Guarded) -> Fetch:
    """The request as the gate takes it. The credential goes by name and is resolved there, for the origin it is bound to."""
    return Fetch(
        url=request.url,
        method=request.method,
        headers=request.headers,
        body=request.body,
        credential=operation.account or None,
        total_deadline=guarded.total_deadline,
        max_bytes=MAX_BODY,
        before_first_byte=guarded.before_first_byte,
        allowed_origins=(origin_of(request.url),),
    )
