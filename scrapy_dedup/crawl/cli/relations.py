"""Relations and decisions in words: what they say, what follows, and the command that changes that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import printable, redacted, shown_url
from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.decisions import opposite
from scrapy_dedup.ledger.derived import DECIDED
from scrapy_dedup.ledger.events import claims_in_conflict
from scrapy_dedup.ledger.review_queue import threshold_of
from scrapy_dedup.records import (
    DecisionAction,
    DecisionRecord,
    Reason,
    RelationKind,
    RelationRecord,
    to_dict,
)

MIN_DIGITS = 8
SHOWN_DIGITS = 16  # no two relations of a ledger begin alike for so long

WHOLE = len("rel1-") + 32

_IDENTITY = re.compile(rf"(rel1-|dec1-)?([0-9a-f]{{{MIN_DIGITS},32}})")

STATEMENTS = {
    RelationKind.CANONICAL: "{a} declares {b} to be its canonical",
    RelationKind.SHARED_TEMPLATE: "{a} is shown by {b} under unrelated URLs",
    RelationKind.EVENT: "{a} reports the event {b}",
    RelationKind.EVENT_CONFLICT: "{a} is claimed for two events, {b}",
    RelationKind.NEAR: "{a} is nearly the text of {b}",
    RelationKind.SAME_TEXT: "{a} has the text of {b}",
    RelationKind.SAME_NORMALIZED: "{a} has, but for case and white space, the text of {b}",
    RelationKind.RESIDUAL_DIFFERS: "{a} has the main text of {b}, but other prose beside it",
    RelationKind.REVISION: "{a} had another text before, in {b}",
    RelationKind.URL_MERGED: "{a} was merged into {b}",
    RelationKind.URL_DENIED: "{a} was denied by {b}",
    RelationKind.CONTENT_INVALID: "{a} showed no evidence, {b}",
    RelationKind.SKIPPED: "{a} was not fetched, {b}",
    RelationKind.FORGOTTEN: "{a} counts as not seen before",
}
"""What a relation says."""

_SAME_TEXT_EFFECTS = {
    DecisionAction.SAME: "what was made of the earlier text is reused",
    DecisionAction.DIFFERENT: "the text counts as one of its own",
}
_FETCHED_AGAIN = {DecisionAction.FORGET: "the next crawl fetches it again, whatever was seen before"}

EFFECTS: Mapping[RelationKind, Mapping[DecisionAction, str]] = {
    RelationKind.CANONICAL: {
        DecisionAction.SAME: "the declaration counts as confirmed",
        DecisionAction.DIFFERENT: "the declaration counts as refuted",
    },
    RelationKind.SHARED_TEMPLATE: {
        DecisionAction.SAME: "pages with this text are for review",
        DecisionAction.DIFFERENT: "the text is content like any other",
    },
    RelationKind.EVENT: {
        DecisionAction.SAME: "the observation reports this event",
        DecisionAction.DIFFERENT: "the observation does not report this event",
    },
    RelationKind.NEAR: {
        DecisionAction.SAME: "the one that leads stands for the other, also in the groups of the next batch",
        DecisionAction.DIFFERENT: "both texts count, and they stay apart in the groups of the next batch",
    },
    RelationKind.SAME_TEXT: _SAME_TEXT_EFFECTS,
    RelationKind.SAME_NORMALIZED: _SAME_TEXT_EFFECTS,
    RelationKind.RESIDUAL_DIFFERS: _SAME_TEXT_EFFECTS,
    RelationKind.REVISION: _SAME_TEXT_EFFECTS,
    RelationKind.URL_MERGED: {
        DecisionAction.SAME: "the next crawl merges the URL by its policy",
        DecisionAction.DIFFERENT: "the next crawl fetches the URL as it is linked, under a key of its own",
    },
    RelationKind.URL_DENIED: {
        DecisionAction.ACCEPT: "the next crawl fetches the URL",
        DecisionAction.REJECT: "the URL stays denied by its policy",
    },
    RelationKind.CONTENT_INVALID: {
        DecisionAction.ACCEPT: "a later crawl takes a text of the page as valid while its bytes are the same",
        DecisionAction.REJECT: "a later crawl refuses the page while its bytes are the same",
    },
    RelationKind.SKIPPED: _FETCHED_AGAIN,
    RelationKind.FORGOTTEN: _FETCHED_AGAIN,
}
"""What follows from each decision about a relation; a conflict of events is settled at one of the claims."""


def statement(relation: RelationRecord, places: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what a relation says, as a sentence for a terminal.

    Args:
        relation: the relation.
        places: what to say in place of an identity, such as where an observation was made.
    """
    sides = (shown_url(places.get(side, side)) for side in (relation.a, relation.b))
    return STATEMENTS[relation.kind].format(**dict(zip("ab", sides, strict=True)))


