"""What reaches the model: passages that a search returns, each once, with every place where it stands."""

from scrapy_dedup.retrieval.hits import Dropped, DropReason, Hit, Kept, dedupe_hits

__all__ = ["DropReason", "Dropped", "Hit", "Kept", "dedupe_hits"]
