"""The first pass: every text is read, checked, told from its copies, signed, and given its keys."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scrapy_dedup.batch.plan import Plan
from scrapy_dedup.batch.sources import Entry, JsonLines, Problems
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.batch.workers import Workers
from scrapy_dedup.content.normalise import normalized
from scrapy_dedup.errors import DedupError
from scrapy_dedup.near.bands import Banding
from scrapy_dedup.near.minhash import signatures
from scrapy_dedup.near.shingles import Hashes, shingles_of_words, word_hashes

Rows = npt.NDArray[np.void]
Progressed = Callable[[int, int], object]

# One line of the input. ``high`` and ``low`` are the digest of the normal form of its text.
ROW = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("id_high", "<u8"),
        ("id_low", "<u8"),
        ("rank", "<i8"),
        ("offset", "<i8"),
        ("line", "<i8"),
        ("id_start", "<i8"),
        ("id_length", "<u4"),
        ("chars", "<u4"),
        ("source", "<u4"),
    ]
)
# A text that was signed: the row that it stands in, and its tokens.
SIGNED = np.dtype([("row", "<i8"), ("tokens", "<i8")])

ROWS, IDS, SIGNED_ROWS = "rows", "ids", "signed"

_CHUNK_TEXTS = 2_048
_CHUNK_CHARS = 2_000_000
_DIGEST_BYTES = 16


class Mark(NamedTuple):
    """How far the input was read: what comes next."""

    source: int = 0
    offset: int = 0
    line: int = 0
    rows: int = 0
    id_bytes: int = 0


class _Chunk(NamedTuple):
    """Some lines in a row: their columns, and which of their texts go to be signed."""

    rows: Rows
    ids: bytes
    signed: Sequence[int]
    after: Mark


def keys_column(band: int) -> str:
    """Return the name of the column with the keys of a band."""
    return f"keys-{band:03d}"


def sign(given: tuple[Sequence[str], Banding]) -> tuple[npt.NDArray[np.int64], Hashes]:
    """Return the tokens of each text, and its key in each band: an array of shape (bands, texts)."""
    texts, banding = given
    words, offsets = word_hashes(texts)
    signed = signatures(*shingles_of_words(words, offsets))
    return np.diff(offsets), np.stack([banding.keys(signed, band) for band in range(banding.bands)])


def read_all(
    sources: Sequence[JsonLines], plan: Plan, work: WorkFolder, workers: Workers, progressed: Progressed
) -> None:
    """Fill the columns of rows, identities, signed texts and keys, from where an earlier run has come.

    Args:
        sources: what to read.
        plan: the options.
        work: where the columns stand.
        workers: who signs.
        progressed: is told how many bytes of how many are read.

    Raises:
        InputError: some lines cannot be taken, with all of them named; or two have one id.
        DedupError: the memory is not enough for so many texts.
    """
    if work.get("read"):
        return
    mark = Mark(*work.get("mark", Mark()))
    columns = [ROWS, IDS, SIGNED_ROWS, *map(keys_column, range(plan.banding.bands))]
    for column in columns:
        work.append(column, b"")
    before = np.cumsum([0, *(source.size for source in sources)])
    problems = Problems()
    chunks = _chunks(sources, plan, mark, problems)
    tasks = ((chunk, (texts, plan.banding)) for chunk, texts in chunks)
    for chunk, (tokens, keys) in workers.in_order(sign, tasks):
        work.append(ROWS, chunk.rows)
        work.append(IDS, chunk.ids)
        signed = np.zeros(len(tokens), SIGNED)
        signed["row"], signed["tokens"] = chunk.signed, tokens
        work.append(SIGNED_ROWS, signed)
        for band, of_band in enumerate(keys):
            work.append(keys_column(band), of_band)
        if not problems.count:
            work.checkpoint_if_due(mark=chunk.after)
        progressed(int(before[chunk.after.source]) + chunk.after.offset, int(before[-1]))
        mark = chunk.after
    _check_ids(sources, work.column(ROWS, ROW), problems)
    problems.raise_any()
    work.checkpoint(mark=mark, read=True)
    work.close(*columns)


def _chunks(
    sources: Sequence[JsonLines], plan: Plan, mark: Mark, problems: Problems
) -> Iterator[tuple[_Chunk, list[str]]]:
    """Yield the lines from a mark on, with the texts among them that are to be signed."""
    known: set[int] = set()
    for number in range(mark.source, len(sources)):
        offset, line = (mark.offset, mark.line) if number == mark.source else (0, 0)
        mark = mark._replace(source=number, offset=offset, line=line)
        for entries in _in_chunks(sources[number].entries(problems, offset=offset, line=line)):
            if mark.rows + len(entries) > plan.max_texts:
                problems.raise_any()
                raise DedupError(
                    f"The input has more texts than {plan.max_texts:,}, for which --memory is enough. "
                    "Give it more, or the corpus in parts."
                )
            chunk, texts = _chunk(entries, mark, known)
            if len(known) > plan.max_digests:
                known.clear()  # a text that comes again is signed again, which changes nothing but the time
            mark = chunk.after
            if problems.count:  # nothing will be made of the input: look for further faults only
                chunk, texts = chunk._replace(signed=()), []
            yield chunk, texts


def _in_chunks(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    chunk: list[Entry] = []
    chars = 0
    for entry in entries:
        chunk.append(entry)
        chars += len(entry.text)
        if len(chunk) == _CHUNK_TEXTS or chars >= _CHUNK_CHARS:
            yield chunk
            chunk, chars = [], 0
    if chunk:
        yield chunk


def _chunk(entries: Sequence[Entry], mark: Mark, known: set[int]) -> tuple[_Chunk, list[str]]:
    rows = np.zeros(len(entries), ROW)
    ids = [entry.id.encode() for entry in entries]
    digests = [_digest(normalized(entry.text).encode()) for entry in entries]
    lengths = np.array([len(identity) for identity in ids], np.int64)
    rows["high"], rows["low"] = _as_numbers(digests)
    rows["id_high"], rows["id_low"] = _as_numbers([_digest(identity) for identity in ids])
    rows["id_length"] = lengths
    rows["id_start"] = mark.id_bytes + np.cumsum(lengths) - lengths
    rows["source"] = mark.source
    rows["chars"] = [len(entry.text) for entry in entries]
    for name in ("rank", "offset", "line"):
        rows[name] = [getattr(entry, name) for entry in entries]
    signed: list[int] = []
    texts: list[str] = []
    for place, (digest, entry) in enumerate(zip(digests, entries, strict=True)):
        if (number := int.from_bytes(digest, "little")) not in known:
            known.add(number)
            signed.append(mark.rows + place)
            texts.append(entry.text)
    last = entries[-1]
    after = Mark(
        mark.source, last.end, last.line, mark.rows + len(entries), mark.id_bytes + int(lengths.sum())
    )
    return _Chunk(rows, b"".join(ids), signed, after), texts


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _as_numbers(digests: Sequence[bytes]) -> tuple[Hashes, Hashes]:
    both = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _check_ids(sources: Sequence[JsonLines], rows: Rows, problems: Problems) -> None:
    """Note each id that stands in more than one line, in the order of the lines."""
    order = np.lexsort((rows["line"], rows["source"], rows["id_low"], rows["id_high"]))
    high, low = rows["id_high"][order], rows["id_low"][order]
    again = np.flatnonzero((high[1:] == high[:-1]) & (low[1:] == low[:-1]))
    later = rows[order[again + 1]]
    for place in again[np.lexsort((later["line"], later["source"]))].tolist():
        first, second = rows[order[place]], rows[order[place + 1]]
        problems.add(
            sources[int(second["source"])].place(int(second["line"])),
            f"its id stands in {sources[int(first['source'])].place(int(first['line']))} already",
        )
