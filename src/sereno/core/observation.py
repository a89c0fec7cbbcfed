"""Observations: what came back, read through a contract. Facts of the transport and facts of the job are kept apart (W01).

The whole subject is reached through this module: the types (`observing.seen`), the reading of status answers (`observing.look`) and of
the answers to calls (`waiting.answering`).
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
from sereno.core.waiting.answering import read_call

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
    "read_call",
    "read_observation",
    "read_pushed",
]
