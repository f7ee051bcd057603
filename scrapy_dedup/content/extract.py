"""From the bytes of a page to its text, in two channels.

*main* is what trafilatura takes for the text of the page; it is stored and hashed as it is. *visible* is all
text that a visitor sees (resiliparse); it guards main, which can come from invisible data, can be missing,
and can lack sections. The trafilatura option ``deduplicate`` is never used: it makes the text of a page
depend on the pages before it.

Flags of an extraction:
    charset_suspect: valid UTF-8 declared as a single-byte charset; read as UTF-8.
    charset_unusable: the declared encoding is none for text; read as UTF-8.
    main_not_visible: the extractor's text is not on the page (taken from embedded data), so it was not used.
    fallback_visible: the extractor found no usable text, so the text is that of the visible blocks.
    scripted: there is no text, but there are scripts that may write one.
"""

from __future__ import annotations

from collections.abc import Sequence

import trafilatura
from resiliparse.extract.html2text import extract_plain_text

from scrapy_dedup.content.blocks import (
    PROSE_WORDS,
    Block,
    as_markdown,
    blocks,
    comparable,
    first_heading,
    residual_digest,
    spoken,
)
from scrapy_dedup.content.declarations import declarations
from scrapy_dedup.content.digest import normalized_digest, sha256_id, text_digest
from scrapy_dedup.content.extraction import Extraction, ExtractOptions, Payload
from scrapy_dedup.content.language import language_of
from scrapy_dedup.content.metadata import metadata
from scrapy_dedup.content.normalise import is_well_formed
from scrapy_dedup.content.outline import structure_of
from scrapy_dedup.content.page import HEADINGS, Decoded, Element, decode, parse, prepare
from scrapy_dedup.near.shingles import size_in_words
from scrapy_dedup.near.simhash import SCHEME, simhash
from scrapy_dedup.records import Text

# On 218 real pages the median share was 1.0 and the 5th percentile 0.996; text from embedded data is far
# below.
MIN_VISIBLE_SHARE = 0.9

# "Closed on Monday."
STATEMENT_WORDS = 3

_CONTROLS = ("button", "label", "option", "legend", "textarea")

# Scripts without a source that are data.
_DATA_SCRIPTS = frozenset({"application/ld+json", "application/json", "text/template", "text/html"})


def extract(payload: Payload, options: ExtractOptions) -> Extraction:
    """Return the text of a page and what the page states about itself.

    Never raises for any payload: what went wrong is the extraction's ``failure``. Takes seconds for each
    megabyte in the worst case and does not limit its own time.
    """
    digest = sha256_id(payload.body)
    if len(payload.body) > options.max_input_bytes:
        return Extraction(digest, failure="input_over_cap")
    decoded = decode(payload)
    if not is_well_formed(decoded.text):
        return Extraction(digest, failure="malformed_text", flags=decoded.flags)
    try:
        return _extract(digest, decoded, payload.url, options)
    except RecursionError:
        return Extraction(digest, failure="recursion", flags=decoded.flags)
    except Exception as error:  # noqa: BLE001  libraries raise anything; a page must not end a worker
        return Extraction(
            digest, failure=f"parser: {type(error).__name__}: {error}"[:300], flags=decoded.flags
        )


def _extract(digest: str, decoded: Decoded, url: str, options: ExtractOptions) -> Extraction:
    root = parse(decoded.text)
    if root is None:
        return Extraction(digest, flags=decoded.flags)
    visible = extract_plain_text(decoded.text, preserve_formatting=False, main_content=False, alt_texts=False)
    visible_tokens = comparable(visible)
    stated = metadata(root)
    declared = declarations(root)
    heading = first_heading(root)
    prepare(root)
    found = list(blocks(root))
    structure = structure_of(decoded.text, found, visible_tokens)
    main, flags = _usable(_main(root, url, options), visible_tokens, found, root)
    visible_words = int(size_in_words(visible_tokens))
    if main is None:
        scripted = ("scripted",) if _has_scripts(root) else ()
        noted = (*decoded.flags, *flags, *scripted)
        return Extraction(digest, None, None, visible_words, stated, noted, declared, structure)
    if not is_well_formed(main):
        return Extraction(digest, None, "malformed_text", visible_words, stated, decoded.flags, declared)
    text = _text(main, visible, residual_digest(found, main, heading), options)
    noted = (*decoded.flags, *flags)
    return Extraction(digest, text, None, visible_words, stated, noted, declared, structure)


def _main(root: Element, url: str, options: ExtractOptions) -> str | None:
    main: str | None = trafilatura.extract(
        root,
        url=url,
        output_format=options.format,
        favor_precision=options.focus == "precision",
        favor_recall=options.focus == "recall",
        include_comments=options.include_comments,
        include_tables=options.include_tables,
        include_links=options.include_links,
        deduplicate=False,
    )
    return main if main and main.strip() else None


def _usable(
    main: str | None, visible_tokens: Sequence[str], found: Sequence[Block], root: Element
) -> tuple[str | None, tuple[str, ...]]:
    """Return the text to keep, the extractor's or that of the visible blocks, and what to say about it."""
    if main is not None and _is_visible(main, visible_tokens):
        return (as_markdown(found) if _is_dump(main, found) else main), ()
    if main is not None and _says_something(found) and _is_visible(main, [*visible_tokens, *_labels(root)]):
        return as_markdown(found), ("fallback_visible",)
    flags = () if main is None else ("main_not_visible",)
    if size_in_words(token for block in found for token in comparable(block.unlinked)) < PROSE_WORDS:
        return None, flags
    return as_markdown(found), (*flags, "fallback_visible")


def _is_dump(main: str, found: Sequence[Block]) -> bool:
    """Tell whether a text is just every piece of text of the page on a line of its own.

    That is the extractor's last resort for very short pages. It breaks a sentence at each link and forgets
    what was a heading; the visible blocks say the same words and know.
    """
    if "\n" not in main or "\n\n" in main:
        return False
    return comparable(main) == [token for block in found for token in comparable(block.text)]


def _is_visible(main: str, visible_tokens: Sequence[str]) -> bool:
    words = spoken(main)
    seen = set(visible_tokens)
    return sum(word in seen for word in words) >= MIN_VISIBLE_SHARE * len(words)


def _labels(root: Element) -> list[str]:
    """Return what stands on the controls of a page; on a page of few words they are many of its words."""
    return comparable(" ".join(text for control in root.iter(*_CONTROLS) for text in control.itertext()))


def _says_something(found: Sequence[Block]) -> bool:
    """Tell whether there is a statement, and not only headings and labels."""
    return any(
        block.tag not in HEADINGS and size_in_words(comparable(block.unlinked)) >= STATEMENT_WORDS
        for block in found
    )


def _has_scripts(root: Element) -> bool:
    return any(script.get("type", "").lower() not in _DATA_SCRIPTS for script in root.iter("script"))


def _text(main: str, visible: str, residual: str | None, options: ExtractOptions) -> Text:
    word_count = int(size_in_words(comparable(main)))
    return Text(
        text=main,
        representation=options.format,
        extractor_id=options.extractor_id,
        text_digest=text_digest(main),
        normalized_digest=normalized_digest(main),
        visible_digest=normalized_digest(visible),
        residual_digest=residual,
        language=language_of(main, word_count),
        char_count=len(main),
        word_count=word_count,
        simhash=simhash(main),
        simhash_scheme=SCHEME,
    )
