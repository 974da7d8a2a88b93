"""A proxy in front of a real REST catalog that lets single requests go wrong.

What goes wrong is said beforehand, per kind of request ("METHOD path part"), in the order in which it shall happen:

    refuse STATUS   answered with that status; the server never sees it
    lose STATUS     the server does it; the client is told that status instead
    drop            the connection is closed before the server sees it
    cut             the server does it; the connection is closed without an answer
    half            the server does it; the connection is closed in the middle of the answer
    garbage         the server does it; the answer is status 200 and no JSON

What the server answered may also be changed on its way (`edit`), and the proxy may speak TLS.
"""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Clients that go away, or refuse the certificate, are what tests are about."""


class Loopback:
    """A server on the loopback, as a context manager."""

    server: ThreadingHTTPServer

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *failure):
        self.server.shutdown()
        self.server.server_close()


class FaultProxy(Loopback):
    """Use as a context manager; `uri` is what clients are given."""

    def __init__(self, target: str, tls: ssl.SSLContext | None = None):
        self.target = urlsplit(target).netloc
        self.faults: list[tuple[str, str, str]] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []  # method, path, headers
        self.config: dict[str, str] = {}  # members that the answer to GET /v1/config gets in addition
        # Given method, path and a successful answer (a JSON object), which it may change.
        self.edit: Callable[[str, str, dict], None] | None = None
        self.lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                proxy.handle(self)

            do_GET = do_POST = do_HEAD = do_DELETE = handle_one

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:  # the handshake is each connection's own thread's
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.uri = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_address[1]}"

    def fail(self, method: str, part: str, *faults: str) -> None:
        """The next requests of this method whose path holds `part` go wrong in these ways, one each."""
        with self.lock:
            self.faults += [(method, part, fault) for fault in faults]

    def count(self, method: str, part: str) -> int:
        with self.lock:
            return sum(1 for each in self.requests if each[0] == method and part in each[1])

    def headers(self, method: str, part: str) -> list[dict[str, str]]:
        with self.lock:
            return [each[2] for each in self.requests if each[0] == method and part in each[1]]

    def next_fault(self, method: str, path: str) -> str:
        with self.lock:
            for index, (wanted, part, fault) in enumerate(self.faults):
                if wanted == method and part in path:
                    del self.faults[index]
                    return fault
        return ""

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        path = handler.path
        with self.lock:
            self.requests.append((handler.command, path, {k.lower(): v for k, v in handler.headers.items()}))
        fault, _, detail = self.next_fault(handler.command, path).partition(" ")
        if fault == "drop":
            return self.close(handler)
        if fault == "refuse":
            return self.answer(handler, int(detail), error(int(detail)))
        status, answer = self.forward(handler, path, body)
        if fault == "cut":
            return self.close(handler)
        if fault == "lose":
            return self.answer(handler, int(detail), error(int(detail)))
        if fault == "garbage":
            return self.answer(handler, 200, b"<html>it worked</html>")
        if fault == "half":
            self.answer(handler, status, answer, sent=len(answer) // 2)
            return self.close(handler)
        if self.config and path.startswith("/v1/config"):
            answer = answer.rstrip()[:-1] + b"".join(f',"{k}":"{v}"'.encode() for k, v in self.config.items()) + b"}"
        if self.edit and status == 200 and answer:
            edited = json.loads(answer)
            self.edit(handler.command, path, edited)
            answer = json.dumps(edited).encode()
        return self.answer(handler, status, answer)

    def forward(self, handler: BaseHTTPRequestHandler, path: str, body: bytes) -> tuple[int, bytes]:
        left_out = {"host", "connection", "accept-encoding", "content-length"}
        headers = {key: value for key, value in handler.headers.items() if key.lower() not in left_out}
        connection = http.client.HTTPConnection(self.target, timeout=120)
        connection.request(handler.command, path, body or None, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, answer

    @staticmethod
    def answer(handler: BaseHTTPRequestHandler, status: int, body: bytes, sent: int | None = None) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body[:sent])

    @staticmethod
    def close(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)


def error(status: int) -> bytes:
    return f'{{"error":{{"message":"injected","type":"InjectedFault","code":{status}}}}}'.encode()
