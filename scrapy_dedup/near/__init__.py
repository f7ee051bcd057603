"""Near-duplicates: fingerprints of texts that stay close when the texts do."""

from scrapy_dedup.near.simhash import SCHEME, simhash, simhash_batch

__all__ = ["SCHEME", "simhash", "simhash_batch"]
