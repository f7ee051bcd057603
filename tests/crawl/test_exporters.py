"""The feeds of the suite: whole lines of records, whatever happened to the file before."""

from __future__ import annotations

import gzip
import io
import json
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.extensions.postprocessing import PostProcessingManager
from scrapy.utils.conf import feed_complete_default_values_from_settings
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler

from scrapy_dedup.crawl.exporters import (
    BodiesExporter,
    BodiesFilter,
    ObservationsExporter,
    PageFilter,
    default_feeds,
    record_line,
    repair_tail,
)
from scrapy_dedup.crawl.items import PageItem, PageRow
from scrapy_dedup.records import Action, BodyRecord, Conditions, ObservationRecord, Outcome, Sourced, Validity


def observation(seq=1, **changes):
    values = {
        "observation_id": f"obs1-{seq:032x}",
        "job_id": "job",
        "spider": "demo",
        "seq": seq,
        "fetched_at": "2026-01-02T03:04:05Z",
        "request_id": "r",
        "conditions": Conditions(),
        "from_cache": False,
        "gateway_status": None,
        "access": None,
        "request_url": "https://a.example/",
        "fetch_url": "https://a.example/",
        "url": "https://a.example/",
        "redirect_urls": (),
        "url_key": "https://a.example/",
        "policy_id": "standard-1:0",
        "document_url": None,
        "referrer_url": None,
        "depth": 0,
        "http_status": 200,
        "content_type": "text/html",
        "etag": None,
        "last_modified": None,
        "payload_digest": None,
        "payload_bytes": 1,
        "outcome": Outcome.FETCHED,
        "validity": Validity.VALID,
        "validity_reason": None,
        "recovery": None,
        "action": Action.KEEP,
        "title": Sourced("Über uns", "title"),
    }
    return ObservationRecord(**{**values, **changes})


def body(number=1, text="Grüße"):
    return BodyRecord(
        body_id=f"body1-{number:032x}",
        corpus="default",
        text_digest="sha256:1",
        normalized_digest="sha256:2",
        visible_digest=None,
        representation="markdown",
        extractor_id="x",
        text=text,
        language="de",
        char_count=5,
        word_count=1,
        simhash="0" * 16,
        simhash_scheme="simhash64-w3-1",
        first_observation_id=f"obs1-{number:032x}",
    )


def recorded_item(*, new):
    item = PageItem(url="https://a.example/")
    item.observation, item.body, item.body_is_new = observation(), body(), new
    return item


def write(exporter_class, file, items, **options):
    exporter = exporter_class(file, **options)
    exporter.start_exporting()
    for item in items:
        exporter.export_item(item)
    exporter.finish_exporting()


def lines(data):
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def test_an_observation_is_one_utf8_line_with_its_schema_first():
    file = io.BytesIO()
    write(ObservationsExporter, file, [PageRow(observation(), None)], indent=4, encoding="latin-1")
    assert file.getvalue().startswith(b'{"schema":"scrapy-dedup/observation/1","observation_id":"obs1-')
    assert "Über uns".encode() in file.getvalue()
    (line,) = lines(file.getvalue())
    assert line["title"] == {"value": "Über uns", "source": "title"}


@pytest.mark.parametrize(
    ("item", "bodies"),
    [
        (PageRow(observation(), body()), 1),
        (PageRow(observation(), None), 0),
        (recorded_item(new=True), 1),
        (recorded_item(new=False), 0),
    ],
    ids=["row with new body", "row without", "item with new body", "item with known body"],
)
def test_the_bodies_feed_holds_what_this_job_brought(item, bodies):
    observed, texts = io.BytesIO(), io.BytesIO()
    write(ObservationsExporter, observed, [item])
    write(BodiesExporter, texts, [item])
    assert len(lines(observed.getvalue())) == 1
    assert [line["text"] for line in lines(texts.getvalue())] == ["Grüße"] * bodies
    assert BodiesFilter({}).accepts(item) == bool(bodies)
    assert PageFilter({}).accepts(item)


