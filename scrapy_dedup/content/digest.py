"""Digests of bodies and texts, all SHA-256 and all written ``sha256:<64 hex>``."""

from __future__ import annotations

import hashlib

from scrapy_dedup.content.normalise import normalized


def sha256_id(data: bytes) -> str:
    """Return the digest of some bytes in the written form of the records."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def text_digest(text: str) -> str:
    """Return the digest of exactly this string: line ends, case and spaces as they are.

    Raises:
        UnicodeEncodeError: the text holds a lone surrogate; ask `is_well_formed` first.
    """
    return sha256_id(text.encode("utf-8"))


def normalized_digest(text: str) -> str:
    """Return the digest of the normal form: the key for deduplication and change detection."""
    return sha256_id(normalized(text).encode("utf-8"))
