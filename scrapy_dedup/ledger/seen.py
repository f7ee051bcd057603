"""What was last seen of pages, as far as a later crawl may rely on it, and the links that they had then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
_REDIRECTS = (
    sa.select(_t.alias.c.raw_url_digest, _t.alias.c.url_key_digest)
    .where(_t.alias.c.raw_url_digest.in_(SOUGHT), _t.alias.c.verdict == "redirected")
    .distinct()
)
_REDIRECTS_OF_JOBS = sa.select(_t.alias.c.raw_url_digest, _t.alias.c.url_key_digest, _t.alias.c.job).where(
    _t.alias.c.raw_url_digest.in_(SOUGHT),
    _t.alias.c.verdict == "redirected",
    _t.alias.c.job.in_(sa.bindparam("jobs", expanding=True)),
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

    A URL that redirected is answered with the page that it led to, as long as the crawl that saw the page
    last saw the redirect too.

    Args:
        connection: to the ledger.
        asked: at most `statement.MAX_LIST` questions.
        corpus: other corpora know nothing of it.
        job: the ordinal of the job that asks.
    """
    urls = {codec.url_digest(question.url) for question in asked if question.url}
    targets = _targets(connection, urls)
    digests = {codec.url_digest(question.url_key) for question in asked}.union(*targets.values())
    latest = _latest(connection, digests, corpus, job)
    jobs = {news.job for news in latest.values()}
    redirects = _redirects_of_jobs(connection, urls, jobs) if targets else set()
    return [_answer(question, latest, targets, redirects) for question in asked]


class _News(NamedTuple):
    """The latest news under one key and set of conditions: its place, its job, and the page."""

    ordinal: int
    job: int
    page: SeenPage


_Latest = Mapping[tuple[bytes, Conditions], _News]


def _targets(connection: sa.Connection, urls: set[bytes]) -> dict[bytes, set[bytes]]:
    """Return the digests of the keys that URLs redirected to, in whatever crawl."""
    targets: dict[bytes, set[bytes]] = {}
    if urls:
        for url, key in connection.execute(_REDIRECTS, {"sought": list(urls)}):
            targets.setdefault(bytes(url), set()).add(bytes(key))
    return targets


def _latest(connection: sa.Connection, digests: set[bytes], corpus: str, job: int) -> _Latest:
    sought = list(digests)
    seen_in_job = connection.execute(_SEEN_IN_JOB, {"sought": sought, "job": job}).scalars()
    in_job = {bytes(digest) for digest in seen_in_job}
    found = connection.execute(_PAGES, {"sought": sought, "corpus": codec.escape(corpus)}).mappings().all()
    latest: dict[tuple[bytes, Conditions], _News] = {}
    for row in found:
        digest = bytes(row["url_key_digest"])
        page = _seen_page(row, digest in in_job)
        latest[digest, page.observation.conditions] = _News(row["ordinal"], row["job"], page)
    return latest


def _redirects_of_jobs(
    connection: sa.Connection, urls: set[bytes], jobs: set[int]
) -> set[tuple[bytes, bytes, int]]:
    found = connection.execute(_REDIRECTS_OF_JOBS, {"sought": list(urls), "jobs": list(jobs)})
    return {(bytes(url), bytes(key), job) for url, key, job in found}


def _answer(
    question: PageQuestion,
    latest: _Latest,
    targets: Mapping[bytes, set[bytes]],
    redirects: set[tuple[bytes, bytes, int]],
) -> SeenPage | None:
    own = latest.get((codec.url_digest(question.url_key), question.conditions))
    candidates = [] if own is None else [own]
    url = codec.url_digest(question.url or "")
    for target in targets.get(url, ()):
        news = latest.get((target, question.conditions))
        if news is not None and (url, target, news.job) in redirects:
            candidates.append(news)
    return max(candidates, key=lambda news: news.ordinal).page if candidates else None


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
