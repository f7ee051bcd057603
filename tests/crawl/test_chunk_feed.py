"""The feed of chunks, and the commands about them, after a real crawl."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from scrapy.extensions.feedexport import FileFeedStorage
from scrapy.extensions.postprocessing import GzipPlugin
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.chunks.options import DEFAULT_SPLITTER
from scrapy_dedup.crawl import chunk_feed
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


def test_the_stats_and_the_log_count_chunks(crawled):
    found = [json.loads(line) for line in (crawled.folder / "chunks.jsonl").read_text("utf-8").splitlines()]
    assert crawled.stats["dedup/chunks/distinct"] == len(found)
    assert crawled.stats["dedup/chunks/seen"] == sum(len(line["sources"]) for line in found)
    assert crawled.stats["dedup/chunks/embeddings_reused"] == len(found)
    assert f"{len(found)} distinct chunks of 7 live pages" in crawled.log


def outside(text):
    """A splitter that cuts out what is not there."""
    return [(0, len(text) + 1)]


def test_the_chunks_of_an_earlier_job_stay_where_texts_cannot_be_cut(tmp_path, monkeypatch, caplog):
    site = Site(tmp_path)
    site.crawl({"/a": "Text of a page."})
    path = tmp_path / "chunks.jsonl"
    path.write_bytes(b'{"schema":"scrapy-dedup/chunk/1","id":"of an earlier job"}\n')
    before = path.read_bytes()
    suite = SimpleNamespace(writer=SimpleNamespace(started=False), stats=MemoryStatsCollector(get_crawler()))
    monkeypatch.setattr(chunk_feed.Suite, "of", lambda _: suite)
    for splitter, is_written in ((f"{__name__}:outside", False), (DEFAULT_SPLITTER, True)):
        suite.config = SimpleNamespace(
            ledger_url=site.url, corpus="default", chunks=ChunkOptions(splitter=splitter)
        )
        options = chunk_feed.feed_options(str(path), {"format": "chunks"})
        with FileFeedStorage(str(path), feed_options=options).open(None) as file:
            exporter = chunk_feed.ChunksExporter(file, crawler=get_crawler())
            exporter.start_exporting()
            exporter.finish_exporting()
        assert (path.read_bytes() != before) is is_written
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line)["text"] == "Text of a page."
    assert "cannot be written any more" in caplog.text
    remote = chunk_feed.feed_options("s3://bucket/chunks.jsonl", {"format": "chunks"})
    packed = chunk_feed.feed_options("chunks.jsonl.gz", {"postprocessing": [GzipPlugin]})
    assert remote["overwrite"] is packed["overwrite"] is True
