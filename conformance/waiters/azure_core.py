"""azure-core: PipelineClient, LROPoller and LROBasePolling, put together as the generated Azure clients do it.

Retry, redirect and credential policies are the defaults of those clients; the interval is the default of LROBasePolling (30 s in the
absence of Retry-After); `poller.result()` without a timeout is what the Azure SDK documentation shows (a timeout frees the caller only).
"""

from typing import Any

from azure.core import PipelineClient
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline import policies
from azure.core.polling import LROPoller
from azure.core.polling.base_polling import LROBasePolling
from azure.core.rest import HttpRequest

from conformance.stage import Stage, Told, word_of

NAME = "azure-core"
DIALECT = "azure"
OFFERS = ("submit", "status-url")
PACKAGES = ("azure-core", "requests")
CONFIGURATION = "LROPoller with LROBasePolling() and the default policies of a generated client; poller.result()"
ENDED = {"failed", "canceled"}


def _client(stage: Stage) -> PipelineClient[Any, Any]:
    chain = [
        policies.RequestIdPolicy(), policies.HeadersPolicy(), policies.UserAgentPolicy(), policies.ProxyPolicy(),
        policies.ContentDecodePolicy(), policies.RedirectPolicy(), policies.RetryPolicy(),
        policies.AzureKeyCredentialPolicy(AzureKeyCredential(stage.key), "api-key"), policies.CustomHookPolicy(),
        policies.SensitiveHeaderCleanupPolicy(),
    ]  # fmt: skip
    return PipelineClient(stage.base, policies=chain)


def wait(stage: Stage) -> Told:
    """Begins the operation and takes the result of the poller."""
    client = _client(stage)
    first = client._pipeline.run(HttpRequest("POST", f"{stage.base}/jobs", json={}))
    if first.http_response.status_code not in (200, 202):
        raise HttpResponseError(response=first.http_response)
    method: Any = LROBasePolling(lro_options={"final-state-via": "operation-location"})
    poller: LROPoller[Any] = LROPoller(client, first, lambda answer: answer.http_response.json().get("result", {}), method)
    try:
        poller.result()
    except HttpResponseError as error:
        if str(poller.status()).lower() in ENDED and method._status.lower() in ENDED and _says_so(method):
            return Told("failed", poller.status())
        return Told("stopped", word_of(error))
    return Told("succeeded", poller.status())


def _says_so(method: Any) -> bool:
    """Whether the provider said that the job ended; the poller also calls itself failed when a request of its own fails."""
    answer = method._pipeline_response.http_response
    return answer.status_code == 200 and str(answer.json().get("status", "")).lower() in ENDED
