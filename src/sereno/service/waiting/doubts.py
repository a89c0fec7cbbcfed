"""What to remark about a call-back that is taken all the same."""

from collections.abc import Sequence

from sereno.core.operation import TERMINAL, Operation
from sereno.core.values import BadJson, parse_json


def doubts_of(operation: Operation, body: bytes, content_type: str) -> Sequence[str]:
    """Lists why a call-back will not do what was meant; `operation` is as it stood before."""
    doubts = []
    if operation.state in TERMINAL:
        doubts.append(f"recorded; the operation has ended ({operation.state}): nothing is looked at")
    kind = content_type.split(";")[0].strip().lower()
    if body and (kind == "application/json" or kind.endswith("+json")):
        try:
            parse_json(body)
        except BadJson as error:
            doubts.append(f"the body is not JSON ({error}), and the content type {kind} says that it is")
    return doubts