def evidence(relation: RelationRecord) -> str:
    """Return the state of a relation, its reasons and its measures in one line."""
    if relation.kind is RelationKind.NEAR:
        return printable(similarity(relation, "the first", "the second"))
    stated = {reason.code: reason.value for reason in relation.reasons}
    measures = [f"{name} {value}" for name, value in relation.measures.items() if stated.get(name) != value]
    because = ", ".join([*map(_reason, relation.reasons), *measures])
    return printable(f"{relation.state.value} because of {because}" if because else relation.state.value)


def similarity(relation: RelationRecord, a: str, b: str) -> str:
    """Return what is known of two similar texts and why: the verdict first, from which the state follows.

    Args:
        relation: of the two.
        a: what to call its side ``a``.
        b: what to call its side ``b``.
    """
    measures = relation.measures
    jaccard, in_b, in_a, own = (
        f"{value:.3f}" if isinstance(value := measures.get(name), (int, float)) else "unknown"
        for name in ("jaccard", "containment_a", "containment_b", "own_jaccard")
    )
    decided = [reason for reason in relation.reasons if reason.code == DECIDED]
    others = [reason for reason in relation.reasons if reason.code not in (DECIDED, "jaccard", "verdict")]
    facts = [*map(_reason, decided), str(measures.get("verdict") or "similar")]
    facts += [f"jaccard {jaccard} (threshold {threshold_of(relation):g})"]
    facts += [f"{own} without what their hosts share"] if "own_jaccard" in measures else []
    facts += [f"{in_b} of {a} in {b}, {in_a} of {b} in {a}"]
    facts += [f"{name} leads" for side, name in (("a", a), ("b", b)) if measures.get("leader") == side]
    facts += ["one page at two times"] if measures.get("same_page") else []
    return f"{relation.state.value}: {', '.join([*facts, *map(_reason, others)])}"


def _reason(reason: Reason) -> str:
    parts = [reason.code]
    parts += [] if reason.value is None else [f"{reason.value}"]
    parts += [] if reason.threshold is None else [f"(of {reason.threshold})"]
    return " ".join(parts)


def signed(decision: DecisionRecord) -> str:
    """Return what was decided, by whom, when and why, in one line."""
    note = f', "{decision.note}"' if decision.note else ""
    return printable(f"{decision.action.value} by {decision.by} at {decision.at}{note}")


def short(identity: str) -> str:
    """Return the beginning of an identity, long enough to name it."""
    prefix, _, digits = identity.partition("-")
    return f"{prefix}-{digits[:SHOWN_DIGITS]}"


def offer(
    context: Context, relation: RelationRecord, decision: DecisionRecord | None = None, *, whole: bool = False
) -> tuple[str, str]:
    """Return the subcommand that changes what holds of a relation, and the command to type.

    That is ``undo`` of the decision or, without one, of what the suite did by itself. Where it only left two
    things apart nothing can be taken back, and ``decide`` makes them one.
    """
    identity = decision.decision_id if decision else relation.relation_id
    name = "decide" if decision is None and is_left_apart(relation) else "undo"
    more = [DecisionAction.SAME.value] if name == "decide" else []
    return name, context.command(name, identity if whole else short(identity), *more)


