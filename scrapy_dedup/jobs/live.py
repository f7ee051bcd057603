"""The chunks of the pages of a corpus that are live now, each distinct one once with all its sources.

1. Pages: every URL key with the text that it shows, or that stands for it, ranked by the length of the URL to
   cite (`_add_pages`).
2. Chunks: every text is cut, once for each host that shows it; equal strings to embed are one entry, whose
   first source is the page of the best rank (`scrapy_dedup.jobs.chunking`).
3. Sealed: what an index holds of an entry beside its vector is digested, so that a change of it is seen.

What is found stands in a work file, and a few texts at a time in memory; the same ledger and options give the
same entries in the same order.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.chunks.keys import digest_of, entry_uuid
from scrapy_dedup.chunks.template import HEADING_SEPARATOR
from scrapy_dedup.content.normalise import is_well_formed
from scrapy_dedup.errors import DedupError
from scrapy_dedup.jobs.chunking import Chunking
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.owners import Owner
from scrapy_dedup.ledger.stand_ins import resolved
from scrapy_dedup.ledger.templates import host_of
from scrapy_dedup.near import SCHEME
from scrapy_dedup.near.host_blocks import page_name
from scrapy_dedup.records import ChunkNear, ChunkRecord, ChunkSource

_TABLES = """
create table page (
    url_key text not null, url text not null, title text, observation_id text not null, host text not null,
    name text not null, body integer, reason text, similar integer not null default 0
);
create table entry (
    place integer primary key, id text not null unique, chunk_id text not null, body_id text not null,
    ordinal integer not null, start integer not null, "end" integer not null, headings text not null,
    text text not null, embed_text text not null, embed_key text not null, text_digest text not null,
    normalized_digest text not null, simhash text not null, language text, shared integer not null,
    payload text
);
create table source (
    entry integer not null, page integer not null, start integer not null, "end" integer not null,
    chunk_id text not null, body_id text not null, primary key (entry, page, start)
) without rowid;
create table near (
    id text not null, other text not null, verdict text not null, jaccard real not null,
    containment real not null, primary key (id, other)
) without rowid;
create table grouping (id text primary key, leader text not null) without rowid;
"""
_ADD_PAGE = """
insert into page (url_key, url, title, observation_id, host, name, body, reason)
values (?, ?, ?, ?, ?, ?, ?, ?)
"""
_RANKED = """
create table ranked as select * from page order by similar, length(url), url, url_key;
drop table page;
create index ranked_by_body on ranked (body, host);
create index ranked_by_key on ranked (url_key);
create temp table best as
    select body, host, min(rowid) as place from ranked where body is not null and not similar group by body;
create index best_by_body on best (body);
update ranked set host = (select best.host from best where best.body = ranked.body) where similar;
"""
_SOURCES = """
select source.entry, source.start, source."end", source.chunk_id, source.body_id, ranked.url,
    ranked.url_key, ranked.observation_id, ranked.title, ranked.similar
