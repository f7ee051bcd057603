"""A store to which plans are applied holds the live chunks, whatever became of the pages and the plans."""

from __future__ import annotations

import pytest

from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger.plans import discard_plan

from .conftest import GONE
from .test_live import paragraph

X, Y = paragraph(1), paragraph(2)


class Store:
    """An index in memory: what stands under an identity, beside its vector."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, str, tuple[str, ...]]] = {}

    def apply(self, plan, *, lines=None) -> None:
        """Do what the first lines of a plan say, all by default."""
        for one in plan.records[:lines]:
            if one.op.value == "upsert":
                self.held[one.id] = (one.text, one.embed_key, _urls(one.sources))
            elif one.op.value == "delete":
                self.held.pop(one.id, None)


def _urls(sources) -> tuple[str, ...]:
    return tuple(sorted({source.url for source in sources}))


def live(site, **options) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """What a store has to hold now."""
    return {one.id: (one.text, one.embed_key, _urls(one.sources)) for one in site.chunks(**options).records}


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        pytest.param({}, {"/a": X}, {"/a": GONE}, id="an entry that only the lost plan wrote goes"),
        pytest.param({"/a": X}, {"/a": GONE}, {"/a": X}, id="an entry that the lost plan took out is back"),
        pytest.param({"/a": X}, {"/b": X}, {"/b": GONE}, id="an entry that the lost plan changed is changed"),
    ],
)
def test_a_plan_that_was_applied_but_never_confirmed_leaves_nothing_behind(site, before, between, after):
    """The machine went down between the two; the next plan knows what the index may hold."""
    store = Store()
    site.crawl({"/stays": Y, **before})
    store.apply(site.plan(apply=True))
    site.crawl(between)
    store.apply(site.plan())
    site.crawl(after)

    plan = site.plan(apply=True)
    store.apply(plan)

    assert store.held == live(site)
    assert site.plan().counts.is_empty


def test_plans_that_were_never_confirmed_are_contained_in_the_next_whichever_was_applied(site):
    """Two of them, the second of which was applied halfway, and the ledger heard of neither."""
    store = Store()
    site.crawl({"/stays": Y, "/a": X})
    store.apply(site.plan(apply=True))
    site.crawl({"/a": GONE, "/new": paragraph(3)})
    store.apply(site.plan())
    site.crawl({"/a": X, "/new": paragraph(4), "/newer": paragraph(5)})
    store.apply(site.plan(), lines=2)
    site.crawl({"/new": GONE, "/newer": GONE})

    plan = site.plan()
    assert (site.plan().id, site.plan().records) == (plan.id, plan.records)
    store.apply(site.plan(apply=True))

    assert store.held == live(site)
    assert all(one.because for one in plan.records)


def test_a_mass_delete_of_what_was_never_confirmed_is_refused_until_it_is_discarded(site):
    site.crawl({f"/{number}": paragraph(number) for number in range(30)})
    first = site.plan()
    site.crawl({f"/{number}": GONE for number in range(20)})
    with pytest.raises(DedupError) as refused:
        site.plan(max_delete=0.2)
    assert "would delete 20 of the 30 entries" in str(refused.value)
    assert f"30 of them are there only if {first.id} or a plan before it was applied" in str(refused.value)

    discard_plan(site.url, "default", "default", first.id)

    plan = site.plan(max_delete=0.0)
    assert (plan.counts.upserts, plan.counts.deletes) == (10, 0)


def test_what_may_be_there_besides_makes_no_mass_delete_of_what_is_there_small(site):
    site.crawl({f"/{number}": paragraph(number) for number in range(20)})
    site.plan(apply=True)
    site.crawl({f"/more/{number}": paragraph(100 + number) for number in range(100)})
    site.plan()
    site.crawl({f"/{number}": GONE for number in range(20)})
    with pytest.raises(DedupError, match="would delete 20 of the 20 entries"):
        site.plan(max_delete=0.2)


@pytest.mark.parametrize("options", [{"is_empty": True}, {"since": "job-1"}], ids=["rebuild", "since"])
def test_after_a_whole_plan_that_was_never_confirmed_nothing_is_certain(site, options):
    """The index was lost and filled anew, or is another one; then a page went and another one came back."""
    store = Store()
    site.crawl({"/stays": Y, "/a": X})
    store.apply(site.plan(apply=True))
    site.crawl({"/a": GONE, "/b": paragraph(3)})
    if "is_empty" in options:
        store.held.clear()
    store.apply(site.plan(**options))
    site.crawl({"/a": X, "/b": GONE})

    store.apply(site.plan(apply=True))

    assert store.held == live(site)
    assert site.plan().counts.is_empty
