"""What a crawl remembers about every key is exact, and small: at most 40 bytes for each known key."""

from __future__ import annotations

import asyncio
import sys
import weakref
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.digest_table import DigestTable
from scrapy_dedup.crawl.variants import MAX_VARIANTS_PER_KEY, TRIED_BYTES, Variants
from scrapy_dedup.records import AliasRecord

MAX_BYTES_PER_KEY = 40


def held_bytes(table: DigestTable) -> int:
    buckets = table._buckets
    return sys.getsizeof(buckets) + sum(-sys.getsizeof(bucket) // 16 * -16 for bucket in buckets)


@pytest.mark.parametrize("keys", [100, 1_500, 20_000, 33_000], ids="{} keys".format)
@pytest.mark.parametrize("value_bytes", [0, TRIED_BYTES], ids=["set of keys", "keys with a value"])
def test_a_key_costs_little_at_any_size_of_the_table(keys, value_bytes):
    table = DigestTable(value_bytes)
    for number in range(keys):
        table.add(b"%d" % number, bytes(value_bytes))

    assert len(table) == keys
    assert held_bytes(table) <= MAX_BYTES_PER_KEY * keys


def test_a_large_table_knows_every_key_and_no_other():
    table = DigestTable()
    for number in range(20_000):
        table.add(b"%d" % number)

    assert all(b"%d" % number in table for number in range(20_000))
    assert not any(b"%d" % number in table for number in range(20_000, 40_000))


KEYS = st.sampled_from([b"", b"a", b"b", b"key", *(b"%d" % number for number in range(120))])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.binary(min_size=2, max_size=2)),
        st.tuples(st.just("discard"), KEYS, st.none()),
    ),
    max_size=400,
)


@given(STEPS)
@settings(deadline=None)
def test_a_table_holds_what_a_dict_of_lists_would(steps):
    table, model = DigestTable(value_bytes=2), {}
    for step, key, value in steps:
        if step == "add":
            table.add(key, value)
            model.setdefault(key, {})[value] = True
        else:
            table.discard(key)
            model.pop(key, None)

    assert len(table) == sum(map(len, model.values()))
    for key in {key for _, key, _ in steps}:
        assert table.values(key) == list(model.get(key, {}))
        assert (key in table) == (key in model)


def test_a_value_of_another_width_is_refused():
    with pytest.raises(ValueError, match="3 bytes in a table of 2"):
        DigestTable(value_bytes=2).add(b"key", b"abc")


class Aliases:
    """A ledger's writer that knows the aliases of keys."""

    def __init__(self):
        self.held = {}
        self.questions = 0

    def add(self, key, raw_url):
        alias = AliasRecord("job", raw_url, raw_url, key, "merged", "order", None, 0, 1)
        self.held.setdefault(key, []).append(alias)

    def variants(self, key):
        self.questions += 1
        answer = Future()
        answer.set_result(self.held.get(key, []))
        return answer


class Shared:
    """The part of the suite that variants need; a key is a URL up to its ``?``."""

    def __init__(self):
        self.requested = []
        self.writer = Aliases()
        self.stats = StatsCollector(get_crawler())
        self.crawler = SimpleNamespace(engine=SimpleNamespace(crawl=self.requested.append))
        self.is_crawl, self.is_closing = True, False
        self.tasks = []

    def key_of(self, url):
        return url.partition("?")[0]

    def spawn(self, work):
        self.tasks.append(asyncio.ensure_future(work))

    async def settle(self):
        while self.tasks:
            await self.tasks.pop()


KEY = "http://a.example/page"


def holder(url, **meta):
    """Return a request that others with its key are merged into, as the downloader middleware marks it."""
    return Request(url, meta={**meta, "dedup_holder": [url]})


@pytest.fixture
def shared():
    return Shared()


def run(steps):
    """Run the steps of a test in an event loop."""
    return asyncio.run(steps)


def test_a_failed_key_without_variants_keeps_no_request(shared):
    async def steps():
        variants = Variants(shared)
        request = holder(KEY)
        watch = weakref.ref(request)
        variants.key_failed(request)
        await shared.settle()
        del request
        return watch()

    assert run(steps()) is None


def test_a_variant_found_late_is_requested_like_the_request_that_was_merged(shared):
    async def steps():
        variants = Variants(shared)
        variants.key_failed(holder(f"{KEY}?a", mine="first"))
        await shared.settle()
        shared.writer.add(KEY, f"{KEY}?b")
        variants.merged(KEY, Request(f"{KEY}?b", meta={"mine": "late"}))
        await shared.settle()

    run(steps())
    (request,) = shared.requested
    assert (request.url, request.meta["mine"]) == (f"{KEY}?b", "late")
    assert shared.stats.get_value(names.VARIANTS_REQUESTED) == 1


def test_a_url_that_was_tried_is_not_looked_up_again(shared):
    async def steps():
        variants = Variants(shared)
        variants.key_failed(holder(KEY))
        await shared.settle()
        for _ in range(100):
            variants.merged(KEY, Request(KEY))
        await shared.settle()

    run(steps())
    assert (shared.requested, shared.writer.questions) == ([], 1)


def test_a_key_that_always_fails_costs_a_bounded_number_of_requests(shared):
    async def steps():
        variants = Variants(shared)
        variants.key_failed(holder(f"{KEY}?0"))
        for number in range(1, 50):
            shared.writer.add(KEY, f"{KEY}?{number}")
            variants.merged(KEY, Request(f"{KEY}?{number}"))
            await shared.settle()
            if len(shared.requested) == number:
                variant = shared.requested[-1]
                variants.key_failed(holder(variant.url, **variant.meta))
                await shared.settle()

    run(steps())
    assert len(shared.requested) == MAX_VARIANTS_PER_KEY


def test_a_key_that_brought_a_page_is_no_longer_failed(shared):
    async def steps():
        variants = Variants(shared)
        variants.key_failed(holder(KEY))
        await shared.settle()
        variants.key_succeeded(Request(KEY))
        shared.writer.add(KEY, f"{KEY}?b")
        variants.merged(KEY, Request(f"{KEY}?b"))
        await shared.settle()

    run(steps())
    assert shared.requested == []
