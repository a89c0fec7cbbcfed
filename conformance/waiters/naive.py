"""The loop that people write: `while True`, requests, a sleep; as in the quick starts of many job APIs.

`raise_for_status`, a request timeout and a check for the two documented ends are there; a limit is not, since those texts have none.
"""

import time

import requests

from conformance.stage import Stage, Told

NAME = "naive"
DIALECT = "plain"
OFFERS = ()
PACKAGES = ("requests",)
CONFIGURATION = "while True: requests.get(timeout=30), raise_for_status, compare status, time.sleep(5); no limit"


def wait(stage: Stage) -> Told:
    """Polls until it sees one of the two ends it knows."""
    while True:
        answer = requests.get(f"{stage.base}/jobs/{stage.job}", headers={"X-Api-Key": stage.key}, timeout=30)
        answer.raise_for_status()
        job = answer.json()
        if job["status"] == "succeeded":
            return Told("succeeded")
        if job["status"] == "failed":
            return Told("failed", str(job.get("error")))
        time.sleep(5)
