"""A small HTTP server on the loopback that answers as it is told, to try downloads on."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = bytes(range(256)) * 400


class Server(ThreadingHTTPServer):
    """Answers request number n with `answers[n]`, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Callable[[BaseHTTPRequestHandler], None]] = [whole]
        self.requests = 0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        number, self.server.requests = self.server.requests, self.server.requests + 1
        self.server.answers[min(number, len(self.server.answers) - 1)](self)

    def log_message(self, *_: object) -> None: ...


def body(handler: BaseHTTPRequestHandler, content: bytes, length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)


def whole(handler: BaseHTTPRequestHandler) -> None:
    body(handler, CONTENT)
