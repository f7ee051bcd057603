"""What is read of a page's structure."""

# ruff: noqa: E501  a row of a table is a line

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_dedup.content import ExtractOptions, Payload
from scrapy_dedup.content.extract import extract
from scrapy_dedup.content.structure import Jump, Refresh, Structure


def structure(html: str) -> Structure:
    found = extract(
        Payload(html.encode("utf-8", "surrogatepass"), "utf-8", "http://page.invalid/"), ExtractOptions()
    )
    return found.structure or Structure()


def page(body: str = "<p>Tides.</p>", head: str = "") -> str:
    return f"<html><head><title>T</title>{head}</head><body>{body}</body></html>"


def test_sizes_count_words_and_half_characters_and_links_apart():
    found = structure(
        page(
            '<p>Three plain words <a href="/">and a link</a></p><p>満月の夜だ</p><nav>Menu of many words</nav>'
        )
    )

    assert (found.prose_units, found.linked_units) == (5.5, 3.0)
    assert [passage.units for passage in found.passages] == [3.0, 2.5]


def test_of_a_page_that_says_much_only_the_sizes_are_kept():
    found = structure(page(f"<h1>Long</h1><p>{'word ' * 200}</p><input type='password'>"))

    assert found == Structure(prose_units=found.prose_units)
    assert 200 <= found.prose_units <= 202


def test_titles_and_headings_are_bounded_and_the_menu_has_none():
    found = structure(
        page(f"<nav><h1>Menu</h1></nav><header><h1>Site</h1></header><h1>{'x' * 400}</h1><p>a</p>")
    )

    assert found.title == "T"
    assert found.headings[0] == "Site"
    assert len(found.headings) == 2
    assert len(found.headings[1]) <= 300


REFRESHES = [
    ("0;url=/x", Refresh("/x", 0.0, in_noscript=False)),
    (" 5 ; URL = '/x y' ", Refresh("/x y", 5.0, in_noscript=False)),
    ('1.5, "/x"', Refresh("/x", 1.5, in_noscript=False)),
    ("360", None),
    ("", None),
    ("soon; url=/x", None),
]


@pytest.mark.parametrize(("content", "expected"), REFRESHES)
def test_a_refresh_is_read_like_browsers_do(content, expected):
    content = content.replace('"', "&quot;")

    assert structure(page(head=f'<meta http-equiv="Refresh" content="{content}">')).refresh == expected


def test_a_refresh_in_noscript_is_marked():
    head = '<noscript><meta http-equiv="refresh" content="0; url=/x"></noscript>'

    assert structure(page(head=head)).refresh == Refresh("/x", 0.0, in_noscript=True)


SCRIPTS = [
    ("a statement", 'location.replace("/x")', Jump("/x", at_once=True)),
    ("an owner and a long argument", 'var a = 1;\nwindow.location.replace(\n  "/x" + location.hash\n);', Jump("/x", at_once=True)),
    ("an assignment", "document.location.href='/x'", Jump("/x", at_once=True)),
    ("a function that calls itself", "(function () { top.location = '/x'; })()", Jump("/x", at_once=True)),
    ("a timer", "setTimeout(function() { location.href = '/x'; }, 10)", Jump("/x", at_once=True)),
    ("when the page is loaded", "window.onload = () => { location.assign('/x') }", Jump("/x", at_once=True)),
    ("a function", "function go() { location.href = '/x'; }", Jump("/x", at_once=False)),
    ("a condition", "if (mobile) location.href = '/x';", Jump("/x", at_once=False)),
    ("a condition on the line before", "if (mobile)\n  location.href = '/x';", Jump("/x", at_once=False)),
    ("a condition with braces", "if (mobile) { location.href = '/x'; }", Jump("/x", at_once=False)),
    ("the one at once counts", "function a() { location = '/a'; }\nlocation = '/b';", Jump("/b", at_once=True)),
    ("a comparison", "if (location.href == '/x') f()", None),
    ("another name", "my.relocation = '/x'", None),
    ("a variable", "location.href = target", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected"), [pytest.param(code, jump, id=name) for name, code, jump in SCRIPTS]
)
def test_scripts_that_lead_away(code, expected):
    assert structure(page(f"<script>{code}</script>")).jump == expected


def test_data_is_no_script_and_a_long_script_is_read_in_part():
    assert not structure(page('<script type="application/ld+json">{}</script>')).has_scripts
    assert structure(page(f"<script>{' ' * 30_000}location = '/x'</script>")).jump is None


FIELDS = [
    ("<input type=password>", (True, False, 0)),
    ("<input name=username>", (False, True, 0)),
    ("<input type=email><textarea></textarea><select></select>", (False, True, 2)),
    ("<input type=search><input type=hidden name=user><input type=checkbox>", (False, False, 0)),
    ("<div style='display:none'><input type=password></div>", (False, False, 0)),
    ("<footer><input type=email></footer>", (False, False, 0)),
    ("<div id=loginModal><input type=password></div>", (False, False, 0)),
]


@pytest.mark.parametrize(("html", "expected"), FIELDS)
def test_fields_count_where_they_are_shown(html, expected):
    found = structure(page(html))

    assert (found.asks_password, found.asks_user, found.other_fields) == expected


MOUNTS = [
    ("<div id=root></div>", 0.0),
    ("<div id=app><nav>Much of a menu</nav><script>var a</script> Loading </div>", 1.0),
    ("<app-root><h1>Two words</h1></app-root>", 2.0),
    ("<div id=other></div>", None),
]


@pytest.mark.parametrize(("html", "expected"), MOUNTS)
def test_the_text_of_a_mount_node(html, expected):
    assert structure(page(html + "<p>a</p>")).mount_units == expected


def test_what_marks_a_challenge_and_what_does_not():
    passive = '<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script><script src="/_Incapsula_Resource?a"></script>'

    assert structure(page(passive)).challenge is None
    assert structure(page("<script>window._cf_chl_opt={}</script>")).challenge == "_cf_chl_opt"
    assert structure(page('<div id="px-captcha"></div>')).challenge == "px-captcha"
    assert (
        structure(page('<iframe src="/_Incapsula_Resource?a"></iframe>')).challenge == "_Incapsula_Resource"
    )
    assert structure(page('<div class="box g-recaptcha"></div>')).captcha
    assert not structure(page('<footer><div class="g-recaptcha"></div></footer>')).captcha


def test_an_address_that_is_set_like_code_is_no_sample():
    assert not structure(page("<p>Missing: <code>/old/page</code></p>")).has_samples
    assert structure(page("<p>Use <code>--force</code></p>")).has_samples


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "<div id='root'>", "</div>", "<h1>", "<input type='password'", ">", "<meta http-equiv='refresh' content='",
                "<script>location='", "</script>", "<noscript>", "<code>", "\ud800", "\0", "x ", "語", "<form", "<svg><title>",
                "<button>", "<iframe src=", "'", '"', "<!--", "{", "}",
            ]
        ),
        max_size=30,
    )
)  # fmt: skip
def test_any_page_gives_a_small_structure_that_travels(pieces):
    found = structure("".join(pieces))

    assert pickle.loads(pickle.dumps(found)) == found
    assert len(pickle.dumps(found)) < 20_000
