"""Which pages of a corpus are live, and which text each of them shows.

Of each URL key counts what its observations prove, as `scrapy_dedup.ledger.changes` has it: the last page
owns its text until a 404, a 410 or a redirect to a page is seen there, or somebody rejects it. What failed or
was not visited proves nothing, so its page stays: absent is not gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.changes import Evidence, evidence_of
from scrapy_dedup.ledger.derived import DECIDED
from scrapy_dedup.ledger.history import REDIRECTS, Stream
from scrapy_dedup.ledger.rows import Row
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.records import Action, ObservationRecord, Outcome, RelationKind

KEYS_AT_ONCE = 500

_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_NOT_OWNING = {DECIDED: "rejected", RelationKind.SHARED_TEMPLATE.value: "quarantined"}
"""Why a page that is to be reviewed owns nothing; one reviewed for another reason owns its text."""

_t = schema
_seen = schema.observation.c

_NARROW = sa.select(_seen.url_key_digest, _seen.ordinal, _seen.job, _seen.space, _seen.outcome, _seen.reason)
_ENDS = ListQuery(
    _NARROW.add_columns(_t.job.c.corpus)
    .select_from(_t.observation.join(_t.job, _t.job.c.ordinal == _seen.job))
    .where(_seen.url_key_digest.in_(SOUGHT))
)

ReadObservations = Callable[[Sequence[int]], Sequence[tuple[Row, ObservationRecord]]]
"""Reads observations by their ordinals, each as its row and as decisions have it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A page of a corpus.

    Attributes:
        url_key: identifies it.
        url: the one to cite it under: its confirmed canonical, or the spelling that was seen first, since
            which of them a crawl comes to first may change each time.
        observation_id: its latest valid observation.
        title: of the page.
        body: the ordinal of the text that it shows; None for a page that owns none.
        keeps: whether its text is kept for this page even where another one stands for that text.
        reason: why it owns no text: ``gone``, ``moved``, ``rejected`` or ``quarantined``.
    """

    url_key: str
    url: str
    observation_id: str
    title: str | None
    body: int | None
    keeps: bool
    reason: str | None


class _Moment(NamedTuple):
    """What was proved of a key: the stronger one in a later job counts, as it does for changes."""

    job: int
    evidence: Evidence
    ordinal: int


_NOTHING_YET = _Moment(0, Evidence.NONE, 0)


@dataclass(slots=True)
class _Key:
    """What the observations of a URL key leave of it."""

    digest: bytes
    first_page: int = 0
    page: int = 0
    page_job: int = 0
    last: _Moment = _NOTHING_YET

    def take(self, row: Row) -> None:
        """Take the next observation into account."""
        has_text = row["space"] is not None
        evidence = evidence_of(_OUTCOMES[row["outcome"]], has_text=has_text, reason=row["reason"])
        if has_text and not self.first_page:
            self.first_page = row["ordinal"]
        if has_text and row["job"] >= self.page_job:
            self.page, self.page_job = row["ordinal"], row["job"]
        if evidence is not Evidence.NONE:
            self.last = max(self.last, _Moment(row["job"], evidence, row["ordinal"]))


class LivePages:
    """The pages of one corpus at the end of one job.

    Args:
        connection: reads one state of the ledger.
        stream: iterates over the rows of a statement without holding all of them.
        read: reads observations.
        corpus: its name.
        until: the ordinal of the last job that counts, None for all.
    """

    def __init__(
        self,
        connection: sa.Connection,
        stream: Stream,
        read: ReadObservations,
        corpus: str,
        until: int | None,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._read = read
        self._corpus = codec.escape(corpus)
        self._until = codec.MAX_INT64 if until is None else until

    def owners(self) -> Iterator[Owner]:
        """Yield every key that was ever valid, in the order of the digests of the keys."""
        keys = (key for key in self._keys() if key.page)
        while part := list(islice(keys, KEYS_AT_ONCE)):
            pages = {ordinal for key in part for ordinal in (key.first_page, key.page)}
            read = {row["ordinal"]: (row, record) for row, record in self._read(sorted(pages))}
            away = self._away(part, read)
            for key in part:
                _, first = read[key.first_page]
                yield _owner(*read[key.page], away.get(key.digest), spelled=first.url)

    def _keys(self) -> Iterator[_Key]:
        jobs = sa.select(_t.job.c.ordinal).where(
            _t.job.c.corpus == self._corpus, _t.job.c.ordinal <= self._until
        )
        statement = _NARROW.where(_seen.job.in_(jobs)).order_by(_seen.url_key_digest, _seen.ordinal)
        for digest, observations in groupby(self._stream(statement), itemgetter("url_key_digest")):
            key = _Key(bytes(digest))
            for row in observations:
                key.take(row)
            yield key

    def _away(
        self, keys: Sequence[_Key], read: Mapping[int, tuple[Row, ObservationRecord]]
    ) -> dict[bytes, str]:
        """Return why keys own no text any more: ``gone`` or ``moved``."""
        away = {key.digest: "gone" for key in keys if key.last.evidence is Evidence.GONE}
        standing = {key.digest: key for key in keys if key.digest not in away}
        names = {
            name: key
            for key in standing.values()
            for name in (key.digest, codec.url_digest(read[key.page][1].url))
        }
        redirects = [
            (names[bytes(row["raw_url_digest"])], row)
            for row in REDIRECTS.rows(self._connection, names)
            if row["job"] <= self._until
        ]
        led = [
            (key, row)
            for key, row in redirects
            if row["job"] > key.last.job and bytes(row["url_key_digest"]) != key.digest
        ]
        ends = self._ends(bytes(row["url_key_digest"]) for _, row in led)
        for key, row in sorted(led, key=lambda one: one[1]["job"]):
            reason = _end_of_redirect(ends.get(bytes(row["url_key_digest"]), ()), row["job"])
            if reason is not None:
                away[key.digest] = reason
        return away

    def _ends(self, digests: Iterable[bytes]) -> dict[bytes, list[Row]]:
        """Return what was seen at the keys to which others lead."""
        ends: dict[bytes, list[Row]] = {}
        for row in _ENDS.rows(self._connection, set(digests)):
            if row["corpus"] == self._corpus and row["job"] <= self._until:
                ends.setdefault(bytes(row["url_key_digest"]), []).append(row)
        return ends


def _end_of_redirect(seen: Iterable[Row], job: int) -> str | None:
    """Return what a redirect proves about the key that it leads away from, by what stands at its end.

    A redirect to a login wall or to an error is no news of the page; one to a page that the crawl did not
    visit again is.
    """
    found = [
        evidence_of(_OUTCOMES[row["outcome"]], has_text=row["space"] is not None, reason=row["reason"])
        for row in seen
        if row["job"] >= job
    ]
    strongest = max(found, default=Evidence.PAGE)
    return {Evidence.PAGE: "moved", Evidence.GONE: "gone"}.get(strongest)


def _owner(row: Row, record: ObservationRecord, away: str | None, *, spelled: str) -> Owner:
    is_review = record.action is Action.REVIEW
    reason = away or (_NOT_OWNING.get(record.reason or "") if is_review else None)
    return Owner(
        url_key=record.url_key,
        url=spelled if record.document_url in (None, record.url) else record.document_url,
        observation_id=record.observation_id,
        title=record.title.value if record.title else None,
        body=None if reason else row["body"],
        keeps=record.action is Action.KEEP,
        reason=reason,
    )
