"""A site crawled three times: what is said to have become of its pages, by the ledger, a feed, a command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from importlib import resources

import jsonschema
import pytest
from itemadapter import ItemAdapter

from scrapy_dedup import Ledger
from scrapy_dedup.crawl.exporters import ChangesExporter, ChangesFilter
from scrapy_dedup.crawl.items import PageItem, PageRow
from scrapy_dedup.records import ChangeRecord, ObservationRecord

from .conftest import environment
from .server import NOT_FOUND, Reply, page, prose, redirect

STAYING = ("same", "edited", "shouted", "removed", "slow", "unlinked", "moved", "merged")
JOBS = ("one", "two", "three")


def edited(target, old, new):
    assert old.encode() in page(target)
    return page(target).replace(old.encode(), new.encode())


class Versions:
    """A site whose second version differs in all the ways that a page can."""

    def __init__(self):
        self.number = 1
        first, *_ = prose("/shouted")
        self.second = {
            "/": page("/", [f"/{name}" for name in (*STAYING, "found") if name != "unlinked"]),
            "/edited": edited("/edited", "After that the", "Before that the"),
            "/shouted": edited("/shouted", first, first.upper()),
            "/removed": NOT_FOUND,
            "/slow": Reply(page("/slow"), delay_s=4),
            "/moved": redirect("/place", status=301),
            "/merged": redirect("/same", status=302),
            "/place": page("/place"),
            "/found": page("/found"),
        }

    def routes(self):
        targets = {
            "/": page("/", [f"/{name}" for name in STAYING]),
            **{f"/{n}": page(f"/{n}") for n in STAYING},
        }
        new = {target: NOT_FOUND for target in self.second if target not in targets}
        return {target: self._answer(target, first) for target, first in (targets | new).items()}

    def _answer(self, target, first):
        return lambda visit: first if self.number == 1 else self.second.get(target, first)


@pytest.fixture(scope="module")
def crawled(crawl, serve):
    """Three crawls of one folder: of the first version, of the same again, and of the second version."""
    site = Versions()
    server = serve(site.routes())
    folder = None
    for job in JOBS:
        site.number = 2 if job == "three" else 1
        done = crawl(
            start=[f"{server.base}/"],
            folder=folder,
            settings={
                "DEDUP_JOB_ID": job,
                "DOWNLOAD_TIMEOUT": 2,
                "RETRY_ENABLED": False,
                # The first job has no such feed: comparing needs no preparation.
                "FEEDS": {} if job == "one" else {f"changes-{job}.jsonl": {"format": "changes"}},
            },
        )
        assert done.exit_code == 0
        folder = done.folder
    return done


def of_ledger(crawled, **of):
    with Ledger.open(f"sqlite:///{crawled.ledger_path}") as ledger:
        return {record.url_key.rpartition("/")[2]: record for record in ledger.changes(**of)}


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def of_feed(crawled, job):
    return [
        (line["url_key"].rpartition("/")[2], line)
        for line in lines_of(crawled.folder / f"changes-{job}.jsonl")
    ]


def test_an_unchanged_site_has_no_new_text_and_every_page_is_unchanged(crawled):
    second = [row for row in crawled.ledger.observations if row.job_id == "two"]
    assert len(second) == len(STAYING) + 1
    with Ledger.open(f"sqlite:///{crawled.ledger_path}") as ledger:
        assert list(ledger.bodies(job_id="two")) == []
    assert {record.kind.value for record in of_ledger(crawled, job_id="two").values()} == {"unchanged"}
    assert [(line["kind"], line["reason"]) for _, line in of_feed(crawled, "two")] == [
        ("unchanged", None)
    ] * len(second)


KINDS = {
    "": "unchanged",  # its text is that of the article; the links are not
    "same": "unchanged",
    "edited": "changed",
    "shouted": "reformatted",
    "removed": "gone",
    "slow": "unknown",
    "unlinked": "unknown",
    "moved": "moved",
    "merged": "moved",
    "place": "new",
    "found": "new",
}


# A job that failed to see a page takes nothing back of what the one before it saw.
SINCE_THE_FIRST = KINDS | {"slow": "unchanged", "unlinked": "unchanged"}


@pytest.mark.parametrize(
    ("since", "kinds"),
    [(None, KINDS), ("two", KINDS), ("one", SINCE_THE_FIRST)],
    ids=["the latest job", "since the second", "since the first"],
)
def test_each_page_of_a_changed_site_is_what_became_of_it(crawled, since, kinds):
    found = of_ledger(crawled, since=since)
    assert {name: record.kind.value for name, record in found.items()} == kinds
    assert (found["slow"].job_id, found["slow"].reason) == (
        ("two", None) if since == "one" else ("three", "timeout")
    )
    assert found["removed"].http_status == 404
    assert found["moved"].moved_to.endswith("/place")
    assert found["merged"].moved_to.endswith("/same")


def test_what_no_later_job_visited_is_unknown_and_never_gone(crawled):
    unlinked = of_ledger(crawled)["unlinked"]
    assert (unlinked.kind.value, unlinked.reason, unlinked.observation_id) == ("unknown", "not_visited", None)
    assert unlinked.previous_body_id is not None


def test_the_changed_words_are_named(crawled):
    spans = of_ledger(crawled)["edited"].spans
    assert [(span.before, span.after) for span in spans] == [("After", "Before")] * 5
    with Ledger.open(f"sqlite:///{crawled.ledger_path}") as ledger:
        texts = {body.body_id: body.text for body in ledger.bodies()}
    changed = of_ledger(crawled)["edited"]
    before, after = texts[changed.previous_body_id], texts[changed.body_id]
    for span in spans:
        assert before[span.before_start : span.before_end] == "After"
        assert after[span.after_start : span.after_end] == "Before"
        assert before[: span.before_start].endswith(span.lead)


def test_the_feed_says_the_same_of_what_was_visited(crawled):
    found = of_feed(crawled, "three")
    expected = {name: kind for name, kind in KINDS.items() if name not in ("unlinked", "merged")}
    assert sorted((name, line["kind"]) for name, line in found) == sorted(expected.items())
    by_name = dict(found)
    assert by_name["edited"]["spans"][0]["after"] == "Before"
    assert by_name["moved"]["moved_to"].endswith("/place")
    assert by_name["slow"]["reason"] == "timeout"


def test_a_feed_of_changes_takes_the_place_of_no_other(crawled):
    written = {line["job_id"] for line in lines_of(crawled.folder / "dedup" / "observations.jsonl")}
    assert written == set(JOBS)


def test_explain_tells_what_became_of_a_url(crawled, dedup):
    url = of_ledger(crawled)["edited"].url
    done = dedup("explain", url, "--ledger", crawled.ledger_path)
    told = done.out.split("What became of it:\n")[1].splitlines()
    jobs_and_kinds = [(line.split()[1].partition("#")[0], line.split()[2]) for line in told]
    assert jobs_and_kinds == [("one", "new"), ("three", "changed")]
    assert told[-1].endswith('"After" became "Before", and 4 more')
    explained = json.loads(dedup("explain", url, "--ledger", crawled.ledger_path, "--json").out)
    assert [change["kind"] for change in explained["revisions"]] == ["new", "unchanged", "changed"]


WRONG = [
    ("since without changes", ["export", "--since", "one"], "--since goes with changes"),
    ("no such job", ["export", "changes", "--since", "nosuch"], "holds no job 'nosuch'"),
    ("nothing after the last job", ["export", "changes", "--since", "three"], "came after 'three'"),
    ("a copy beside changes", ["export", "changes", "--backup", "copy.db"], "--backup goes with records"),
]


@pytest.mark.parametrize(("arguments", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_the_command_refuses_leaves_nothing_behind(crawled, dedup, tmp_path, arguments, said):
    done = dedup(*arguments, "--ledger", crawled.ledger_path)
    assert done.code == 1
    assert said in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_writes_them_and_counts_each_kind(crawled, tmp_path):
    command = [sys.executable, "-m", "scrapy", "dedup", "export", "changes"]
    done = subprocess.run(
        [*command, "--since", "one", "--out", "out", "--ledger", str(crawled.ledger_path)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["changes.jsonl"]
    lines = lines_of(tmp_path / "out" / "changes.jsonl")
    assert {line["url_key"].rpartition("/")[2]: line["kind"] for line in lines} == SINCE_THE_FIRST
    schema = json.loads((resources.files("scrapy_dedup") / "schemas" / "change.json").read_text("utf-8"))
    for line in lines:
        jsonschema.validate(line, schema)
    said = [tuple(line.split()) for line in done.stdout.splitlines()[1:]]
    counts = {kind: str(list(SINCE_THE_FIRST.values()).count(kind)) for kind, _ in said}
    assert dict(said) == counts
    assert len(said) == 7


def test_the_feed_takes_what_the_item_of_a_spider_or_an_automatic_page_says(tmp_path):
    observation = ObservationRecord(**dict.fromkeys(field.name for field in fields(ObservationRecord)))
    change = ChangeRecord(**{**dict.fromkeys(field.name for field in fields(ChangeRecord)), "spans": ()})
    item, repeat, uncompared = (PageItem("http://site.example/") for _ in range(3))
    for one in (item, repeat, uncompared):
        one.observation = observation
    item.changes = repeat.changes = (change, change)  # of its key, and of one that led to it
    repeat.is_repeat = True
    pages = [item, repeat, uncompared, PageRow(observation, None, (change,)), PageRow(observation, None)]

    accepted = [page for page in pages if ChangesFilter({}).accepts(page)]
    assert accepted == [item, pages[3]]
    with (tmp_path / "changes.jsonl").open("ab") as file:
        exporter = ChangesExporter(file)
        for page_item in accepted:
            exporter.export_item(page_item)
    assert [line["schema"] for line in lines_of(tmp_path / "changes.jsonl")] == ["scrapy-dedup/change/1"] * 3
    assert "changes" not in ItemAdapter(item).field_names()
