"""Pages for the tests of content."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scrapy_dedup.content import Extraction, ExtractOptions, Payload
from scrapy_dedup.content.extract import extract

ARTICLE = "".join(
    f"<p>Paragraph {number} of the article says in plain words what the council decided about the old bridge,"
    " who voted for it and what it is going to cost the town in the end.</p>"
    for number in ("one", "two", "three", "four")
)

SITE = """<!DOCTYPE html><html lang="en"><head><title>Bridge</title></head><body>
<header><p>The Daily Courier brings you all the news of the town every single morning.</p></header>
<nav><ul><li><a href="/">Home</a></li><li><a href="/town">Town and country pages</a></li></ul></nav>
<div class="cookie-banner"><p>We use cookies to give you the best experience on this site.</p></div>
<div class="sidebar"><p>Subscribe today and get the first four weeks of the paper for free at home.</p></div>
<main><h1>The old bridge</h1>{article}</main>
{after}
<div class="legal-notice"><p>All texts and pictures belong to us and must not be copied at all.</p></div>
<footer><p>Terms of use and privacy policy apply to all of the pages of this newspaper.</p></footer>
</body></html>"""


@pytest.fixture
def run() -> Callable[..., Extraction]:
    """Extract a page given as text or bytes."""

    def run_extract(page: str | bytes, *, encoding: str = "utf-8", **options: object) -> Extraction:
        declared = options.pop("declared_charset", None)
        body = page.encode(encoding) if isinstance(page, str) else page
        return extract(Payload(body, encoding, "http://page.invalid/a", declared), ExtractOptions(**options))

    return run_extract


@pytest.fixture
def site() -> Callable[..., str]:
    """Return a page of a site with everything that sites put around their text."""

    def page(*, article: str = ARTICLE, after: str = "") -> str:
        return SITE.format(article=article, after=after)

    return page
