"""From the bytes of a page to its text."""

from __future__ import annotations

import lxml.html
import trafilatura

from scrapy_dedup.content.digest import normalized_digest, sha256_id, text_digest
from scrapy_dedup.content.extraction import Extraction, ExtractOptions, Payload
from scrapy_dedup.near.simhash import SCHEME, simhash
from scrapy_dedup.records import Text


def extract(payload: Payload, options: ExtractOptions) -> Extraction:
    """Return the main text of a page."""
    digest = sha256_id(payload.body)
    parser = lxml.html.HTMLParser(
        huge_tree=True, collect_ids=False, remove_comments=True, remove_pis=True, encoding="utf-8"
    )
    decoded = payload.body.decode(payload.encoding, "replace")
    if not decoded.strip():
        return Extraction(digest)
    tree = lxml.html.document_fromstring(decoded.encode("utf-8"), parser=parser)
    main = trafilatura.extract(tree, output_format="markdown", include_comments=False)
    if main is None:
        return Extraction(digest)
    text = Text(
        main, options.format, options.extractor_id, text_digest(main), normalized_digest(main), None, None, None,
        len(main), len(main.split()), simhash(main), SCHEME,
    )  # fmt: skip
    return Extraction(digest, text, visible_words=len(main.split()))
