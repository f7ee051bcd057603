"""What a crawl is told about pages that were seen before, on every engine."""

from __future__ import annotations

import pytest

from scrapy_dedup.ledger import KnownPage, Sighting
from scrapy_dedup.ledger.seen import PageQuestion
from scrapy_dedup.records import Action, Conditions, Outcome, Validity

A, B, C = (f"http://site.example/{name}" for name in "abc")
LINKS = '{"format":1,"author":"_parse","links":[{"url":"http://site.example/b"}]}'


def ask(crawl, *questions):
    made = [PageQuestion(one, Conditions()) if isinstance(one, str) else one for one in questions]
    return crawl.writer.latest_pages(made).result(30)


def see(crawl, records, text, url=A, *, links=LINKS, known=None, **changes):
    seq = crawl.writer.next_seq()
    observation = records.observation(seq, url, crawl.job, **changes)
    made = records.text(text) if text is not None else None
    return crawl.writer.record(Sighting(observation, made, links=links, known=known)).result(30)


def test_the_latest_news_of_a_page_comes_with_its_links(crawl, records):
    first, second = crawl(), crawl("job-2")
    see(first, records, "Old text", links=None)
    latest = see(first, records, "New text", fetched_at="2026-02-01T00:00:00Z", etag='"x"')

    (page,) = ask(second, A)

    assert page.observation == latest.observation
    assert (page.links, page.extractor_id) == (LINKS, "x-1")
    assert page.fetched_us == 1_769_904_000_000_000
    assert not page.in_job
    assert ask(first, A)[0].in_job


def test_answers_come_in_the_order_of_the_questions_and_may_be_none(crawl, records):
    one = crawl()
    see(one, records, "Text of b", B)
    see(one, records, "Text of a", A)

    answers = ask(one, C, A, B, A)

    assert [page and page.observation.url for page in answers] == [None, A, B, A]
    assert ask(one) == []


UNEQUAL = {
    "another cookie partition": Conditions(cookie_partition="2"),
    "another language": Conditions(language="de"),
    "another renderer": Conditions(renderer="playwright"),
    "another method": Conditions(method="HEAD"),
}


@pytest.mark.parametrize("conditions", UNEQUAL.values(), ids=UNEQUAL.keys())
def test_other_conditions_say_nothing(crawl, records, conditions):
    one = crawl()
    mine = see(one, records, "Text")
    other = see(one, records, "Other text", conditions=conditions)

    assert ask(one, A)[0].observation == mine.observation
    assert ask(one, PageQuestion(A, conditions))[0].observation == other.observation


def test_another_corpus_says_nothing(crawl, records):
    see(crawl("theirs", corpus="theirs"), records, "Text")

    assert ask(crawl("mine", corpus="mine"), A) == [None]


NO_NEWS = {
    "a cached response": {"from_cache": True, "text": "Other text"},
    "a skip": {"outcome": Outcome.SKIPPED, "validity": None},
    "a 304 that nobody knows the page of": {"outcome": Outcome.NOT_MODIFIED, "validity": None},
}


@pytest.mark.parametrize("changes", NO_NEWS.values(), ids=NO_NEWS.keys())
def test_what_was_not_transferred_is_no_news(crawl, records, changes):
    one = crawl()
    seen = see(one, records, "Text")
    see(one, records, **{"text": None, **changes})

    assert ask(one, A)[0].observation == seen.observation


NEWS = {
    "a failure": {"outcome": Outcome.ERROR, "validity": None},
    "a page that is gone": {"outcome": Outcome.GONE, "validity": Validity.HTTP_ERROR},
    "a page that holds nothing": {"validity": Validity.EMPTY},
}


@pytest.mark.parametrize("changes", NEWS.values(), ids=NEWS.keys())
def test_a_failure_after_a_page_is_the_latest_news(crawl, records, changes):
    one = crawl()
    see(one, records, "Text")
    failed = see(one, records, None, **changes)

    assert ask(one, A)[0].observation == failed.observation


def test_a_304_stands_for_the_page_that_it_confirms(crawl, records, read):
    one = crawl()
    seen = see(one, records, "Text").observation
    known = KnownPage("not_modified", seen.observation_id, seen.body_id)

    confirmed = see(one, records, None, known=known, outcome=Outcome.NOT_MODIFIED, http_status=304)

    assert (confirmed.observation.action, confirmed.observation.reason) == (Action.REUSE, "not_modified")
    assert confirmed.observation.body_id == seen.body_id
    assert confirmed.observation.related_observation_id == seen.observation_id
    (page,) = ask(one, A)
    assert (page.observation, page.links, page.extractor_id) == (confirmed.observation, LINKS, "x-1")
    assert list(read().observations())[-1] == confirmed.observation
    assert read().check(deep=True) == []


