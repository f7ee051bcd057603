"""A real web server for the crawl tests: a table of routes, HTTP/1.1, any host name through its proxy face.

A route maps a URL to what is answered. Keys are tried from the most precise to the least: the whole URL, the
path with its query, the path. Values are bytes (an HTML page), a `Reply`, or a function of the `Visit` that
returns one of them.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """One answer of the server."""

    body: bytes = b""
    status: int = 200
    content_type: str | None = HTML
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    drop: bool = False  # close the connection without an answer


@dataclass(frozen=True)
class Visit:
    """One request as the server saw it; ``count`` is the number of earlier requests for the same URL."""

    method: str
    url: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    count: int

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


Answer: TypeAlias = "bytes | Reply | Callable[[Visit], bytes | Reply]"


def redirect(location: str, status: int = 302, cookie: str | None = None) -> Reply:
    headers = [("Location", location)] + ([("Set-Cookie", cookie)] if cookie else [])
    return Reply(b"", status, HTML, tuple(headers))


NOT_FOUND = Reply(b"<html><body><p>No such page here.</p></body></html>", 404)
BROKEN = Reply(b"<html><body><p>The server failed.</p></body></html>", 500)
DROPPED = Reply(drop=True)


def mark(slug: str) -> str:
    """Return a word that stands in the text of the page of this slug and nowhere else."""
    return "Zq" + hashlib.sha256(slug.encode()).hexdigest()[:14]


_WORDS = (  # noqa: SIM905
    "river stone bridge harbour winter copper garden signal meadow engine lantern orchard granite ferry"
    " valley timber market island canvas thunder silver barley compass anchor village needle prairie"
    " cobalt saddle glacier kettle"
).split()


def prose(slug: str, sentences: int = 6) -> list[str]:
    """Return distinct sentences for a slug, the first of which holds its mark."""
    chooser = random.Random(slug)
    made = []
    for number in range(sentences):
        words = [chooser.choice(_WORDS) for _ in range(14)]
        opening = f"The record {mark(slug)} says that" if number == 0 else "After that"
        made.append(f"{opening} the {' '.join(words)} were counted {chooser.randint(100, 999)} times.")
    return made


def page(slug: str, links: Iterable[str] = (), head: str = "", extra: str = "") -> bytes:
    """Return an article page whose text is that of the slug, with links in its navigation."""
    paragraphs = "".join(f"<p>{sentence}</p>" for sentence in prose(slug))
    anchors = "".join(f'<li><a href="{link.replace("&", "&amp;")}">item</a></li>' for link in links)
    return (
        f"<!doctype html><html lang='en'><head><title>About {mark(slug)}</title>{head}</head><body>"
        f"<nav><ul>{anchors}</ul></nav><main><article><h1>About {slug.strip('/').replace('/', ' ')}</h1>"
        f"{paragraphs}</article></main>{extra}</body></html>"
    ).encode()


@dataclass
class Site:
    """The routes of a server and what was requested of it."""

    routes: Mapping[str, Answer]
    hits: list[Visit] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        parts = urlsplit(url)
        target = url[len(f"{parts.scheme}://{parts.netloc}") :] or "/"
        with self._lock:
            visit = Visit(method, url, target, headers, body, self._counts[url])
            self._counts[url] += 1
            self.hits.append(visit)
        found: Answer | None = None
        for key in (url, target, visit.path, "*"):
            found = self.routes.get(key)
            if found is not None:
                break
        reply = NOT_FOUND if found is None else found(visit) if callable(found) else found
        return Reply(reply) if isinstance(reply, bytes) else reply

    def targets(self) -> list[str]:
        """Return the path and query of every request so far, robots.txt aside."""
        with self._lock:
            return [visit.target for visit in self.hits if visit.target != "/robots.txt"]

    def urls(self) -> list[str]:
        with self._lock:
            return [visit.url for visit in self.hits if visit.target != "/robots.txt"]

    def forget_hits(self) -> None:
        with self._lock:
            self.hits.clear()
            self._counts.clear()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    tunnel: str | None = None  # the https origin behind a CONNECT
    disable_nagle_algorithm = True

    def log_message(self, *args: object) -> None:
        """Stay silent: the table of hits is the log."""

    def do_CONNECT(self) -> None:
        self.send_response(200, "Connection established")
        self.end_headers()
        self.wfile.flush()
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb", -1)
        self.wfile = self.connection.makefile("wb", -1)
        self.tunnel = "https://" + self.path.removesuffix(":443")
        self.close_connection = False

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length) if length else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.site.answer(self.command, self._url(), headers, sent)
        if reply.delay_s:
            time.sleep(reply.delay_s)
        if reply.drop:
            self.close_connection = True
            return
        self.send_response(reply.status)
        if reply.content_type is not None:
            self.send_header("Content-Type", reply.content_type)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def finish(self) -> None:
        super().finish()
        self.connection.close()  # behind a CONNECT this is the TLS socket, which nobody else knows

    do_POST = do_PUT = do_HEAD = do_DELETE = do_GET  # noqa: N815 - names that the base class looks for

    def _url(self) -> str:
        if self.tunnel is not None:
            return self.tunnel + self.path
        if self.path.startswith("http://"):
            return self.path
        return f"http://{self.headers.get('Host')}{self.path}"


class Server(ThreadingHTTPServer):
    """Serves one site on a free local port until closed; also answers as an HTTP proxy for every host."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, routes: Mapping[str, Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.site = Site(routes)
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @functools.cached_property
    def tls(self) -> ssl.SSLContext:
        return _server_context()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that the crawler gave up: killed and timed-out crawls do that."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join(timeout=5)


@functools.cache
def _server_context() -> ssl.SSLContext:
    """Return a TLS context with a fresh self-signed certificate; Scrapy does not verify certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _pem_file(pem) as path:
        context.load_cert_chain(path)
    return context


class _pem_file:  # noqa: N801 - used as a function
    """Write the certificate where the ssl module can read it, for the time of a with block."""

    def __init__(self, pem: bytes) -> None:
        self._pem = pem

    def __enter__(self) -> Path:
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
            file.write(self._pem)
        self._path = Path(file.name)
        return self._path

    def __exit__(self, *exc: object) -> None:
        self._path.unlink()


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
