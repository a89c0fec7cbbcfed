"""Apache Airflow: HttpSensorTrigger, what HttpSensor(deferrable=True) waits on. It waits for any 2xx; 404 is its "not yet".

It reads no body (with a response_check the sensor does not defer), so it is spoken to in HTTP statuses alone. The sensor passes its
`timeout` to the deferral, which ends the trigger; here the deadline of the scenario does that. `poke_interval` is 60 s, the
default of every sensor.
"""

import asyncio
import json
import os

from airflow.providers.http.triggers.http import HttpSensorTrigger

from conformance.loop import run
from conformance.stage import Stage, Told, word_of

NAME = "airflow HttpSensorTrigger"
DIALECT = "http-status"
OFFERS = ("deadline",)
PACKAGES = ("apache-airflow", "apache-airflow-providers-http", "aiohttp")
CONFIGURATION = (
    "HttpSensorTrigger(endpoint, http_conn_id, method=GET, poke_interval=60), ended after the sensor's timeout (deadline)"
)


async def _wait(stage: Stage) -> Told:
    trigger = HttpSensorTrigger(endpoint=f"jobs/{stage.job}", http_conn_id="acme", method="GET", poke_interval=60)

    async def first() -> Told:
        async for _ in trigger.run():
            return Told("succeeded")
        return Told("stopped", "no event")

    try:
        return await asyncio.wait_for(first(), stage.deadline)
    except TimeoutError as error:
        return Told("timed_out", word_of(error))


def wait(stage: Stage) -> Told:
    """Runs the trigger until its first event. The connection comes from the environment, with the key as a header in its extra."""
    host, port = stage.base.removeprefix("http://").split(":")
    connection = {"conn_type": "http", "host": host, "port": int(port), "extra": json.dumps({"X-Api-Key": stage.key})}
    os.environ["AIRFLOW_CONN_ACME"] = json.dumps(connection)
    return run(_wait(stage))
