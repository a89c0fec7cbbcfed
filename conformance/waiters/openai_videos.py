"""openai: `client.videos.poll`, and `create_and_poll` where the job is to be sent, as the guide on video generation shows.

The method tells its caller to look at `status`; here it is looked at.
"""

from openai import OpenAI

from conformance.stage import Stage, Told

NAME = "openai videos.poll"
DIALECT = "openai-video"
OFFERS = ("submit",)
PACKAGES = ("openai", "httpx")
CONFIGURATION = "client.videos.poll(id) / create_and_poll, default interval (1 s, or openai-poll-after-ms), default retries (2)"


def wait(stage: Stage) -> Told:
    """Polls the video and reads its status."""
    client = OpenAI(api_key=stage.key, base_url=f"{stage.base}/v1")
    if stage.submit:
        video = client.videos.create_and_poll(model="sora-2", prompt="a boat")
    else:
        video = client.videos.poll(stage.job)
    if video.status == "completed":
        return Told("succeeded")
    return Told("failed" if video.status == "failed" else "stopped", str(video.status))
