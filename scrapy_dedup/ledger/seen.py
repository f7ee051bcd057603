"""What was last seen of pages, as far as a later crawl may rely on it, and the links that they had then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, rows, schema
from scrapy_dedup.ledger.statement import SOUGHT, Change, ListQuery
from scrapy_dedup.records import Conditions, ObservationRecord

_t = schema
_seen = schema.observation.c

# What says something of the page: a skip repeats what was known, and so does a cached response. A 304 does
# when it was asked about a page that the ledger holds.
_NEWS = sa.and_(
    _seen.from_cache.is_(False),
    sa.or_(
        _seen.outcome.in_(("fetched", "gone", "error")),
        sa.and_(_seen.outcome == "not_modified", _seen.body.is_not(None)),
    ),
)
_corpus: sa.BindParameter[str] = sa.bindparam("corpus", required=False)
_job: sa.BindParameter[int] = sa.bindparam("job", required=False)
_LATEST = (
    sa.select(sa.func.max(_seen.ordinal))
    .select_from(_t.observation.join(_t.job, _t.job.c.ordinal == _seen.job))
    .where(_seen.url_key_digest.in_(SOUGHT), _t.job.c.corpus == _corpus, _NEWS)
    .group_by(_seen.url_key_digest, _seen.conditions)
)
_PAGES = (
    sa.select(
        *_t.observation.c,
        _t.job.c.job_id,
        _t.job.c.spider,
        _t.body.c.body_id,
        _t.space.c.extractor_id,
        _t.link_set.c.codec,
        _t.link_set.c.data,
    )
    .select_from(
        _t.observation.join(_t.job, _t.job.c.ordinal == _seen.job)
        .outerjoin(_t.body, _t.body.c.ordinal == _seen.body)
        .outerjoin(_t.space, _t.space.c.ordinal == _t.body.c.space)
        .outerjoin(_t.link_set, _t.link_set.c.digest == _seen.links)
    )
    .where(_seen.ordinal.in_(_LATEST))
)
_SEEN_IN_JOB = (
    sa.select(_seen.url_key_digest).where(_seen.url_key_digest.in_(SOUGHT), _seen.job == _job).distinct()
)
_LATEST_REDIRECTS = (
    sa.select(sa.func.max(_t.alias.c.ordinal))
    .select_from(_t.alias.join(_t.job, _t.job.c.ordinal == _t.alias.c.job))
    .where(
        _t.alias.c.raw_url_digest.in_(SOUGHT), _t.alias.c.verdict == "redirected", _t.job.c.corpus == _corpus
    )
    .group_by(_t.alias.c.raw_url_digest)
)
_REDIRECTS = sa.select(_t.alias.c.raw_url_digest, _t.alias.c.url_key_digest, _t.alias.c.job).where(
    _t.alias.c.ordinal.in_(_LATEST_REDIRECTS)
)

_HELD_LINKS = ListQuery(sa.select(_t.link_set.c.digest).where(_t.link_set.c.digest.in_(SOUGHT)))
_INSERT_LINKS = Change(sa.insert(_t.link_set).inline())
_SET_LINKS = Change(
    sa.update(_t.observation)
    .where(_seen.job == sa.bindparam("of_job"), _seen.seq == sa.bindparam("of_seq"))
    .values(links=sa.bindparam("known_links"))
)


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """What a crawl asks about a page.

    Attributes:
        url_key: the identity of its URL.
        conditions: those under which it would be fetched now.
        url: as it would be requested, to find a page that it redirected to; None leaves redirects out.
    """

    url_key: str
    conditions: Conditions
    url: str | None = None


@dataclass(frozen=True, slots=True)
class SeenPage:
    """The latest news of a page under equal conditions: fetched, confirmed by a 304, gone or failed.

    Attributes:
        observation: as it was stored.
        fetched_us: when, in microseconds since 1970.
        extractor_id: of its text; None where there is none.
        links: the JSON text of its links; None where none is stored.
        in_job: whether the job that asks holds an observation of the page.
    """

    observation: ObservationRecord
    fetched_us: int
    extractor_id: str | None
    links: str | None
    in_job: bool


def latest_pages(
    connection: sa.Connection, asked: Sequence[PageQuestion], *, corpus: str, job: int
) -> list[SeenPage | None]:
    """Return the latest news of each page, None where there is none.

    A URL that redirected is answered with the page that it led to, as long as the crawl that saw the redirect
    is the last that saw the page.

    Args:
        connection: to the ledger.
        asked: at most `statement.MAX_LIST` questions.
        corpus: other corpora know nothing of it.
        job: the ordinal of the job that asks.
    """
    escaped = codec.escape(corpus)
    redirects = _redirects(connection, asked, escaped)
    digests = {codec.url_digest(question.url_key) for question in asked}
    digests |= {target for target, _ in redirects.values()}
    in_job = {
        bytes(digest)
        for digest in connection.execute(_SEEN_IN_JOB, {"sought": list(digests), "job": job}).scalars()
    }
    found = connection.execute(_PAGES, {"sought": list(digests), "corpus": escaped}).mappings().all()
    latest = {
        (digest, page.observation.conditions): (row["ordinal"], row["job"], page)
        for row in found
        for digest in [bytes(row["url_key_digest"])]
        for page in [_seen_page(row, digest in in_job)]
    }
    return [_answer(question, latest, redirects) for question in asked]


Latest = Mapping[tuple[bytes, Conditions], tuple[int, int, SeenPage]]
"""By digest of the key and conditions: the place of the observation, its job, and the page."""

Redirects = Mapping[str, tuple[bytes, int]]
"""By URL: the digest of the key that it led to, and the job that saw it."""


def _redirects(connection: sa.Connection, asked: Sequence[PageQuestion], corpus: str) -> Redirects:
    by_digest = {codec.url_digest(question.url): question.url for question in asked if question.url}
    if not by_digest:
        return {}
    found = connection.execute(_REDIRECTS, {"sought": list(by_digest), "corpus": corpus}).mappings()
    return {
        by_digest[bytes(row["raw_url_digest"])]: (bytes(row["url_key_digest"]), row["job"]) for row in found
    }


def _answer(question: PageQuestion, latest: Latest, redirects: Redirects) -> SeenPage | None:
    candidates = [latest.get((codec.url_digest(question.url_key), question.conditions))]
    if question.url is not None and question.url in redirects:
        target, job = redirects[question.url]
        led_to = latest.get((target, question.conditions))
        candidates.append(led_to if led_to is not None and led_to[1] == job else None)
    found = [candidate for candidate in candidates if candidate is not None]
    return max(found, key=lambda candidate: candidate[0])[2] if found else None


def _seen_page(row: rows.Row, in_job: bool) -> SeenPage:
    body_id = None if row["body_id"] is None else codec.unpack_body_id(row["body_id"])
    observation = rows.observation_record(
        row, codec.unescape(row["job_id"]), codec.unescape(row["spider"]), body_id
    )
    return SeenPage(
        observation,
        row["fetched_us"],
        codec.unescape_optional(row["extractor_id"]),
        None if row["data"] is None else codec.unpack_text(row["codec"], row["data"]),
        in_job,
    )


def keep_links(connection: sa.Connection, texts: Iterable[str]) -> dict[str, bytes]:
    """Store each list of links that is not stored yet, in the caller's transaction; return where it stands.

    Args:
        connection: inside a transaction that holds the writers' turn.
        texts: JSON of ASCII characters.
    """
    digests = {text: codec.url_digest(text) for text in texts}
    if not digests:
        return {}
    held = {bytes(row["digest"]) for row in _HELD_LINKS.rows(connection, set(digests.values()))}
    new = [
        {"digest": digest, "codec": codec.CODEC_ZLIB, "data": codec.pack_text(text)}
        for text, digest in digests.items()
        if digest not in held
    ]
    if new:
        _INSERT_LINKS.run(connection, new)
    return digests


def set_links(connection: sa.Connection, job: int, links: Mapping[int, str]) -> None:
    """Add the links of observations of a job that were recorded before their callbacks were done, by seq."""
    digests = keep_links(connection, links.values())
    if links:
        _SET_LINKS.run(
            connection,
            [{"of_job": job, "of_seq": seq, "known_links": digests[text]} for seq, text in links.items()],
        )
