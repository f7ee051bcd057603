"""What pages declare to be their canonical, read from trees and headers, and the table that judges it."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_dedup.content import canonical as module
from scrapy_dedup.content.canonical import (
    CLAIM_RULES,
    MANY,
    RULES,
    Declaration,
    Evidence,
    Route,
    Stated,
    claim_of,
    judge_canonical,
    resolve,
    stub_claim,
)
from scrapy_dedup.content.declarations import declarations, is_noindex_header, link_headers, links_of
from scrapy_dedup.content.page import parse
from scrapy_dedup.urls import UrlPolicy

PAGE = "https://site.example/a"
OTHER = "https://site.example/b"
POLICY = UrlPolicy.preset("standard")


def key_of(url: str) -> str:
    return POLICY.decide(url).key


def declared(html: str, *, page: str = PAGE, headers: tuple[str, ...] = ()) -> tuple[Declaration, ...]:
    found = declarations(parse(html))
    stated = [*link_headers(headers, lambda anchor: not anchor), *found.stated]
    return resolve(stated, page, found.base)


def in_head(markup: str) -> str:
    return f"<html><head><title>t</title>{markup}</head><body><p>Words.</p></body></html>"


def in_body(markup: str) -> str:
    return f"<html><head><title>t</title></head><body>{markup}<p>Words.</p></body></html>"


def link(href: str, rel: str = "canonical") -> str:
    return f'<link rel="{rel}" href="{href}">'


OG_OTHER = f'<meta property="og:url" content="{OTHER}">'


# -- what is a declaration

READ = [
    ("a link in the head", in_head(link(OTHER)), [("link", OTHER, True)]),
    ("rel in capitals", in_head(link("/b", "CANONICAL")), [("link", OTHER, True)]),
    ("rel with several tokens", in_head(link("/b", "shortlink Canonical")), [("link", OTHER, True)]),
    ("rel that only begins so", in_head(link("/b", "canonical-like")), []),
    ("a capital I with a dot is another letter", in_head(link("/b", "canon\u0130cal")), []),
    ("a link in the body", in_body(link("/b")), [("link", OTHER, False)]),
    ("behind an image in the head", in_head('<img src="x.gif">' + link("/b")), [("link", OTHER, False)]),
    ("behind text in the head", in_head("Hello" + link("/b")), [("link", OTHER, False)]),
    (
        "behind an image in noscript",
        in_head('<noscript><img src="x.gif"></noscript>' + link("/b")),
        [("link", OTHER, True)],
    ),
    ("in a comment", in_head(f"<!-- {link('/b')} -->"), []),
    ("in a template", in_head(f"<template>{link('/b')}</template>"), []),
    ("in a script", in_head(f"<script>var x = '{link('/b')}';</script>"), []),
    ("a meta that is called canonical", in_head('<meta property="canonical" content="/b">'), []),
    ("content in the place of href", in_head('<link rel="canonical" content="/b">'), []),
    ("an empty href", in_head(link("")), [("link", None, True)]),
    ("only a fragment", in_head(link("#top")), [("link", None, True)]),
    ("no web page", in_head(link("javascript:void(0)")), [("link", None, True)]),
    ("another scheme", in_head(link("ftp://site.example/b")), [("link", None, True)]),
    ("no host", in_head(link("https://")), [("link", None, True)]),
    ("a broken host", in_head(link("http://[::1")), [("link", None, True)]),
    ("the author's own machine", in_head(link("http://localhost:8000/b")), [("link", None, True)]),
    ("a private address", in_head(link("http://192.168.0.7/b")), [("link", None, True)]),
    ("credentials", in_head(link("https://me:secret@site.example/b")), [("link", None, True)]),
    ("a forgotten scheme", in_head(link("site.example/b")), [("link", None, True)]),
    ("a forgotten slash", in_head(link("docs/b.html")), [("link", None, True)]),
    ("too long", in_head(link("/" + "x" * 2_000)), [("link", None, True)]),
    ("beside the page", in_head(link("b")), [("link", OTHER, True)]),
    ("a folder up", in_head(link("../b")), [("link", OTHER, True)]),
    ("spaces and line ends", in_head(link(" \n/b\t")), [("link", OTHER, True)]),
    (
        "a base counts, the first one",
        in_head('<base href="/x/"><base href="/y/">' + link("b")),
        [("link", "https://site.example/x/b", True)],
    ),
    ("a base in the body does not count", in_body('<base href="/x/">' + link("b")), [("link", OTHER, False)]),
    (
        "with a base a folder is meant",
        in_head('<base href="/">' + link("x/b")),
        [("link", "https://site.example/x/b", True)],
    ),
    (
        "two links",
        in_head(link("/b") + link("/c")),
        [("link", OTHER, True), ("link", "https://site.example/c", True)],
    ),
    ("the same link twice", in_head(link("/b") + link("/b")), [("link", OTHER, True)]),
    ("og:url", in_head(OG_OTHER), [("meta:og:url", OTHER, True)]),
    (
        "the main entity of JSON-LD",
        in_head(
            '<script type="application/ld+json">'
            '{"@type": "Article", "mainEntityOfPage": {"@id": "/b"}, "url": "/c"}</script>'
        ),
        [("json-ld:mainEntityOfPage", OTHER, True), ("json-ld:url", "https://site.example/c", True)],
    ),
    (
        "JSON-LD of something else",
        in_head('<script type="application/ld+json">{"@type": "Organization", "url": "/c"}</script>'),
        [],
    ),
    ("JSON-LD that is none", in_head('<script type="application/ld+json">{"@type": </script>'), []),
    ("a refresh is for another table", in_head('<meta http-equiv="refresh" content="0; url=/b">'), []),
]


@pytest.mark.parametrize(("html", "expected"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_what_a_page_declares(html, expected):
    assert [(item.source, item.resolved, item.in_head) for item in declared(html)] == expected


def test_what_was_written_is_kept_without_passwords_and_without_its_length():
    raws = [item.raw for item in declared(in_head(link("https://me:secret@h/b") + link("/" + "x" * 9_000)))]
    assert raws[0] == "https://***@h/b"
    assert len(raws[1]) == 500


def test_of_a_flood_of_declarations_some_are_kept_and_links_are_not_pushed_out():
    nodes = ",".join(f'{{"@type": "Article", "url": "/{number}"}}' for number in range(500))
    links = "".join(link(f"/{number}") for number in range(500))
    html = in_head(f'<script type="application/ld+json">[{nodes}]</script>{links}')
    sources = [item.source for item in declared(html)]
    assert (sources.count("link"), sources.count("json-ld:url")) == (10, 10)


def test_a_page_on_a_private_host_may_name_one():
    page = "http://127.0.0.1:8000/a"
    (found,) = declared(in_head(link("http://127.0.0.1:8000/b")), page=page)
    assert found.resolved == "http://127.0.0.1:8000/b"


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<meta name="robots" content="noindex, follow">', True),
        ('<META NAME="Robots" CONTENT="NONE">', True),
        ('<meta name="robots" content="index, nofollow">', False),
        ('<meta name="description" content="noindex">', False),
    ],
)
def test_noindex_of_a_page(markup, expected):
    assert declarations(parse(in_head(markup))).noindex is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["noindex"], True),
        (["nofollow", "NOINDEX, noarchive"], True),
        (["none"], True),
        (["somebot: noindex, nofollow"], False),
        (["nofollow, unavailable_after: 25 Jun 2010, noindex"], False),
        ([], False),
    ],
    ids=str,
)
def test_noindex_of_a_header(values, expected):
    assert is_noindex_header(values) is expected


# -- RFC 8288

HEADERS = [
    ("one link", ['<https://site.example/b>; rel="canonical"'], [OTHER]),
    ("no quotes", ["</b>;rel=canonical"], [OTHER]),
    ("beside another link", [f'<{PAGE}>; rel=shortlink, </b>; rel="canonical"'], [OTHER]),
    ("several relations", ['</b>; rel="next CANONICAL"'], [OTHER]),
    ("only the first rel counts", ['</b>; rel="next"; rel="canonical"'], []),
    (
        "a comma and a bracket in a title",
        ['</x>; title="a, <y>; rel=canonical"; rel=prev, </b>; rel=canonical'],
        [OTHER],
    ),
    (
        "an escaped quote",
        ['</x>; title="\\", <y>; rel=\\"canonical"; rel=prev, </b>; rel=canonical'],
        [OTHER],
    ),
    ("several headers", ["</c>; rel=prev", "</b>; rel=canonical"], [OTHER]),
    ("about another resource", ['</b>; rel=canonical; anchor="/c"'], []),
    ("about the page itself", ['</b>; rel=canonical; anchor=""'], [OTHER]),
    ("rel only in another parameter", ['</b>; title="rel=canonical"'], []),
    ("no end of the target", ["</b; rel=canonical"], []),
    ("no end of the quotes", ['</b>; rel="canonical'], []),
    ("blanks everywhere", [" < /b > ; rel = canonical , "], [OTHER]),
    ("a parameter without a value", ["</b>; async; rel=canonical"], [OTHER]),
    ("extended rel is another parameter", ["</b>; rel*=UTF-8''canonical"], []),
]


@pytest.mark.parametrize(
    ("values", "expected"), [row[1:] for row in HEADERS], ids=[row[0] for row in HEADERS]
)
def test_canonicals_of_link_headers(values, expected):
    found = link_headers(values, lambda anchor: not anchor)
    assert [item.resolved for item in resolve(list(found), PAGE, None)] == expected


def test_a_header_does_not_know_the_base_of_the_page():
    (found,) = declared(in_head('<base href="/x/">'), headers=("<b>; rel=canonical",))
    assert (found.source, found.resolved, found.in_head) == ("header:link", OTHER, True)


@given(st.text(alphabet='<>;,="\\ abrelcanonical/', max_size=300))
def test_no_header_stops_the_parser(value):
    assert all(isinstance(found.target, str) for found in links_of(value))


@pytest.mark.parametrize("part", ['<a>;b="', '<a>;"', '<a>;b="\\', "<", ";" * 50, ' <a> ;rel= "x'])
def test_a_hostile_header_takes_no_time(part):
    started = time.perf_counter()
    links_of(part * 100_000)
    assert time.perf_counter() - started < 1


# -- what the declarations of a page claim

CLAIMED = [
    ("nothing", "", (), None),
    ("itself", link(PAGE), (), ("confirmed", "self")),
    ("itself, relative", link("/a"), (), ("confirmed", "self")),
    ("itself with a tracker", link("/a?utm_source=x"), (), ("confirmed", "self")),
    ("itself in another spelling", link("HTTPS://Site.example:443/./%61#top"), (), ("confirmed", "self")),
    ("itself twice, in two spellings", link("/a") + link(PAGE + "#x"), (), ("confirmed", "self")),
    (
        "itself in a header beside a shortlink",
        "",
        ("</?p=1>; rel=shortlink, </a>; rel=canonical",),
        ("confirmed", "self"),
    ),
    ("itself on other services", f'<meta property="og:url" content="{PAGE}">', (), ("confirmed", "self")),
    ("another page", link(OTHER), (), ("unresolved", "target_unknown")),
    ("another page in a header", "", (f"<{OTHER}>; rel=canonical",), ("unresolved", "target_unknown")),
    (
        "one page in link and header",
        link(OTHER),
        (f"<{OTHER}>; rel=canonical",),
        ("unresolved", "target_unknown"),
    ),
    ("another name on other services beside itself", link(PAGE) + OG_OTHER, (), ("confirmed", "self")),
    ("two pages", link("/b") + link("/c"), (), ("refuted", "conflict")),
    ("itself and another page", link("/a") + link("/b"), (), ("refuted", "conflict")),
    ("link and header disagree", link("/b"), ("</c>; rel=canonical",), ("refuted", "conflict")),
    ("only in the body", "<img src=x>" + link("/b"), (), ("refuted", "only_in_body")),
    ("only on other services", OG_OTHER, (), ("unresolved", "weak")),
    ("nothing that could be looked up", link("#"), (), ("refuted", "malformed")),
    ("a port that is none", link("https://site.example:PORT/a"), (), ("refuted", "malformed")),
    ("a port out of range", link("//site.example:99999/a"), (), ("refuted", "malformed")),
    ("the homepage", link("/"), (), ("refuted", "homepage")),
    ("another site", link("https://other.example/a"), (), ("unresolved", "off_site")),
    ("another host of the site", link("https://www.site.example/a"), (), ("unresolved", "target_unknown")),
    ("a scheme apart", link("http://site.example/a"), (), ("unresolved", "target_unknown")),
]


@pytest.mark.parametrize(
    ("markup", "headers", "expected"), [row[1:] for row in CLAIMED], ids=[row[0] for row in CLAIMED]
)
def test_what_a_page_claims(markup, headers, expected):
    claim = claim_of(declared(in_head(markup), headers=headers), PAGE, key_of(PAGE), key_of)
    assert (claim and (claim.verdict.state.value, claim.verdict.reason)) == expected


@pytest.mark.parametrize("markup", [link("/b"), link("/"), link("https://other.example/a")])
def test_only_a_claim_to_one_other_page_makes_a_relation(markup):
    claim = claim_of(declared(in_head(markup)), PAGE, key_of(PAGE), key_of)
    assert claim.target_key == key_of(claim.target)


@pytest.mark.parametrize("markup", [link("/a"), link("/b") + link("/c"), OG_OTHER, link("#")])
def test_what_is_no_claim_makes_none(markup):
    assert claim_of(declared(in_head(markup)), PAGE, key_of(PAGE), key_of).target_key is None


def test_a_page_that_only_sends_on_says_where():
    claim = stub_claim(f"{OTHER}?utm_source=x", key_of)
    assert (claim.verdict.state.value, claim.verdict.reason) == ("unresolved", "redirect_stub")
    assert claim.target_key == OTHER


# -- the decision table

LONG = " ".join(f"word{number} and thing{number}" for number in range(200))
SAME = "The bridge over the river is open from six to ten on all days of the week."


def evidence(url: str = PAGE, text: str | None = SAME, **changes) -> Evidence:
    digest = None if text is None else hashlib.sha256(" ".join(text.lower().split()).encode()).hexdigest()
    made = Evidence(url, key_of(url), text=text, normalized_digest=digest, language="en", comparable="x-1")
    return replace(made, **changes)


def judged(page: Evidence, target: Evidence | None, declared_url: str | None = None, **changes):
    url = declared_url or (target.url if target else OTHER)
    texts = changes.pop("texts_for_target", 1)
    return judge_canonical(page, target, Route(url, key_of(url), **changes), texts_for_target=texts)


def at(url: str, text: str | None = SAME, **changes) -> Evidence:
    return evidence(url, text, **changes)


V1, V2 = "https://site.example/1.2/a", "https://site.example/1.3/a"
ROOT = "https://site.example/"
OTHER_TEXT = "Something else altogether stands on this page, of which nothing stands on the other one."

JUDGED = [
    ("equal texts", evidence(), at(OTHER), {}, "confirmed", "text_equal"),
    (
        "equal but for case and spaces",
        evidence(text="A  Text"),
        at(OTHER, "a text"),
        {},
        "confirmed",
        "text_equal",
    ),
    ("nothing seen", evidence(), None, {}, "unresolved", "target_unknown"),
    ("seen, but its text is not kept", evidence(), at(OTHER, None), {}, "unresolved", "target_unknown"),
    (
        "texts of two extractors",
        evidence(),
        at(OTHER, OTHER_TEXT, comparable="x-2"),
        {},
        "unresolved",
        "target_unknown",
    ),
    ("other text", evidence(), at(OTHER, OTHER_TEXT), {}, "refuted", "text_differs"),
    ("not found", evidence(), at(OTHER, None, problem="http_404"), {}, "refuted", "broken"),
    ("gone", evidence(), at(OTHER, None, problem="http_410"), {}, "refuted", "broken"),
    ("a server error", evidence(), at(OTHER, None, problem="http_500"), {}, "refuted", "broken"),
    ("a challenge", evidence(), at(OTHER, None, problem="blocked"), {}, "refuted", "broken"),
    ("not for the index", evidence(), at(OTHER, noindex=True), {}, "refuted", "broken"),
    ("neither for the index", evidence(noindex=True), at(OTHER, noindex=True), {}, "confirmed", "text_equal"),
    ("other language", evidence(language="ja"), at(OTHER), {}, "refuted", "other_language"),
    (
        "another region",
        evidence(language="en-GB"),
        at(OTHER, language="en-US"),
        {},
        "confirmed",
        "text_equal",
    ),
    (
        "another script",
        evidence(language="zh-Hant"),
        at(OTHER, language="zh-Hans"),
        {},
        "refuted",
        "other_language",
    ),
    (
        "one text that is declared in two languages",
        evidence(declared_language="es"),
        at(OTHER, declared_language="en_US"),
        {},
        "refuted",
        "other_language",
    ),
    ("language unknown", evidence(language=None), at(OTHER), {}, "confirmed", "text_equal"),
    (
        "language in the folder",
        at("https://site.example/es/a"),
        at(PAGE, OTHER_TEXT),
        {},
        "refuted",
        "other_language",
    ),
    (
        "language in a parameter",
        at(PAGE + "?tl=ja"),
        at("https://site.example/b", OTHER_TEXT),
        {},
        "refuted",
        "other_language",
    ),
    ("one text in two versions", at(V1), at(V2), {}, "unresolved", "other_version"),
    ("other text in another version", at(V1), at(V2, OTHER_TEXT), {}, "refuted", "text_differs"),
    ("most text in another version", at(V1, LONG), at(V2, LONG + " " + SAME), {}, "refuted", "text_differs"),
    ("a version and none", at(V1), at(PAGE), {}, "confirmed", "text_equal"),
    ("a channel and a version", at("https://site.example/edge/a"), at(V2), {}, "confirmed", "text_equal"),
    (
        "years are no versions",
        at("https://site.example/2023/a"),
        at("https://site.example/2024/a"),
        {},
        "confirmed",
        "text_equal",
    ),
    (
        "one version number apart",
        evidence(text="Version 1.2 of it. " + SAME),
        at(OTHER, "Version 1.3 of it. " + SAME),
        {},
        "unresolved",
        "other_version",
    ),
    (
        "major versions apart",
        evidence(text="For version 2: " + SAME),
        at(OTHER, "For version 3: " + SAME),
        {},
        "unresolved",
        "other_version",
    ),
    (
        "prices are no versions",
        evidence(text="It costs 10 euro"),
        at(OTHER, "It costs 12 euro"),
        {},
        "refuted",
        "text_differs",
    ),
    (
        "versions that declare each other",
        evidence(text="Version 1.2 of it. " + SAME),
        at(OTHER, "Version 1.3 of it. " + SAME),
        {"back": True, "hops": ("canonical",)},
        "unresolved",
        "other_version",
    ),
    (
        "pages that declare each other",
        evidence(),
        at(OTHER),
        {"back": True, "hops": ("canonical",)},
        "refuted",
        "loop",
    ),
    ("a long way", evidence(), at(OTHER), {"too_long": True, "hops": ("canonical",) * 4}, "refuted", "loop"),
    (
        "redirects back to the page",
        evidence(),
        evidence(),
        {"declared_url": OTHER, "hops": ("redirect",)},
        "confirmed",
        "self",
    ),
    (
        "a stub that sends back to the page",
        evidence(),
        evidence(),
        {"declared_url": OTHER, "hops": ("redirect_stub",)},
        "confirmed",
        "self",
    ),
    (
        "a stub that sends elsewhere",
        at(V1),
        at(V2),
        {"declared_url": OTHER, "hops": ("redirect_stub",)},
        "unresolved",
        "other_version",
    ),
    (
        "prose that the text lacks",
        evidence(residual_digest="1"),
        at(OTHER, residual_digest="2"),
        {},
        "unresolved",
        "residual_differs",
    ),
    (
        "another site, not seen",
        evidence(),
        None,
        {"declared_url": "https://other.example/b"},
        "unresolved",
        "off_site",
    ),
    ("another site, equal text", evidence(), at("https://other.example/b"), {}, "unresolved", "off_site"),
    (
        "another site, other text",
        evidence(),
        at("https://other.example/b", OTHER_TEXT),
        {},
        "refuted",
        "text_differs",
    ),
    (
        "two users of one service",
        at("https://a.github.io/b"),
        at("https://c.github.io/b"),
        {},
        "unresolved",
        "off_site",
    ),
    ("two hosts of a site", evidence(), at("https://www.site.example/a"), {}, "confirmed", "text_equal"),
    ("the homepage, not seen", evidence(), None, {"declared_url": ROOT}, "refuted", "homepage"),
    ("the homepage, other text", evidence(), at(ROOT, OTHER_TEXT), {}, "refuted", "homepage"),
    ("the homepage under its file name", at(ROOT + "index.html"), at(ROOT), {}, "confirmed", "text_equal"),
    (
        "page 2 of a list",
        at(PAGE + "?page=2"),
        None,
        {"declared_url": PAGE},
        "refuted",
        "first_page_of_series",
    ),
    (
        "page 2 of a list, seen",
        at(PAGE + "?page=2"),
        at(PAGE, OTHER_TEXT),
        {},
        "refuted",
        "first_page_of_series",
    ),
    (
        "page 2 as a folder",
        at(PAGE + "/page/2/"),
        at(PAGE, OTHER_TEXT),
        {},
        "refuted",
        "first_page_of_series",
    ),
    ("page 1 of a list", at(PAGE + "?page=1"), at(PAGE), {}, "confirmed", "text_equal"),
    (
        "all pages of a list",
        at(PAGE + "?page=2"),
        None,
        {"declared_url": PAGE + "?view=all"},
        "unresolved",
        "target_unknown",
    ),
    ("a parameter less", at(PAGE + "?brand=x"), at(PAGE, OTHER_TEXT), {}, "refuted", "dropped_parameter"),
    (
        "a parameter less, not seen",
        at(PAGE + "?brand=x"),
        None,
        {"declared_url": PAGE},
        "unresolved",
        "target_unknown",
    ),
    ("a parameter less that says nothing", at(PAGE + "?brand=x"), at(PAGE), {}, "confirmed", "text_equal"),
    ("one of many", evidence(), None, {"texts_for_target": MANY}, "refuted", "many_to_one"),
    (
        "one of many, seen",
        evidence(),
        at(OTHER, OTHER_TEXT),
        {"texts_for_target": MANY},
        "refuted",
        "many_to_one",
    ),
    (
        "one of many that is the target's text",
        evidence(),
        at(OTHER),
        {"texts_for_target": MANY},
        "confirmed",
        "text_equal",
    ),
    ("one of some", evidence(), None, {"texts_for_target": MANY - 1}, "unresolved", "target_unknown"),
    (
        "a part of the target",
        evidence(text=LONG),
        at(OTHER, LONG + " " + LONG.upper() + SAME),
        {},
        "confirmed",
        "contained",
    ),
    (
        "a part of the target but for a number",
        evidence(text=f"It costs 30 euros in all. {LONG}"),
        at(OTHER, f"It costs 35 euros in all. {LONG} {SAME}"),
        {},
        "refuted",
        "claim_changed",
    ),
    (
        "a part of the target beside a passage of its own",
        evidence(text=f"{LONG} This passage was added here and stands nowhere else."),
        at(OTHER, LONG),
        {},
        "unresolved",
        "contained",
    ),
    (
        "a part of a target that is too long to be read",
        evidence(text=LONG),
        at(OTHER, LONG + " more of it" * 20_000),
        {},
        "unresolved",
        "contained",
    ),
    (
        "the target is a part",
        evidence(text=LONG + " ".join(f"other{n} new{n}" for n in range(200))),
        at(OTHER, LONG),
        {},
        "refuted",
        "text_differs",
    ),
]


@pytest.mark.parametrize(
    ("page", "target", "route", "state", "reason"),
    [row[1:] for row in JUDGED],
    ids=[row[0] for row in JUDGED],
)
def test_the_decision_table(page, target, route, state, reason):
    verdict = judged(page, target, **route)
    assert (verdict.state.value, verdict.reason) == (state, reason)


def test_every_reason_has_its_row():

    source = Path(module.__file__).read_text(encoding="utf-8")
    reasons = set(re.findall(r'(?:confirmed|refuted|unresolved)\(\s*"(\w+)"', source))
    tested = {row[-1] for row in JUDGED} | {row[-1][1] for row in CLAIMED if row[-1]} | {"redirect_stub"}
    assert len(reasons) >= 19
    assert reasons == tested
    assert len(RULES) + len(CLAIM_RULES) >= len(reasons)


def test_the_readme_names_every_reason_under_its_states():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## Canonicals")[2].partition("## Records")[0]
    named = {
        (status, reason)
        for status, reasons in re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE)
        for reason in re.findall(r"`(\w+)`", reasons)
    }
    claimed = {row[-1] for row in CLAIMED if row[-1]}
    assert named == {row[-2:] for row in JUDGED} | claimed | {("unresolved", "redirect_stub")}


def test_a_verdict_says_what_it_rests_on():
    verdict = judged(evidence(text=LONG), at(OTHER, LONG + " " + SAME), hops=("redirect",))
    assert verdict.measures["verdict"] in ("contains", "edited")
    assert verdict.measures["judged_url"] == OTHER
    assert verdict.measures["hops"] == ["redirect"]
    assert verdict.measures["text_equal"] is False
    (reason,) = verdict.reasons
    assert (reason.code, reason.threshold) == ("contained", 0.9)
    assert reason.value == verdict.measures["page_in_target"] == 1.0


urls = st.sampled_from(
    [PAGE, OTHER, V1, V2, ROOT, PAGE + "?page=2", "https://other.example/b", "https://site.example/es/a"]
)
texts = st.sampled_from([None, SAME, OTHER_TEXT, LONG, "Version 1.2. " + SAME, "Version 1.3. " + SAME])
pages = st.builds(
    evidence,
    urls,
    texts,
    language=st.sampled_from([None, "en", "de"]),
    noindex=st.booleans(),
    residual_digest=st.sampled_from([None, "1"]),
    comparable=st.sampled_from(["x-1", "x-2"]),
)
routes = st.builds(
    Route,
    urls,
    urls,
    hops=st.lists(st.sampled_from(["redirect", "redirect_stub", "canonical"]), max_size=4).map(tuple),
    back=st.booleans(),
    too_long=st.booleans(),
)


@settings(deadline=None)  # the first one loads numpy
@given(pages, st.none() | pages, routes, st.integers(0, 20))
def test_only_equal_texts_are_ever_confirmed(page, target, route, count):
    verdict = judge_canonical(page, target, route, texts_for_target=count)
    if verdict.state.value == "confirmed" and verdict.reason != "self":
        assert target.normalized_digest is not None
        assert page.normalized_digest == target.normalized_digest
        assert None in (page.language, target.language) or page.language == target.language
        assert page.residual_digest == target.residual_digest
    if verdict.reason == "self":
        assert page.url_key == target.url_key


def test_what_a_page_declares_is_stated_once_for_equal_bytes():
    found = declarations(parse(in_head(link("b"))))
    assert found.stated == (Stated("link", "b"),)
    there = resolve(found.stated, "https://site.example/x/y", found.base)
    assert there[0].resolved == "https://site.example/x/b"
