"""Plans: by reference count, nothing twice, nothing because a page failed, and no mass delete in silence."""

from __future__ import annotations

import pytest

from scrapy_dedup.errors import DedupError, LedgerUnavailable
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.plans import confirm_plan
from scrapy_dedup.records import Sourced

from ..ledger.test_schemas import validate
from .conftest import GONE, SITE, TIMEOUT
from .test_live import PREAMBLE, paragraph

X, H, Y = (paragraph(number) for number in (1, 2, 3))
SIZE = {"size": 900}


def joined(*parts: str) -> str:
    return "\n\n".join(parts)


def codes(record) -> list[str]:
    return [reason.code for reason in record.because]


def test_a_text_goes_with_its_last_owner_and_once(site):
    site.crawl({"/a": joined(X, H), "/b": joined(Y, H)})
    first = site.plan(apply=True, **SIZE)
    assert {text: codes(one) for text, one in first.upserts.items()} == {X: ["new"], H: ["new"], Y: ["new"]}
    assert not any(one.reuse_embedding for one in first.upserts.values())

    site.crawl({"/a": GONE})
    second = site.plan(apply=True, **SIZE)
    assert [one.id for one in second.deletes] == [first.upserts[X].id]
    assert [(reason.code, reason.value) for reason in second.deletes[0].because] == [("gone", SITE + "/a")]
    assert [(one.id, codes(one), one.reuse_embedding) for one in second.upserts.values()] == [
        (first.upserts[H].id, ["sources_changed"], True)
    ]
    assert [one.id for one in second.keeps] == [first.upserts[Y].id]

    site.crawl({"/b": GONE})
    third = site.plan(apply=True, **SIZE)
    assert {one.id for one in third.deletes} == {first.upserts[H].id, first.upserts[Y].id}
    assert site.plan(**SIZE).records == []


def test_a_page_that_timed_out_or_was_not_visited_deletes_nothing(site):
    site.crawl({"/a": X, "/b": Y})
    site.plan(apply=True)
    site.crawl({"/a": TIMEOUT})
    assert site.plan().counts.is_empty


def test_another_spelling_of_the_same_url_changes_nothing(site):
    """Which spelling a crawl comes to first may change each time; a confirmed canonical goes before all."""
    site.crawl({"/a": X})
    site.plan(apply=True)
    site.crawl({"/a/?sid=7": (X, {"url_key": SITE + "/a"})})

    plan = site.plan()

    assert plan.counts.is_empty
    assert [source.url for source in plan.keeps[0].sources] == [SITE + "/a"]


def test_a_page_that_is_back_is_upserted_without_embedding_it_again(site):
    site.crawl({"/a": X})
    first = site.plan(apply=True)
    site.crawl({"/a": GONE})
    site.plan(apply=True)
    site.crawl({"/a": X})
    (back,) = site.plan(apply=True).records
    assert (back.op.value, codes(back), back.reuse_embedding) == ("upsert", ["returned"], True)
    assert (back.id, back.embed_key) == (first.records[0].id, first.records[0].embed_key)


def test_a_plan_that_was_applied_leaves_nothing_and_one_that_was_not_comes_again(site):
    site.crawl({"/a": joined(X, H), "/b": Y})
    first = site.plan()
    again = site.plan()
    assert (again.id, again.records) == (first.id, first.records)
    confirm_plan(site.url, "default", "default", first.id)
    nothing = site.plan()
    assert nothing.counts.is_empty
    assert {one.op.value for one in nothing.records} == {"keep"}


def test_a_plan_that_was_replaced_cannot_be_confirmed_and_the_later_one_contains_it(site):
    site.crawl({"/a": X})
    first = site.plan()
    site.crawl({"/b": Y})
    second = site.plan()
    assert first.upserts.keys() < second.upserts.keys()
    with pytest.raises(DedupError, match=f"is unknown or was replaced by {second.id}"):
        confirm_plan(site.url, "default", "default", first.id)
    assert confirm_plan(site.url, "default", "default", second.id)
    assert not confirm_plan(site.url, "default", "default", second.id)
    with pytest.raises(DedupError, match="none waits"):
        confirm_plan(site.url, "default", "default", first.id)
    with pytest.raises(DedupError, match="no plan was made for the index 'other'"):
        confirm_plan(site.url, "default", "other", first.id)


