"""Writing decisions, and telling what they change and how they are undone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import redacted
from scrapy_dedup.crawl.cli.relations import (
    EFFECTS,
    check_decidable,
    evidence,
    seen_at,
    short,
    signed,
    statement,
)
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.decisions import in_force, record_decision
from scrapy_dedup.records import DecisionAction, DecisionRecord, RelationRecord, to_dict


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision to be written.

    Attributes:
        relation: what it is about.
        action: what is decided.
        undone: the decision that UNDO takes back.
        covers: what else is to be told about it.
        replaced: the decision in force before, which this one takes the place of.
        places: where similar texts were first seen, by their bodies.
    """

    relation: RelationRecord
    action: DecisionAction
    undone: DecisionRecord | None = None
    covers: str | None = None
    replaced: DecisionRecord | None = None
    places: Mapping[str, str] = field(default_factory=dict)


def rule(context: Context, url: str, rulings: Sequence[Ruling], *, by: str) -> None:
    """Write decisions, and tell of each what follows from it and how it is undone.

    Raises:
        DedupError: one cannot be written; those before it are.
    """
    for ruling in rulings:
        check_decidable(context, ruling.relation)
    told: list[tuple[Ruling, DecisionRecord, DecisionRecord | None]] = []
    for ruling in rulings:
        decision = record_decision(
            url,
            ruling.relation,
            ruling.action,
            by=by,
            note=context.options.note,
            supersedes=ruling.undone.decision_id if ruling.undone else None,
        )
        with Ledger.open(url) as ledger:
            history = ledger.history(decision.relation_id)
            relation = ledger.relation(decision.relation_id) or ruling.relation
            places = seen_at(ledger, relation)
        earlier = (one for one in history if one.decision_id == decision.supersedes)
        replaced = None if ruling.action is DecisionAction.UNDO else next(earlier, None)
        written = replace(ruling, relation=relation, replaced=replaced, places=places)
        told.append((written, decision, in_force(history)))
    if context.options.json:
        decisions = [_as_json(context, *one) for one in told]
        context.write(json.dumps({"decisions": decisions}, indent=2, ensure_ascii=True))
        return
    for one in told:
        context.write("\n".join(_told(context, *one)))


def effect(relation: RelationRecord, held: DecisionRecord | None) -> str:
    """Return what holds of a relation under the decision in force."""
    if held is None:
        return f"it stands as it was found, {evidence(relation)}"
    return EFFECTS[relation.kind][held.action]


def _told(
    context: Context, ruling: Ruling, decision: DecisionRecord, held: DecisionRecord | None
) -> Iterator[str]:
    yield f"{short(decision.relation_id)}: {statement(ruling.relation, ruling.places)}"
    if ruling.covers:
        yield f"  covers: {ruling.covers}"
    if ruling.undone:
        yield f"  undone: {signed(ruling.undone)}"
    else:
        yield f"  decided: {signed(decision)}"
    if ruling.replaced:
        yield f"  in place of: {signed(ruling.replaced)}"
    yield f"  so: {effect(ruling.relation, held)}"
    yield f"  undo: {context.command('undo', short(decision.decision_id))}"


def _as_json(
    context: Context, ruling: Ruling, decision: DecisionRecord, held: DecisionRecord | None
) -> dict[str, Any]:
    return {
        "relation": redacted(to_dict(ruling.relation)),
        "covers": ruling.covers,
        "decision": to_dict(decision),
        "in_place_of": to_dict(ruling.replaced) if ruling.replaced else None,
        "in_force": to_dict(held) if held else None,
        "effect": effect(ruling.relation, held),
        "undo": context.command("undo", decision.decision_id),
    }
