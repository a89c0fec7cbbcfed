"""google-genai, videos: the loop of the README, section "Generate Videos": `while not operation.done: time.sleep(20); operations.get`.

The README then takes `operation.response.generated_videos[0].video`; a caller that reads `operation.error` first is assumed.
"""

import time

from google import genai
from google.genai import types

from conformance.stage import Stage, Told

NAME = "google-genai (video)"
DIALECT = "genai-video"
OFFERS = ()
PACKAGES = ("google-genai", "httpx")
CONFIGURATION = "while not operation.done: time.sleep(20); operation = client.operations.get(operation)"


def wait(stage: Stage) -> Told:
    """Polls the operation until it is done."""
    client = genai.Client(api_key=stage.key, vertexai=False, http_options=types.HttpOptions(base_url=stage.base))
    operation = types.GenerateVideosOperation(name=f"models/veo/operations/{stage.job}")
    while not operation.done:
        time.sleep(20)
        operation = client.operations.get(operation)
    if operation.error:
        return Told("failed", str(operation.error.get("message")))
    videos = operation.response.generated_videos if operation.response else None
    video = videos[0].video  # type: ignore[index]
    return Told("succeeded") if video is not None else Told("stopped", "no video")