def test_a_plan_that_fails_while_it_is_stored_leaves_the_one_before(site, monkeypatch):
    site.crawl({"/a": X})
    first = site.plan()
    site.crawl({"/b": Y})

    def broken(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr("scrapy_dedup.ledger.plans._change_row", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        site.plan()
    monkeypatch.undo()
    assert confirm_plan(site.url, "default", "default", first.id)
    assert list(site.plan().upserts) == [Y]


def test_times_titles_and_tracking_urls_never_change_what_is_embedded(site):
    text = joined("# Ferries", X)
    site.crawl({"/a": text})
    first = site.plan(apply=True)
    site.crawl(
        {"/a": text},
        fetched_at="2027-05-06T07:08:09Z",
        fetch_url=SITE + "/a?utm_source=x",
        request_url=SITE + "/a?utm_source=x",
        payload_digest=None,
    )
    assert site.plan().counts.is_empty
    site.crawl({"/a": text}, title=Sourced("Ferries | The new name of the site", "title"))
    (retitled,) = site.plan().records
    assert (codes(retitled), retitled.reuse_embedding) == (["sources_changed"], True)
    assert retitled.embed_key == first.records[0].embed_key
    assert retitled.metadata["title"] == "Ferries | The new name of the site"


def test_a_changed_heading_path_is_another_chunk(site):
    site.crawl({"/a": joined("# Ferries", "## Winter", X, H)})
    site.plan(apply=True, **SIZE)
    site.crawl({"/a": joined("# Boats", "## Winter", X, H)})
    plan = site.plan(**SIZE)
    assert list(plan.upserts)[-1] == H
    assert plan.upserts[H].embed_text == f"Boats > Winter\n\n{H}"
    assert {codes(one)[0] for one in plan.deletes} == {"replaced"}


def test_a_template_with_the_url_makes_a_key_for_each_page(site):
    site.crawl({"/a": X, "/b": X})
    assert len(site.chunks().records) == 1
    made = site.chunks(template="{url}\n{text}").records
    assert [one.embed_text for one in made] == [f"{SITE}/a\n{X}", f"{SITE}/b\n{X}"]
    assert len({one.embed_key for one in made}) == 2
    assert {one.text for one in made} == {X}


def test_another_model_embeds_the_same_entries_again(site):
    site.crawl({"/a": X})
    first = site.plan(apply=True, model="m", revision="1", dimensions=256)
    second = site.plan(model="m", revision="2", dimensions=256)
    assert [one.id for one in second.records] == [one.id for one in first.records]
    assert [(codes(one), one.reuse_embedding) for one in second.records] == [(["model_changed"], False)]
    assert second.deletes == []


def test_a_mass_delete_is_refused_and_explained(site):
    pages = {f"/p/{number}": paragraph(number) for number in range(40)}
    site.crawl(pages)
    site.plan(apply=True)
    site.crawl(dict.fromkeys(list(pages)[:20], GONE) | {f"/p/{20}": "Another text."})
    with pytest.raises(DedupError) as refused:
        site.plan(max_delete=0.2)
    said = str(refused.value)
    assert "would delete 21 of the 40 entries of the index (52 %; --max-delete is 20%)" in said
    assert "why: 20 gone, 1 replaced" in said
    assert "hosts: 21 site.example" in said
    assert "--max-delete 53%" in said
    assert site.plan(max_delete=0.53).counts.deletes == 21


def test_a_few_deletes_of_a_small_index_are_no_mass_delete_but_all_of_it_is(site):
    site.crawl({"/a": X, "/b": Y})
    site.plan(apply=True)
    site.crawl({"/a": GONE})
    assert site.plan(max_delete=0.2).counts.deletes == 1
    site.crawl({"/b": GONE})
    with pytest.raises(DedupError, match="would delete 2 of the 2"):
        site.plan(max_delete=0.2)


def test_another_size_says_that_the_options_changed(site):
    site.crawl({"/a": joined(X, H)})
    site.plan(apply=True, size=900)
    plan = site.plan(size=400)
    assert {codes(one)[0] for one in plan.deletes} == {"options_changed"}


def test_an_index_that_was_filled_at_a_job_gets_what_changed_since(site):
    job = site.crawl({"/a": X, "/b": Y})
    site.crawl({"/a": GONE, "/c": H})
    plan = site.plan(since=job, apply=True)
    assert [*plan.upserts] == [H]
    assert [codes(one) for one in plan.deletes] == [["gone"]]
    assert site.plan().counts.is_empty
    with pytest.raises(LedgerUnavailable, match="no job 'job-9'"):
        site.plan(since="job-9")


def test_an_index_that_was_lost_is_planned_whole(site):
    site.crawl({"/a": X, "/b": Y})
    site.plan(apply=True)
    plan = site.plan(is_empty=True, apply=True)
    assert {text: one.reuse_embedding for text, one in plan.upserts.items()} == {X: True, Y: True}
    assert site.plan().counts.is_empty


def test_indexes_of_other_names_are_apart(site):
    site.crawl({"/a": X})
    site.plan(apply=True)
    assert len(site.plan(target="second").upserts) == 1


def test_all_lines_validate_and_name_their_plan(site):
    site.crawl({f"/p/{number}": joined(paragraph(number), *PREAMBLE) for number in range(6)})
    first = site.plan(apply=True)
    site.crawl({"/p/1": GONE, "/p/2": TIMEOUT, "/p/9": paragraph(77)})
    second = site.plan()
    assert {one.op.value for one in second.records} == {"upsert", "keep", "delete"}
    for plan in (first, second):
        assert {one.plan_id for one in plan.records} == {plan.id}
        for one in plan.records:
            validate(one)
    shared = [one for one in first.records if one.metadata["shared"]]
    assert [one.metadata["source_count"] for one in shared] == [6, 6, 6]
    with Ledger.open(site.url) as ledger:
        assert ledger.applied_plan("default", "default").plan_id == first.id
        assert ledger.check(deep=True) == []


def test_what_left_the_index_long_ago_is_not_deleted_again_after_an_unconfirmed_rebuild(site):
    site.crawl({f"/{number}": paragraph(number) for number in range(14)})
    site.plan(apply=True)
    site.crawl({f"/{number}": GONE for number in range(11)})
    assert len(site.plan(apply=True).deletes) == 11
    site.plan(is_empty=True)
    later = site.plan(max_delete=0.2)
    assert (len(later.deletes), len(later.upserts)) == (0, 3)
