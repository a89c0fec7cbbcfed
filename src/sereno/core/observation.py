"""Observations: what came back, read through a contract. Facts of the transport and facts of the job are kept apart (W01).

The whole subject is reached through this module: the types (`observing.seen`) and the reading of status answers (`observing.look`).
The answers to calls are read in `operation`.
"""

from sereno.core.observing.hints import REQUEST_ID_HEADERS
from sereno.core.observing.look import read_observation, read_pushed
from sereno.core.observing.seen import (
    Asked,
    DelaySource,
    HttpReply,
    NoReply,
    NoReplyKind,
    Observation,
    ObservationKind,
    ReadHint,
    Reply,
)

__all__ = [
    "REQUEST_ID_HEADERS",
    "Asked",
    "DelaySource",
    "HttpReply",
    "NoReply",
    "NoReplyKind",
    "Observation",
    "ObservationKind",
    "ReadHint",
    "Reply",
    "read_observation",
    "read_pushed",
]
