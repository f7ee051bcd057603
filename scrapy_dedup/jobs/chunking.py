"""Cutting all texts of a corpus into its distinct chunks.

First the blocks that each host repeats are counted; for that, some 70 bytes for each block of one host are in
memory. Then every text is cut, once for each host that shows it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from scrapy_dedup.chunks import NOTHING_REPEATED, ChunkOptions, HostPages, Piece, Repeated
from scrapy_dedup.chunks.blocks import blocks
from scrapy_dedup.chunks.keys import chunk_id, embed_key, entry_id
from scrapy_dedup.content.digest import normalized_digest, text_digest
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.near import simhash_batch
from scrapy_dedup.records import BodyRecord

TEXTS_AT_ONCE = 200
IDENTITIES_AT_ONCE = 200

_ADD_ENTRY = """
insert into entry (
    id, chunk_id, body_id, ordinal, start, "end", headings, text, embed_text, embed_key, text_digest,
    normalized_digest, simhash, language, shared
) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(slots=True)
class _New:
    """An entry that is not in the file yet."""

    piece: Piece
    ordinal: int
    text: str
    embed_text: str


class Chunking:
    """Cuts the texts of ranked pages and adds what comes of it to the work file.

    Args:
        file: the work file, with its pages in the table ``ranked``; the tables ``entry`` and ``source`` are
            filled.
        ledger: has the texts.
        options: how they are cut and embedded.
    """

    def __init__(self, file: sqlite3.Connection, ledger: Ledger, options: ChunkOptions) -> None:
        self._file = file
        self._ledger = ledger
        self._options = options
        self._cutter = options.cutter
        self._template = options.rendering
        self._model = options.embedding
        self._policy = options.policy_id

    def run(self) -> None:
        """Cut all texts.

        Raises:
            DedupError: the splitter gave what is no part of a text.
        """
        repeated = self._repeated()
        shown = "select host, body from ranked where body is not null group by host, body order by min(rowid)"
        rows = self._file.execute(shown).fetchall()
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            part = rows[start : start + TEXTS_AT_ONCE]
            bodies = self._ledger.bodies_at(sorted({row["body"] for row in part}))
            self._file.execute("begin")
            for row in part:
                self._add(row, bodies[row["body"]], repeated.get(row["host"], NOTHING_REPEATED))
            self._file.execute("commit")

    def _repeated(self) -> dict[str, Repeated]:
        """Return what each host repeats; a text counts once, under the name of its best page."""
        share = self._options.shared_share
        if share is None:
            return {}
        rows = self._file.execute(
            "select host, body, name, min(rowid) as best from ranked where body is not null "
            "group by host, body order by host, best"
        ).fetchall()
        found: dict[str, Repeated] = {}
        for host, pages in groupby(rows, itemgetter("host")):
            of_host = HostPages()
            for row, body in self._with_texts(list(pages)):
                of_host.add(row["name"], [one.key for one in blocks(body.text, body.representation)])
            if (repeated := of_host.repeated(share)).keys:
                found[host] = repeated
        return found

    def _with_texts(self, rows: Sequence[sqlite3.Row]) -> Iterator[tuple[sqlite3.Row, BodyRecord]]:
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            part = rows[start : start + TEXTS_AT_ONCE]
            bodies = self._ledger.bodies_at([row["body"] for row in part])
            for row in part:
                yield row, bodies[row["body"]]

    def _add(self, shown: sqlite3.Row, body: BodyRecord, repeated: Repeated) -> None:
        pages = self._file.execute(
            "select rowid as page, url, title, similar from ranked where body = ? and host = ? "
            "order by rowid",
            (shown["body"], shown["host"]),
        ).fetchall()
        pieces = self._cutter.cut(body.text, body.representation, repeated)
        if not self._template.names_the_page:
            self._add_pieces(body, pieces, pages[0], pages)
            return
        own = [page for page in pages if not page["similar"]]
        for page in own:
            # What stands for the texts of other pages is not rendered for them, but once.
            others = pages[len(own) :] if page is own[0] else []
            self._add_pieces(body, pieces, page, [page, *others])

    def _add_pieces(
        self, body: BodyRecord, pieces: Sequence[Piece], named: sqlite3.Row, pages: Sequence[sqlite3.Row]
    ) -> None:
        """Add the chunks of a text that some pages show, rendered for one of them."""
        new: dict[str, _New] = {}
        identities: list[str] = []
        for ordinal, piece in enumerate(pieces):
            text = body.text[piece.start : piece.end]
            embed_text = self._template.render(
                text, piece.headings, title=named["title"], url=named["url"], language=body.language
            )
            identities.append(entry_id(embed_text))
            new.setdefault(identities[-1], _New(piece, ordinal, text, embed_text))
        held = self._held(new)
        self._add_entries(body, {key: one for key, one in new.items() if key not in held})
        self._file.executemany(
            "update entry set shared = 1 where id = ? and shared = 0",
            ((key,) for key, one in new.items() if key in held and one.piece.is_shared),
        )
        places = self._held(new)
        self._file.executemany(
            "insert or ignore into source values (?, ?, ?, ?, ?, ?)",
            (
                (
                    places[identity],
                    page["page"],
                    piece.start,
                    piece.end,
                    chunk_id(body.body_id, self._policy, piece.start, piece.end),
                    body.body_id,
                )
                for identity, piece in zip(identities, pieces, strict=True)
                for page in pages
            ),
        )

    def _held(self, identities: Iterable[str]) -> dict[str, int]:
        """Return the places of those entries that the file has."""
        listed = list(identities)
        found: dict[str, int] = {}
        for start in range(0, len(listed), IDENTITIES_AT_ONCE):
            part = listed[start : start + IDENTITIES_AT_ONCE]
            marks = ",".join("?" * len(part))
            rows = self._file.execute(f"select id, place from entry where id in ({marks})", part)  # noqa: S608
            found.update(tuple(row) for row in rows)
        return found

    def _add_entries(self, body: BodyRecord, new: Mapping[str, _New]) -> None:
        simhashes = simhash_batch([one.text for one in new.values()]) if new else []
        self._file.executemany(
            _ADD_ENTRY,
            (
                (
                    identity,
                    chunk_id(body.body_id, self._policy, one.piece.start, one.piece.end),
                    body.body_id,
                    one.ordinal,
                    one.piece.start,
                    one.piece.end,
                    json.dumps(one.piece.headings, ensure_ascii=False),
                    one.text,
                    one.embed_text,
                    embed_key(one.embed_text, self._model),
                    text_digest(one.text),
                    normalized_digest(one.text),
                    simhash,
                    body.language,
                    one.piece.is_shared,
                )
                for (identity, one), simhash in zip(new.items(), simhashes, strict=True)
            ),
        )
