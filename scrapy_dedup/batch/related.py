"""The similar pairs of a ledger's texts as its relations, and what was decided about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice

import numpy as np
import sqlalchemy as sa

from scrapy_dedup.batch.places import Identities
from scrapy_dedup.batch.plan import Plan
from scrapy_dedup.batch.reading import ROW, ROWS, Rows
from scrapy_dedup.batch.results import Decided, Results
from scrapy_dedup.batch.sources import JsonLines
from scrapy_dedup.batch.verification import objects
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.ledger import Ledger, codec, relations
from scrapy_dedup.ledger.near_relations import (
    STATES,
    Measures,
    Side,
    leader_of,
    near_relation,
    with_what_a_crawl_found,
)
from scrapy_dedup.ledger.review_queue import is_decided
from scrapy_dedup.near.claims import POLICY, compare
from scrapy_dedup.near.groups import Places
from scrapy_dedup.records import PairRecord, Reason, RelationKind, RelationRecord, RelationState

_PART = 500


def decided_pairs(ledger: Ledger, corpus: str) -> Decided:
    """Return the pairs of texts that somebody decided about, and whether they are one."""
    return {
        (relation.a, relation.b): relation.state is RelationState.CONFIRMED
        for relation in ledger.relations(kind=RelationKind.NEAR)
        if relation.corpus == corpus and is_decided(relation)
    }


def relate(
    url: str, corpus: str, plan: Plan, *, results: Results, work: WorkFolder, sources: Sequence[JsonLines]
) -> int:
    """Append the relations of all pairs to the ledger; what it holds already is not written again.

    Relations whose claims were compared by other rules than today's, or by none, are read again where this
    run did not find them; those whose claims turn out to differ are refuted.

    Args:
        url: the ledger.
        corpus: of the texts.
        plan: the options of the run.
        results: what it found.
        work: its work folder, where its columns still stand.
        sources: the texts, with their digests.

    Returns:
        How many relations are new or have changed.

    Raises:
        LedgerUnavailable: the ledger cannot be written.
        DedupError: a source has changed.
    """
    now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    rows, identities = work.column(ROWS, ROW), Identities(work)
    written = 0
    pairs = zip(results.pairs(), results.pair_rows(), strict=True)
    while part := list(islice(pairs, _PART)):
        numbers = [number for _, sides in part for number in sides]
        digests = _digests(sources, rows, np.unique(numbers), identities, plan.max_chars)
        found = [_relation(pair, digests, corpus, plan, now) for pair, _ in part]
        with relations.writing(url) as connection:
            written += _insert_news(connection, found)
    if plan.with_claims:
        refuted = list(_refuted(url, corpus, plan, now))
        with relations.writing(url) as connection:
            written += _insert_news(connection, refuted)
    return written


def _digests(
    sources: Sequence[JsonLines], rows: Rows, wanted: Places, identities: Identities, max_chars: int
) -> Mapping[str, str]:
    """Return the digests of some texts by identity, with about ``max_chars`` of them in memory at a time."""
    found: dict[str, str] = {}
    run = np.cumsum(rows["chars"][wanted], dtype=np.int64) // max_chars
    for part in np.split(wanted, np.flatnonzero(np.diff(run)) + 1):
        for row, entry in zip(part.tolist(), objects(sources, rows[part]), strict=True):
            found[identities.of(row)] = str(entry["digest"])
    return found


def _relation(
    pair: PairRecord, digests: Mapping[str, str], corpus: str, plan: Plan, now: str
) -> RelationRecord:
    """Return the relation of a pair, whose first text would lead."""
    return near_relation(
        corpus,
        Side(pair.a, digests[pair.a]),
        Side(pair.b, digests[pair.b]),
        Measures(
            pair.jaccard, pair.containment_a, pair.containment_b, pair.verdict, pair.spans, pair.claim_spans
        ),
        policy=plan.policy,
        reasons=(
            Reason("jaccard", pair.jaccard, plan.jaccard),
            *((Reason("verdict", pair.verdict),) if pair.verdict else ()),
        ),
        created_at=now,
    )


def _refuted(url: str, corpus: str, plan: Plan, now: str) -> Iterator[RelationRecord]:
    """Yield relations that were read by other rules of claims, or not at all, and do not hold under these."""
    with Ledger.open(url) as ledger:
        doubtful = [
            relation
            for relation in ledger.relations(kind=RelationKind.NEAR)
            if relation.corpus == corpus
            and relation.state is not RelationState.REFUTED
            and POLICY not in relation.policy.split("+")
        ]
        wanted = {side for relation in doubtful for side in (relation.a, relation.b)}
        texts = (
            {body.body_id: body.text for body in ledger.bodies() if body.body_id in wanted} if wanted else {}
        )
    for relation in doubtful:
        if relation.a not in texts or relation.b not in texts:
            continue
        first, second = Side(relation.a, str(relation.a_digest)), Side(relation.b, str(relation.b_digest))
        if leader_of(relation) == second.body_id:
            first, second = second, first
        # Whoever found the pair took it for similar enough; what is left to ask is what differs.
        measures = Measures.of(compare(texts[first.body_id], texts[second.body_id], min_jaccard=0.0))
        if STATES[measures.verdict] is not RelationState.REFUTED:
            continue
        yield near_relation(
            corpus,
            first,
            second,
            measures,
            policy=plan.policy,
            reasons=(Reason("verdict", measures.verdict), Reason("rules", POLICY, relation.policy)),
            created_at=now,
        )


def _insert_news(connection: sa.Connection, found: Sequence[RelationRecord]) -> int:
    """Insert what the ledger does not hold in this state, with these measures, from these rules."""
    held = relations.with_identity(connection, [codec.pack_id(one.relation_id) for one in found])
    merged = [with_what_a_crawl_found(one, held.get(one.relation_id)) for one in found]
    news = [
        one
        for one in merged
        if (known := held.get(one.relation_id)) is None
        or (known.state, dict(known.measures), known.policy) != (one.state, dict(one.measures), one.policy)
    ]
    relations.insert(connection, news, job=None)
    return len(news)