from source join ranked on ranked.rowid = source.page order by source.entry, source.page, source.start
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many there are.

    Attributes:
        pages: that own a text.
        chunks: on all of them.
        distinct: chunks, each counted once.
        shared: of these, how many are text that a host repeats.
    """

    pages: int
    chunks: int
    distinct: int
    shared: int


class Sealed(NamedTuple):
    """What identifies an entry, and what an index holds of it beside its vector."""

    id: str
    embed_key: str
    payload: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A distinct chunk with all its sources, and the row that it stands in."""

    row: sqlite3.Row
    sources: tuple[ChunkSource, ...]

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings that it stands under."""
        return tuple(json.loads(self.row["headings"]))

    def metadata(self, corpus: str) -> dict[str, str | int | float | bool]:
        """Return what an index is to hold of it: flat, and the same until the chunk or its pages change."""
        first = self.sources[0]
        stated: Mapping[str, str | int | float | bool | None] = {
            "url": first.url,
            "title": first.title,
            "headings": HEADING_SEPARATOR.join(self.headings) or None,
            "language": self.row["language"],
            "corpus": corpus,
            "shared": bool(self.row["shared"]),
            "source_count": len({source.url for source in self.sources if not source.similar}),
        }
        return {name: value for name, value in stated.items() if value is not None}


class LiveChunks:
    """The distinct chunks of a corpus, in a work file; made by `live_chunks`."""

    def __init__(self, file: sqlite3.Connection, corpus: str, options: ChunkOptions) -> None:
        self.corpus = corpus
        self.options = options
        self.file = file
        self._is_compared = False

    @property
    def counts(self) -> Counts:
        """How many pages and chunks there are."""
        (pages,) = self.file.execute("select count(*) from ranked where body is not null").fetchone()
        (chunks,) = self.file.execute("select count(*) from source").fetchone()
        distinct, shared = self.file.execute("select count(*), total(shared) from entry").fetchone()
        return Counts(pages, chunks, distinct, int(shared))

    def entries(self) -> Iterator[Entry]:
        """Yield the distinct chunks in the order in which the best pages show them."""
        sources = groupby(self.file.execute(_SOURCES), itemgetter("entry"))
        rows = self.file.execute("select * from entry order by place")
        for row, (place, found) in zip(rows, sources, strict=True):
            if row["place"] != place:
                raise LookupError(f"the entry {row['id']} has no source")
            yield Entry(row, tuple(map(_source, found)))

    def sealed(self) -> Iterator[Sealed]:
        """Yield what identifies each entry, in the same order."""
        rows = self.file.execute("select id, embed_key, payload from entry order by place")
        return (Sealed(*row) for row in rows)

    def records(self) -> Iterator[ChunkRecord]:
        """Yield the distinct chunks as records."""
        for entry in self.entries():
            yield self._record(entry)

    def standing(self, url_key: str) -> str | None:
        """Return why a page owns no text now; None where it does, ``unknown`` where there is no such page."""
        row = self.file.execute("select body, reason from ranked where url_key = ?", (url_key,)).fetchone()
        return "unknown" if row is None else row["reason"]

    def relate(
        self, pairs: Iterable[tuple[str, str, str, float, float, float]], groups: Iterable[tuple[str, str]]
    ) -> None:
        """Note which chunks are similar.

        Args:
            pairs: two identities, the verdict, Jaccard, and the containment of each in the other.
            groups: an identity and that of its leader.
        """
        self._is_compared = True
        self.file.executemany(
            "insert into near values (?, ?, ?, ?, ?)",
            (
                row
                for a, b, verdict, jaccard, in_b, in_a in pairs
                for row in ((a, b, verdict, jaccard, in_b), (b, a, verdict, jaccard, in_a))
            ),
        )
        self.file.executemany("insert into grouping values (?, ?)", groups)

    def _record(self, entry: Entry) -> ChunkRecord:
        row = entry.row
        identity = row["id"]
        near = self.file.execute(
            "select other, verdict, jaccard, containment from near where id = ? order by other", (identity,)
        )
        group = self.file.execute("select leader from grouping where id = ?", (identity,)).fetchone()
        return ChunkRecord(
            id=identity,
            uuid=entry_uuid(identity),
            chunk_id=row["chunk_id"],
            corpus=self.corpus,
            body_id=row["body_id"],
            ordinal=row["ordinal"],
            start_char=row["start"],
            end_char=row["end"],
            headings=entry.headings,
            text=row["text"],
            embed_text=row["embed_text"],
            text_digest=row["text_digest"],
            normalized_digest=row["normalized_digest"],
            simhash=row["simhash"],
            simhash_scheme=SCHEME,
            language=row["language"],
            chunk_policy=self.options.policy_id,
            embed_key=row["embed_key"],
            shared=bool(row["shared"]),
            group=group["leader"] if group else identity if self._is_compared else None,
            near=tuple(ChunkNear(*other) for other in near),
            sources=entry.sources,
        )


def _source(row: sqlite3.Row) -> ChunkSource:
    return ChunkSource(
        url=row["url"],
        url_key=row["url_key"],
        observation_id=row["observation_id"],
        body_id=row["body_id"],
        chunk_id=row["chunk_id"],
        start_char=row["start"],
        end_char=row["end"],
        title=row["title"],
        similar=bool(row["similar"]),
    )


@contextmanager
def live_chunks(
    ledger: Ledger, corpus: str, options: ChunkOptions, *, until: str | None = None
) -> Iterator[LiveChunks]:
    """Cut the texts of all live pages of a corpus and give their distinct chunks.

    Args:
        ledger: the ledger.
        corpus: its name.
        options: how texts are cut and embedded.
        until: the last job that counts; by default all do.

    Raises:
        ConfigError: the splitter or the tokenizer of the options cannot be used.
        LedgerUnavailable: the ledger holds no such job of the corpus.
        DedupError: the splitter gave what is no part of a text, or the disk of the work file is full.
    """
    with (
        _told_where_it_stands(),
        tempfile.TemporaryDirectory(prefix="dedup-chunks-") as folder,
        closing(sqlite3.connect(Path(folder) / "chunks.db", isolation_level=None)) as file,
    ):
        file.row_factory = sqlite3.Row
        file.execute("pragma journal_mode = off")
        file.execute("pragma synchronous = off")
        file.executescript(_TABLES)
        file.execute("begin")
        _add_pages(file, ledger, corpus, until)
        file.executescript(_RANKED)
        Chunking(file, ledger, options).run()
        found = LiveChunks(file, corpus, options)
        file.execute("begin")
        _seal(found)
        file.execute("commit")
        yield found


@contextmanager
def _told_where_it_stands() -> Iterator[None]:
    """Say of an error of the work file where that file is and how to put it elsewhere."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise DedupError(
            f"the work file of the chunks in {tempfile.gettempdir()} cannot be used ({error}); make room "
            "there, or name another folder with the environment variable TMPDIR"
        ) from error


