"""Real pages: articles, and whole documentation sites with their stubs and error pages."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from scrapy_dedup.content import ExtractOptions, Judgement, Payload, ResponseFacts, judge
from scrapy_dedup.content.extract import extract
from scrapy_dedup.content.validity import HEADERS, end_of

CORPUS = os.environ.get("SCRAPY_DEDUP_CORPUS")
CASES = os.environ.get("SCRAPY_DEDUP_CASES")

needs_corpus = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CORPUS, reason="SCRAPY_DEDUP_CORPUS names no folder with real pages"),
]

# What the cases call the states.
STATES = {
    "challenge": "blocked",
    "blocked": "blocked",
    "login": "login",
    "consent": "consent",
    "js_shell": "js_required",
    "soft404": "soft_404",
    "error": "error_page",
    "parked": "placeholder",
    "placeholder": "placeholder",
    "redirect_stub": "redirect_stub",
    "empty": "empty",
}


def judged(body: bytes, url: str, *, status: int = 200, headers: dict[str, str] | None = None) -> Judgement:
    extraction = extract(Payload(body, "utf-8", url), ExtractOptions()) if body else None
    return judge(
        ResponseFacts(
            status,
            "text/html",
            len(body),
            extraction=extraction,
            url=url,
            headers=headers or {},
            end=end_of(body),
        )
    )


def cases() -> list[dict[str, object]]:
    return json.loads(Path(CASES, "validity-pages.json").read_text("utf-8")) if CASES else []


@pytest.mark.skipif(not CASES, reason="SCRAPY_DEDUP_CASES names no folder with cases")
@pytest.mark.parametrize("with_headers", [True, False], ids=["", "without headers"])
@pytest.mark.parametrize("case", [pytest.param(case, id=str(case["id"])) for case in cases()])
def test_every_case_comes_out_right(case, with_headers):
    sent = {name.lower(): value for name, value in case["headers"].items() if name.lower() in HEADERS}

    judgement = judged(
        case["html"].encode(), case["url"], status=case["status"], headers=sent if with_headers else {}
    )

    assert judgement.validity == ("valid" if case["label"] == "valid" else STATES[case["reason"]])


def articles() -> Iterator[tuple[str, bytes]]:
    with tarfile.open(Path(CORPUS, "pages", "aeb-html.tar")) as archive:
        for member in archive:
            if member.name.endswith(".html.gz"):
                yield PurePosixPath(member.name).stem, gzip.decompress(archive.extractfile(member).read())


class TestArticles:
    pytestmark = needs_corpus

    def test_no_article_is_called_invalid(self):
        found = {name: judged(body, f"http://site.invalid/{name}") for name, body in articles()}

        assert len(found) == 181
        assert {name: one for name, one in found.items() if one.validity != "valid"} == {}


# Site, number of HTML files, and what else than valid pages is in it: state, start of the reason, number.
SITES = [
    ("3dcitydb", 303, {("redirect_stub", "meta_refresh"): 60, ("soft_404", "title_phrase"): 4}),
    ("httpcommand", 276, {("redirect_stub", "meta_refresh"): 1, ("soft_404", "title_phrase"): 11}),
    (
        "eip712",
        191,
        {
            ("redirect_stub", "meta_refresh"): 1,
            ("js_required", "noscript_notice"): 22,  # search pages that a script fills
            ("empty", "text_not_visible"): 18,  # a title, at most with a table of contents
        },
    ),
    ("multiversion", 78, {("redirect_stub", "meta_refresh"): 1}),
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    def unpack(site: str) -> Path:
        folder = tmp_path_factory.mktemp(site)
        with tarfile.open(Path(CORPUS, "sites", f"{site}.tar.xz")) as archive:
            archive.extractall(folder, filter="data")
        return folder

    return unpack


class TestSites:
    pytestmark = needs_corpus

    @pytest.mark.parametrize(("site", "files", "invalid"), [pytest.param(*row, id=row[0]) for row in SITES])
    def test_only_stubs_empty_pages_and_error_pages_are_invalid(self, unpacked, site, files, invalid):
        root = unpacked(site)
        pages = [path for path in sorted(root.rglob("*.html")) if path.is_file()]
        found = {}
        for path in pages:
            name = path.relative_to(root).as_posix()
            found[name] = judged(path.read_bytes(), f"http://site.invalid/{name}")

        assert len(found) == files
        kinds = Counter(
            (one.validity.value, (one.explained or "").partition(":")[0])
            for one in found.values()
            if one.validity != "valid"
        )
        assert kinds == invalid
        assert all(name.endswith("404.html") for name, one in found.items() if one.validity == "soft_404")
