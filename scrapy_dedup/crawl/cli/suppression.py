"""What ``scrapy dedup review --would-suppress`` says: the texts that a crawl would leave out of an index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from scrapy_dedup.crawl.addon import read_config
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import printable, redacted, shown_url
from scrapy_dedup.crawl.cli.relations import short
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.suppression import Suppression, mark_looked

MAX_PAIRS_TOLD = 20
MAX_HOSTS_TOLD = 10
WARN_AT = 0.5
"""A host that would lose more of its texts is marked: it is a mirror, or its template is not known."""

WARN_FROM = 5
"""Texts lost; of a host with fewer nobody can tell."""


def tell_suppression(context: Context, url: str, corpus: str) -> int:
    """Say what suppression would do, and write down that somebody has looked.

    Raises:
        ConfigError: the settings are wrong.
        LedgerUnavailable: there is no ledger, or it cannot be written.
    """
    min_jaccard = read_config(context.settings).near_jaccard
    with Ledger.open(url) as ledger:
        found = ledger.would_suppress(corpus, min_jaccard)
    if found.relations:
        mark_looked(url, corpus)
    if context.options.json:
        context.write(json.dumps(_as_json(found, corpus, min_jaccard), indent=2, ensure_ascii=True))
    else:
        context.write("\n".join(_told(context, found, corpus, min_jaccard)))
    return 0


def _told(context: Context, found: Suppression, corpus: str, min_jaccard: float) -> Iterator[str]:
    if not found.relations:
        yield (
            f"No similar texts are known in the corpus {printable(corpus)}. A crawl with DEDUP_NEAR = "
            "\"review\" finds them, and so does 'scrapy dedup batch'."
        )
        return
    share = found.suppressed / found.texts if found.texts else 0.0
    yield printable(
        f'DEDUP_NEAR = "suppress" with DEDUP_NEAR_JACCARD = {min_jaccard:g} would have marked '
        f"{found.suppressed:,} of {found.texts:,} texts of the corpus {corpus} as reuse ({share:.1%}, "
        f"{found.chars:,} characters), by {found.relations:,} pairs of similar texts. All observations and "
        "texts would stay."
    )
    yield from _hosts(found)
    if found.listed:
        yield "The least similar first:"
    for one in found.listed[:MAX_PAIRS_TOLD]:
        yield f"  {one.verdict} {one.jaccard:.3f}  {shown_url(one.url)}"
        yield f"    as {shown_url(one.leader_url)}"
        yield f"    keep both: {context.command('decide', short(one.relation_id), 'different')}"
    more = found.suppressed - min(len(found.listed), MAX_PAIRS_TOLD)
    if more:
        yield f"  and {more:,} more; --json lists {len(found.listed):,}"


def _hosts(found: Suppression) -> Iterator[str]:
    for host, (lost, held) in list(found.hosts.items())[:MAX_HOSTS_TOLD]:
        warning = "  more than half of it!" if lost >= WARN_FROM and lost > held * WARN_AT else ""
        yield f"  {printable(host)}: {lost:,} of {held:,} texts{warning}"
    if len(found.hosts) > MAX_HOSTS_TOLD:
        yield f"  and {len(found.hosts) - MAX_HOSTS_TOLD:,} more hosts"


def _as_json(found: Suppression, corpus: str, min_jaccard: float) -> dict[str, object]:
    return {
        "corpus": corpus,
        "min_jaccard": min_jaccard,
        "relations": found.relations,
        "texts": found.texts,
        "suppressed": found.suppressed,
        "characters": found.chars,
        "hosts": {host: {"suppressed": lost, "texts": held} for host, (lost, held) in found.hosts.items()},
        "pairs": [
            {**redacted(asdict(one)), "leader_url": redacted({"url": one.leader_url})["url"]}
            for one in found.listed
        ],
    }
