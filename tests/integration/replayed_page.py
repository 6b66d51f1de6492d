"""The coordinator's page, fed by a test: its own files under its own policy, and states that the test makes.

    page = ReplayedPage(policy, answers={"/api/jobs/a-1": text})
    with page:
        page.greet(status)       # each page that connects begins with it
        browser.open(page.url)
        page.send(status)
"""

import contextlib
import http.server
import pathlib
import queue
import threading

WEB = pathlib.Path("server/coordinator/page/web")
CHARTS = pathlib.Path("/usr/share/javascript/chart.js/chart.min.js")
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def _event(status):
    return f"id: 1-1-1\nevent: status\ndata: {status}\n\n".encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    # As the coordinator: connections are kept, and nothing waits for more to send.
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *unused):
        pass

    def answer(self, content, kind, code=200):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", self.server.page.policy)
        self.end_headers()
        self.wfile.write(content)

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        parts = self.server.page.connect()
        try:
            while (part := parts.get()) is not None:
                self.wfile.write(part)
        except OSError:
            pass  # the browser has gone to another page

    def do_GET(self):
        page = self.server.page
        if self.path == "/api/events" and page.refusal is None:
            self.stream()
        elif self.path.startswith("/api/") and page.refusal is not None:
            self.answer(page.refusal.encode(), "text/plain", 503)
        elif self.path.startswith("/api/"):
            found = page.answers.get(self.path)
            self.answer(*((b"there is none\n", "text/plain", 404) if found is None else (found.encode(), "application/json")))
        else:
            file = CHARTS if self.path == "/chart.min.js" else WEB / (self.path.lstrip("/") or "index.html")
            self.answer(file.read_bytes(), TYPES[file.suffix])


class ReplayedPage:
    """`refusal`: what it answers to all, if it is in trouble. It feeds the page that has connected last."""

    def __init__(self, policy, answers):
        self.policy = policy
        self.answers = {"/api/session": '{"name": "", "may": ["cancel", "change", "cordon", "uncordon"]}', **answers}
        self.refusal = None
        self.greeting = b": \n\n"
        self.parts = queue.Queue(maxsize=64)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.server.daemon_threads = True
        self.server.page = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.connect()
        self.server.shutdown()
        self.thread.join()
        self.server.socket.close()

    def connect(self):
        """Returns what the page that connects is to get; the one before it gets nothing more."""
        with contextlib.suppress(queue.Full):  # then it finds out by writing
            self.parts.put_nowait(None)
        self.parts = queue.Queue(maxsize=64)
        self.parts.put(self.greeting)
        return self.parts

    def greet(self, status):
        self.greeting = _event(status)

    def send(self, status):
        """Puts a status on the stream; waits while the page is slower."""
        self.parts.put(_event(status), timeout=60)