def test_a_skip_refers_to_the_text_and_asks_for_nothing(crawl, records, read):
    one = crawl()
    seen = see(one, records, "Text").observation
    known = KnownPage("fresh", seen.observation_id, seen.body_id)

    skipped = see(one, records, None, known=known, links=None, outcome=Outcome.SKIPPED, validity=None)

    assert (skipped.observation.action, skipped.observation.reason) == (Action.NONE, "fresh")
    assert (skipped.observation.body_id, skipped.body_is_new) == (seen.body_id, False)
    assert list(read().observations())[-1] == skipped.observation


def test_a_change_after_a_304_is_a_revision_of_the_text(crawl, records):
    one = crawl()
    seen = see(one, records, "Text").observation
    known = KnownPage("not_modified", seen.observation_id, seen.body_id)
    see(one, records, None, known=known, outcome=Outcome.NOT_MODIFIED)

    changed = see(one, records, "Changed text").observation

    assert (changed.reason, changed.related_observation_id) == ("revision", seen.observation_id)


def redirected(crawl, url, key):
    crawl.note(url, key, rule="redirect", verdict="redirected")


def written(crawl):
    """Wait until the notes so far are durable: a question about their keys brings them along."""
    for key in (A, B, C):
        crawl.writer.variants(key).result(30)


def test_a_url_that_redirected_is_answered_with_its_target(crawl, records):
    first, second = crawl(), crawl("job-2")
    seen = see(first, records, "Text", B, redirect_urls=(A,))
    redirected(first, A, B)
    written(first)

    with_url, without = ask(second, PageQuestion(A, Conditions(), url=A), A)

    assert with_url.observation == seen.observation
    assert without is None


def test_a_redirect_that_is_older_than_the_page_says_nothing(crawl, records):
    """Who fetched the target since then did not ask the URL that led to it."""
    first, second = crawl(), crawl("job-2")
    redirected(first, A, B)
    see(first, records, "Text", B)
    written(first)
    see(second, records, "Text", B)

    assert ask(second, PageQuestion(A, Conditions(), url=A)) == [None]


def test_the_later_of_page_and_redirect_counts(crawl, records):
    first = crawl()
    see(first, records, "Text before the move", A)
    target = see(first, records, "Text", B)
    redirected(first, A, B)
    written(first)
    question = PageQuestion(A, Conditions(), url=A)
    assert ask(first, question)[0].observation == target.observation

    back = see(first, records, "Text after the move back", A)

    assert ask(first, question)[0].observation == back.observation


def test_links_may_come_after_the_observation(crawl, records):
    one = crawl()
    seen = see(one, records, "Text", links=None)
    assert ask(one, A)[0].links is None

    one.writer.add_links(seen.observation.seq, LINKS)

    assert ask(one, A)[0].links == LINKS
    assert ask(one, A)[0].observation == seen.observation


def test_links_that_come_at_the_end_are_written(crawl, records):
    with crawl() as one:
        pending = [one.submit(f"Text {number}", f"{A}?{number}") for number in range(150)]
        for number in range(150):
            one.writer.add_links(number, LINKS)
        assert len([future.result(30) for future in pending]) == 150

    found = ask(crawl("job-2"), *(f"{A}?{number}" for number in range(150)))

    assert {page.links for page in found} == {LINKS}


def test_equal_lists_are_stored_once(crawl, records, read):
    one = crawl()
    for number in range(5):
        see(one, records, f"Text {number}", f"{A}?{number}", links=LINKS if number else "[]")

    assert read()._connection.exec_driver_sql("select count(*) from link_set").scalar() == 2


def test_a_sighting_that_is_offered_again_is_what_it_was(crawl, records):
    one = crawl()
    seen = see(one, records, "Text").observation
    known = KnownPage("fresh", seen.observation_id, seen.body_id)
    skip = Sighting(records.observation(7, A, one.job, outcome=Outcome.SKIPPED), None, known=known)

    first, again = one.writer.record(skip).result(30), one.writer.record(skip).result(30)

    assert again.observation == first.observation
