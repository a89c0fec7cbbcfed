"""replicate: `prediction.wait()`, then its status, as in the README section "Run a model in the background"."""

import replicate

from conformance.stage import Stage, Told

NAME = "replicate"
DIALECT = "replicate"
OFFERS = ("submit",)
PACKAGES = ("replicate", "httpx")
CONFIGURATION = "client.predictions.get(id), prediction.wait() with the default interval (0.5 s) and retries"


def wait(stage: Stage) -> Told:
    """Waits for the prediction."""
    client = replicate.Client(api_token=stage.key, base_url=stage.base)
    if stage.submit:
        prediction = client.predictions.create(version="5c7d5dc6", input={})
    else:
        prediction = client.predictions.get(stage.job)
    prediction.wait()
    if prediction.status == "succeeded":
        return Told("succeeded")
    return Told("failed", prediction.status)
