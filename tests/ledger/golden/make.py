"""Make the golden ledger of the present schema version; run once for each released version.

``python tests/ledger/golden/make.py`` writes ``ledger-v<version>.db`` beside this file and refuses to replace
one. What such a file holds is stated in ``ledger-v<version>.jsonl``, as the package read it when it was made.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from scrapy_dedup.ledger import (
    KnownPage,
    Ledger,
    LedgerWriter,
    Sighting,
    body_id,
    observation_id,
    record_decision,
)
from scrapy_dedup.ledger.events import Claim, record_claims
from scrapy_dedup.ledger.plans import PlanChange, confirm_plan, save_plan
from scrapy_dedup.ledger.schema import SCHEMA_VERSION
from scrapy_dedup.records import (
    AliasRecord,
    Conditions,
    DecisionAction,
    JobRecord,
    ObservationRecord,
    Outcome,
    Recovery,
    RelationKind,
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


SITE = "https://site.example"
LINKS = '{"format":1,"author":"_parse","links":[{"url":"https://site.example/b"}]}'
SORRY = [f"/{folder}/{folder}{folder}" for folder in "pqrst"]


def claims(target: str) -> dict[str, object]:
    return {"declared": [], "noindex": False, "target": SITE + target, "target_key": SITE + target}


def pages() -> list[Sighting]:
    first = observation_id(JOB.job_id, 0)
    found = [
        Sighting(observation(0, "/a"), text("The Text"), links=LINKS),
        Sighting(observation(1, "/b", canonical=claims("/a")), text("The Text")),
        Sighting(observation(2, "/c"), text("the text")),
        Sighting(observation(3, "/a"), text("Another text")),
        Sighting(observation(4, "/empty", validity=Validity.EMPTY, recovery=Recovery.RENDER), None),
        Sighting(observation(5, "/gone", outcome=Outcome.GONE, validity=Validity.HTTP_ERROR), None),
        Sighting(observation(6, "/d", canonical=claims("/c")), text("A third text")),
    ]
    found += [Sighting(observation(7 + place, path), text("Sorry.")) for place, path in enumerate(SORRY)]
    unread = observation(12, "/a", outcome=Outcome.NOT_MODIFIED, http_status=304, payload_digest=None)
    body = body_id(JOB.corpus, sha("The Text"), "markdown", "x-1")
    found.append(Sighting(unread, None, links=LINKS, known=KnownPage("not_modified", first, body)))
    return found


def decide(url: str) -> None:
    """Decide about relations of some kinds, and take one decision back."""
    with Ledger.open(url) as ledger:
        found = {relation.kind: relation for relation in ledger.relations()}
    for kind, action in [
        (RelationKind.SAME_TEXT, DecisionAction.DIFFERENT),
        (RelationKind.REVISION, DecisionAction.SAME),
        (RelationKind.CONTENT_INVALID, DecisionAction.ACCEPT),
        (RelationKind.URL_MERGED, DecisionAction.DIFFERENT),
        (RelationKind.CANONICAL, DecisionAction.DIFFERENT),
        (RelationKind.REVISION, DecisionAction.UNDO),
    ]:
        record_decision(url, found[kind], action, by="human:golden", note="Größe \x00 \ud800")
    seen = observation_id(JOB.job_id, 6)
    said = [Claim(seen, JOB.corpus, event, "why", None, "human:golden", None) for event in ("one", "two")]
    record_claims(url, said[:1], at="2026-01-02T04:00:00Z")
    record_claims(url, said, at="2026-01-02T05:00:00Z")


def plans(url: str) -> None:
    """Confirm a plan for an index, and leave another one waiting."""
    for number, name in enumerate(("upserted", "deleted", "waiting")):
        changes = [
            PlanChange(
                f"entry1-{place:032x}",
                is_delete=name == "deleted" and place == 1,
                embed_key=sha(f"vector {place}"),
                payload=sha(f"payload {place}")[7:],
                owners=(f"{SITE}/a", "größe \x00"),
            )
            for place in range(number, 2 + number)
        ]
        plan_id = f"plan1-{number:032x}"
        options = {"chunk_policy": "chunks1-0123456789abcdef", "template": None}
        with Ledger.open(url) as ledger:
            starts_at = ledger.index_basis(JOB.corpus, "golden")
        save_plan(
            url,
            JOB.corpus,
            "golden",
            plan_id=plan_id,
            options=options,
            changes=changes,
            is_whole=False,
            starts_at=starts_at,
        )
        if name != "waiting":
            confirm_plan(url, JOB.corpus, "golden", plan_id)


def main() -> int:
    path = FOLDER / f"ledger-v{SCHEMA_VERSION}.db"
    if path.exists():
        print(f"{path} exists; a golden ledger is never replaced")
        return 1
    url = f"sqlite:///{path}"
    writer = LedgerWriter(url, JOB, SPEC, reuse_normalized=True)
    for sighting in pages():
        writer.record(sighting).result()
    for raw in ("?utm_source=x", "?utm_source=y"):
        key = SITE + "/a"
        writer.note(AliasRecord(JOB.job_id, key + raw, key, key, "rewritten", "tracking", None, 1, 2))
    writer.finish("finished")
    decide(url)
    plans(url)
    path.with_name(path.name + ".lock").unlink()
    with Ledger.open(url) as ledger:
        held = [*ledger.jobs(), *ledger.observations(), *ledger.bodies(), *ledger.aliases()]
        held += [*ledger.relations(), *ledger.decisions()]
    for beside in FOLDER.glob(f"{path.name}-*"):
        beside.unlink()
    lines = [json.dumps(to_dict(record), sort_keys=True) for record in held]
    path.with_suffix(".jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
