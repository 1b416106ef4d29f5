"""A server whose responses take the time in milliseconds that the path names, for example /150.json."""

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Slow(BaseHTTPRequestHandler):
    """Responds with a list of numbers."""

    def do_GET(self) -> None:
        """Waits, and sends the response."""
        name = self.path.strip("/").partition(".")[0]
        time.sleep(min(int(name), 2000) / 1000 if name.isdigit() else 0)
        body = b"[" + b",".join(b"%d" % (number * number) for number in range(800)) + b"]"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Writes no log."""


ThreadingHTTPServer(("127.0.0.1", 8081), Slow).serve_forever()
