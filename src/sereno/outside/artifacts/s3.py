"""Artifacts in a bucket that speaks S3, under their hash. Needs the extra `aws`: botocore signs, the egress gate sends."""

import base64
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sereno.core.artifact import Artifact
from sereno.core.contract import origin_of
from sereno.core.errors import NotFound, Unavailable
from sereno.core.observation import HttpReply, Reply
from sereno.core.values import digest as sha256
from sereno.outside.artifacts.files import PIECE, FileArtifacts, IncomingFile
from sereno.outside.artifacts.taking import checked_digest
from sereno.ports import Fetch, Transport

LARGEST = 100_000_000
"""Bytes of one artifact: it is sent in one piece, which is in memory while it leaves."""
LONGEST = timedelta(minutes=5)
"""One upload or download, in all."""
_HASH = "X-Amz-Content-SHA256"
_CODE = re.compile(rb"<Code>([A-Za-z]{1,64})</Code>")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where: `endpoint` is an origin, `prefix` ends in `/` or is empty, `credential` is a NAME bound to the endpoint."""

    endpoint: str
    bucket: str
    credential: str
    prefix: str = ""
    region: str = "us-east-1"

    def url(self, digest: str) -> str:
        """The address of an artifact, path style."""
        return f"{self.endpoint.rstrip('/')}/{self.bucket}/{self.prefix}{digest[:2]}/{digest[2:]}"

    def sign(self, request: Fetch, secret: str) -> Mapping[str, str]:
        """Implements `ports.Signer` (AWS Signature Version 4); the hash of the body is in the headers already."""
        key, _, rest = secret.partition(":")
        value, _, token = rest.partition(":")
        if not key or not value:
            raise ValueError("the value must be ACCESS_KEY_ID:SECRET or ACCESS_KEY_ID:SECRET:SESSION_TOKEN")
        signed = AWSRequest(method=request.method, url=request.url, headers=dict(request.headers), data=request.body)
        SigV4Auth(Credentials(key, value, token or None), "s3", self.region).add_auth(signed)
        return dict(signed.headers.items())


class S3Artifacts:
    """Implements `ports.ArtifactStore`. What comes in and what is read passes through a local file, so that both are checked whole."""

    def __init__(self, transport: Transport, bucket: Bucket, spool: FileArtifacts):
        self._transport = transport
        self._bucket = bucket
        self._spool = spool

    async def incoming(self, *, types: Sequence[str] = (), max_bytes: int) -> "IncomingObject":
        """A place for one artifact of at most `LARGEST` bytes. Raises Unavailable where the local folder cannot be written."""
        file = await self._spool.incoming(types=types, max_bytes=min(max_bytes, LARGEST))
        return IncomingObject(self, file)

    def trouble(self) -> str | None:
        """Looks at the local folder; the service is not asked."""
        return self._spool.trouble()

    async def put(self, artifact: Artifact, content: bytes) -> None:
        """Writes one object; the service checks its hash. Raises Unavailable."""
        checksum = base64.b64encode(bytes.fromhex(artifact.digest)).decode()
        headers = {"Content-Type": artifact.content_type, _HASH: artifact.digest, "x-amz-checksum-sha256": checksum}
        reply = await self._transport.fetch(self._fetch("PUT", artifact.digest, headers, body=content))
        if not isinstance(reply, HttpReply) or reply.status != 200:
            raise _unavailable(reply, "written")

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """The content in pieces, once it was read and checked whole. Raises NotFound; Unavailable, also where it is damaged."""
        spool = await self._spool.incoming(max_bytes=LARGEST)
        try:
            await self._get(checked_digest(digest), spool)
            for start in range(0, spool.seen().size, PIECE):
                yield spool.piece(start, PIECE)
        finally:
            await spool.abandon()

    async def _get(self, digest: str, spool: IncomingFile) -> None:
        reply = await self._transport.fetch(self._fetch("GET", digest, {_HASH: sha256(b"")}, sink=spool))
        if isinstance(reply, HttpReply) and reply.status == 404 and _code(reply) != "NoSuchBucket":
            raise NotFound("there is no kept result of this name", subject=digest)
        if not isinstance(reply, HttpReply) or reply.status != 200:
            raise _unavailable(reply, "read")
        if spool.seen().digest != digest:
            says = "the kept result is damaged: its content is not what its name says"
            raise Unavailable(says, subject=digest, code="artifact_damaged")

    def _fetch(
        self, method: str, digest: str, headers: Mapping[str, str], *, body: bytes | None = None, sink: IncomingFile | None = None
    ) -> Fetch:
        return Fetch(
            url=self._bucket.url(digest),
            method=method,
            headers=headers,
            body=body,
            credential=self._bucket.credential,
            total_deadline=LONGEST,
            max_bytes=LARGEST,
            allowed_origins=(origin_of(self._bucket.endpoint),),
            sink=sink,
            signer=self._bucket.sign,
        )


class IncomingObject:
    """Implements `ports.Incoming`: spooled locally, sent when it is whole."""

    def __init__(self, store: S3Artifacts, file: IncomingFile):
        self._store = store
        self._file = file

    def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        """True for a whole 2xx answer of an accepted type."""
        return self._file.begin(status, headers)

    async def write(self, chunk: bytes) -> None:
        """Appends to the local file. Raises OSError."""
        await self._file.write(chunk)

    async def finish(self) -> Artifact:
        """Sends it and removes the local file. Raises Unavailable."""
        artifact = self._file.seen()
        try:
            await self._store.put(artifact, self._file.piece(0, artifact.size))
        finally:
            await self._file.abandon()
        return artifact

    async def abandon(self) -> None:
        """Removes the local file."""
        await self._file.abandon()


def _code(reply: Reply) -> str:
    found = _CODE.search(reply.body) if isinstance(reply, HttpReply) else None
    return found[1].decode() if found else ""


def _unavailable(reply: Reply, verb: str) -> Unavailable:
    if isinstance(reply, HttpReply):
        why = f"HTTP {reply.status}" + (f" {code}" if (code := _code(reply)) else "")
    else:
        why = reply.message
    return Unavailable(
        f"the bucket of kept results cannot be {verb} ({why})",
        hint="see [artifacts.s3] in the settings: endpoint, bucket and credential",
        code="artifacts_unavailable",
    )
