"""Records as a crawl makes them, for the benchmarks that fill a ledger without one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from scrapy_dedup.records import Conditions, JobRecord, ObservationRecord, Outcome, Text, Validity


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def made_job(policy_id: str) -> JobRecord:
    return JobRecord(
        job_id="bench",
        spider="bench",
        corpus="default",
        settings_digest=digest("settings"),
        policy=policy_id,
        extractor="bench-1",
        source_digest=None,
        started_at="2026-01-02T03:04:05.000000Z",
    )


def made_observation(seq: int, url: str, policy_id: str, **changes: Any) -> ObservationRecord:
    """Return a page that was fetched, with what a benchmark wants otherwise."""
    made = ObservationRecord(
        observation_id="",
        job_id="bench",
        spider="bench",
        seq=seq,
        fetched_at="2026-01-02T03:04:06.123456Z",
        request_id=digest(url)[7:47],
        conditions=Conditions(),
        from_cache=False,
        gateway_status=None,
        access=None,
        request_url=url,
        fetch_url=url,
        url=url,
        redirect_urls=(),
        url_key=url,
        policy_id=policy_id,
        document_url=None,
        referrer_url=None,
        depth=0,
        http_status=200,
        content_type="text/html; charset=utf-8",
        etag=None,
        last_modified=None,
        payload_digest=digest(url),
        payload_bytes=40_000,
        outcome=Outcome.FETCHED,
        validity=Validity.VALID,
        validity_reason=None,
        recovery=None,
    )
    return replace(made, **changes)


def made_text(text: str, **changes: Any) -> Text:
    own = digest(text)
    made = Text(
        text=text,
        representation="markdown",
        extractor_id="bench-1",
        text_digest=own,
        normalized_digest=digest(" ".join(text.split()).lower()),
        visible_digest=None,
        residual_digest=None,
        language="en",
        char_count=len(text),
        word_count=len(text.split()),
        simhash=own[7:23],
        simhash_scheme="simhash64-w3-1",
    )
    return replace(made, **changes)
