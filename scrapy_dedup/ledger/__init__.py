"""The ledger: every page seen, once for each time it was seen, and every distinct text once.

`LedgerWriter` is what a crawl writes with, `Ledger` what everything else reads with.
"""

from scrapy_dedup.ledger.codec import body_id, observation_id
from scrapy_dedup.ledger.decide import KnownPage, Recorded, Sighting
from scrapy_dedup.ledger.decisions import Decisions, Overrides, record_decision
from scrapy_dedup.ledger.reader import Ledger, Lookup
from scrapy_dedup.ledger.writer import LedgerWriter

__all__ = [
    "Decisions",
    "KnownPage",
    "Ledger",
    "LedgerWriter",
    "Lookup",
    "Overrides",
    "Recorded",
    "Sighting",
    "body_id",
    "observation_id",
    "record_decision",
]
