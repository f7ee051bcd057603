"""Which paragraphs a host shows on many different pages: navigation, notices, templates.

They make different pages similar, so they are set aside before pages are compared. How often a host shows a
paragraph is not enough to tell them by: every paragraph of a manual stands in all of its versions. So pages
are counted by name, the last part of their path that names no version: ``/v1/install`` and ``/v2/install``
count once, and so do ``/v1`` and ``/v2``. Where pages that differ have equal names (``/product/1/reviews``)
fewer paragraphs are found; that errs on the side of comparing too much.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from urllib.parse import urlsplit

import numpy as np

from scrapy_dedup.near.paragraphs import WORDLESS, Paragraph, paragraphs

POLICY = "host-blocks-2"

MIN_PAGES = 5
"""Of a host with fewer pages no paragraph counts as shared."""

MIN_NAMES = 3
"""A shared paragraph stands on at least so many pages of different names."""

SHARE = 0.05
"""And on at least this share of the host's pages."""

MAX_PARAGRAPHS = 20_000
"""Of one host; the rarest of them make room, the oldest first."""

_KEPT = MAX_PARAGRAPHS * 3 // 4
_NAME_BYTES = 4
_FORMAT = b"host-blocks 1\n"
_VERSION = re.compile(
    r"v\d+(?:\.\d+)*|\d+(?:\.(?:\d+|x))+(?:-?(?:rc|alpha|beta|dev)\.?\d*)?|latest|stable|edge|nightly|dev|main|master",
    re.IGNORECASE,
)
_INDEX_FILE = re.compile(r"/(?:index|default)\.[a-z]{3,5}$", re.IGNORECASE)


def page_name(url_key: str) -> str:
    """Return the name of a page: the last segment of its path that names no version, with the query.

    The first page of a manual has the name of the folder that its versions stand in.

    >>> page_name("https://s.example/v2/install/"), page_name("https://s.example/a/index.html?page=2")
    ('install', 'a?page=2')
    >>> page_name("https://s.example/manual/5.1/"), page_name("https://s.example/latest/")
    ('manual', '')
    """
    parts = urlsplit(url_key)
    segments = _INDEX_FILE.sub("", parts.path).rstrip("/").split("/")
    name = next((one for one in reversed(segments) if not _VERSION.fullmatch(one)), "")
    return f"{name}?{parts.query}" if parts.query else name


def without(text: str, shared: Collection[int], known: Sequence[Paragraph] | None = None) -> str:
    """Return a text without the paragraphs of some keys; the text itself where it has none of them.

    Args:
        text: the whole text.
        shared: keys of the paragraphs to leave out.
        known: the paragraphs of the text, where the caller knows them.
    """
    found = () if not shared else paragraphs(text) if known is None else known
    own = [one for one in found if one.key not in shared]
    if len(own) == len(found):
        return text
    return "\n\n".join(text[one.start : one.end] for one in own)


class BlockCounts:
    """On how many differently named pages of one host each paragraph stands.

    What is rare is forgotten when there is too much of it, as in lossy counting (Manku and Motwani, VLDB
    2002): a paragraph on `SHARE` of the pages comes again long before that.

    Attributes:
        pages: how many pages were counted.
    """

    def __init__(self) -> None:
        self.pages = 0
        self._counts: dict[int, int] = {}
        self._names: dict[int, tuple[int, ...]] = {}  # the first names that a paragraph was counted under

    def __len__(self) -> int:
        """Return the number of paragraphs that are remembered."""
        return len(self._counts)

    def add(self, name: str, keys: Iterable[int]) -> None:
        """Count a page.

        Args:
            name: of the page; see `page_name`.
            keys: of its paragraphs; those without words do not count.
        """
        self.pages += 1
        digest = int.from_bytes(
            blake2b(name.encode("utf-8", "replace"), digest_size=_NAME_BYTES).digest(), "little"
        )
        for key in {*keys} - {WORDLESS}:
            names = self._names.get(key, ())
            if digest in names:
                continue
            self._counts[key] = self._counts.get(key, 0) + 1
            if len(names) < MIN_NAMES:
                self._names[key] = (*names, digest)
        if len(self._counts) > MAX_PARAGRAPHS:
            self._forget_the_rarest()

    @property
    def knows_enough(self) -> bool:
        """Whether enough pages were counted to call a paragraph shared."""
        return self.pages >= MIN_PAGES

    def shared(self, share: float = SHARE) -> frozenset[int]:
        """Return the keys of the paragraphs that the host shares between its pages.

        Args:
            share: of the pages that a paragraph has to stand on, 0 to 1; never fewer than `MIN_NAMES`.
        """
        if not self.knows_enough:
            return frozenset()
        least = max(MIN_NAMES, share * self.pages)
        return frozenset(key for key, count in self._counts.items() if count >= least)

    def count(self, key: int) -> int:
        """Return on how many differently named pages a paragraph stands, as far as it is remembered."""
        return self._counts.get(key, 0)

    def _forget_the_rarest(self) -> None:
        surplus = len(self._counts) - _KEPT
        # A stable sort, so that of equally rare ones the oldest go.
        for key in [*islice(sorted(self._counts, key=self._counts.__getitem__), surplus)]:
            del self._counts[key], self._names[key]

    def to_bytes(self) -> bytes:
        """Return the counts in a form that is the same on every machine."""
        keys = np.fromiter(self._counts, "<u8", len(self._counts))
        counts = np.fromiter(self._counts.values(), "<u4", len(self._counts))
        names = np.zeros((len(keys), MIN_NAMES + 1), "<u4")  # how many names there are, and the names
        for place, key in enumerate(self._counts):
            known = self._names[key]
            names[place, : len(known) + 1] = (len(known), *known)
        head = _FORMAT + np.array([self.pages, len(keys)], "<u8").tobytes()
        return head + keys.tobytes() + counts.tobytes() + names.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> BlockCounts:
        """Return the counts that `to_bytes` wrote.

        Raises:
            ValueError: the bytes are not of that form.
        """
        head = len(_FORMAT) + 16
        if not data.startswith(_FORMAT) or len(data) < head:
            raise ValueError("these bytes are no counts of a host's paragraphs")
        pages, size = np.frombuffer(data, "<u8", 2, len(_FORMAT)).tolist()
        if len(data) != head + size * (8 + 4 + 4 * (MIN_NAMES + 1)):
            raise ValueError("the counts of a host's paragraphs are cut short")
        keys = np.frombuffer(data, "<u8", size, head).tolist()
        numbers = np.frombuffer(data, "<u4", size, head + 8 * size).tolist()
        names = np.frombuffer(data, "<u4", size * (MIN_NAMES + 1), head + 12 * size)
        counts = cls()
        counts.pages = pages
        counts._counts = dict(zip(keys, numbers, strict=True))
        counts._names = {
            key: tuple(row[1 : row[0] + 1])
            for key, row in zip(keys, names.reshape(size, MIN_NAMES + 1).tolist(), strict=True)
        }
        return counts
