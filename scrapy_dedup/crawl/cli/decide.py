"""``scrapy dedup decide``: what is to hold of a relation until the content of its sides changes."""

from __future__ import annotations

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.relations import find_relation
from scrapy_dedup.crawl.cli.ruling import Ruling, rule
from scrapy_dedup.crawl.cli.signature import signature
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.records import DecisionAction


def run(context: Context) -> int:
    """Write the decision and say what follows from it."""
    options = context.options
    url, by = context.ledger_url(), signature(options.by)
    with Ledger.open(url) as ledger:
        relation = find_relation(ledger, options.relation, options.url)
    ruling = Ruling(relation, DecisionAction(options.action))
    rule(context, url, [ruling], by=by)
    return 0
