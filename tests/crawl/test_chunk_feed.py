"""The feed of chunks, and the commands about them, after a real crawl."""

from __future__ import annotations

import json

import pytest

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.crawl.exporters import record_line
from scrapy_dedup.jobs.live import live_chunks
from scrapy_dedup.ledger import Ledger

from ..jobs.conftest import Site
from ..ledger.test_schemas import validator_of
from .server import page, prose

NOTICE = [" ".join(prose(f"/notice{number}")) for number in range(3)]


def with_notice(target, links=()):
    inside = "".join(f"<p>{paragraph}</p>" for paragraph in NOTICE)
    return page(target, links).replace(b"<p>", f"{inside}<p>".encode(), 1)


@pytest.fixture(scope="module")
def crawled(crawl, serve):
    names = [f"/page{number}" for number in range(6)]
    server = serve({"/": with_notice("/", names), **{name: with_notice(name) for name in names}})
    feeds = {"chunks.jsonl": {"format": "chunks", "overwrite": False}}
    first = crawl(start=[f"{server.base}/"], settings={"FEEDS": feeds})
    assert first.exit_code == 0
    assert first.stats["dedup/chunks/embeddings_reused"] == 0
    Site(first.ledger_path.parent).plan(apply=True)
    second = crawl(start=[f"{server.base}/"], folder=first.folder, settings={"FEEDS": feeds})
    assert second.exit_code == 0
    return second


def test_the_feed_holds_the_state_at_the_end_of_the_last_job_once(crawled):
    lines = (crawled.folder / "chunks.jsonl").read_bytes().splitlines(keepends=True)
    url = f"sqlite:///{crawled.ledger_path}"
    with Ledger.open(url) as ledger, live_chunks(ledger, "default", ChunkOptions()) as live:
        expected = [json.loads(record_line(record)) for record in live.records()]
    found = [json.loads(line) for line in lines]
    for line in found:
        validator_of("chunk").validate(line)
    assert [line | {"near": [], "group": None} for line in found] == expected
    assert {len(line["sources"]) for line in found if line["shared"]} == {7}
    assert any(line["shared"] for line in found)


def test_the_stats_count_chunks(crawled):
    found = [json.loads(line) for line in (crawled.folder / "chunks.jsonl").read_text("utf-8").splitlines()]
    assert crawled.stats["dedup/chunks/distinct"] == len(found)
    assert crawled.stats["dedup/chunks/seen"] == sum(len(line["sources"]) for line in found)
    assert crawled.stats["dedup/chunks/embeddings_reused"] == len(found)
