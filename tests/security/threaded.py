"""The life of a loopback server in a thread, shared by the hostile servers of these tests."""

import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer


class Quiet(BaseHTTPRequestHandler):
    """A request handler that writes no log."""

    def log_message(self, format: str, *arguments: Any) -> None:
        """Keeps quiet."""


class Threaded:
    """Listens on a free loopback port until closed; `port` and `url` say where."""

    def __init__(self, answers: type[BaseHTTPRequestHandler]) -> None:
        self._server = LoopbackServer(answers)
        self.port = self._server.port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
