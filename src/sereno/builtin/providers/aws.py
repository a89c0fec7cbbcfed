"""The AWS carrier: botocore's models build and parse, the gate signs and sends; botocore itself never connects."""

from collections.abc import Mapping

from sereno.builtin.awsservice import service
from sereno.builtin.calling import look_values, send_body, template_of
from sereno.builtin.sigv4 import SigV4
from sereno.core.call import ProviderCall
from sereno.core.contract import Contract
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.operation import Operation
from sereno.core.reading.address import fill_body, origin_of
from sereno.core.reading.calls import Call
from sereno.core.values import Json
from sereno.ports import Fetch, Guarded

MAX_BODY = 5_000_000
"""Bytes of a decoded answer."""


class AwsProvider:
    """Implements `ports.Provider`. The region is the parameter `region`; `base` replaces the endpoint (a test server)."""

    def problem(self, contract: Contract, parameters: Mapping[str, str]) -> str | None:
        """Says what botocore does not know of the contract's calls, or None."""
        sent = [described.call for described in (contract.submit, contract.cancel) if described is not None]
        try:
            for call in (contract.status, *sent):
                found = service(call.service or "").problem(call.operation or "", parameters.get("region", ""))
                if found is not None:
                    return found
        except ValueError as error:
            return str(error)
        return None

    async def look(self, operation: Operation, contract: Contract, guarded: Guarded) -> Reply:
        """Asks for the status, once."""
        try:
            given = fill_body(contract.status, look_values(operation), None)
        except ValueError as error:
            return _not_made("status request", error)
        return await self._ask(operation, contract.status, given, guarded)

    async def send(self, operation: Operation, contract: Contract, call: ProviderCall, guarded: Guarded) -> Reply:
        """Sends the submit or cancel, once."""
        try:
            template, given = template_of(contract, call), send_body(operation, contract, call)
        except ValueError as error:
            return _not_made(call.kind, error)
        return await self._ask(operation, template, given, guarded)

    async def _ask(self, operation: Operation, call: Call, given: Json, guarded: Guarded) -> Reply:
        if not operation.account:
            says = "requests to AWS are signed: name an account whose credential has the scheme AWS4-HMAC-SHA256"
            return NoReply(NoReplyKind.NO_CREDENTIAL, says, sent=False)
        name = call.operation or ""
        try:
            about = service(call.service or "")
            built = about.build(name, given, operation.parameters.get("region", ""), operation.parameters.get("base"))
            origin = origin_of(built.url)
        except ValueError as error:
            return _not_made(name, error)
        fetch = Fetch(
            url=built.url,
            method=built.method,
            headers=built.headers,
            body=built.body,
            credential=operation.account,
            total_deadline=guarded.total_deadline,
            max_bytes=MAX_BODY,
            before_first_byte=guarded.before_first_byte,
            allowed_origins=(origin,),
            signer=SigV4(*built.signs_for, guarded.now, built.encoded_once),
        )
        reply = await guarded.transport.fetch(fetch)
        return about.parse(name, reply) if isinstance(reply, HttpReply) else reply


def _not_made(what: str, error: ValueError) -> NoReply:
    return NoReply(NoReplyKind.REFUSED_ADDRESS, f"the {what} cannot be made: {error}", sent=False)