@pytest.mark.parametrize(
    "item",
    [{"price": 3}, PageItem(url="https://a.example/"), None, observation()],
    ids=["foreign item", "page that no pipeline recorded", "none", "bare record"],
)
@pytest.mark.parametrize("exporter_class", [ObservationsExporter, BodiesExporter])
def test_a_foreign_item_is_refused_counted_and_named_once(exporter_class, item, caplog):
    crawler = get_crawler()
    file = io.BytesIO()
    exporter = build_from_crawler(
        exporter_class, crawler, file, fields_to_export=None, encoding="utf-8", indent=0
    )
    with caplog.at_level(logging.WARNING):
        exporter.start_exporting()
        exporter.export_item(item)
        exporter.export_item(item)
    assert file.getvalue() == b""
    assert crawler.stats.get_value("dedup/feed/foreign_items") == 2
    assert len([record for record in caplog.records if "refused" in record.message]) == 1
    assert not PageFilter({}).accepts(item)
    assert not BodiesFilter({}).accepts(item)


def test_a_filter_honours_the_item_classes_of_its_feed():
    only_items = PageFilter({"item_classes": ["scrapy_dedup.crawl.items.PageItem"]})
    assert only_items.accepts(recorded_item(new=True))
    assert not only_items.accepts(PageRow(observation(), None))


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (["url", "seq"], ["schema", "url", "seq"]),
        (["seq", "schema", "url"], ["schema", "seq", "url"]),
        ({"url": "address"}, ["schema", "address"]),
        (["price"], ["schema"]),
    ],
    ids=["a list selects", "the schema is first", "a mapping renames", "unknown fields are left out"],
)
def test_a_feed_may_select_fields_but_never_drops_the_schema(fields, names):
    file = io.BytesIO()
    write(ObservationsExporter, file, [PageRow(observation(), None)], fields_to_export=fields)
    assert list(lines(file.getvalue())[0]) == names


def test_a_lone_surrogate_in_an_own_field_is_escaped():
    (line,) = lines(record_line(observation(extra={"name": "a\ud800"})))
    assert line["extra"] == {"name": "a\ud800"}


WHOLE = record_line(observation(1))

TAILS = [
    ("new file", b"", b""),
    ("whole lines", WHOLE, WHOLE),
    ("torn second line", WHOLE + WHOLE[:50], WHOLE),
    ("torn first line", WHOLE[:50], b""),
    ("one byte of a line", WHOLE + b"{", WHOLE),
    ("torn line of many blocks", WHOLE + record_line(body(text="x" * 300_000))[:-9], WHOLE),
    (
        "whole line of many blocks",
        record_line(body(text="x" * 300_000)),
        record_line(body(text="x" * 300_000)),
    ),
    ("zeros after a power failure", WHOLE + b"\0" * 4096, WHOLE),
    ("only the line end is missing", WHOLE + WHOLE[:-1], WHOLE + WHOLE),
    ("somebody's text", WHOLE + b"note", WHOLE + b"note\n"),
    ("somebody's file", b'{"name": "mine"}', b'{"name": "mine"}\n'),
    ("line end at a block's edge", WHOLE + record_line(body(text="x" * 100_000))[:65536], WHOLE),
]


@pytest.mark.parametrize(("before", "kept"), [case[1:] for case in TAILS], ids=[case[0] for case in TAILS])
def test_a_torn_last_line_is_cut_before_the_first_append(before, kept, tmp_path):
    path = tmp_path / "observations.jsonl"
    path.write_bytes(before)
    with path.open("ab") as file:
        write(ObservationsExporter, file, [PageRow(observation(2), None)])
    assert path.read_bytes() == kept + record_line(observation(2))


@given(cut=st.integers(0, len(WHOLE) - 1), count=st.integers(0, 3))
def test_a_kill_at_any_byte_costs_at_most_one_line(cut, count):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "feed.jsonl"
        path.write_bytes(WHOLE * count + WHOLE[:cut])
        with path.open("ab") as file:
            repair_tail(file)
        found = path.read_bytes()
    assert found.startswith(WHOLE * count)
    assert found in (WHOLE * count, WHOLE * (count + 1))


