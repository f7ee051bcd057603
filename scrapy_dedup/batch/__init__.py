"""A whole corpus at once: all pairs of similar texts, verified one by one, and groups around leaders."""

from scrapy_dedup.batch.local import Progress, Summary, run_batch
from scrapy_dedup.batch.plan import Plan, parse_bytes

__all__ = ["Plan", "Progress", "Summary", "parse_bytes", "run_batch"]
