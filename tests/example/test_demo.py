"""The demo, crawled for real: every text of the manifest is stored, once, and nothing else is."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from scrapy_dedup import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Run:
    """One crawl of the demo: what its edition promises, and what it left behind."""

    manifest: dict
    log: str
    job: object
    new_bodies: list
    observations: list

    def stat(self, name):
        found = re.search(rf"'{re.escape(name)}': (\d+)", self.log)
        return int(found[1]) if found else 0


@pytest.fixture(scope="module")
def ledger_url(project):
    return f"sqlite:///{project / 'dedup.db'}"


@pytest.fixture(scope="module")
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _scrapy(project, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def _crawl(project, ledger_url, port, edition):
    crawled = _scrapy(project, "crawl", "demo", "-a", f"port={port}", "-a", f"edition={edition}")
    assert crawled.returncode == 0, crawled.stderr
    manifest = subprocess.run(
        [sys.executable, "-m", "example.site", "--manifest", "--edition", str(edition)],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    with Ledger.open(ledger_url) as ledger:
        (*_, job) = ledger.jobs()
        return Run(
            json.loads(manifest),
            crawled.stderr,
            job,
            list(ledger.bodies(job_id=job.job_id)),
            list(ledger.observations(job_id=job.job_id)),
        )


@pytest.fixture(scope="module")
def first(project, ledger_url, port):
    return _crawl(project, ledger_url, port, edition=1)


@pytest.fixture(scope="module")
def second(first, project, ledger_url, port):
    return _crawl(project, ledger_url, port, edition=2)


def _originals(run):
    return [page for page in run.manifest["pages"] if page["sentences"] and page["duplicates_of"] is None]


def _holders(page, texts):
    """Return the texts that hold every sentence of a page."""
    return [text for text in texts if all(sentence in text for sentence in page["sentences"])]


def _paths(run, port):
    """Return path and query of each observed URL, with the observation."""
    origin = re.compile(rf"(?i)http://(?:localhost|127\.0\.0\.1):0?{port}")
    return [(origin.sub("", observation.url), observation) for observation in run.observations]


def test_the_crawl_ends_well(first):
    assert first.stat("log_count/CRITICAL") == 0
    assert "Traceback" not in first.log
    assert first.job.outcome == "finished"


def test_every_text_of_the_manifest_is_in_the_ledger_once(first):
    texts = [body.text for body in first.new_bodies]
    held = Counter({page["path"]: len(_holders(page, texts)) for page in _originals(first)})
    assert {path: count for path, count in held.items() if count != 1} == {}


def test_the_ledger_holds_no_other_text(first):
    strangers = [
        body.text[:200]
        for body in first.new_bodies
        if not any(_holders(page, [body.text]) for page in _originals(first))
    ]
    assert strangers == []
    assert len(first.new_bodies) == len(_originals(first))


def test_every_text_of_the_manifest_is_in_the_export_and_in_the_feed(first, project):
    exported = _scrapy(project, "dedup", "export", "--out", "export")
    assert exported.returncode == 0, exported.stderr
    for path in (project / "export" / "bodies.jsonl", project / "dedup" / "bodies.jsonl"):
        texts = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
        lost = [page["path"] for page in _originals(first) if not _holders(page, texts)]
        assert lost == [], path


def test_at_most_a_tenth_more_pages_are_fetched_than_there_are(first):
    assert first.stat("downloader/response_status_count/200") <= 1.10 * len(first.manifest["pages"])


@pytest.mark.parametrize("kind", ["mirror", "print", "alias", "listing", "news"])
def test_a_copy_shares_the_body_of_its_original(first, port, kind):
    body_of = {
        ("alias" if "127.0.0.1" in observation.url else "main", path): observation.body_id
        for path, observation in _paths(first, port)
    }
    copies = [page for page in first.manifest["pages"] if page["kind"] == kind and page["duplicates_of"]]
    for page in copies:
        (body,) = [body for body in first.new_bodies if _holders(page, [body.text])]
        assert body_of.get((page["host"], page["path"])) == body.body_id, page["path"]


def test_the_changing_page_is_one_body_with_three_payloads(first, port):
    seen = [observation for path, observation in _paths(first, port) if path.endswith("/live")]
    assert len(seen) == 3
    assert len({observation.payload_digest for observation in seen}) == 3
    assert len({observation.body_id for observation in seen}) == 1


@pytest.mark.parametrize("place", ["navigation", "cookie_banner", "sidebar", "legal"])
def test_no_furniture_is_in_a_body(first, place):
    found = [
        (phrase, body.text[-200:])
        for phrase in first.manifest["furniture"][place]
        for body in first.new_bodies
        if phrase in body.text
    ]
    assert found == []


@pytest.mark.parametrize("path", ["/private/accounts", "/manual/install"])
def test_nobody_asked_for(first, port, path):
    """What robots.txt forbids, and where the links of a page with <base> would lead without it."""
    assert [url for url, _ in _paths(first, port) if url == path] == []


@pytest.mark.parametrize(("path", "status"), [("/missing", 404), ("/error", 500), ("/empty", 200)])
def test_a_page_without_text_is_observed_without_a_body(first, port, path, status):
    (observation,) = [observation for url, observation in _paths(first, port) if url == path]
    assert (observation.http_status, observation.body_id) == (status, None)


def test_no_password_is_in_any_record(first, ledger_url, project):
    with Ledger.open(ledger_url) as ledger:
        assert all("secret" not in alias.raw_url for alias in ledger.aliases())
    feeds = (project / "dedup").glob("*.jsonl")
    assert all("visitor:secret" not in Path(feed).read_text(encoding="utf-8") for feed in feeds)


def test_the_second_crawl_adds_only_the_page_that_changed(second):
    (changed,) = second.new_bodies
    (page,) = [page for page in second.manifest["pages"] if page["path"] == "/changelog"]
    assert _holders(page, [changed.text])


def test_the_second_crawl_observes_every_page_again(first, second):
    """By their keys: which spelling of a URL is met first, and so fetched, depends on chance."""
    assert {seen.url_key for seen in first.observations} == {seen.url_key for seen in second.observations}


@pytest.fixture(scope="module")
def told(second, project, port):
    """What a third run says, as the script behind ``make demo`` does it; it adds no text."""
    ran = subprocess.run(
        [sys.executable, "demo.py", f"port={port}", "edition=2"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_make_demo_shows_the_funnel_with_chunks_the_plan_and_the_paths(told, project):
    assert re.search(r"new bodies +0\b", told)
    chunks, distinct = (
        int(re.search(rf"^{label} +(\d+)", told, re.MULTILINE)[1]) for label in ("chunks", "distinct chunks")
    )
    assert distinct < 0.8 * chunks
    assert re.search(rf"^upsert +{distinct}$", told, re.MULTILINE)
    for path in (
        "dedup.db",
        *(f"dedup/{name}.jsonl" for name in ("observations", "bodies", "chunks")),
        "dedup-plan/plan.jsonl",
    ):
        assert (project / path).is_file()
        assert str(project / path) in told


def test_the_readme_shows_a_question_as_the_demo_does(told):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(At which .*?)```", readme, re.DOTALL)
    assert [line for line in shown.splitlines() if line not in told] == []


def _hits(told, question, index):
    """Return the sentence and the place of each hit that the demo shows for a question."""
    _, _, rest = told.partition(question)
    block = re.search(rf"  {index}, \d+ passages.*\n((?:    - .*\n)+)", rest)[1]
    return [re.fullmatch(r"    - (.*?) +(/\S*.*)", line).groups() for line in block.splitlines()]


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        pytest.param(
            "How long do I have to wait",
            [("eleven minutes", "/docs/api/Client and 41 more")],
            id="a preamble that 42 pages share",
        ),
        pytest.param(
            "How do I bleed the pump",
            [("a quarter to the left", "/handbook/v1/pump and 5 more")],
            id="a section that three versions and their print pages share",
        ),
        pytest.param(
            "At which pressure",
            [("at 6 bar", "/handbook/v1/pump and 3 more"), ("at 8 bar", "/handbook/v3/pump and 1 more")],
            id="a number that differs in the last version",
        ),
    ],
)
def test_the_demo_finds_copies_before_and_each_answer_once_after(told, question, answers):
    before = _hits(told, question, "before")
    assert len(before) == 5
    assert all(any(said in sentence for said, _ in answers) for sentence, _ in before)
    after = _hits(told, question, "after")
    assert len({sentence for sentence, _ in after}) == len(after) == 5
    for (sentence, places), (said, seen_at) in zip(after, answers, strict=False):
        assert said in sentence
        assert places == seen_at
    assert not any(said in sentence for sentence, _ in after[len(answers) :] for said, _ in answers)
