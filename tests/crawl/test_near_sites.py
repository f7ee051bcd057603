"""Similar pages of two real manuals in all versions: what they are to each other, what is suppressed."""

from __future__ import annotations

import os
import re
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scrapy_dedup import Ledger
from scrapy_dedup.ledger.near_relations import is_suppressible
from scrapy_dedup.near.claims import MIN_JACCARD
from scrapy_dedup.records import RelationKind, RelationRecord

from .server import Server
from .test_canonical_sites import SPIDER, files_below

CORPUS = os.environ.get("SCRAPY_DEDUP_CORPUS")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CORPUS, reason="SCRAPY_DEDUP_CORPUS names no folder with real sites"),
]

HOST = "http://manual.test"
SETTINGS = {"DEDUP_NEAR": "suppress", "CONCURRENT_REQUESTS_PER_DOMAIN": 8}

# The least and the most pairs of each verdict. Which page leads the versions of it depends on which answer
# came first, and so do the counts, a little.
BOUNDS = {
    "httpcommand": {
        "reformatted": (10, 18),
        "edited": (2, 8),
        "contains": (10, 24),
        "claim_changed": (50, 85),
    },
    "3dcitydb": {
        "reformatted": (0, 2),
        "edited": (0, 2),
        "contains": (1, 8),
        "claim_changed": (2, 10),
    },
}
SUPPRESSED = {"httpcommand": (6, 16), "3dcitydb": (0, 2)}


@dataclass(frozen=True)
class Manual:
    """What a crawl of a manual left in its ledger."""

    observations: tuple[Any, ...]
    texts: dict[str, str]
    relations: tuple[RelationRecord, ...]


@pytest.fixture(scope="module", params=BOUNDS)
def manual(request, crawl, tmp_path_factory):
    """Crawl all pages of a manual, in all versions, with suppression."""
    folder = tmp_path_factory.mktemp(request.param)
    with tarfile.open(Path(str(CORPUS)) / "sites" / f"{request.param}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    root = folder / request.param
    files = sorted(str(file.relative_to(root)) for file in root.rglob("*.html"))
    server = Server({"*": files_below(root, "/")})
    try:
        start = [f"{HOST}/{file.removesuffix('index.html')}" for file in files]
        done = crawl(
            SPIDER, start=start, domain="manual.test", proxy=server, settings=SETTINGS, timeout_s=850
        )
    finally:
        server.close()
    assert done.exit_code == 0
    with Ledger.open(f"sqlite:///{done.ledger_path}") as ledger:
        texts = {body.body_id: body.text for body in ledger.bodies()}
        relations = tuple(ledger.relations(kind=RelationKind.NEAR))
        return request.param, Manual(tuple(ledger.observations()), texts, relations)


def test_the_verdicts_on_the_pairs_of_a_manual(manual):
    name, site = manual

    found = Counter(one.measures["verdict"] for one in site.relations)
    assert set(found) <= set(BOUNDS[name])
    outside = {
        verdict: found[verdict]
        for verdict, (least, most) in BOUNDS[name].items()
        if not least <= found[verdict] <= most
    }
    assert outside == {}


def test_no_page_is_suppressed_by_one_that_differs_in_a_digit(manual):
    name, site = manual

    pairs = [one for one in site.relations if is_suppressible(one, MIN_JACCARD)]
    wrong = [
        (one.a, one.b)
        for one in pairs
        if Counter(re.findall(r"\d+", site.texts[one.a])) != Counter(re.findall(r"\d+", site.texts[one.b]))
    ]
    assert wrong == []
    suppressed = {row.body_id for row in site.observations if row.reason == "near_duplicate"}
    least, most = SUPPRESSED[name]
    assert least <= len(suppressed) <= most
    assert suppressed <= {side for one in pairs for side in (one.a, one.b)}


def test_no_page_of_a_manual_is_lost(manual):
    name, site = manual

    valid = [row for row in site.observations if row.validity == "valid"]
    assert len(valid) >= {"httpcommand": 260, "3dcitydb": 230}[name]
    assert {row.body_id for row in valid} == set(site.texts)
