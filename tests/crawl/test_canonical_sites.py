"""The canonicals of two real documentation sites, crawled under the names of their public hosts."""

from __future__ import annotations

import mimetypes
import os
import tarfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from scrapy_dedup import Ledger
from scrapy_dedup.records import RelationKind, RelationRecord

from .server import NOT_FOUND, Reply, Server, Visit, redirect

CORPUS = os.environ.get("SCRAPY_DEDUP_CORPUS")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CORPUS, reason="SCRAPY_DEDUP_CORPUS names no folder with real sites"),
]

CITY = "https://docs.3dcitydb.org"
APE = "https://apeworx.github.io"

SETTINGS = {"DEDUP_CANONICAL": "fetch", "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "LOG_LEVEL": "INFO"}

SPIDER = """
import scrapy

class Docs(scrapy.Spider):
    name = "docs"

    def __init__(self, start=(), domain="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls, self.allowed_domains = list(start), [domain]

    def parse(self, response):
        if isinstance(response, scrapy.http.HtmlResponse):
            for href in response.css("a::attr(href)").getall():
                if not href.startswith(("mailto:", "javascript:")):
                    yield response.follow(href)
"""


@dataclass(frozen=True)
class Site:
    """What a crawl of a site left in its ledger."""

    observations: tuple[Any, ...]
    relations: tuple[RelationRecord, ...]

    @property
    def claims(self) -> dict[str, Any]:
        """Return the observations of valid pages that declare something, by path."""
        return {
            urlsplit(row.url).path: row
            for row in self.observations
            if row.canonical and row.validity == "valid" and row.canonical["declared"]
        }

    def counts(self, start: str) -> Counter[tuple[str, str]]:
        """Count the states and reasons of the canonicals of a part of the site."""
        rows = [row for path, row in self.claims.items() if path.startswith(start)]
        return Counter((row.canonical["status"], row.canonical["reason"]) for row in rows)


def files_below(root: Path, prefix: str) -> Callable[[Visit], Reply]:
    """Return a route that serves files under a path, as the public host does."""

    def answer(visit: Visit) -> Reply:
        path = unquote(urlsplit(visit.url).path)
        if not path.startswith(prefix):
            return NOT_FOUND
        place = root / path[len(prefix) :]
        if place.is_dir() and not path.endswith("/"):
            return redirect(f"{path}/", 301)
        file = place / "index.html" if place.is_dir() else place
        if not file.is_file():
            return NOT_FOUND
        return Reply(file.read_bytes(), content_type=mimetypes.guess_type(file.name)[0])

    return answer


def crawl_site(
    crawl: Callable[..., Any], folder: Path, name: str, public: str, parts: tuple[str, ...] = ()
) -> Site:
    """Crawl the pages of a site, or of some folders of it, and whatever they link to and declare."""
    with tarfile.open(Path(str(CORPUS)) / "sites" / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    root = folder / name
    files = [str(file.relative_to(root)) for part in parts or ("",) for file in (root / part).rglob("*.html")]
    prefix = urlsplit(public).path
    server = Server({"*": files_below(root, prefix)})
    try:
        done = crawl(
            SPIDER,
            start=[public + file.removesuffix("index.html") for file in files],
            domain=urlsplit(public).hostname,
            proxy=server,
            settings=SETTINGS,
            timeout_s=850,
        )
    finally:
        server.close()
    assert done.exit_code == 0
    with Ledger.open(f"sqlite:///{done.ledger_path}") as ledger:
        relations = tuple(ledger.relations(kind=RelationKind.CANONICAL))
        return Site(tuple(ledger.observations()), relations)


@pytest.fixture(scope="module")
def city(crawl, tmp_path_factory):
    return crawl_site(crawl, tmp_path_factory.mktemp("city"), "3dcitydb", f"{CITY}/", ("1.2", "1.3", "edge"))


@pytest.fixture(scope="module")
def ape(crawl, tmp_path_factory):
    return crawl_site(crawl, tmp_path_factory.mktemp("ape"), "eip712", f"{APE}/eip712/")


def test_the_version_that_latest_leads_to_is_its_own_canonical(city):
    assert city.counts("/1.3/") == {
        ("confirmed", "self"): len([p for p in city.claims if p.startswith("/1.3/")])
    }
    row = city.claims["/1.3/first-steps/"]
    assert row.canonical["target"] == f"{CITY}/latest/first-steps/"
    assert row.document_url == row.url


def test_an_old_version_is_never_the_latest_one(city):
    """One text in two versions stays unresolved; other text, or a page that is gone, is refuted."""
    counts = city.counts("/1.2/")
    assert set(counts) <= {
        ("unresolved", "other_version"),
        ("refuted", "text_differs"),
        ("refuted", "broken"),
    }
    assert counts["unresolved", "other_version"] > 40
    assert counts["refuted", "text_differs"] > 0
    assert all(row.document_url == row.url for path, row in city.claims.items() if path.startswith("/1.2/"))


def test_an_unnumbered_version_is_what_its_text_says(city):
    counts = city.counts("/edge/")
    assert counts["confirmed", "text_equal"] > 40
    assert {state for state, _ in counts} <= {"confirmed", "refuted", "unresolved"}
    for path, row in city.claims.items():
        if path.startswith("/edge/") and row.canonical["status"] == "confirmed":
            assert row.document_url == f"{CITY}/1.3/{path.removeprefix('/edge/')}"
            same = city.claims[f"/1.3/{path.removeprefix('/edge/')}"]
            assert row.body_id == same.body_id or row.reason == "normalized_equal"


def test_claims_are_judged_by_the_page_behind_the_stub(city):
    found = [one for one in city.relations if one.a.startswith((f"{CITY}/1.2/", f"{CITY}/edge/"))]
    seen = [one for one in found if "judged_url" in one.measures and one.b_digest]
    assert len(seen) > 100
    assert {tuple(one.measures["hops"]) for one in seen} == {("redirect_stub",)}
    assert all(one.measures["judged_url"].startswith(f"{CITY}/1.3/") for one in seen)


def test_no_page_of_a_site_is_lost_by_its_canonicals(city):
    pages = [row for row in city.observations if row.validity == "valid"]
    assert len(pages) >= 3 * 55
    assert all(row.body_id for row in pages)


def test_every_canonical_without_its_first_slash_is_refuted(ape):
    """``href="eip712/"`` would lie below the page's own folder."""
    bare = [
        row.canonical
        for row in ape.observations
        if row.canonical and row.canonical["declared"][0]["raw"].startswith("eip712/")
    ]
    assert len(bare) >= 36
    assert {(one["status"], one["reason"]) for one in bare} == {("refuted", "malformed")}


def test_nothing_is_merged_by_a_broken_canonical(ape):
    assert not [row for row in ape.claims.values() if row.canonical["status"] == "confirmed"]
    assert all(row.document_url == row.url for row in ape.claims.values())
    assert "confirmed" not in {one.state.value for one in ape.relations}
