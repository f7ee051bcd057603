"""What users of crawlers reported about lost and doubled pages, seen on one site that is crawled twice."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter

import pytest

from scrapy_dedup import Ledger
from scrapy_dedup.records import Action, ChangeKind, Outcome

from .server import Reply, Visit, mark, page, prose, redirect

SITE = "http://site.test"
COUNT = 25  # permalinks of one thread, dead links with one text, shells of one application

PERMALINKS = [f"/thread/entry-{number}" for number in range(COUNT)]
ANCHORS = [f"/thread#entry-{number}" for number in range(COUNT)]
DEAD = [f"/dead/{number}" for number in range(COUNT)]
SHELLS = [f"/app/view-{number}" for number in range(COUNT)]
LIST = [f"/news?page={number}" for number in range(2, 5)]
RELEASES = {
    "/release/a": "Release 3.1 fixes CVE-2024-1111.",
    "/release/b": "Release 4.2 fixes CVE-2025-2222.",
}
SHELL = b"<html><head><title>App</title></head><body><div id=root></div><script src=/a.js></script></body>"
SPANISH = (
    "El puente sobre el río está abierto todos los días de la semana. Los camiones pesados tienen que"
    " tomar el camino del molino, porque las barandillas todavía no están terminadas. El ayuntamiento espera"
    " que las obras terminen antes del invierno y que la fiesta se celebre en la plaza."
)


def canonical(target: str) -> str:
    return f'<link rel="canonical" href="{target}">'


def short(text: str) -> bytes:
    return f"<html><head><title>Notice</title></head><body><p>{text}</p></body></html>".encode()


def live(visit: Visit) -> bytes:
    """Return one article with what a site writes anew around it at each visit."""
    now = dt.datetime(2026, 7, 30, 10, 21, 5, tzinfo=dt.timezone.utc) + dt.timedelta(
        days=visit.count, seconds=visit.count
    )
    token = uuid.UUID(int=visit.count + 1)
    return page(
        "live",
        head=f'<meta name="csrf-token" content="{token}"><script>window.build = "{token}"</script>',
        extra=(
            f'<form><input type="hidden" name="csrf" value="{token}"></form>'
            f"<aside class='calendar'><p>{now:%d %b %Y calendar}</p></aside>"
            f"<footer><p>Built at {now:%Y-%m-%d %H:%M:%S} by worker {token}.</p></footer>"
        ),
    )


def routes() -> dict[str, object]:
    whole = "".join(f"<p>{sentence}</p>" for slug in ("guide", "rest") for sentence in prose(slug))
    other = ["/live", "/guide", "/es/guide", "/print", "/counted", "/news", *LIST, *RELEASES, "/elsewhere"]
    return {
        "/": page("index", [*PERMALINKS, "/thread", *ANCHORS, *DEAD, *SHELLS, *other]),
        **{link: redirect("/thread", 301) for link in PERMALINKS},
        "/thread": page("thread"),
        **{link: Reply(page("nothing here"), 404) for link in DEAD},
        **dict.fromkeys(SHELLS, SHELL),
        "/live": live,
        "/guide": page("guide"),
        "/es/guide": (
            f"<html lang='es'><head><title>Guía</title>{canonical('/guide')}</head><body><main><article>"
            f"<h1>El puente</h1><p>{SPANISH}</p></article></main></body></html>"
        ).encode(),
        "/print": f"<html lang='en'><head>{canonical('/guide')}</head><body><main>{whole}</main>".encode(),
        "/counted": page("guide", head=canonical("/guide")).replace(
            b"</article>", b"<p>This guide was read by 1234 people since it was written.</p></article>"
        ),
        "/news": page("news 1", ["/behind/1"]),
        **{link: page(f"news {link[-1]}", [f"/behind/{link[-1]}"], head=canonical("/news")) for link in LIST},
        **{f"/behind/{number}": page(f"behind {number}") for number in range(1, 5)},
        **{link: short(text) for link, text in RELEASES.items()},
        "/elsewhere": page("elsewhere", head=canonical("http://owner.example/policy")),
    }


@pytest.fixture(scope="module")
def crawled(serve, crawl):
    """Crawl the site twice into one ledger; return the last crawl and the URLs that the first requested."""
    server = serve(routes())
    settings = {"DEDUP_JOB_ID": "one"}
    first = crawl(start=[f"{SITE}/"], proxy=server, settings=settings)
    urls = server.site.urls()
    second = crawl(
        start=[f"{SITE}/"], proxy=server, folder=first.folder, settings=settings | {"DEDUP_JOB_ID": "two"}
    )
    assert (first.exit_code, second.exit_code) == (0, 0)
    return second, urls


@pytest.fixture(scope="module")
def first_job(crawled):
    """Return the observations of the first job by the path and query that was requested."""
    rows = [row for row in crawled[0].ledger.observations if row.job_id == "one"]
    return {row.request_url.removeprefix(SITE): row for row in rows}


def test_many_permalinks_of_one_page_are_one_fetch_one_text_and_stay_known(crawled):
    done, urls = crawled
    asked = Counter(urls)

    assert {asked[SITE + link] for link in PERMALINKS} == {1}
    assert asked[f"{SITE}/thread"] == 1
    assert len(done.ledger.bodies_of("thread")) == 1
    known = {alias.raw_url for alias in done.ledger.aliases}
    for row in done.ledger.observations_of("thread"):
        known |= {row.request_url, *row.redirect_urls}
    assert {SITE + link for link in PERMALINKS} <= known


def test_dead_links_with_one_text_are_told_one_by_one_with_their_status(crawled, first_job):
    assert [(first_job[link].outcome, first_job[link].http_status) for link in DEAD] == [
        (Outcome.GONE, 404)
    ] * COUNT
    assert crawled[0].ledger.bodies_of("nothing here") == []


def test_shells_without_text_are_equal_to_nothing(first_job):
    found = {(first_job[link].validity, first_job[link].action, first_job[link].body_id) for link in SHELLS}
    assert found == {("js_required", Action.REVIEW, None)}


def test_what_is_written_anew_at_each_visit_changes_no_page(crawled):
    done, _ = crawled
    rows = done.ledger.at("/live")

    assert len({row.payload_digest for row in rows}) == 2
    assert len({row.body_id for row in rows}) == 1
    with Ledger.open(f"sqlite:///{done.ledger_path}") as ledger:
        kinds = {record.url_key.removeprefix(SITE): record.kind for record in ledger.changes(job_id="two")}
    assert kinds["/live"] is ChangeKind.UNCHANGED


# page that declares another one: what its claim is worth
CLAIMS = {
    "/es/guide": ("refuted", "other_language"),
    "/print": ("refuted", "text_differs"),
    "/counted": ("unresolved", "contained"),
    **dict.fromkeys(LIST, ("refuted", "first_page_of_series")),
    "/elsewhere": ("unresolved", "off_site"),
}


@pytest.mark.parametrize(("link", "worth"), CLAIMS.items())
def test_a_page_of_its_own_keeps_its_text_whatever_it_declares(first_job, link, worth):
    row = first_job[link]

    assert (row.action, row.reason) == (Action.KEEP, "new_text")
    assert (row.canonical["status"], row.canonical["reason"]) == worth
    assert row.document_url == SITE + link


def test_the_links_of_later_pages_of_a_list_are_followed(crawled):
    for number in range(1, 5):
        assert len(crawled[0].ledger.bodies_of(f"behind {number}")) == 1


def test_a_longer_page_that_holds_another_one_is_kept_whole(crawled, first_job):
    texts = {body.body_id: body.text for body in crawled[0].ledger.bodies}

    assert all(mark(slug) in texts[first_job["/print"].body_id] for slug in ("guide", "rest"))
    assert mark("rest") not in texts[first_job["/guide"].body_id]


def test_short_texts_that_differ_in_their_numbers_are_two(crawled, first_job):
    texts = {body.body_id: body.text for body in crawled[0].ledger.bodies}
    for link, text in RELEASES.items():
        assert text in texts[first_job[link].body_id]