def test_a_file_that_another_crawl_appends_to_keeps_its_tail(tmp_path):
    path = tmp_path / "observations.jsonl"
    path.write_bytes(WHOLE)
    with path.open("ab") as theirs, path.open("ab") as ours:
        ObservationsExporter(theirs).start_exporting()
        theirs.write(WHOLE[:40])
        theirs.flush()
        ObservationsExporter(ours).start_exporting()
        theirs.write(WHOLE[40:])
    assert path.read_bytes() == WHOLE * 2


@pytest.mark.parametrize("mode", ["wb", "r+b"])
def test_a_file_that_is_not_appended_to_is_left_alone(mode, tmp_path):
    path = tmp_path / "feed"
    path.write_bytes(WHOLE[:40])
    with path.open(mode) as file:
        assert repair_tail(file) == 0
        assert path.read_bytes() == (b"" if mode == "wb" else WHOLE[:40])


def test_temporary_files_and_pipes_are_left_alone():
    with tempfile.NamedTemporaryFile() as file:
        assert repair_tail(file) == 0
    with Path("/dev/null").open("ab") as file:
        assert repair_tail(file) == 0


def test_a_compressed_feed_holds_whole_lines(tmp_path):
    path = tmp_path / "observations.jsonl.gz"
    with path.open("ab") as target:
        file = PostProcessingManager(["scrapy.extensions.postprocessing.GzipPlugin"], target, {})
        write(ObservationsExporter, file, [PageRow(observation(n), None) for n in range(3)])
        file.close()
    assert [line["seq"] for line in lines(gzip.decompress(path.read_bytes()))] == [0, 1, 2]


def test_each_line_is_on_its_way_before_the_next_item(tmp_path):
    path = tmp_path / "feed.jsonl"
    with path.open("ab") as file:
        exporter = ObservationsExporter(file)
        exporter.start_exporting()
        exporter.export_item(PageRow(observation(1), None))
        assert len(lines(path.read_bytes())) == 1


class FullDisk(io.BytesIO):
    def write(self, data):
        raise OSError(28, "No space left on device")


def test_a_full_disk_stops_the_feed_with_one_error(caplog):
    crawler = get_crawler()
    file = FullDisk()
    with caplog.at_level(logging.ERROR):
        exporter = ObservationsExporter.from_crawler(crawler, file)
        exporter.start_exporting()
        for _ in range(3):
            exporter.export_item(PageRow(observation(), None))
    assert crawler.stats.get_value("dedup/feed/write_errors") == 1
    (record,) = caplog.records
    assert "No space left" in record.message
    assert "scrapy dedup export" in record.message


def test_the_default_feeds_take_nothing_from_the_feed_settings_of_the_project():
    crawler = get_crawler(
        settings_dict={
            "FEED_EXPORT_FIELDS": ["name"],
            "FEED_EXPORT_BATCH_ITEM_COUNT": 10,
            "FEED_EXPORT_ENCODING": "latin-1",
            "FEED_EXPORT_INDENT": 2,
            "FEED_URI_PARAMS": "somewhere.params",
        }
    )
    for uri, feed in default_feeds().items():
        complete = feed_complete_default_values_from_settings(feed, crawler.settings, uri)
        assert (complete["fields"], complete["batch_item_count"], complete["uri_params"]) == (None, 0, None)
    assert list(default_feeds("out")) == ["out/observations.jsonl", "out/bodies.jsonl"]


SPIDER = """
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy_dedup.crawl.exporters import default_feeds
from scrapy_dedup.crawl.items import PageItem
from scrapy_dedup.records import to_dict

class Mixed(scrapy.Spider):
    name = "mixed"

    async def start(self):
        yield {"price": 1}
        yield PageItem(url="https://a.example/")
        yield {"price": 2}

exporters = "scrapy_dedup.crawl.exporters"
formats = {"observations": f"{exporters}.ObservationsExporter", "bodies": f"{exporters}.BodiesExporter"}
process = CrawlerProcess({
    "FEEDS": {**default_feeds(), "open.jsonl": {"format": "observations"}, "mine.json": {"format": "json"}},
    "FEED_EXPORTERS": formats, "REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False,
})
process.crawl(Mixed)
process.start()
"""


