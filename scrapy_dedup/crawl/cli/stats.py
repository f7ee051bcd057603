"""``scrapy dedup stats``: what the ledger holds, in numbers."""

from __future__ import annotations

import json
from collections import Counter

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.ledger import Ledger


def run(context: Context) -> int:
    """Print the counts of the ledger."""
    with Ledger.open(context.ledger_url()) as ledger:
        summary = ledger.summary() | relation_counts(ledger)
    if context.options.json:
        context.write(json.dumps(summary, indent=2))
        return 0
    width = max(len(name) for name in summary)
    for name, count in summary.items():
        context.write(f"{name:<{width}}  {count:>12,}")
    return 0


def relation_counts(ledger: Ledger) -> dict[str, int]:
    """Return the number of relations of each kind in each state, and of decisions of each action."""
    relations = Counter(f"relations_{row.kind.value}_{row.state.value}" for row in ledger.relations())
    decisions = Counter(f"decisions_{row.action.value}" for row in ledger.decisions())
    return {
        "relations": relations.total(),
        **dict(sorted(relations.items())),
        "decisions": decisions.total(),
        **dict(sorted(decisions.items())),
    }
