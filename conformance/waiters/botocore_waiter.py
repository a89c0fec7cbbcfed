"""botocore: the waiter `transcription_job_completed` of Amazon Transcribe, with the delay and the attempts it ships with."""

from typing import Any

import botocore.session
from botocore.exceptions import WaiterError

from conformance.stage import Stage, Told, word_of

NAME = "botocore waiter"
DIALECT = "aws-transcribe"
OFFERS = ("submit",)
PACKAGES = ("botocore",)
CONFIGURATION = 'client("transcribe").get_waiter("transcription_job_completed").wait(…), 10 s × 180 attempts, default retries'


def wait(stage: Stage) -> Told:
    """Waits for the transcription job. The access key id is the credential: SigV4 sends it with every signature."""
    session: Any = botocore.session.Session()
    client = session.create_client(
        "transcribe", region_name="eu-west-1", endpoint_url=stage.base, aws_access_key_id=stage.key, aws_secret_access_key="s"
    )
    if stage.submit:
        client.start_transcription_job(TranscriptionJobName=stage.job, Media={"MediaFileUri": "s3://acme/a.wav"})
    try:
        client.get_waiter("transcription_job_completed").wait(TranscriptionJobName=stage.job)
    except WaiterError as error:
        if "terminal failure state" in str(error):
            return Told("failed", word_of(error))
        return Told("timed_out" if "Max attempts" in str(error) else "stopped", word_of(error))
    return Told("succeeded")
