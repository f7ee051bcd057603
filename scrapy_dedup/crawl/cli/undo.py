"""``scrapy dedup undo``: takes back a decision or, where there is none, what the suite did by itself."""

from __future__ import annotations

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.relations import (
    beginning,
    find_decision,
    find_relation,
    is_left_apart,
    offer,
    seen_at,
    statement,
)
from scrapy_dedup.crawl.cli.ruling import Ruling, rule
from scrapy_dedup.crawl.cli.signature import signature
from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.decisions import in_force, opposite, undone
from scrapy_dedup.records import DecisionAction, DecisionRecord


def run(context: Context) -> int:
    """Write the decision that undoes what is named, and say what follows from it."""
    identity: str = context.options.identity
    place: str | None = context.options.url
    url, by = context.ledger_url(), signature(context.options.by)
    with Ledger.open(url) as ledger:
        if beginning(identity, "rel1-", "dec1-").startswith("dec1-"):
            ruling = _of_decision(context, ledger, identity)
        else:
            ruling = _of_relation(context, ledger, identity, place)
    rule(context, url, [ruling], by=by)
    return 0


def _of_relation(context: Context, ledger: Ledger, identity: str, place: str | None) -> Ruling:
    relation = find_relation(ledger, identity, place)
    held = in_force(ledger.history(relation.relation_id))
    if held is not None:
        return Ruling(relation, DecisionAction.UNDO, held)
    if is_left_apart(relation):
        raise DedupError(
            f"{statement(relation, seen_at(ledger, relation))}: both count, so there is nothing to undo; "
            f"to count them as one: {offer(context, relation)[1]}"
        )
    return Ruling(relation, opposite(relation))


def _of_decision(context: Context, ledger: Ledger, identity: str) -> Ruling:
    decision = find_decision(ledger, identity)
    history = ledger.history(decision.relation_id)
    if decision.decision_id in undone(history):
        (by,) = [row for row in history if row.supersedes == decision.decision_id and _is_undo(row)][-1:]
        raise DedupError(
            f"{decision.decision_id} is undone already; "
            f"to bring it back: {context.command('undo', by.decision_id)}"
        )
    return Ruling(find_relation(ledger, decision.relation_id), DecisionAction.UNDO, decision)


def _is_undo(decision: DecisionRecord) -> bool:
    return decision.action is DecisionAction.UNDO
