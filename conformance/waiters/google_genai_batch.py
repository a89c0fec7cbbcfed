"""google-genai, batches: the loop of the README, section "Batch Prediction", with its set of ended states and its 30 seconds."""

import time

from google import genai
from google.genai import types

from conformance.stage import Stage, Told

NAME = "google-genai (batch)"
DIALECT = "genai-batch"
OFFERS = ("submit",)
PACKAGES = ("google-genai", "httpx")
CONFIGURATION = "while job.state not in completed_states: client.batches.get; time.sleep(30), with the four states of the README"
COMPLETED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_PAUSED"}


def wait(stage: Stage) -> Told:
    """Polls the batch until its state is in the set."""
    client = genai.Client(api_key=stage.key, vertexai=False, http_options=types.HttpOptions(base_url=stage.base))
    if stage.submit:
        job = client.batches.create(model="gemini", src=[types.InlinedRequest(contents="hello")])
    else:
        job = types.BatchJob(name=f"batches/{stage.job}", state=types.JobState.JOB_STATE_PENDING)
    while job.state not in COMPLETED:
        job = client.batches.get(name=str(job.name))
        time.sleep(30)
    if job.state == "JOB_STATE_SUCCEEDED":
        return Told("succeeded")
    return Told("stopped" if job.state == "JOB_STATE_PAUSED" else "failed", str(job.state))
