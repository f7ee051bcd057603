"""From bytes to text: what comes through, what stays out, and what never stops it."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrapy_dedup.content import ExtractOptions, Payload, normalized_digest, sha256_id, text_digest
from scrapy_dedup.content.extract import extract
from scrapy_dedup.near import SCHEME, simhash

LOST = "Some sentences that say something and that nobody would want to lose from the text of this page. "


def document(body: str, head: str = "") -> str:
    return f"<!DOCTYPE html><html><head><title>Page</title>{head}</head><body>{body}</body></html>"


def test_the_text_carries_everything_that_identifies_it(run, site):
    found = run(site())
    text = found.text
    assert found.payload_digest == sha256_id(site().encode())
    assert text.text.startswith("# The old bridge\n\nParagraph one of")
    assert (text.representation, text.language) == ("markdown", "en")
    assert text.extractor_id == ExtractOptions().extractor_id
    assert text.text_digest == text_digest(text.text)
    assert text.normalized_digest == normalized_digest(text.text)
    assert (text.simhash, text.simhash_scheme) == (simhash(text.text), SCHEME)
    assert (text.char_count, text.word_count) == (len(text.text), len(text.text.replace("#", "").split()))
    assert found.failure is None
    assert found.flags == ()


@pytest.mark.parametrize("article", [None, "<p>Closed on Monday.</p>"], ids=["long text", "short notice"])
def test_what_a_site_puts_around_its_text_stays_out(run, site, article):
    text = run(site(article=article) if article else site()).text.text
    for around in ("Courier", "Town and country", "cookies", "Subscribe", "belong to us", "Terms of use"):
        assert around not in text


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        pytest.param("<p>Closed on Monday.</p>", "Closed on Monday.", id="a fragment without html"),
        pytest.param("Closed on Monday.", "Closed on Monday.", id="no tag at all"),
        pytest.param(document("<h1>Note</h1><p>Closed.</p>"), "# Note\n\nClosed.", id="a very short page"),
        pytest.param(
            document(
                "<h1>Note</h1><p>See <a href=/x>this page</a> for <b>more</b>.</p><ul><li>one<li>two</ul>"
            ),
            "# Note\n\nSee this page for more.\n\n- one\n\n- two",
            id="a very short page with a link",
        ),
        pytest.param(document("<p>a\0b rest</p>"), "ab rest", id="NUL characters"),
        pytest.param("\ufeff" + document("<p>Text here</p>"), "Text here", id="a byte order mark"),
        pytest.param(document("<p>open <b>tags <i>all over"), "open **tags *all over***", id="unclosed tags"),
        pytest.param(document("<p>shown</p><p hidden>secret</p>"), "shown", id="a hidden paragraph"),
        pytest.param(document("<p>shown</p><template>secret</template>"), "shown", id="a template"),
        pytest.param(document("<!--" + "x" * 200 + "--><p>shown</p>"), "shown", id="a long comment first"),
    ],
)
def test_small_pages(run, page, expected):
    assert run(page).text.text == expected


@pytest.mark.parametrize(
    ("page", "flags"),
    [
        pytest.param("", (), id="nothing"),
        pytest.param(" \n ", (), id="white space"),
        pytest.param(document(""), (), id="an empty body"),
        pytest.param(document("<nav><a href='/'>Home</a></nav>"), (), id="only navigation"),
        pytest.param(
            document(
                "<noscript>Please enable JavaScript</noscript><div id=root></div><script src=a.js></script>"
            ),
            ("scripted",),
            id="a page that scripts write",
        ),
    ],
)
def test_pages_without_text(run, page, flags):
    found = run(page)
    assert (found.text, found.failure, found.flags) == (None, None, flags)


@pytest.mark.parametrize(
    ("identity", "heading", "element"),
    [
        ("old-branches-or-tags", "Old branches or tags?\u00b6", "section"),
        ("version-banners", "1.2. Version banners", "div"),
        ("tags", "Tags", "section"),
        ("related", "Related", "section"),
    ],
)
def test_a_section_is_not_lost_for_an_id_made_from_its_heading(run, identity, heading, element):
    section = f"<{element} id='{identity}'><h2>{heading}</h2><p>{LOST}</p></{element}>"
    text = run(document(f"<main><h1>Questions</h1><p>{LOST * 3}</p>{section}</main>")).text.text
    assert text.count(LOST.strip()) == 4


def test_a_section_whose_id_says_what_it_is_stays_out(run):
    related = f"<div id='related-links'><h3>You may also like</h3><p>{LOST}</p></div>"
    assert (
        run(
            document(f"<main><h1>News</h1><p>{'The bridge is open. ' * 30}</p>{related}</main>")
        ).text.text.count(LOST)
        == 0
    )


def test_callouts_in_the_text_are_text(run):
    callout = f"<aside class='starlight-aside starlight-aside--note'><p>{LOST}</p></aside>"
    assert (
        LOST.strip()
        in run(document(f"<main><h1>Setup</h1><p>{'Run the installer. ' * 30}</p>{callout}</main>")).text.text
    )


def test_permalink_signs_of_headings_are_no_text(run):
    heading = "<h2>Usage<a class='headerlink' href='#usage'>\u00b6</a></h2>"
    assert "## Usage\n" in run(document(f"<main><h1>Manual</h1>{heading}<p>{LOST * 4}</p></main>")).text.text


HIDDEN_BODY = (
    '<script type="application/ld+json">{"@type": "Article", "articleBody": "'
    + "Nobody ever sees this embedded text because no element of the document shows it. " * 5
    + '"}</script>'
)


def test_text_that_is_not_on_the_page_is_not_used(run):
    found = run(document("<p>hello</p>", HIDDEN_BODY))
    assert found.text is None
    assert found.flags == ("main_not_visible",)


def test_instead_of_invisible_text_the_visible_prose_is_used(run):
    found = run(document("<p>Please sign in with your library card to read the rest.</p>", HIDDEN_BODY))
    assert found.text.text == "Please sign in with your library card to read the rest."
    assert found.flags == ("main_not_visible", "fallback_visible")


def test_embedded_text_with_a_lone_surrogate_is_never_stored(run):
    found = run(document("<p>hello</p>", HIDDEN_BODY.replace("Nobody", "\\ud800 Nobody", 1)))
    assert found.text is None


def test_prose_that_the_extractor_drops_altogether_is_still_text(run):
    comment = "Readers wrote to us about the bridge and told us what they think of the plan."
    found = run(document(f"<div class='comments'><p>{comment}</p></div>"))
    assert found.text.text == comment
    assert found.flags == ("fallback_visible",)


@pytest.mark.parametrize(
    ("body", "encoding", "declared", "expected", "flags"),
    [
        pytest.param(
            "Grüße".encode(), "cp1252", "iso-8859-1", "Grüße", ("charset_suspect",), id="UTF-8 as latin-1"
        ),
        pytest.param("Grüße".encode("latin-1"), "cp1252", "iso-8859-1", "Grüße", (), id="latin-1"),
        pytest.param("日本".encode("shift_jis"), "cp932", "shift_jis", "日本", (), id="Shift JIS"),
        pytest.param("привет".encode("koi8-r"), "koi8-r", None, "привет", (), id="KOI8-R"),
        pytest.param("Grüße".encode("utf-16"), "utf-16", None, "Grüße", (), id="UTF-16 with a mark"),
        pytest.param(b"caf\xe9 au lait", "utf-8", None, "caf\ufffd au lait", (), id="latin-1 as UTF-8"),
        pytest.param("Grüße".encode(), "base64", "base64", "Grüße", ("charset_unusable",), id="no charset"),
        pytest.param(
            "Grüße".encode(), "x-none", "x-none", "Grüße", ("charset_unusable",), id="unknown charset"
        ),
    ],
)
def test_charsets(run, body, encoding, declared, expected, flags):
    found = run(body, encoding=encoding, declared_charset=declared)
    assert found.text.text == expected
    assert found.flags == flags


def test_a_lone_surrogate_in_the_page_is_malformed(run):
    found = run(rb"<p>broken \ud800 text</p>", encoding="unicode_escape")
    assert (found.text, found.failure) == (None, "malformed_text")


def test_a_body_over_the_cap_is_not_extracted(run):
    found = run("x" * 11, max_input_bytes=10)
    assert (found.text, found.failure) == (None, "input_over_cap")
    assert found.payload_digest == sha256_id(b"x" * 11)


def test_another_option_is_another_extractor():
    options = [
        ExtractOptions(),
        ExtractOptions(format="txt"),
        ExtractOptions(focus="recall"),
        ExtractOptions(include_links=True),
    ]
    assert len({option.extractor_id for option in options}) == len(options)
    assert ExtractOptions().extractor_id.startswith("trafilatura-")


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "html"},
        {"format": ["markdown"]},
        {"focus": "best"},
        {"max_input_bytes": 0},
        {"max_input_bytes": "3000000"},
        {"max_input_bytes": True},
        {"include_tables": "no"},
    ],
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ExtractOptions(**wrong)


def test_links_are_written_out_only_when_asked_for(run):
    page = document(f"<main><h1>Links</h1><p>{LOST} See <a href='/other'>the other page</a>.</p></main>")
    assert "](http" not in run(page).text.text
    assert "[the other page](http://page.invalid/other)" in run(page, include_links=True).text.text


def test_the_same_page_gives_the_same_text_every_time(run, site):
    assert len({run(site()).text.text_digest for _ in range(5)}) == 1


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("<div>" * 600_000, id="3 MB of nested tags"),
        pytest.param("<b>" * 1_000_000, id="3 MB of nested inline tags"),
        pytest.param("<p>" + "word " * 2_000_000, id="a text node of 10 MB"),
        pytest.param("<ul><li>x" * 1_500, id="1,500 nested lists"),
        pytest.param("<table><tr><td>x" * 300, id="300 nested tables"),
        pytest.param("<p>" + "may " * 200_000, id="a word that could start a date"),
    ],
)
@pytest.mark.slow
def test_monstrous_pages_come_to_an_end(run, page):
    found = run(page, max_input_bytes=20_000_000)
    assert found.failure in {None, "recursion"}


@given(
    st.lists(
        st.sampled_from(
            [
                "<p>",
                "</div>",
                "<a href=",
                "&#xD800;",
                "\0",
                "<![CDATA[",
                "<title>",
                "é",
                "]]>",
                "<svg>",
                '"',
                "text ",
            ]
        )
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_broken_markup_never_raises(parts):
    found = extract(Payload("".join(parts).encode(), "utf-8", "http://page.invalid/"), ExtractOptions())
    assert found.failure is None


def test_the_paragraph_that_tells_two_versions_apart_is_kept():
    """A real documentation page: the extractor alone drops the section that changed between the versions."""
    corpus = os.environ.get("SCRAPY_DEDUP_CORPUS")
    if not corpus:
        pytest.skip("SCRAPY_DEDUP_CORPUS is not set")
    texts = set()
    with tarfile.open(Path(corpus, "sites", "multiversion.tar.xz")) as archive:
        for member in archive:
            if member.name.endswith(("v0.2.3/faq.html", "v0.2.4/faq.html")):
                body = archive.extractfile(member).read()
                texts.add(extract(Payload(body, "utf-8", "http://docs.invalid/"), ExtractOptions()).text.text)
    assert len(texts) == 2
    assert any("The downside is" in text for text in texts)


def test_the_labels_of_controls_do_not_make_a_short_page_invisible(run):
    search = "<form><input name='q'><button>Search all of it</button></form>"

    notice = f"<main><h1>Holiday</h1><p>Closed on Monday.</p>{search}</main>"
    extraction = run(f"<html><head><title>x</title></head><body>{notice}</body></html>")

    assert extraction.text is not None
    assert extraction.text.text == "# Holiday\n\nClosed on Monday."
    assert extraction.flags == ("fallback_visible",)
