"""Puts the credential on a request: as its header, or as a signature over what goes on the wire (W25)."""

from collections.abc import Mapping
from dataclasses import replace

from sereno.outside.credentials import Credentials, Unusable
from sereno.ports import Fetch


def authorized(credentials: Credentials, name: str, origin: str, request: Fetch) -> Mapping[str, str]:
    """The headers of one hop with the credential `name` on them; `request` is the hop as it is written, address spelled out.

    The credential's header replaces one of the same name. A signer gives all headers itself; the secret is handed to it only here,
    after the check of the origin, and is known to the redaction by then. Raises Unusable.
    """
    if request.signer is None:
        auth = credentials.header(name, origin)
        kept = {header: value for header, value in request.headers.items() if header.lower() != auth.name.lower()}
        return {**kept, auth.name: auth.value.reveal()}
    try:
        return request.signer(replace(request, signer=None), credentials.signing(name, origin).reveal())
    except ValueError as error:
        raise Unusable(f"credential {name!r} cannot sign: {error}") from None
