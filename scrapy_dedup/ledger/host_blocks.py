"""The paragraphs that hosts show on many pages, counted as a crawl goes on and kept in the ledger.

Each text is counted once, under the URL that brought it. The counts of a host are one value in the ledger,
written now and then; which bodies they include is one number for a whole space. What came later is counted
again from the bodies, after a crash as well as beside other crawls: a crawl that finds that another one has
written the counts goes on from those.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.statement import SOUGHT, Change, ListQuery
from scrapy_dedup.ledger.templates import host_of
from scrapy_dedup.near.host_blocks import BlockCounts, page_name
from scrapy_dedup.near.paragraphs import paragraphs

logger = logging.getLogger(__name__)

SAVE_EVERY = 500
"""Texts that are counted between two writes of the counts; so many are read again after a crash."""

CATCH_UP = 1_000
"""Texts of others that one commit counts, which takes about as many tenths of a millisecond."""

MAX_HELD_PARAGRAPHS = 200_000
"""Of all hosts in memory, some 50 MB; the hosts that were not met for longest make room."""

GROWTH = 1.05
"""A host's shared paragraphs are looked for again when it has so many times the pages."""

SMALL_HOST = 100
"""Of a host with fewer pages they are looked for each time."""

_t = schema
_body, _seen = schema.body.c, schema.observation.c
_after: sa.BindParameter[int] = sa.bindparam("after", required=False)
_space: sa.BindParameter[int] = sa.bindparam("space", required=False)
_COUNTED = ListQuery(sa.select(_t.near_space.c.counted).where(_t.near_space.c.space.in_(SOUGHT)))
_NEWS = ListQuery(
    sa.select(_body.ordinal, _body.body_id)
    .where(_body.ordinal > _after, _body.space.in_(SOUGHT))
    .order_by(_body.ordinal)
    .limit(CATCH_UP)
)
FIRST_URL_KEY = (
    sa.select(_seen.url_key)
    .where(_seen.body == _body.ordinal)
    .order_by(_seen.ordinal)
    .limit(1)
    .scalar_subquery()
)
"""The URL key of the observation that brought a body."""

_TEXTS = ListQuery(
    sa.select(
        _body.ordinal,
        _body.word_count,
        _body.codec,
        _body.data,
        _body.leader,
        FIRST_URL_KEY.label("url_key"),
    ).where(_body.ordinal.in_(SOUGHT))
)
_BLOCKS = ListQuery(
    sa.select(_t.host_blocks.c.data).where(
        _t.host_blocks.c.space == _space, _t.host_blocks.c.host.in_(SOUGHT)
    )
)
_FORGET = Change(
    sa.delete(_t.host_blocks).where(
        _t.host_blocks.c.space == sa.bindparam("old_space"), _t.host_blocks.c.host == sa.bindparam("old_host")
    )
)
_KEEP = Change(sa.insert(_t.host_blocks).inline())
_FORGET_COUNTED = Change(sa.delete(_t.near_space).where(_t.near_space.c.space == sa.bindparam("old_space")))
_KEEP_COUNTED = Change(sa.insert(_t.near_space).inline())


class Counted(NamedTuple):
    """A text that this crawl has not written itself, or not lately, with what was read of it."""

    ordinal: int
    word_count: int
    has_leader: bool
    text: str


class OwnPage(NamedTuple):
    """A text that this crawl is about to write, its URL key, and the keys of its paragraphs."""

    body_id: str
    url_key: str
    keys: tuple[int, ...]


