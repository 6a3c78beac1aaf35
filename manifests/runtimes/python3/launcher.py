"""Answers HTTP with the handler of a function. With --check it only loads the handler."""

import json
import os
import signal
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

is_check = "--check" in sys.argv
try:
    import handler as code
except (SyntaxError, ImportError):
    raise
except Exception:
    if not is_check:
        raise
    traceback.print_exc()
    sys.stderr.write("The build has no variables of the function: its first instance shows whether its code loads with them\n")
    sys.exit(0)

handler = getattr(code, "handler", None)
if not callable(handler):
    sys.exit("The code must define its handler: def handler(request): return 'Hello'. It has no function of that name")
if is_check:
    sys.exit(0)


class Request:
    """What the handler gets."""

    def __init__(self, method, target, headers, body):
        parts = urlsplit(target)
        self.method = method
        self.path = parts.path
        self.query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.headers = headers
        self.body = body

    @property
    def text(self):
        return self.body.decode("utf-8")

    def json(self):
        return json.loads(self.body)


def answer_of(result):
    """The status, headers and body of what the handler returned: text, bytes, JSON, or (status, headers, body)."""
    status, headers, body = result if isinstance(result, tuple) and len(result) == 3 else (200, {}, result)
    headers = {name.lower(): str(value) for name, value in headers.items()}
    if body is None:
        return status, headers, b""
    if isinstance(body, (bytes, bytearray)):
        kind, data = "application/octet-stream", bytes(body)
    elif isinstance(body, str):
        kind, data = "text/plain; charset=utf-8", body.encode("utf-8")
    else:
        kind, data = "application/json", json.dumps(body).encode("utf-8")
    headers.setdefault("content-type", kind)
    return status, headers, data


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_call(self):
        try:
            request = Request(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, self.read_body())
            status, headers, body = answer_of(handler(request))
        except Exception:
            traceback.print_exc()
            status, headers, body = 500, {"content-type": "text/plain"}, b"The function failed: see its log\n"
        headers["content-length"] = str(len(body))
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def read_body(self):
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b"\n", b""):
            pass
        return b"".join(chunks)

    def log_message(self, *_):
        pass

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_call


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server(("0.0.0.0", int(os.environ.get("SETPOINT_PORT", "8080"))), Answering).serve_forever()
