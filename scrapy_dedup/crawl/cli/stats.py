"""``scrapy dedup stats``: what the ledger holds, in numbers."""

from __future__ import annotations

import json

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.ledger import Ledger


def run(context: Context) -> int:
    """Print the counts of the ledger."""
    with Ledger.open(context.ledger_url()) as ledger:
        summary = ledger.summary()
    if context.options.json:
        context.write(json.dumps(summary, indent=2))
        return 0
    width = max(len(name) for name in summary)
    for name, count in summary.items():
        context.write(f"{name:<{width}}  {count:>12,}")
    return 0
