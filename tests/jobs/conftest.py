"""Ledgers with pages in them, and their chunks and plans."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.jobs.live import live_chunks
from scrapy_dedup.jobs.plan import plan_index
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.plans import confirm_plan, save_plan
from scrapy_dedup.near.simhash import simhash
from scrapy_dedup.records import Outcome, Validity

from ..ledger.conftest import Crawl, make_job, make_text

SITE = "https://site.example"
GONE = {"outcome": Outcome.GONE, "validity": Validity.HTTP_ERROR, "http_status": 404, "payload_digest": None}
TIMEOUT = {
    "outcome": Outcome.ERROR,
    "validity": None,
    "http_status": None,
    "payload_digest": None,
    "payload_bytes": None,
    "reason": "timeout",
}


class Site:
    """A site that is crawled again and again; each crawl sees the pages that it is given."""

    def __init__(self, folder) -> None:
        self.url = f"sqlite:///{folder / 'dedup.db'}"
        self.jobs = 0

    def crawl(self, pages, *, moved=(), near=None, reuse_normalized=True, **changes) -> str:
        """Crawl pages, by path: a text, GONE, TIMEOUT, or a text with changes of its observation.

        ``near`` are options by which similar texts are looked for, with fingerprints of their own.
        """
        self.jobs += 1
        job_id = f"job-{self.jobs}"
        changes = {"fetched_at": f"2026-01-02T03:{self.jobs:02}:05.678901Z", **changes}
        job = make_job(job_id, corpus=changes.pop("corpus", "default"))
        with Crawl(self.url, job, near=near, reuse_normalized=reuse_normalized) as one:
            waiting = []
            for path, seen in pages.items():
                url = path if "://" in path else SITE + path
                text, own = seen if isinstance(seen, tuple) else (seen, {})
                if isinstance(text, dict):
                    text, own = None, text
                if near is not None and text is not None:
                    text = make_text(text, simhash=simhash(text))
                waiting.append(one.submit(text, url, **{**changes, **own}))
            for done in waiting:
                done.result(30)
            for source, target in moved:
                one.note(SITE + source, SITE + target, "redirect", verdict="redirected")
        return job_id

    def chunks(self, *, corpus="default", until=None, **options):
        """Return the records of the distinct chunks, and how many there are."""
        with (
            Ledger.open(self.url) as ledger,
            live_chunks(ledger, corpus, ChunkOptions(**options), until=until) as live,
        ):
            return SimpleNamespace(records=list(live.records()), counts=live.counts)

    def plan(self, *, apply=False, max_delete=1.0, since=None, is_empty=False, target="default", **options):
        """Return a plan, and confirm it if it is to be applied."""
        with (
            Ledger.open(self.url) as ledger,
            plan_index(
                ledger,
                "default",
                ChunkOptions(**options),
                target=target,
                since=since,
                is_empty=is_empty,
            ) as plan,
        ):
            plan.refuse_mass_delete(max_delete)
            made = SimpleNamespace(
                id=plan.plan_id,
                records=list(plan.records()),
                counts=plan.counts,
            )
            save_plan(
                self.url,
                "default",
                target,
                plan_id=plan.plan_id,
                options=plan.options,
                changes=plan.changes(),
                is_whole=plan.is_whole,
                starts_at=plan.starts_at,
            )
        if apply:
            confirm_plan(self.url, "default", target, made.id)
        made.upserts = {one.text: one for one in made.records if one.op.value == "upsert"}
        made.keeps = [one for one in made.records if one.op.value == "keep"]
        made.deletes = [one for one in made.records if one.op.value == "delete"]
        return made


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)