@pytest.mark.slow
def test_in_a_crawl_foreign_items_reach_their_own_feed_and_none_of_ours(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SPIDER], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    mine = json.loads((tmp_path / "mine.json").read_text())
    assert [item.get("price") for item in mine] == [1, None, 2]
    assert (tmp_path / "open.jsonl").read_bytes() == b""
    assert not (tmp_path / "dedup").exists() or not list((tmp_path / "dedup").iterdir())
    assert "'dedup/feed/foreign_items': 3" in done.stderr
    assert "Traceback" not in done.stderr


BATCHES = """
import sys
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.extensions.feedexport import ItemFilter
from scrapy_dedup.crawl.exporters import BodiesExporter, BodiesFilter, ObservationsExporter, PageFilter
from scrapy_dedup.crawl.items import PageItem
sys.path.insert(0, sys.argv[1])
from test_exporters import body, observation

class Recorded:
    def process_item(self, item):
        if isinstance(item, PageItem):
            item.observation, item.body = observation(item.extra["n"]), body(item.extra["n"])
            item.body_is_new = item.extra["n"] % 2 == 0
        return item

class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for n in range(5):
            yield {"price": n}
            yield PageItem(url="https://a.example/", extra={"n": n})

ours = {"batch_item_count": 2, "encoding": "utf-8"}
pages = {"format": "observations", "item_filter": PageFilter}
gzip = {"postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}
process = CrawlerProcess({
    "ITEM_PIPELINES": {Recorded: 50},
    "FEED_EXPORTERS": {"observations": ObservationsExporter, "bodies": BodiesExporter},
    "FEEDS": {
        "observations-%(batch_id)d.jsonl.gz": {**pages, **ours, **gzip},
        "bodies-%(batch_id)d.jsonl": {"format": "bodies", "item_filter": BodiesFilter, **ours},
        "mine.jsonl": {"format": "jsonlines", "item_classes": ["builtins.dict"]},
        "everything.jsonl": {"format": "jsonlines"},
    },
    "REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False,
})
process.crawl(Pages)
process.start()
"""


@pytest.mark.slow
def test_batches_count_lines_and_may_be_compressed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BATCHES, str(Path(__file__).parent)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    observed = [lines(gzip.decompress(path.read_bytes())) for path in sorted(tmp_path.glob("observations-*"))]
    assert [len(batch) for batch in observed] == [2, 2, 1]
    assert sorted(line["seq"] for batch in observed for line in batch) == [0, 1, 2, 3, 4]
    texts = [lines(path.read_bytes()) for path in sorted(tmp_path.glob("bodies-*"))]
    assert [len(batch) for batch in texts] == [2, 1]
    assert len(lines((tmp_path / "mine.jsonl").read_bytes())) == 5
    everything = lines((tmp_path / "everything.jsonl").read_bytes())
    assert sorted(line["observation"]["seq"] for line in everything if "observation" in line) == [
        0,
        1,
        2,
        3,
        4,
    ]


@pytest.mark.slow
def test_a_feed_whose_writers_are_killed_holds_whole_lines(tmp_path):
    path = tmp_path / "feed.jsonl"
    script = tmp_path / "writer.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_exporters import ObservationsExporter, PageRow, observation\n"
        "exporter = ObservationsExporter(Path(sys.argv[1]).open('ab'))\n"
        "exporter.start_exporting()\n"
        "row = PageRow(observation(1, extra={'x': 'x' * 100_000}), None)\n"
        "while True:\n"
        "    exporter.export_item(row)\n"
    )
    for number in range(3):
        writer = subprocess.Popen([sys.executable, str(script), str(path)])
        before = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size <= before + 1000 * number:
            assert writer.poll() is None
            time.sleep(0.01)
        writer.kill()
        writer.wait()
    with path.open("ab") as file:
        write(ObservationsExporter, file, [PageRow(observation(2), None)])
    assert lines(path.read_bytes())[-1]["seq"] == 2
