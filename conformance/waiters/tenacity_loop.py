"""tenacity, set up as its README does it: `retry_if_result` combined with `retry_if_exception_type`, a random exponential wait, a stop.

README, "Whether to retry" (retry_if_result, combined with `|`), "Waiting before retrying" (wait_random_exponential(multiplier=1, max=60))
and "Stopping" (stop_before_delay, for a deadline that must not be passed). The deadline of the scenario goes there.
"""

import requests
import tenacity
from tenacity import retry_if_exception_type, retry_if_result, stop_before_delay, wait_random_exponential

from conformance.stage import Stage, Told

NAME = "tenacity"
DIALECT = "plain"
OFFERS = ("deadline",)
PACKAGES = ("tenacity", "requests")
CONFIGURATION = (
    "retry=retry_if_result(not ended) | retry_if_exception_type(requests.RequestException), "
    "wait=wait_random_exponential(multiplier=1, max=60), stop=stop_before_delay(deadline)"
)


def wait(stage: Stage) -> Told:
    """Retries the look while the job has not ended."""

    def look() -> dict[str, object]:
        answer = requests.get(f"{stage.base}/jobs/{stage.job}", headers={"X-Api-Key": stage.key}, timeout=30)
        answer.raise_for_status()
        return answer.json()  # type: ignore[no-any-return]

    polling = tenacity.Retrying(
        retry=retry_if_result(lambda job: job["status"] not in ("succeeded", "failed", "cancelled"))
        | retry_if_exception_type(requests.RequestException),
        wait=wait_random_exponential(multiplier=1, max=60),
        stop=stop_before_delay(stage.deadline),
    )
    try:
        job = polling(look)
    except tenacity.RetryError as error:
        return Told("timed_out", f"RetryError after {error.last_attempt.attempt_number} attempts")
    return Told("succeeded") if job["status"] == "succeeded" else Told("failed", str(job["status"]))