def is_left_apart(relation: RelationRecord) -> bool:
    """Tell whether the suite, by itself, has made nothing of a relation but to count its sides as two."""
    return opposite(relation) is DecisionAction.SAME


def seen_at(ledger: Ledger, relation: RelationRecord) -> Mapping[str, str]:
    """Return where each of two similar texts was first seen, by its body."""
    sides = ledger.sides(relation) if relation.kind is RelationKind.NEAR else None
    return {side.body.body_id: side.pages[0].url for side in sides or () if side.pages}


def as_json(context: Context, relation: RelationRecord, decision: DecisionRecord | None) -> dict[str, Any]:
    """Return a relation with the decision in force and the command that changes what holds of it.

    That stands under ``undo`` or, where nothing can be taken back, under ``decide``.
    """
    name, command = offer(context, relation, decision, whole=True)
    return {
        **redacted(to_dict(relation)),
        "decision": to_dict(decision) if decision else None,
        "undo": None,
        name: command,
    }


def find_relation(ledger: Ledger, identity: str, url: str | None = None) -> RelationRecord:
    """Return the relation with an identity, or with an identity that begins so.

    Args:
        ledger: where to look for it.
        identity: its beginning; what ``explain`` shows of one is enough to take the first that is found.
        url: look only at what ``explain`` shows of this URL, which takes no time in a large ledger either.

    Raises:
        DedupError: there is none, or more than one.
    """
    begins = beginning(identity, "rel1-")
    if len(begins) == WHOLE and url is None and (relation := ledger.relation(begins)):
        return relation
    rows = ledger.relations() if url is None else ledger.lookup(url).relations
    alike = (row for row in rows if row.relation_id.startswith(begins))
    is_long = len(begins) >= len("rel1-") + SHOWN_DIGITS
    found = {row.relation_id: row for row in (islice(alike, 1) if is_long else alike)}
    return found[only(identity, found)]


def check_decidable(context: Context, relation: RelationRecord) -> None:
    """Refuse a conflict of two claims, which nothing can be decided about but at one of them.

    Raises:
        DedupError: with the commands that settle it.
    """
    if relation.kind in EFFECTS:
        return
    commands = [
        context.command("decide", short(claim), "different") for claim in claims_in_conflict(relation)
    ]
    raise DedupError(f"{statement(relation)}. Refuse one of them to settle it:\n  " + "\n  ".join(commands))


def find_decision(ledger: Ledger, identity: str) -> DecisionRecord:
    """Return the decision with an identity, or with an identity that begins so.

    Raises:
        DedupError: there is none, or more than one.
    """
    begins = beginning(identity, "dec1-")
    found = {row.decision_id: row for row in ledger.decisions() if row.decision_id.startswith(begins)}
    return found[only(identity, found)]


def only(identity: str, found: Iterable[str]) -> str:
    """Return the one identity that was found under the beginning of one.

    Raises:
        DedupError: there is none, or more than one.
    """
    first = list(islice(found, 3))
    if not first:
        raise DedupError(
            f"the ledger holds nothing under {identity}; "
            "'scrapy dedup explain URL' names what it holds of a URL"
        )
    if len(first) > 1:
        raise DedupError(f"{identity} begins more than one identity: {', '.join(first)}; write more of it")
    return first[0]


def beginning(identity: str, *prefixes: str) -> str:
    """Return the beginning of an identity with its prefix, the first of those that it may have by default.

    Raises:
        DedupError: it is none.
    """
    found = _IDENTITY.fullmatch(identity)
    if found is None or found[1] not in (*prefixes, None):
        raise DedupError(
            f"{identity!r:.100} is no identity: it is written {' or '.join(prefixes)} "
            f"and {MIN_DIGITS} to 32 hexadecimal digits"
        )
    return (found[1] or prefixes[0]) + found[2]
