"""Residual prose: what the main text lacks, and what does not count."""

from __future__ import annotations

import time

import pytest

from scrapy_dedup.content.blocks import Block, blocks, residual_digest
from scrapy_dedup.content.extract import extract
from scrapy_dedup.content.extraction import ExtractOptions, Payload
from scrapy_dedup.content.page import parse, prepare

MAIN = "The bridge is open again."
PROSE = "The council adds that heavy lorries still have to take the road by the mill."


def residual(body: str, main: str = MAIN) -> str | None:
    root = parse(f"<html><body><p>{MAIN}</p>{body}</body></html>")
    prepare(root)
    return residual_digest(blocks(root), main)


def test_prose_that_the_text_lacks_is_residual():
    assert residual(f"<div>{PROSE}</div>") is not None


def test_other_prose_has_another_digest():
    assert residual(f"<div>{PROSE}</div>") != residual(f"<div>{PROSE.replace('lorries', 'coaches')}</div>")


def test_a_number_in_prose_makes_a_difference():
    limit = "Vehicles of more than {} tonnes still have to take the road by the mill."
    assert residual(f"<p>{limit.format(3)}</p>") != residual(f"<p>{limit.format(7)}</p>")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"<nav>{PROSE}</nav>", id="nav"),
        pytest.param(f"<header>{PROSE}</header>", id="header"),
        pytest.param(f"<footer>{PROSE}</footer>", id="footer"),
        pytest.param(f"<aside>{PROSE}</aside>", id="aside"),
        pytest.param(f"<div role=navigation>{PROSE}</div>", id="role navigation"),
        pytest.param(f"<div role=banner>{PROSE}</div>", id="role banner"),
        pytest.param(f"<div role=contentinfo>{PROSE}</div>", id="role contentinfo"),
        pytest.param(f"<div role=complementary>{PROSE}</div>", id="role complementary"),
        pytest.param(f"<div role=dialog>{PROSE}</div>", id="dialog"),
        pytest.param(f"<div class='x cookie-banner'>{PROSE}</div>", id="cookie banner"),
        pytest.param(f"<div class=ad-slot>{PROSE}</div>", id="ad slot"),
        pytest.param(f"<ul><li><a href=/a>{PROSE}</a></ul>", id="links"),
        pytest.param(f"<p hidden>{PROSE}</p>", id="hidden"),
        pytest.param(f"<p style='display: none'>{PROSE}</p>", id="not displayed"),
        pytest.param("<p>Seven words are not enough for this.</p>", id="short"),
        pytest.param("<p>Monday Tuesday Wednesday 1 2 3 4 5 6 7 8 9 January</p>", id="numbers and dates"),
        pytest.param("<script>var a = 'one two three four five six seven eight nine';</script>", id="script"),
        pytest.param(f"<p>{MAIN}</p>", id="in the text"),
    ],
)
def test_what_is_no_residual_prose(body):
    assert residual(body) is None


@pytest.mark.slow
def test_prose_of_a_page_of_megabytes_is_looked_up_in_one_pass():
    """Beside 20,000 paragraphs a search for each would take half a minute, and the page its time limit."""
    texts = [
        f"Paragraph {number} of the handbook says what the one before left out." for number in range(20_000)
    ]
    found = [Block("p", text, text) for text in [*texts, PROSE]]
    started = time.process_time()
    assert residual_digest(found, " ".join(texts)) == residual(f"<p>{PROSE}</p>")
    assert time.process_time() - started < 8


def test_prose_that_begins_alike_is_looked_up_in_one_pass():
    texts = [f"Click here to see all the details of product number {number} now." for number in range(8_000)]
    started = time.process_time()
    assert residual_digest([Block("p", text, text) for text in texts], " ".join(texts)) is None
    assert time.process_time() - started < 8


def test_prose_with_another_end_is_not_in_the_text():
    assert residual(f"<p>{PROSE} Not today.</p>", main=f"{MAIN} {PROSE} Not tomorrow.") is not None