class HostBlocks:
    """The counts of one space, for one store."""

    def __init__(self, space: int) -> None:
        self._space = space
        self._saved = -1  # as the ledger says; -1 before it was asked
        self._counted = 0
        self._since_saved = 0
        self._hosts: OrderedDict[str, BlockCounts] = OrderedDict()
        self._dirty: set[str] = set()
        self._held = 0
        self._shared: dict[str, tuple[int, frozenset[int]]] = {}
        self._own: dict[int, OwnPage] = {}

    def follow(self, connection: sa.Connection, own: Mapping[int, OwnPage]) -> list[Counted]:
        """Count what was committed since, at most `CATCH_UP` texts; return those that had to be read.

        Args:
            connection: inside a transaction that holds the writers' turn.
            own: what this transaction is about to write, by ordinal. It is counted next time.
        """
        saved = next((int(row["counted"]) for row in _COUNTED.rows(connection, [self._space])), 0)
        if saved != self._saved:
            self._start_from(saved)
        rows = _NEWS.rows(connection, [self._space], after=self._counted)
        pages = {row["ordinal"]: self._own.pop(row["ordinal"], None) for row in rows}
        unknown = [
            row["ordinal"]
            for row in rows
            if (page := pages[row["ordinal"]]) is None or codec.pack_id(page.body_id) != bytes(row["body_id"])
        ]
        read = {row["ordinal"]: row for row in _TEXTS.rows(connection, unknown)}
        counted: list[Counted] = []
        for ordinal, page in pages.items():
            if ordinal in read:
                row = read[ordinal]
                text = codec.unpack_text(row["codec"], row["data"])
                counted.append(Counted(ordinal, row["word_count"], row["leader"] is not None, text))
                keys = [paragraph.key for paragraph in paragraphs(text)]
                self._count(connection, codec.unescape(row["url_key"] or ""), keys)
            elif page is not None:
                self._count(connection, page.url_key, page.keys)
            self._counted = ordinal
        self._since_saved += len(rows)
        self._own = dict(own)
        if self._since_saved >= SAVE_EVERY or self._held > MAX_HELD_PARAGRAPHS:
            self.save(connection)
        return counted

    def shared(self, connection: sa.Connection, host: str) -> frozenset[int]:
        """Return the keys of the paragraphs that a host shows on many pages."""
        counts = self._of(connection, host)
        pages, found = self._shared.get(host, (0, frozenset[int]()))
        if counts.pages < SMALL_HOST or counts.pages > pages * GROWTH:
            now = counts.shared()
            found = found if now == found else now  # the same set, so that what was made by it can be kept
            self._shared[host] = counts.pages, found
        return found

    def pages(self, connection: sa.Connection, host: str) -> int:
        """Return how many pages of a host were counted."""
        return self._of(connection, host).pages

    def save(self, connection: sa.Connection) -> None:
        """Write the counts that have changed, and make room where there are too many."""
        if self._since_saved:
            rows = [(host, self._hosts[host]) for host in sorted(self._dirty)]
            _FORGET.run(connection, [{"old_space": self._space, "old_host": _key(host)} for host, _ in rows])
            _KEEP.run(
                connection,
                [
                    {
                        "space": self._space,
                        "host": _key(host),
                        "pages": counts.pages,
                        "data": counts.to_bytes(),
                    }
                    for host, counts in rows
                ],
            )
            _FORGET_COUNTED.run(connection, [{"old_space": self._space}])
            _KEEP_COUNTED.run(connection, [{"space": self._space, "counted": self._counted}])
            self._saved, self._since_saved = self._counted, 0
            self._dirty.clear()
        while self._held > MAX_HELD_PARAGRAPHS and len(self._hosts) > 1:
            host, counts = self._hosts.popitem(last=False)
            self._held -= len(counts)
            self._shared.pop(host, None)

    def _start_from(self, saved: int) -> None:
        self._saved = self._counted = saved
        self._since_saved = self._held = 0
        self._hosts.clear()
        self._dirty.clear()
        self._shared.clear()

    def _count(self, connection: sa.Connection, url_key: str, keys: Iterable[int]) -> None:
        host = host_of(url_key)
        counts = self._of(connection, host)
        self._held -= len(counts)
        counts.add(page_name(url_key), keys)
        self._held += len(counts)
        self._dirty.add(host)

    def _of(self, connection: sa.Connection, host: str) -> BlockCounts:
        counts = self._hosts.get(host)
        if counts is None:
            found = _BLOCKS.rows(connection, [_key(host)], space=self._space)
            counts = _counts(bytes(found[0]["data"]), host) if found else BlockCounts()
            self._hosts[host] = counts
            self._held += len(counts)
        self._hosts.move_to_end(host)
        return counts


def _counts(data: bytes, host: str) -> BlockCounts:
    """Return the counts of a host; damaged ones begin anew, for they are derived."""
    try:
        return BlockCounts.from_bytes(data)
    except ValueError as error:
        logger.warning("The paragraphs of %s are counted anew: %s", host, error)
        return BlockCounts()


def _key(host: str) -> str:
    return codec.escape(host)
