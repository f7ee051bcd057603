"""What one batch is asked to do: values that shape its result, and those that only shape its course."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from scrapy_dedup.near import claims, minhash
from scrapy_dedup.near.bands import Banding

MIN_MEMORY_BYTES = 32_000_000
DEFAULT_MEMORY_BYTES = 4_000_000_000

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)

# What is held at one time, as shares of the memory that a run may take.
SHARE_OF_DIGESTS = 1 / 8
SHARE_OF_CANDIDATES = 1 / 4
SHARE_OF_TEXTS = 1 / 2
BYTES_PER_DIGEST = 120  # in a set of Python
BYTES_PER_CANDIDATE = 40  # while it is made unique
BYTES_PER_CHAR = 60  # the text itself, its words, its shingles and their numbers
BYTES_PER_TEXT = 250  # places, keys of one band, and identities while they are ordered


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a batch.

    Attributes:
        jaccard: pairs at least this similar are wanted, above 0 and at most 1.
        banding: how signatures are cut into bands.
        with_claims: whether pairs are read side by side for a verdict.
        memory_bytes: what all processes together may hold of the corpus; the program itself takes about
            100 MB more in each process.
        workers: processes; 1 does all the work in this one.
    """

    jaccard: float
    banding: Banding
    with_claims: bool = True
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    workers: int = 1

    @property
    def policy(self) -> str:
        """The rules that pairs are found and judged by."""
        return f"{minhash.SCHEME}+{claims.POLICY}" if self.with_claims else minhash.SCHEME

    @property
    def max_digests(self) -> int:
        """Texts that are remembered so that a copy is not signed again."""
        return int(self.memory_bytes * SHARE_OF_DIGESTS / BYTES_PER_DIGEST)

    @property
    def max_candidates(self) -> int:
        """Candidate pairs that are ordered at one time."""
        return int(self.memory_bytes * SHARE_OF_CANDIDATES / BYTES_PER_CANDIDATE)

    @property
    def max_chars(self) -> int:
        """Characters of texts that one process compares at one time."""
        return int(self.memory_bytes * SHARE_OF_TEXTS / BYTES_PER_CHAR / (self.workers + 1))

    @property
    def max_texts(self) -> int:
        """The texts of a corpus that the memory is enough for."""
        return self.memory_bytes // BYTES_PER_TEXT


def plan_problems(jaccard: float, bands: int | None, rows: int | None, workers: int) -> Iterator[str]:
    """Yield what is wrong with options that a plan is made of."""
    if not 0 < jaccard <= 1:
        yield f"--jaccard is {jaccard:g}; it has to be above 0 and at most 1"
    if (bands is None) != (rows is None):
        yield "--bands and --rows go together; leave both out to have them chosen"
    elif bands is not None and rows is not None:
        try:
            Banding(bands, rows)
        except ValueError as error:
            yield f"--bands and --rows: {error}"
    if workers < 1:
        yield f"--workers is {workers}; at least one process is needed"


def parse_bytes(text: str) -> int:
    """Return a size of memory in bytes.

    >>> parse_bytes("4GB"), parse_bytes("512 MiB"), parse_bytes("64000000")
    (4000000000, 536870912, 64000000)

    Raises:
        ValueError: it is no size, or too small to work with.
    """
    found = _SIZE.fullmatch(text)
    if found is None or found[2].lower() not in _UNITS:
        raise ValueError(f"{text!r:.40} is no size; write bytes, or a number with KB, MB or GB, such as 4GB")
    size = int(float(found[1]) * _UNITS[found[2].lower()])
    if size < MIN_MEMORY_BYTES:
        raise ValueError(f"{text} is too little memory; at least {MIN_MEMORY_BYTES // 10**6} MB are needed")
    return size
