"""Relations and decisions in words: what they say, what follows, and the command that undoes them."""

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
from scrapy_dedup.ledger.events import claims_in_conflict
from scrapy_dedup.records import DecisionAction, DecisionRecord, RelationKind, RelationRecord, to_dict

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
    reasons = [
        " ".join(
            [reason.code]
            + ([] if reason.value is None else [f"{reason.value}"])
            + ([] if reason.threshold is None else [f"(of {reason.threshold})"])
        )
        for reason in relation.reasons
    ]
    measures = [f"{name} {value}" for name, value in relation.measures.items()]
    because = ", ".join([*reasons, *measures])
    return printable(f"{relation.state.value} because of {because}" if because else relation.state.value)


def signed(decision: DecisionRecord) -> str:
    """Return what was decided, by whom, when and why, in one line."""
    note = f', "{decision.note}"' if decision.note else ""
    return printable(f"{decision.action.value} by {decision.by} at {decision.at}{note}")


def short(identity: str) -> str:
    """Return the beginning of an identity, long enough to name it."""
    prefix, _, digits = identity.partition("-")
    return f"{prefix}-{digits[:SHOWN_DIGITS]}"


def undo_command(
    context: Context, relation: RelationRecord, decision: DecisionRecord | None = None, *, whole: bool = False
) -> str:
    """Return the command that undoes a decision or, without one, what the suite did by itself."""
    identity = decision.decision_id if decision else relation.relation_id
    return context.command("undo", identity if whole else short(identity))


def as_json(context: Context, relation: RelationRecord, decision: DecisionRecord | None) -> dict[str, Any]:
    """Return a relation with the decision in force and the command that undoes the one or the other."""
    return {
        **redacted(to_dict(relation)),
        "decision": to_dict(decision) if decision else None,
        "undo": undo_command(context, relation, decision, whole=True),
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
    begins = _beginning(identity, "rel1-")
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
    begins = _beginning(identity, "dec1-")
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


def _beginning(identity: str, prefix: str) -> str:
    found = _IDENTITY.fullmatch(identity)
    if found is None or found[1] not in (prefix, None):
        raise DedupError(
            f"{identity!r:.100} is no identity: it is written {prefix} "
            f"and {MIN_DIGITS} to 32 hexadecimal digits"
        )
    return prefix + found[2]
