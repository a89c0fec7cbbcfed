"""The HTTP provider: carries the status call of a contract through the gate. What it means is read elsewhere, purely."""

from sereno.core.contract import Contract, origin_of
from sereno.core.observation import NoReply, NoReplyKind, Reply
from sereno.core.operation import Operation
from sereno.ports import Fetch, Guarded

MAX_BODY = 10_000_000
"""Bytes of a decoded status answer."""


class HttpProvider:
    """Implements `ports.Provider`. Stateless: everything comes with the operation, its pinned contract and the guarded means."""

    async def call(self, operation: Operation, contract: Contract, guarded: Guarded) -> Reply:
        """Sends the one status request. Never raises for what the world does, nor for a stored address it will not use."""
        try:
            request = build_fetch(operation, contract, guarded)
        except ValueError as error:
            return NoReply(NoReplyKind.REFUSED_ADDRESS, f"the stored status address is not usable: {error}", sent=False)
        return await guarded.transport.fetch(request)


def build_fetch(operation: Operation, contract: Contract, guarded: Guarded) -> Fetch:
    """Makes the one request of a status step. Raises ValueError for an address that is no http or https URL.

    The only origin that may be asked is that of the stored URL; where the contract follows redirects, its own origins too. The
    credential goes by name and is resolved by the gate, for the origin it is bound to. Redirects stay off unless the contract
    asks for them, whatever the caller offers.
    """
    own = origin_of(operation.url)
    origins = (own, *contract.origins) if contract.redirects else (own,)
    return Fetch(
        url=operation.url,
        method=contract.method,
        headers=dict(contract.headers),
        credential=operation.account or None,
        total_deadline=guarded.total_deadline,
        max_bytes=MAX_BODY,
        before_hop=guarded.before_hop if contract.redirects else None,
        before_first_byte=guarded.before_first_byte,
        allowed_origins=origins,
    )
