"""Makers of records, and one ledger of each engine for the tests that must hold on all."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import replace

import pytest

from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting
from scrapy_dedup.records import (
    AliasRecord,
    Conditions,
    JobRecord,
    ObservationRecord,
    Outcome,
    Sourced,
    Text,
    Validity,
)

SPEC = {"preset": "standard", "hosts": {}}


def sha(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def make_text(text: str, *, residual: str | None = None, extractor_id: str = "x-1", **changes) -> Text:
    folded = " ".join(unicodedata.normalize("NFC", text).split()).lower()
    made = Text(
        text=text,
        representation="markdown",
        extractor_id=extractor_id,
        text_digest=sha(text),
        normalized_digest=sha(folded),
        visible_digest=sha("visible " + text),
        residual_digest=None if residual is None else sha(residual),
        language="en",
        char_count=len(text),
        word_count=len(text.split()),
        simhash=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        simhash_scheme="simhash64-w3-1",
    )
    return replace(made, **changes)


def make_job(job_id: str = "job-1", *, corpus: str = "default", **changes) -> JobRecord:
    made = JobRecord(
        job_id=job_id,
        spider="demo",
        corpus=corpus,
        settings_digest=sha("settings"),
        policy="standard-1:0123456789abcdef",
        extractor="x-1",
        source_digest=None,
        started_at="2026-01-02T03:04:05Z",
    )
    return replace(made, **changes)


def make_observation(
    seq: int, url: str = "http://site.example/a", job: JobRecord | None = None, **changes
) -> ObservationRecord:
    job = job or make_job()
    made = ObservationRecord(
        observation_id="",
        job_id=job.job_id,
        spider=job.spider,
        seq=seq,
        fetched_at="2026-01-02T03:04:05.678901Z",
        request_id=f"request-{seq}",
        conditions=Conditions(),
        from_cache=False,
        gateway_status=None,
        access=None,
        request_url=url,
        fetch_url=url,
        url=url,
        redirect_urls=(),
        url_key=url,
        policy_id="standard-1:0123456789abcdef",
        document_url=None,
        referrer_url=None,
        depth=0,
        http_status=200,
        content_type="text/html",
        etag=None,
        last_modified=None,
        payload_digest=sha("payload of " + url),
        payload_bytes=1234,
        outcome=Outcome.FETCHED,
        validity=Validity.VALID,
        validity_reason=None,
        recovery=None,
        title=Sourced("A title", "title"),
    )
    return replace(made, **changes)


SIGHTING_FIELDS = ("url_valid", "key_reason", "moved_keys")


class Crawl:
    """A crawl as the ledger sees it: numbers its sightings and waits for each to be durable."""

    def __init__(
        self,
        url: str,
        job: JobRecord,
        *,
        reuse_normalized: bool = True,
        spec=SPEC,
        with_changes: bool = False,
        near=None,
    ) -> None:
        self.job = job
        self.writer = LedgerWriter(
            url, job, spec, reuse_normalized=reuse_normalized, with_changes=with_changes, near=near
        )

    def submit(self, text: Text | str | None, url: str = "http://site.example/a", *, seq=None, **changes):
        sighting_changes = {key: changes.pop(key) for key in SIGHTING_FIELDS if key in changes}
        number = self.writer.next_seq() if seq is None else seq
        observation = make_observation(number, url, self.job, **changes)
        made = make_text(text) if isinstance(text, str) else text
        return self.writer.record(Sighting(observation, made, **sighting_changes))

    def see(self, text, url: str = "http://site.example/a", **changes):
        return self.submit(text, url, **changes).result(30)

    def note(self, raw_url: str, url_key: str, rule: str = "tracking", **changes) -> None:
        made = AliasRecord(self.job.job_id, raw_url, raw_url, url_key, "merged", rule, None, 1, 1)
        self.writer.note(replace(made, **changes))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.writer.finish("finished" if kind is None else "failed")


@pytest.fixture
def records():
    """The makers, for tests that need them without a crawl."""

    class Makers:
        sha = staticmethod(sha)
        text = staticmethod(make_text)
        job = staticmethod(make_job)
        observation = staticmethod(make_observation)
        crawl = Crawl
        spec = SPEC

    return Makers


# The contract of an engine, which every run of the tests holds on both.
CONTRACT = ("test_contract", "test_engine", "test_migrations")


def pytest_collection_modifyitems(items):
    """Leave to the slow tests what parts of the ledger do on a server; SQLite shows it in half the time."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if params.get("ledger_url") == "postgresql" and item.path.stem not in CONTRACT:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'dedup.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request):
    """The URL of a ledger that is not there yet, once for each engine."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")


@pytest.fixture
def crawl(ledger_url):
    """Start crawls on the ledger of the test; all are finished at its end."""
    started: list[Crawl] = []

    def start(job_id: str = "job-1", **options) -> Crawl:
        corpus = options.pop("corpus", "default")
        started.append(Crawl(ledger_url, make_job(job_id, corpus=corpus), **options))
        return started[-1]

    yield start
    for one in started:
        one.writer.finish("finished")


@pytest.fixture
def read(ledger_url):
    """Open the ledger of the test for reading; closed at its end."""
    opened: list[Ledger] = []

    def open_ledger() -> Ledger:
        opened.append(Ledger.open(ledger_url))
        return opened[-1]

    yield open_ledger
    for one in opened:
        one.close()
