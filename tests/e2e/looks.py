"""A server of the tests that keeps its own book: what was asked, and when by a clock that nobody fakes."""

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer


class Looks:
    """Answers `/page/…` with a page that never changes and `/jobs/…` with `running`, until the look that ends it."""

    def __init__(self, ends_at: int = 2) -> None:
        self.asked: list[tuple[float, str]] = []
        self.ends_at = ends_at
        self._lock = threading.Lock()
        self._server = LoopbackServer(self._answering())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.port = self._server.port
        self.url = f"http://127.0.0.1:{self.port}"

    def by_path(self) -> Counter[str]:
        """How often each path was asked for."""
        with self._lock:
            return Counter(path for _, path in self.asked)

    def since(self, number: int) -> list[float]:
        """When each request arrived, from the n-th on."""
        with self._lock:
            return [at for at, _ in self.asked[number:]]

    def note(self, path: str) -> int:
        """Writes the book; answers how often the path was asked for by now."""
        with self._lock:
            self.asked.append((time.monotonic(), path))
            return sum(asked == path for _, asked in self.asked)

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        book = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                count = book.note(self.path)
                document: dict[str, Any] = {"note": "always the same"}
                if self.path.startswith("/jobs/"):
                    done = count >= book.ends_at
                    document = {"id": self.path[6:], "status": "succeeded" if done else "running", "output": "x"}
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                return None

        return Answering
