"""AWS Signature Version 4: the headers that sign one request ("Create a signed AWS API request", IAM user guide)."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

from sereno.ports import Fetch

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class SigV4:
    """Implements `ports.Signer` for one service and region; `at` is when the request is made, by the database's clock.

    What it derives from the secret stays in here; the signature itself signs this one request and nothing else, for 15 minutes.
    """

    service: str
    region: str
    at: datetime
    encoded_once: bool = False

    def __call__(self, request: Fetch, secret: str) -> Mapping[str, str]:
        """Signs host, all headers and the body. Raises ValueError for a secret of another form, without repeating it."""
        parts = secret.split(":")
        if len(parts) not in (2, 3) or not all(parts):
            raise ValueError("its value is not ACCESS_KEY_ID:SECRET or ACCESS_KEY_ID:SECRET:SESSION_TOKEN")
        stamp, body = self.at.strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(request.body or b"").hexdigest()
        sent = {**request.headers, "X-Amz-Date": stamp, "X-Amz-Content-SHA256": body}
        if len(parts) == 3:
            sent["X-Amz-Security-Token"] = parts[2]
        signed = {name.lower(): " ".join(value.split()) for name, value in sent.items()}
        signed["host"] = urlsplit(request.url).netloc
        names = ";".join(sorted(signed))
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        canonical = "\n".join([*self._place(request), *(f"{name}:{signed[name]}" for name in sorted(signed)), "", names, body])
        text = f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.new(self._key(parts[1], stamp[:8]), text.encode(), hashlib.sha256).hexdigest()
        return {
            **sent,
            "Authorization": f"{ALGORITHM} Credential={parts[0]}/{scope}, SignedHeaders={names}, Signature={signature}",
        }

    def _place(self, request: Fetch) -> tuple[str, str, str]:
        """Method, path and query as they are signed."""
        parts = urlsplit(request.url)
        path = parts.path or "/"
        pairs = sorted(tuple(pair.partition("=")[::2]) for pair in parts.query.split("&") if pair)
        query = "&".join(f"{name}={value}" for name, value in pairs)
        return request.method.upper(), path if self.encoded_once else quote(path, safe="/~"), query

    def _key(self, secret: str, day: str) -> bytes:
        key = f"AWS4{secret}".encode()
        for text in (day, self.region, self.service, "aws4_request"):
            key = hmac.new(key, text.encode(), hashlib.sha256).digest()
        return key
