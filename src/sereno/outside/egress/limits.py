"""The gate's own bounds. What belongs to one request (deadline, its own size) is in `Fetch`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GateLimits:
    """`floor` is the least average of body bytes a second once `grace` seconds of reading have passed.

    `keep_alive` is short on purpose: a server may close an idle connection at any moment, and a request written into such a
    close is counted and lost, since nothing is sent twice.
    """

    hops: int = 5
    body_bytes: int = 1_000_000_000
    """The largest decoded body that is collected, whatever a request asks for (`[egress] max_bytes`). What a sink takes has its own cap."""
    header_bytes: int = 65_536
    header_line: int = 32_768
    header_count: int = 200
    floor: float = 1024.0
    grace: float = 5.0
    keep_alive: float = 4.0
    connections: int = 1000
    user_agent: str = "Sereno"
