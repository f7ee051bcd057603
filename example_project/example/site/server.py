"""Serves the site on localhost."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from example.site.html import Visit
from example.site.site import Request, Site


class SiteServer(ThreadingHTTPServer):
    """The site behind a port of this machine.

    Args:
        site: what to serve.
        port: where to listen; 0 lets the system choose.

    Raises:
        OSError: when the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True  # a port that a crawl just left is free, one with a listener is not
    request_queue_size = 128

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self.visits = itertools.count()
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # status line, headers and body leave in one packet
    server: SiteServer

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "localhost").partition(":")[0].lower()
        cookies = {
            name: morsel.value for name, morsel in SimpleCookie(self.headers.get("Cookie", "")).items()
        }
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
        visit = Visit(self.server.server_port, next(self.server.visits), now)
        answer = self.server.site.respond(Request(self.path, host, cookies), visit)
        self.send_response(answer.status)
        for name, value in (*answer.headers, ("Content-Length", str(len(answer.body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: the crawl's own log tells what was fetched."""
