"""An HTTP server for one page, reachable from this machine only.

It has three addresses and reads no files.
"""

from __future__ import annotations

import json
import logging
import socketserver
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, Self

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
HTML, JSON, TEXT = (
    f"{kind}; charset=utf-8" for kind in ("text/html", "application/json", "text/plain")
)
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Content(Protocol):
    """The content of a server; it must be thread-safe."""

    def page(self) -> bytes:
        """Return the page, in HTML."""

    def data(self) -> bytes:
        """Return the data of the page, in JSON."""

    def version(self) -> tuple[int, bool]:
        """Return a number that grows when the data change, and whether they are final."""


class Server(ThreadingHTTPServer):
    """Serve a page in the background until the end of a ``with`` block.

    Requests must name this machine as their host, so that other pages in the same browser cannot
    read it.

    Args:
        content: What to serve.
        port: The port; 0 for any free port.

    Attributes:
        url: The address of the page.

    Raises:
        OSError: The port is taken.
    """

    daemon_threads = True  # a request in progress does not keep the program from ending

    def __init__(self, content: Content, port: int = 0) -> None:
        self.content, self.last_warning = content, ""
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise OSError(
                f"Port {port} cannot be used ({error.strerror}); give another one with --port, or "
                "none for one that is free."
            ) from error
        self.url = f"http://{LOOPBACK}:{self.server_port}/"
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def server_bind(self) -> None:
        """Bind the socket, without the DNS lookup of the base class."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect."""
        log.debug("A request was interrupted.", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """Answer one request."""

    server: Server
    server_version, sys_version = "rlvc", ""
    timeout = 30.0  # seconds without data from a browser

    def do_GET(self) -> None:
        """Answer with the page, its data or its version, or refuse."""
        hosts = [host.lower() for host in self.headers.get_all("Host") or []]
        if hosts not in ([f"{name}:{self.server.server_port}"] for name in (LOOPBACK, "localhost")):
            self._answer(HTTPStatus.FORBIDDEN)
            return
        content = self.server.content
        try:
            if self.path in ("/", "/?theme=light", "/?theme=dark"):
                answer = content.page(), HTML
            elif self.path == "/data":
                answer = content.data(), JSON
            elif self.path == "/version":
                number, is_finished = content.version()
                answer = json.dumps({"version": number, "finished": is_finished}).encode(), JSON
            else:
                self._answer(HTTPStatus.NOT_FOUND)
                return
        except Exception as error:  # the content may raise anything
            if str(error) != self.server.last_warning:  # the page asks every few seconds
                self.server.last_warning = str(error)
                log.warning("The page cannot be shown now: %s", error)
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(error).encode(), TEXT)
            return
        self._answer(HTTPStatus.OK, *answer)

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: HTTPStatus, body: bytes | None = None, kind: str = TEXT) -> None:
        if body is None:
            body = f"{status.value} {status.phrase}\n".encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a malformed request or an unknown method."""
        is_method = code == HTTPStatus.NOT_IMPLEMENTED
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED if is_method else HTTPStatus(code))

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name in the base class
        """Log nothing."""
