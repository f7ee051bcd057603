"""Content: the text of a page, what identifies it, and whether it can serve as evidence.

`extract` itself lives in `scrapy_dedup.content.extract`, which loads the extractors; what is named here does
not.
"""

from scrapy_dedup.content.digest import normalized_digest, sha256_id, text_digest
from scrapy_dedup.content.extraction import Extraction, ExtractOptions, PageMetadata, Payload
from scrapy_dedup.content.normalise import is_well_formed, normalized
from scrapy_dedup.content.pool import ExtractionPool
from scrapy_dedup.content.validity import Judgement, ResponseFacts, is_html, judge

__all__ = [
    "ExtractOptions",
    "Extraction",
    "ExtractionPool",
    "Judgement",
    "PageMetadata",
    "Payload",
    "ResponseFacts",
    "is_html",
    "is_well_formed",
    "judge",
    "normalized",
    "normalized_digest",
    "sha256_id",
    "text_digest",
]