def _add_pages(file: sqlite3.Connection, ledger: Ledger, corpus: str, until: str | None) -> None:
    """Add every page; one whose text another text stands for counts as a page of that one.

    But only as long as some page shows that text as its own: nothing is embedded that no page says.
    """
    stands_for_it = ledger.stand_ins(corpus)
    either = {*stands_for_it, *stands_for_it.values()}
    shown: set[int] = set()
    for owner in ledger.owners(corpus, until=until):
        file.execute(_ADD_PAGE, _page_row(owner))
        if owner.body in either and (owner.keeps or owner.body not in stands_for_it):
            shown.add(owner.body)
    file.execute("create index page_by_body on page (body)")
    taken = ((resolved(body, stands_for_it, shown), body) for body in stands_for_it)
    file.executemany(
        "update page set body = ?, similar = 1 where body = ?",
        ((other, body) for other, body in taken if other != body),
    )


def _page_row(owner: Owner) -> tuple[Any, ...]:
    return (
        _well_formed(owner.url_key),
        _well_formed(owner.url),
        None if owner.title is None else _well_formed(owner.title),
        owner.observation_id,
        _well_formed(host_of(owner.url_key)),
        _well_formed(page_name(owner.url_key)),
        owner.body,
        owner.reason,
    )


def _well_formed(text: str) -> str:
    """Return a text that any index and file can hold; what pages call themselves may be malformed."""
    return text if is_well_formed(text) else text.encode("utf-8", "replace").decode("utf-8")


def _seal(found: LiveChunks) -> None:
    payloads = (
        (
            digest_of(
                [
                    "payload",
                    1,
                    entry.row["text"],
                    entry.metadata(found.corpus),
                    sorted({source.url for source in entry.sources}),
                ]
            ),
            entry.row["place"],
        )
        for entry in found.entries()
    )
    found.file.executemany("update entry set payload = ? where place = ?", payloads)
