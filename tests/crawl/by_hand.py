"""Ledgers written record by record, for the commands that read them."""

from __future__ import annotations

import hashlib

from scrapy_dedup.ledger import LedgerWriter, Sighting
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
from scrapy_dedup.urls import UrlPolicy

POLICY = UrlPolicy.preset("standard", hosts={"shop.example": {"allow": ["page"]}})
SHOP = "https://shop.example/lamps?page=2"
MIRROR = "https://mirror.example/lamps"
HOSTILE_TITLE = "Lamps\x1b]0;owned\x07"
PROSE = "A lamp gives light where the sun does not reach."


def sha256(text):
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def text_of(prose):
    return Text(
        text=prose,
        representation="markdown",
        extractor_id="test-1",
        text_digest=sha256(prose),
        normalized_digest=sha256(" ".join(prose.split()).lower()),
        visible_digest=None,
        residual_digest=None,
        language="en",
        char_count=len(prose),
        word_count=len(prose.split()),
        simhash="0123456789abcdef",
        simhash_scheme="simhash64-w3-1",
    )


def job(job_id):
    return JobRecord(
        job_id=job_id,
        spider="shop",
        corpus="default",
        settings_digest=sha256("settings"),
        policy=POLICY.policy_id,
        extractor="test-1",
        source_digest=None,
        started_at="2026-01-02T03:04:05.000000Z",
    )


def observation(writer, job_id, url, *, status=200, extra=None):
    return ObservationRecord(
        observation_id="",
        job_id=job_id,
        spider="shop",
        seq=writer.next_seq(),
        fetched_at="2026-01-02T03:04:06.000000Z",
        request_id="r",
        conditions=Conditions(),
        from_cache=False,
        gateway_status=None,
        access=None,
        request_url=url,
        fetch_url=url,
        url=url,
        redirect_urls=(),
        url_key=POLICY.decide(url).key,
        policy_id=POLICY.decide(url).policy_id,
        document_url=None,
        referrer_url=None,
        depth=0,
        http_status=status,
        content_type="text/html",
        etag=None,
        last_modified=None,
        payload_digest=sha256(url),
        payload_bytes=10,
        outcome=Outcome.FETCHED if status == 200 else Outcome.ERROR,
        validity=Validity.VALID if status == 200 else Validity.HTTP_ERROR,
        validity_reason=None if status == 200 else f"status {status}",
        recovery=None,
        title=Sourced(HOSTILE_TITLE, "title"),
        extra=extra or {},
    )


def alias(job_id, raw_url, rule):
    decision = POLICY.decide(raw_url)
    return AliasRecord(
        job_id=job_id,
        raw_url=raw_url,
        fetch_url=decision.fetch_url,
        url_key=decision.key,
        verdict="merged",
        rule=rule,
        referrer_url="https://shop.example/",
        depth=1,
        count=1,
    )


def fill(url):
    """Two jobs: the first brings one text, seen at two URLs, and a failure; the second sees it again."""
    for job_id, urls in [("first", [SHOP, MIRROR]), ("second", [SHOP])]:
        writer = LedgerWriter(url, job(job_id), POLICY.spec(), reuse_normalized=True)
        writer.open()
        for page in urls:
            sighting = Sighting(observation(writer, job_id, page, extra={"note": "a\ud800"}), text_of(PROSE))
            writer.record(sighting).result(timeout=20)
        if job_id == "first":
            failed = observation(writer, job_id, "https://shop.example/gone\u202e\x1b[31m", status=404)
            writer.record(Sighting(failed, None)).result(timeout=20)
            for _ in range(3):
                writer.note(alias(job_id, f"{SHOP}&utm_source=x", "tracking"))
            writer.note(alias(job_id, f"{SHOP}&color=red", "facet"))
        writer.finish("finished")
