"""Make the golden ledger of the present schema version; run once for each released version.

``python tests/ledger/golden/make.py`` writes ``ledger-v<version>.db`` beside this file and refuses to replace
one. What such a file holds is stated in ``ledger-v<version>.jsonl``, as the package read it when it was made.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting
from scrapy_dedup.ledger.schema import SCHEMA_VERSION
from scrapy_dedup.records import (
    AliasRecord,
    Conditions,
    JobRecord,
    ObservationRecord,
    Outcome,
    Recovery,
    Sourced,
    Text,
    Validity,
    to_dict,
)

FOLDER = Path(__file__).parent
JOB = JobRecord(
    job_id="golden",
    spider="demo",
    corpus="default",
    settings_digest="sha256:" + "1" * 64,
    policy="standard-1:0123456789abcdef",
    extractor="x-1",
    source_digest=None,
    started_at="2026-01-02T03:04:05Z",
)
SPEC = {"preset": "standard", "hosts": {}}


def sha(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def text(words: str) -> Text:
    folded = sha(words.lower())
    simhash = folded[7:23]
    return Text(
        words,
        "markdown",
        "x-1",
        sha(words),
        folded,
        None,
        None,
        "en",
        len(words),
        2,
        simhash,
        "simhash64-w3-1",
    )


def observation(seq: int, path: str, **changes: object) -> ObservationRecord:
    url = "https://site.example" + path
    fields: dict[str, object] = {
        "observation_id": "",
        "job_id": JOB.job_id,
        "spider": JOB.spider,
        "seq": seq,
        "fetched_at": f"2026-01-02T03:04:{10 + seq}.25Z",
        "request_id": f"request-{seq}",
        "conditions": Conditions(language="de"),
        "from_cache": False,
        "gateway_status": None,
        "access": None,
        "request_url": url + "?utm_source=x",
        "fetch_url": url,
        "url": url,
        "redirect_urls": (),
        "url_key": url,
        "policy_id": "standard-1:0123456789abcdef",
        "document_url": None,
        "referrer_url": None,
        "depth": 1,
        "http_status": 200,
        "content_type": "text/html",
        "etag": None,
        "last_modified": None,
        "payload_digest": sha(url),
        "payload_bytes": 100,
        "outcome": Outcome.FETCHED,
        "validity": Validity.VALID,
        "validity_reason": None,
        "recovery": None,
        "title": Sourced("Grüße \x00 \ud800", "title"),
        "extra": {"price": 1.5},
    }
    return ObservationRecord(**{**fields, **changes})


def pages() -> list[Sighting]:
    return [
        Sighting(observation(0, "/a"), text("The Text")),
        Sighting(observation(1, "/b"), text("The Text")),
        Sighting(observation(2, "/c"), text("the text")),
        Sighting(observation(3, "/a"), text("Another text")),
        Sighting(observation(4, "/empty", validity=Validity.EMPTY, recovery=Recovery.RENDER), None),
        Sighting(observation(5, "/gone", outcome=Outcome.GONE, validity=Validity.HTTP_ERROR), None),
    ]


def main() -> int:
    path = FOLDER / f"ledger-v{SCHEMA_VERSION}.db"
    if path.exists():
        print(f"{path} exists; a golden ledger is never replaced")
        return 1
    writer = LedgerWriter(f"sqlite:///{path}", JOB, SPEC, reuse_normalized=True)
    for sighting in pages():
        writer.record(sighting).result()
    for raw in ("?utm_source=x", "?utm_source=y"):
        url = "https://site.example/a"
        writer.note(AliasRecord(JOB.job_id, url + raw, url, url, "rewritten", "tracking", None, 1, 2))
    writer.finish("finished")
    path.with_name(path.name + ".lock").unlink()
    with Ledger.open(f"sqlite:///{path}") as ledger:
        held = [*ledger.jobs(), *ledger.observations(), *ledger.bodies(), *ledger.aliases()]
    for beside in FOLDER.glob(f"{path.name}-*"):
        beside.unlink()
    lines = [json.dumps(to_dict(record), sort_keys=True) for record in held]
    path.with_suffix(".jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
