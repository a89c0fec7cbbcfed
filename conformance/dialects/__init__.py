"""How the abstract script is spoken to each waiter: one module a wire protocol."""

from conformance.dialects import aws, azure, genai, google, mcp, openai, plain, replicate, status
from conformance.dialects.speech import Dialect

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        plain.Plain(),
        azure.Azure(),
        google.GoogleOperation(),
        genai.VideoOperation(),
        genai.Batch(),
        aws.Transcribe(),
        replicate.Prediction(),
        openai.Video(),
        mcp.Tasks(),
        status.HttpStatus(),
    )
}
