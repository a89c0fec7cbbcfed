"""Names what went wrong. Texts are ours: a library's message may quote a URL or a header."""

import os
import ssl

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientError,
    ClientPayloadError,
    ClientResponseError,
    InvalidURL,
)
from aiohttp.http import HttpProcessingError

from sereno.core.observation import NoReplyKind
from sereno.outside.credentials import Unusable
from sereno.outside.egress.body import HeadersTooLarge
from sereno.outside.egress.decode import BadEncoding, TooLarge
from sereno.outside.egress.exchange import Exchange, SecondSend, Stopped
from sereno.outside.egress.resolve import Refused
from sereno.outside.url import BadUrl


class BadRedirect(Exception):
    """A redirect that is not followed; the message says why."""


class NotKept(Exception):
    """The caller's sink could not take the body; the message says why."""


Failures = (
    ClientError,
    HttpProcessingError,
    OSError,
    Unusable,
    HeadersTooLarge,
    BadEncoding,
    TooLarge,
    SecondSend,
    Stopped,
    Refused,
    BadUrl,
    BadRedirect,
    NotKept,
)
"""What the world, the configuration or the caller's last check can do to a fetch. Anything else is a bug and is raised."""

_OURS: dict[type[Exception], NoReplyKind] = {
    Refused: NoReplyKind.REFUSED_ADDRESS,
    BadUrl: NoReplyKind.REFUSED_ADDRESS,
    Unusable: NoReplyKind.NO_CREDENTIAL,
    BadEncoding: NoReplyKind.BAD_ENCODING,
    BadRedirect: NoReplyKind.REDIRECT,
    NotKept: NoReplyKind.CANCELLED,
}


def classify(error: Exception, exchange: Exchange) -> tuple[NoReplyKind, str]:
    """Kind and one sentence for one of `Failures`."""
    if exchange.refused is not None:
        return NoReplyKind.REFUSED_ADDRESS, exchange.refused
    if (kind := _OURS.get(type(error))) is not None:
        return kind, str(error)
    place = exchange.target.origin
    match error:
        case Stopped():
            return NoReplyKind.CANCELLED, f"stopped before the first byte ({error})"
        case TooLarge():
            return NoReplyKind.TOO_LARGE, f"the body from {place} is over the size cap"
        case HeadersTooLarge():
            return NoReplyKind.TOO_LARGE, f"the headers from {place} are over the size cap"
        case InvalidURL():
            return NoReplyKind.REFUSED_ADDRESS, f"{place} cannot be asked"
        case ClientResponseError() | ClientPayloadError() | HttpProcessingError():
            return _classify_answer(error, place)
        case _:
            return _classify_connection(error, place)


def _classify_answer(
    error: ClientResponseError | ClientPayloadError | HttpProcessingError, place: str
) -> tuple[NoReplyKind, str]:
    text = str(error)
    if isinstance(error, ClientPayloadError) and "not completed" in text:
        return NoReplyKind.RESET, f"{place} closed the connection before the end of its answer"
    if "Got more than" in text or "Too many headers" in text:
        return NoReplyKind.TOO_LARGE, f"the headers from {place} are over the size cap"
    return NoReplyKind.PROTOCOL, f"{place} did not answer in HTTP"


def _classify_connection(error: Exception, place: str) -> tuple[NoReplyKind, str]:
    match error:
        case ClientConnectorCertificateError():
            return NoReplyKind.TLS, f"the certificate of {place} is not valid"
        case ClientConnectorSSLError() | ssl.SSLError():
            return NoReplyKind.TLS, f"no secure connection to {place}"
        case ClientConnectorDNSError():
            return NoReplyKind.DNS, f"{place} was not found"
        case ClientConnectorError():
            return NoReplyKind.CONNECT, f"no connection to {place}{_reason(error)}"
        case _:
            return NoReplyKind.RESET, f"{place} closed the connection without an answer{_reason(error)}"


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return f" ({os.strerror(number)})" if isinstance(number, int) and number > 0 else ""