def test_invisible_characters_and_markup_do_not_hide_that_the_text_has_it():
    text = "The bridge over the Elbe is open again for all vehicles."
    markup = "The <b>bridge</b> over the El\u00adbe is <a href=/o>open</a> again for\n all\u00a0vehicles."
    assert residual(f"<p>{markup}</p>", MAIN + "\n\n" + text) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            "This page was made for you by our friendly server at 10:22:11 in 0.21 seconds.",
            "This page was made for you by our friendly server at 23:01:59 in 1.5 seconds.",
            id="time to the second",
        ),
        pytest.param(
            "This page was made for you by our friendly server on Tuesday, 3 June 2025 at 14:05 UTC.",
            "This page was made for you by our friendly server on Friday, 13 June 2025 at 9:30 UTC.",
            id="date with hour",
        ),
        pytest.param(
            "When you write to us about this page please name the request f00dfeed12345678abcd to us.",
            "When you write to us about this page please name the request 0123456789abcdef0123 to us.",
            id="request id",
        ),
    ],
)
def test_what_changes_at_every_visit_makes_no_difference(one, other):
    assert residual(f"<p>{one}</p>") is not None
    assert residual(f"<p>{one}</p>") == residual(f"<p>{other}</p>")


def test_seconds_to_wait_are_a_statement():
    wait = "The valve must be held shut for {} seconds after the alarm has gone off."
    assert residual(f"<p>{wait.format(10)}</p>") != residual(f"<p>{wait.format(90)}</p>")


def test_opening_hours_are_no_time_stamp():
    hours = "The bridge is closed for all vehicles every day from {} in the morning until noon."
    assert residual(f"<p>{hours.format('9:00')}</p>") != residual(f"<p>{hours.format('8:00')}</p>")


def test_a_page_that_differs_at_every_fetch_stays_the_same(run, site):
    """Visible time stamp, CSRF token, ad slot and related links change; text and residual prose do not."""
    after = (
        "<p class=stamp>Served on Tuesday, {day} June 2025 at 14:0{day}:33</p>"
        "<form><input type=hidden name=csrf value={token}>token {token}</form>"
        "<div class=ad>Buy {day} boats now</div>"
        "<ul class=more><li><a href=/{day}>Story number {day} about a thing that happened in the town"
        "</a></ul>"
    )
    first = run(site(after=after.format(day=3, token="a81bc81bdead4e5dabff90865d1e13b1"))).text
    second = run(site(after=after.format(day=4, token="0c0ffee0dead4e5dabff90865d1e13b2"))).text
    assert first.text_digest == second.text_digest
    assert first.residual_digest == second.residual_digest


def test_scripts_without_spaces_count_by_character():
    assert residual("<p>大型トラックは引き続き工場の横の道を通らなければなりません。</p>") is not None
    assert residual("<p>次のページへ</p>") is None


LINES = "".join(
    f"<p>Paragraph number {number} says the same of every model of it.</p>" for number in range(9)
)


def residual_of(html: str) -> tuple[str, str | None]:
    payload = Payload(f"<!doctype html><html><body>{html}</body></html>".encode(), "utf-8", "http://h.test/")
    text = extract(payload, ExtractOptions()).text
    assert text is not None
    return text.text, text.residual_digest


@pytest.mark.parametrize(
    "html",
    [
        "<header><h1>{}</h1></header><main>{}</main>",
        "<div class=top><h1>{}</h1></div><main>{}</main>",
    ],
    ids=["heading in the header", "heading above the main text"],
)
def test_pages_that_differ_in_their_only_heading_are_not_alike(html):
    assert residual_of(html.format("Model A100", LINES)) != residual_of(html.format("Model B200", LINES))


def test_the_name_of_the_site_above_a_text_with_a_heading_does_not_count():
    article = f"<main><h2>The harbour opens</h2>{LINES}</main>"

    assert residual_of(f"<header><h1>One Paper</h1></header>{article}") == residual_of(
        f"<header><h1>Another Paper</h1></header>{article}"
    )


def test_links_in_the_text_keep_it():
    said = "".join(
        f"<p>Paragraph {number} says quite a lot about <a href=/z{number}>the thing</a> that it is about.</p>"
        for number in range(9)
    )
    payload = Payload(f"<html><body><main><h1>Queue</h1>{said}</main>".encode(), "utf-8", "http://h.test/")

    text = extract(payload, ExtractOptions(include_links=True)).text

    assert text is not None
    assert "[the thing](" in text.text


@pytest.mark.slow
def test_prose_that_could_begin_anywhere_is_looked_for_without_remembering_every_place():
    repeated = "again and " * 40_000
    block = Block("p", repeated + "once", repeated + "once")

    assert residual_digest([block], repeated) is not None
    assert residual_digest([block], repeated + "once") is None
