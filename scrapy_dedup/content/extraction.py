"""The values of extraction: what goes into a worker and what comes back.

Nothing here loads an extractor, so the crawl's own process can use these classes at no cost.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Literal

from scrapy_dedup.content.canonical import PageDeclarations
from scrapy_dedup.content.structure import Structure
from scrapy_dedup.records import Sourced, Text

# Names what we do to a page before and after the libraries see it; a change in that is a new extractor.
OUR_STEPS = "page-1"

_LIBRARIES = ("trafilatura", "lxml", "resiliparse")

# Failures that say more about the moment than about the page; another attempt may not have them.
PASSING_FAILURES = frozenset({"time_limit", "worker_died"})

Format = Literal["markdown", "txt"]
Focus = Literal["balanced", "precision", "recall"]


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """How the main text of a page is found and written.

    Attributes:
        format: "markdown" or "txt"; what is stored, hashed and later cut into chunks.
        focus: "balanced", "precision" (less boilerplate, more loss) or "recall".
        include_comments: keep the readers' comments; forums gain, articles lose.
        include_tables: keep tables.
        include_links: keep link targets in the text.
        max_input_bytes: a larger body is not extracted: extraction can take seconds for each megabyte.
    """

    format: Format = "markdown"
    focus: Focus = "balanced"
    include_comments: bool = False
    include_tables: bool = True
    include_links: bool = False
    max_input_bytes: int = 3_000_000

    def __post_init__(self) -> None:
        if self.format not in ("markdown", "txt"):
            raise ValueError(f"format is {self.format!r}; use 'markdown' or 'txt'")
        if self.focus not in ("balanced", "precision", "recall"):
            raise ValueError(f"focus is {self.focus!r}; use 'balanced', 'precision' or 'recall'")
        for name in ("include_comments", "include_tables", "include_links"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; use True or False")
        if type(self.max_input_bytes) is not int or self.max_input_bytes < 1:
            raise ValueError(f"max_input_bytes is {self.max_input_bytes!r}; use a positive whole number")

    @property
    def extractor_id(self) -> str:
        """Name of everything that decides the text: libraries with versions, our steps, all options."""
        return _extractor_id(self)


@functools.lru_cache(maxsize=64)
def _extractor_id(options: ExtractOptions) -> str:
    libraries = "+".join(f"{name}-{version(name)}" for name in _LIBRARIES)
    spelled = json.dumps({"steps": OUR_STEPS, **asdict(options)}, sort_keys=True, separators=(",", ":"))
    return f"{libraries}/{options.format}-{options.focus}/{hashlib.sha256(spelled.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Payload:
    """The body of a response after content decoding, with what is needed to read it.

    ``encoding`` is the one that the crawler settled on, ``declared_charset`` what the server or page said.
    """

    body: bytes
    encoding: str
    url: str
    declared_charset: str | None = None


@dataclass(frozen=True, slots=True)
class PageMetadata:
    """What a page states about itself, each value with the place that states it.

    ``license_spdx`` is the SPDX identifier of ``license`` where that names exactly one; ``free_access`` is
    what schema.org calls ``isAccessibleForFree``.
    """

    title: Sourced | None = None
    byline: Sourced | None = None
    site_name: Sourced | None = None
    language_declared: Sourced | None = None
    license: Sourced | None = None
    license_spdx: str | None = None
    free_access: Sourced | None = None
    date_published: Sourced | None = None
    date_modified: Sourced | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """What came of one payload: a text, or the failure that stood in the way, or neither (an empty page).

    Attributes:
        payload_digest: digest of the body's bytes.
        text: the main text, or None when there is no usable one.
        failure: None, "input_over_cap", "time_limit", "worker_died", "recursion", "malformed_text" or
            "parser: <what it said>".
        visible_words: size of all visible text: words, with two characters of an unspaced script as one.
        metadata: what the page states about itself.
        flags: what a reader of the text should know, see `scrapy_dedup.content.extract`.
        declared: what the page says its own address is.
        structure: what the rules of validity need to know of the page's tree; None where there is no tree.
    """

    payload_digest: str
    text: Text | None = None
    failure: str | None = None
    visible_words: int = 0
    metadata: PageMetadata = field(default_factory=PageMetadata)
    flags: tuple[str, ...] = ()
    declared: PageDeclarations = field(default_factory=PageDeclarations)
    structure: Structure | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Work for a worker; the body follows as a message of its own, so that it is never pickled.

    ``options`` is None when only the digest of the body is asked for.
    """

    encoding: str = ""
    url: str = ""
    declared_charset: str | None = None
    options: ExtractOptions | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker answers: the body's digest, what was extracted, and the most memory that it ever held."""

    digest: str
    extraction: Extraction | None
    peak_kb: int
