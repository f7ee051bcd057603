"""What a crawl sees, compared with what the ledger held before: one batch of sightings at a time.

Unlike a comparison of jobs this one looks back at all jobs of the corpus, of whatever spider, and at what the
job itself saw of a key before. It costs some queries for each commit, so it is done only when asked for. What
takes long, finding the spans of changed texts, is left for after the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from scrapy_dedup.errors import LedgerConflict
from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.changes import FRESH, Case, Redirect, Seen, change_kind, change_of
from scrapy_dedup.ledger.decide import Recorded, Sighting
from scrapy_dedup.ledger.history import REDIRECTS, SEEN_COLUMNS, SEEN_JOIN, TEXTS, seen_of_row
from scrapy_dedup.ledger.rows import Row
from scrapy_dedup.ledger.standing import Page, Standing
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.records import BodyRecord, ChangeKind, ChangeRecord

_t = schema
_seen = schema.observation.c
_corpus: sa.BindParameter[str] = sa.bindparam("corpus", required=False)

_LAST_PAGES = ListQuery(
    sa.select(*SEEN_COLUMNS, _seen.url_key_digest)
    .select_from(SEEN_JOIN)
    .where(
        _seen.ordinal.in_(
            sa.select(sa.func.max(_seen.ordinal))
            .where(_seen.url_key_digest.in_(SOUGHT), _seen.space.is_not(None))
            .group_by(_seen.url_key_digest, _seen.space, _seen.conditions)
        ),
        _t.job.c.corpus == _corpus,
    )
    .order_by(_seen.ordinal)
)
# What proves something without a text: that the key is gone, or that its page stands.
_LAST_UNREAD = ListQuery(
    sa.select(_seen.url_key_digest, _seen.outcome, sa.func.max(_seen.ordinal).label("ordinal"))
    .select_from(_t.observation.join(_t.job, _t.job.c.ordinal == _seen.job))
    .where(
        _seen.url_key_digest.in_(SOUGHT),
        _seen.space.is_(None),
        sa.or_(
            _seen.outcome == "gone",
            _seen.outcome == "not_modified",
            sa.and_(_seen.outcome == "skipped", _seen.reason == FRESH),
        ),
        _t.job.c.corpus == _corpus,
    )
    .group_by(_seen.url_key_digest, _seen.outcome)
)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A change whose texts are at hand, the earlier one still compressed."""

    job_id: str
    case: Case
    before: tuple[int, bytes] | BodyRecord | None
    now: BodyRecord | None

    def texts(self) -> tuple[str, str]:
        if self.before is None or self.now is None:
            raise LookupError("a changed page without its texts")
        before = self.before.text if isinstance(self.before, BodyRecord) else codec.unpack_text(*self.before)
        return before, self.now.text


class Comparison:
    """The comparison of one batch: made before it is written, read after it, completed after the commit."""

    def __init__(self, connection: sa.Connection, corpus: str, batch: Sequence[Sighting]) -> None:
        self._connection = connection
        self._batch = batch
        keys = {key for one in batch for key in (one.observation.url_key, *one.moved_keys)}
        self._standing = {codec.url_digest(key): Standing() for key in keys}
        self._pending: list[list[_Pending]] = []
        last = self._load_pages(codec.escape(corpus))
        self._load_unread(codec.escape(corpus), last)
        self._load_redirects(last)

    def read(self, results: Sequence[Recorded | LedgerConflict]) -> None:
        """Compare what was written; reads the earlier texts of changed pages, which stay compressed."""
        for sighting, result in zip(self._batch, results, strict=True):
            compared = self._compared(sighting, result) if isinstance(result, Recorded) else ()
            self._pending.append(list(compared))

    def completed(self, results: Sequence[Recorded | LedgerConflict]) -> list[Recorded | LedgerConflict]:
        """Return the results with their changes."""
        return [
            replace(result, changes=tuple(map(_change, pending))) if isinstance(result, Recorded) else result
            for result, pending in zip(results, self._pending, strict=True)
        ]

    def _load_pages(self, corpus: str) -> dict[bytes, Row]:
        last: dict[bytes, Row] = {}
        for row in _LAST_PAGES.rows(self._connection, self._standing, corpus=corpus):
            digest = bytes(row["url_key_digest"])
            self._standing[digest].add(Page(seen_of_row(row), row["body"]))
            last[digest] = row
        return last

    def _load_unread(self, corpus: str, last: dict[bytes, Row]) -> None:
        latest = {digest: (row["ordinal"], "fetched") for digest, row in last.items()}
        for row in _LAST_UNREAD.rows(self._connection, last, corpus=corpus):
            digest = bytes(row["url_key_digest"])
            latest[digest] = max(latest[digest], (row["ordinal"], row["outcome"]))
        for digest, (_, outcome) in latest.items():
            self._standing[digest].is_gone = outcome == "gone"

    def _load_redirects(self, last: dict[bytes, Row]) -> None:
        """Find keys that an earlier job was led away from, after their last page."""
        own = {one.observation.job_id for one in self._batch}
        names = {name: digest for digest, row in last.items() for name in (digest, _url_digest(row))}
        for row in REDIRECTS.rows(self._connection, names):
            digest = names[bytes(row["raw_url_digest"])]
            is_away = bytes(row["url_key_digest"]) != digest
            if is_away and row["job"] > last[digest]["job"] and codec.unescape(row["job_id"]) not in own:
                self._standing[digest].is_gone = True

    def _compared(self, sighting: Sighting, result: Recorded) -> Iterator[_Pending]:
        seen = Seen.of(result.observation, result.body)
        standing = self._standing[codec.url_digest(seen.url_key)]
        if any(page.seen.observation_id == seen.observation_id for page in standing.pages.values()):
            return  # it was recorded before
        before = standing.before(seen)
        case = Case(seen, before.seen if before else None, was_gone=standing.is_gone)
        yield self._with_texts(case, before, result.body)
        standing.learn(seen, result.body)
        for key in sighting.moved_keys:
            left = self._standing[codec.url_digest(key)].before(None)
            if left is not None and left.seen.job_id != seen.job_id:
                redirect = Redirect(seen.url_key, seen.job_id, seen)
                yield _Pending(seen.job_id, Case(None, left.seen, redirect=redirect), None, None)

    def _with_texts(self, case: Case, before: Page | None, now: BodyRecord | None) -> _Pending:
        job_id = self._batch[0].observation.job_id
        kind, _ = change_kind(case)
        if before is None or kind is not ChangeKind.CHANGED:
            return _Pending(job_id, case, None, None)
        if isinstance(before.text, BodyRecord):
            return _Pending(job_id, case, before.text, now)
        (row,) = TEXTS.rows(self._connection, [before.text])
        return _Pending(job_id, case, (row["codec"], bytes(row["data"])), now)


def _change(pending: _Pending) -> ChangeRecord:
    return change_of(pending.case, job_id=pending.job_id, texts=pending.texts)


def _url_digest(row: Row) -> bytes:
    return codec.url_digest(codec.unescape(row["url"]))
