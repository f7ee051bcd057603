"""Ledgers written record by record, for the commands that read them."""

from __future__ import annotations

from scrapy_dedup.ledger import LedgerWriter, Sighting
from scrapy_dedup.records import AliasRecord, Outcome, Sourced, Validity
from scrapy_dedup.urls import UrlPolicy

from ..ledger.conftest import make_job, make_observation, make_text, sha

POLICY = UrlPolicy.preset("standard", hosts={"shop.example": {"allow": ["page"]}})
SHOP = "https://shop.example/lamps?page=2"
MIRROR = "https://mirror.example/lamps"
HOSTILE_TITLE = "Lamps\x1b]0;owned\x07"
PROSE = "A lamp gives light where the sun does not reach."


sha256 = sha


def text_of(prose):
    return make_text(prose, extractor_id="test-1", visible_digest=None, simhash="0123456789abcdef")


def job(job_id):
    return make_job(job_id, spider="shop", policy=POLICY.policy_id, extractor="test-1")


def observation(writer, job_id, url, *, status=200, extra=None):
    decision = POLICY.decide(url)
    failed = {
        "outcome": Outcome.ERROR,
        "validity": Validity.HTTP_ERROR,
        "validity_reason": f"status {status}",
    }
    return make_observation(
        writer.next_seq(),
        url,
        job(job_id),
        http_status=status,
        url_key=decision.key,
        policy_id=decision.policy_id,
        title=Sourced(HOSTILE_TITLE, "title"),
        extra=extra or {},
        **({} if status == 200 else failed),
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
