"""google-api-core: `operation.from_http_json` over `google.cloud._http.JSONConnection`, then `operation.result(timeout=…)`.

The polling is the default of the library (exponential from 1 s to 20 s, full jitter). Its documentation of `result` says to call
`result(timeout=X)`; the deadline of the scenario is X. `retry` is how a failing look is repeated, says the same text; it gets the library's
default Retry, since a JSON connection has none by itself.
"""

import concurrent.futures
from typing import Any

import requests
from google.api_core import exceptions, operation
from google.api_core.retry import Retry
from google.cloud import _http
from google.protobuf import struct_pb2

from conformance.stage import Stage, Told, word_of

NAME = "google-api-core"
DIALECT = "google-lro"
OFFERS = ("deadline",)
PACKAGES = ("google-api-core", "google-cloud-core", "requests")
CONFIGURATION = "operation.from_http_json(…, result_type=Struct).result(timeout=deadline, retry=Retry()), default polling"


class _Account:
    """What JSONConnection needs of a client: a session that carries the credential."""

    def __init__(self, key: str) -> None:
        self._http = requests.Session()
        self._http.headers["Authorization"] = f"Bearer {key}"


class _Connection(_http.JSONConnection):
    API_URL_TEMPLATE = "{api_base_url}/{path}"


def wait(stage: Stage) -> Told:
    """Rebuilds the operation from its name and asks for its result."""
    connection: Any = _Connection(_Account(stage.key))
    connection.API_BASE_URL = stage.base
    waiting = operation.from_http_json({"name": stage.job}, connection.api_request, struct_pb2.Struct)
    try:
        waiting.result(timeout=stage.deadline, retry=Retry())
    except concurrent.futures.TimeoutError as error:
        return Told("timed_out", word_of(error))
    except exceptions.GoogleAPICallError as error:
        said = waiting.operation.done and waiting.operation.HasField("error")
        return Told("failed" if said else "stopped", word_of(error))
    return Told("succeeded")
