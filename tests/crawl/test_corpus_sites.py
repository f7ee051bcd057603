"""Real documentation sites, served on localhost, crawled with the spider ``site`` of the example."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import re
import shutil
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import lxml.html
import pytest

from .conftest import Seen, environment, read_ledger, run

CORPUS = os.environ.get("SCRAPY_DEDUP_CORPUS")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CORPUS, reason="SCRAPY_DEDUP_CORPUS names no folder with real sites"),
]

SITES = ("3dcitydb", "httpcommand", "eip712", "multiversion")
EXAMPLE = Path(__file__).parents[2] / "example_project"


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Stay silent."""


@dataclass(frozen=True)
class Crawled:
    """A crawled site, and what an independent walk over its files found."""

    root: Path
    base: str
    log: str
    seen: Seen
    reachable: frozenset[Path]

    def file_of(self, url: str) -> Path | None:
        return file_at(self.root, urlsplit(url).path)

    @property
    def files_seen(self) -> set[Path | None]:
        """Return the files of all pages, and of those that sent the crawl on by a meta refresh."""
        rows = [row for row in self.seen.observations if row.outcome == "fetched"]
        urls = {url for row in rows for url in (row.url, *row.redirect_urls)}
        urls |= {alias.raw_url for alias in self.seen.aliases if alias.verdict == "redirected"}
        return {self.file_of(url) for url in urls}

    def stat(self, name: str) -> int:
        return int(re.search(rf"'{name}': (\d+)", self.log)[1])


def file_at(root: Path, path: str) -> Path | None:
    """Return the file that a path of the site is answered with."""
    place = root / unquote(path).lstrip("/")
    place = place / "index.html" if place.is_dir() else place
    return place if place.is_file() else None


def walk(root: Path, starts: list[str]) -> frozenset[Path]:
    """Return the HTML files that links lead to, found without any code of the suite or of Scrapy."""
    base, found, walked, waiting = "http://site", set(), set(), list(starts)
    while waiting:
        path = waiting.pop()
        file = file_at(root, path)
        if file is None or file in walked or file.suffix != ".html":
            continue
        walked.add(file)
        own = path if not (root / unquote(path).lstrip("/")).is_dir() else path.rstrip("/") + "/"
        document = lxml.html.fromstring(file.read_bytes())
        (given,) = document.xpath("//base/@href")[:1] or [""]
        refreshes = document.xpath("//meta[@http-equiv='refresh'][not(ancestor::noscript)]")
        if not refreshes:  # else it only sends on, and where to is for the crawl to judge
            found.add(file)
        for href in document.xpath("//a/@href | //area/@href"):
            target = urlsplit(urljoin(urljoin(base + own, given), href.strip()))
            if target.netloc == "site":
                waiting.append(target.path or "/")
    return frozenset(found)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory) -> Iterator[object]:
    servers = []

    @functools.cache
    def of(name: str) -> Crawled:
        folder = tmp_path_factory.mktemp(name)
        with tarfile.open(Path(CORPUS) / "sites" / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        root = folder / name
        handler = functools.partial(Quiet, directory=str(root))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        base = f"http://127.0.0.1:{server.server_port}"
        places = [root, *sorted(place for place in root.iterdir() if place.is_dir())]
        starts = [
            "/" if place == root else f"/{place.name}/" for place in places if (place / "index.html").exists()
        ]
        project = Path(shutil.copytree(EXAMPLE, folder / "project"))
        arguments = ["site", "-a", "start=" + ",".join(base + start for start in starts)]
        settings = ["-s", "DOWNLOAD_DELAY=0", "-s", "AUTOTHROTTLE_ENABLED=False", "-s", "DEPTH_LIMIT=0"]
        settings += ["-s", f"DEDUP_LEDGER=sqlite:///{folder}/dedup.db", "-s", "LOG_LEVEL=INFO"]
        settings += ["-s", "CONCURRENT_REQUESTS_PER_DOMAIN=8", "-s", "TELNETCONSOLE_ENABLED=False"]
        command = [sys.executable, "-m", "scrapy", "crawl", *arguments, *settings]
        code, log = run(command, project, 800, environment())
        assert code == 0, log[-3000:]
        return Crawled(root, base, log, read_ledger(folder / "dedup.db"), walk(root, starts))

    yield of
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", SITES)
def test_a_real_site_is_complete(crawled, name):
    site = crawled(name)

    missing = sorted(str(path.relative_to(site.root)) for path in site.reachable - site.files_seen)
    assert missing == []
    assert "Spider closed (finished)" in site.log


@pytest.mark.parametrize("name", SITES)
def test_no_file_of_a_real_site_is_fetched_twice(crawled, name):
    site = crawled(name)

    files = [site.file_of(row.url) for row in site.seen.observations if row.outcome == "fetched"]
    twice = {str(file.relative_to(site.root)) for file in files if files.count(file) > 1}
    # A folder and the index.html in it are two URLs until a rule says otherwise; so are targets of a refresh.
    assert {name for name in twice if not name.endswith("index.html")} == set()


@pytest.mark.parametrize("name", SITES)
def test_equal_payloads_are_extracted_once(crawled, name):
    site = crawled(name)

    html = [row for row in site.seen.observations if row.outcome == "fetched" and "html" in row.content_type]
    distinct = {row.payload_digest for row in html}
    assert site.stat("dedup/extract/extractions") == len(distinct)
    pages = site.reachable & {site.file_of(row.url) for row in html}
    assert {"sha256:" + hashlib.sha256(file.read_bytes()).hexdigest() for file in pages} <= distinct


@pytest.mark.parametrize("name", SITES)
def test_every_valid_page_of_a_real_site_has_a_body(crawled, name):
    site = crawled(name)

    bodies = {body.body_id for body in site.seen.bodies}
    valid = [row for row in site.seen.observations if row.validity == "valid"]
    assert len(valid) >= 0.8 * len(site.reachable)
    assert {row.body_id for row in valid} == bodies


@pytest.mark.parametrize("name", SITES)
def test_no_error_of_ours_is_logged(crawled, name):
    site = crawled(name)

    assert "scrapy_dedup/" not in site.log
    assert " CRITICAL: " not in site.log


def test_two_versions_of_a_page_that_differ_by_a_paragraph_are_two_bodies(crawled):
    site = crawled("multiversion")

    (old,) = site.seen.at("/v0.2.3/faq.html")
    (new,) = site.seen.at("/v0.2.4/faq.html")

    assert old.validity == new.validity == "valid"
    assert old.body_id != new.body_id
