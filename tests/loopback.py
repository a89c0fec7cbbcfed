"""The HTTP server that tests put on loopback: quiet about a client that hung up, loud about anything else."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackServer(ThreadingHTTPServer):
    """A threaded server on a free port of loopback. What goes wrong in it is printed, but for a client that went away."""

    daemon_threads = True

    def __init__(self, answers: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), answers)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a connection that its client closed or reset: a cut look or a killed process is what tests are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
