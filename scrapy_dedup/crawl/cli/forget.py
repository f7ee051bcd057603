"""``scrapy dedup forget``: what was seen does not count any more, so that the next crawl fetches it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.ruling import Ruling, rule
from scrapy_dedup.crawl.cli.signature import signature
from scrapy_dedup.crawl.suite import utc_now
from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.codec import relation_id
from scrapy_dedup.records import DecisionAction, RelationKind, RelationRecord, RelationState

POLICY = "forget-1"


def run(context: Context) -> int:
    """Write a decision for each URL key, or for the keys that begin alike, and say what it covers."""
    place: str = context.options.place
    url, by = context.ledger_url(), signature(context.options.by)
    with Ledger.open(url) as ledger:
        sides = _of_prefix(ledger, place[:-1]) if place.endswith("*") else _of_url(ledger, place)
    if not sides:
        raise DedupError(f"the ledger holds no page under {place}, so there is nothing to forget")
    rulings = [
        Ruling(_forgotten(corpus, side), DecisionAction.FORGET, covers=_counted(count))
        for (corpus, side), count in sides.items()
    ]
    rule(context, url, rulings, by=by)
    return 0


def _of_url(ledger: Ledger, url: str) -> Mapping[tuple[str, str], int]:
    """Return corpus and key of what was seen under a URL, as ``explain`` finds it."""
    keys = {row.url_key for row in ledger.lookup(url).observations}
    return {(place.corpus, place.url_key): 1 for place in ledger.places() if place.url_key in keys}


def _of_prefix(ledger: Ledger, prefix: str) -> Mapping[tuple[str, str], int]:
    """Return corpus and beginning of keys, with the number of keys of each, that a prefix of URLs means."""
    sides = sorted(set(_sides(ledger, prefix)), key=len)
    counts: Counter[tuple[str, str]] = Counter()
    for corpus, key in {(place.corpus, place.url_key) for place in ledger.places()}:
        side = next((side for side in sides if _covers(side, key)), None)
        if side is not None:
            counts[corpus, side] += 1
    return counts


def _sides(ledger: Ledger, prefix: str) -> Iterator[str]:
    """Yield what keys of URLs with a prefix may look like: as typed, and with the host as policies write it.

    A key may lack the slash at the end of its URL: ``/docs/*`` means ``/docs``, and all below it.
    """
    scheme, _, place = prefix.partition("://")
    host, slash, path = place.partition("/")
    roots = ledger.keys_of(f"{scheme}://{host}/") if slash else ()
    for side in (prefix, *(root + path for root in roots if root.endswith("/"))):
        yield f"{side}*"
        if path.endswith("/"):
            yield side[:-1]


def _covers(side: str, key: str) -> bool:
    return key.startswith(side[:-1]) if side.endswith("*") else key == side


def _counted(count: int) -> str:
    return f"{count:,} URL {'key' if count == 1 else 'keys'} in the ledger"


def _forgotten(corpus: str, side: str) -> RelationRecord:
    return RelationRecord(
        relation_id=relation_id(RelationKind.FORGOTTEN.value, corpus, side, ""),
        kind=RelationKind.FORGOTTEN,
        corpus=corpus,
        a=side,
        b="",
        a_digest=None,
        b_digest=None,
        state=RelationState.UNRESOLVED,
        measures={},
        reasons=(),
        policy=POLICY,
        job_id=None,
        created_at=utc_now(),
    )
