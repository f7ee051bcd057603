"""Pairs in a file, for reviewers without a ledger: written with empty verdicts, taken in with full ones.

One pair a line, as JSON. What comes back is checked as a whole before anything is written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrapy_dedup.batch.record_files import drafts_of
from scrapy_dedup.batch.sources import bounded_lines
from scrapy_dedup.content.passages import Mark, Piece, SideBySide, side_by_side
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.crawl.cli.pair_file import NameTwice, with_each_name_once
from scrapy_dedup.errors import DedupError, InputError
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.decisions import NewDecision, in_force, record_decisions
from scrapy_dedup.ledger.review_queue import Entry, Queue
from scrapy_dedup.ledger.review_sides import Side
from scrapy_dedup.ledger.review_verdicts import ACTIONS, SIDES, ReviewVerdict, Stated, note_of
from scrapy_dedup.records import RelationRecord, to_dict
from scrapy_dedup.urls import redact

SCHEMA = "scrapy-dedup/review/1"
MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_PROBLEMS_TOLD = 50
MAX_PLACES = 40
MAX_URLS = 20
MAX_COMMENT_CHARS = 2_000

_IDENTITY = re.compile(r"rel1-[0-9a-f]{32}")
_VERDICTS = {verdict.value: verdict for verdict in ReviewVerdict}


# -- out ---------------------------------------------------------------------------------------------------


def write_file(context: Context, url: str, path: Path, queue: Queue) -> int:
    """Write a queue to a new file.

    Raises:
        DedupError: something stands there already, which may hold verdicts.
        OSError: it cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise DedupError(f"{path} exists already and may hold verdicts. Name a new file.")
    written = 0
    with drafts_of([path]) as drafts:
        with drafts[path].open("xb") as file, Ledger.open(url) as ledger:
            for place, entry in enumerate(queue.entries, 1):
                sides = ledger.sides(entry.relation)
                if sides is not None:
                    file.write(_encoded(line_of(entry, *sides, place=place)))
                    written += 1
            file.flush()
            os.fsync(file.fileno())
        drafts[path].rename(path)
    context.write(
        f"{printable(str(path))}: {written:,} of {queue.open:,} open pairs. Fill in verdict with "
        f"{', '.join(_VERDICTS)}; prefer with a or b where one is the better text; note with what you like."
    )
    return 0


def line_of(entry: Entry, a: Side, b: Side, *, place: int) -> dict[str, Any]:
    """Return a pair as a line of the file; ``verdict``, ``prefer`` and ``note`` are to be filled in."""
    relation = to_dict(entry.relation)
    text = side_by_side(a.body.text, b.body.text, max_places=MAX_PLACES)
    return {
        "schema": SCHEMA,
        "verdict": "",
        "prefer": "",
        "note": "",
        "place": place,
        **{name: relation[name] for name in ("relation_id", "kind", "corpus", "state")},
        "impact": entry.impact,
        "uncertainty": entry.uncertainty,
        "because": entry.because,
        "measures": relation["measures"],
        "reasons": relation["reasons"],
        "differences": list(_differences(text)),
        "more_differences": text.more_places,
        "a": _side(
            entry.relation.a_digest, a, [piece for one in text.passages for piece in one.a], text.rest_a
        ),
        "b": _side(
            entry.relation.b_digest, b, [piece for one in text.passages for piece in one.b], text.rest_b
        ),
    }


def _side(digest: str | None, side: Side, pieces: Sequence[Piece], rest: int) -> dict[str, Any]:
    body = side.body
    shown = [_left_out(piece.chars) if piece.mark is Mark.LEFT_OUT else piece.text for piece in pieces]
    shown += [_left_out(rest)] if rest else []
    listed = side.pages[:MAX_URLS]
    return {
        "digest": digest,
        "body_id": body.body_id,
        "is_current": side.is_current,
        "language": body.language,
        "words": body.word_count,
        "first_seen": side.first_seen,
        "last_seen": side.last_seen,
        "observations": side.observations,
        "urls": [redact(page.url) for page in listed],
        "more_urls": len(side.pages) - len(listed) + side.more_pages,
        "is_whole": not rest and all(piece.mark is not Mark.LEFT_OUT for piece in pieces),
        "text": "".join(shown),
    }


def _left_out(chars: int) -> str:
    return f"\n[... {chars:,} characters ...]\n"


def _differences(text: SideBySide) -> Iterator[dict[str, Any]]:
    """Yield what differs on both sides, place by place."""
    for passage in text.passages:
        left, right = list(_marked(passage.a)), list(_marked(passage.b))
        for number in range(max(len(left), len(right))):
            a, b = (side[number] if number < len(side) else ("", False) for side in (left, right))
            yield {"a": a[0], "b": b[0], "changes_claim": a[1] or b[1]}


def _marked(pieces: Sequence[Piece]) -> Iterator[tuple[str, bool]]:
    for piece in pieces:
        if piece.mark in (Mark.DIFFERS, Mark.CLAIM):
            yield piece.text, piece.mark is Mark.CLAIM


def _encoded(line: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, but JSON can escape it
        return json.dumps(line).encode() + b"\n"


# -- in ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What a line of a file says of a pair.

    Attributes:
        number: the line, from 1.
        relation_id: the pair.
        digests: those of the two texts that were shown.
        stated: the verdict.
    """

    number: int
    relation_id: str
    digests: tuple[str | None, str | None]
    stated: Stated


def import_file(context: Context, url: str, path: Path, *, by: str) -> int:
    """Write the verdicts of a file as decisions, all of them or none.

    Raises:
        InputError: with every fault of the file.
        OSError: it cannot be read.
    """
    if path.exists() and not path.is_file():
        raise DedupError(f"{path} is no file.")
    answers, unanswered, problems = read_file(path)
    with Ledger.open(url) as ledger:
        found = ledger.relations_named({answer.relation_id for answer in answers})
        news, known, more = plan(ledger, answers, found, by=by)
    problems = sorted([*problems, *more])
    if problems:
        told = [f"{path}, line {number}: {problem}" for number, problem in problems[:MAX_PROBLEMS_TOLD]]
        raise InputError(told, len(problems))
    if news:
        record_decisions(url, news, by=by)
    replaced = sum(one.expects is not None for one in news)
    facts = [f"{len(news):,} new", f"{known:,} known already", f"{unanswered:,} without a verdict"]
    facts += [f"{replaced:,} of the new ones in place of an earlier verdict"] if replaced else []
    context.write(printable(f"{path}: {', '.join(facts)}"))
    return 0


Problem = tuple[int, str]
"""The number of a line, and what is wrong with it."""


def read_file(path: Path) -> tuple[list[Answer], int, list[Problem]]:
    """Return the answers of a file, how many lines have none, and what is wrong with its lines.

    Raises:
        OSError: it cannot be read.
    """
    answers: list[Answer] = []
    unanswered, problems = 0, []
    for number, content in _numbered(path):
        row = _parsed(content)
        if isinstance(row, str):
            problems.append((number, row))
            continue
        wrong = list(_wrong(row))
        problems += [(number, problem) for problem in wrong]
        if not wrong and not _verdict_of(row):
            unanswered += 1
        elif not wrong:
            answers.append(_answer(number, row))
    return answers, unanswered, problems


def plan(
    ledger: Ledger, answers: Sequence[Answer], found: Mapping[str, RelationRecord], *, by: str
) -> tuple[list[NewDecision], int, list[Problem]]:
    """Return what is to be decided, how many answers are in force already, and what is wrong.

    Args:
        ledger: what it holds now.
        answers: of a file.
        found: the relations that the answers name, by their identities.
        by: who decides.
    """
    first: dict[str, Answer] = {}
    news: list[NewDecision] = []
    known, problems = 0, []
    for answer in answers:
        earlier = first.setdefault(answer.relation_id, answer)
        if earlier is not answer:
            if earlier.stated[:2] != answer.stated[:2]:
                problems.append(
                    (answer.number, f"another verdict on this pair stands in line {earlier.number}")
                )
            continue
        outcome = _outcome(ledger, answer, found.get(answer.relation_id), by)
        if isinstance(outcome, str):
            problems.append((answer.number, outcome))
        elif outcome is None:
            known += 1
        else:
            news.append(outcome)
    return news, known, problems


def _outcome(
    ledger: Ledger, answer: Answer, relation: RelationRecord | None, by: str
) -> NewDecision | str | None:
    """Return what an answer decides, None where that is in force already, or what is wrong with it."""
    problem = _stale(answer, relation)
    if relation is None or problem is not None:
        return problem
    note = note_of(answer.stated)
    action = ACTIONS[relation.kind][answer.stated.verdict]
    held = in_force(ledger.history(answer.relation_id))
    if held is not None and (held.action, held.note) == (action, note):
        return None
    if held is not None and held.by != by:
        return f"{held.by} decided {held.action.value} meanwhile; undo that first to decide otherwise"
    gone = _no_longer_shown(*ledger.are_current(relation))
    return gone or NewDecision(relation, action, note, expects=held.decision_id if held else None)


def _stale(answer: Answer, relation: RelationRecord | None) -> str | None:
    """Return why an answer is about nothing that the ledger holds, else None."""
    if relation is None:
        return f"the ledger holds no pair {answer.relation_id}"
    if relation.kind not in ACTIONS:
        return f"{answer.relation_id} is of the kind {relation.kind.value}, which is no pair of texts"
    if answer.digests != (relation.a_digest, relation.b_digest):
        return f"the digests of {answer.relation_id} are others in the ledger; export the pairs again"
    return None


def _no_longer_shown(a: bool, b: bool) -> str | None:
    """Return which text is no longer shown, given whether the two are, None where both are."""
    gone = [name for name, is_shown in (("A", a), ("B", b)) if not is_shown]
    return f"no page shows text {gone[0]} any more; export the pairs again" if gone else None


def _numbered(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that are not empty; None for one that is too long."""
    with path.open("rb") as file:
        for number, (line, _) in enumerate(bounded_lines(file, MAX_LINE_BYTES), 1):
            content = line.removeprefix(b"\xef\xbb\xbf") if line is not None and number == 1 else line
            if content is None or content.strip():
                yield number, content


def _parsed(content: bytes | None) -> Mapping[str, Any] | str:
    if content is None:
        return f"it is longer than {MAX_LINE_BYTES:,} bytes"
    try:
        row = json.loads(content.decode("utf-8"), object_pairs_hook=with_each_name_once)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except NameTwice as error:
        return str(error)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({error})"
    return row if isinstance(row, dict) else "it is no JSON object"


def _wrong(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a line by itself."""
    if row.get("schema") != SCHEMA:
        yield f"it is no line of a review: schema is {row.get('schema')!r:.60}, not {SCHEMA!r}"
        return
    if not _IDENTITY.fullmatch(str(row.get("relation_id"))):
        yield "relation_id is not as it was written"
    for name in SIDES:
        side = row.get(name)
        digest = side.get("digest") if isinstance(side, dict) else 0
        if not isinstance(side, dict) or not (digest is None or isinstance(digest, str)):
            yield f"{name} is not as it was written"
    yield from _wrong_answer(row)


def _wrong_answer(row: Mapping[str, Any]) -> Iterator[str]:
    for name in ("verdict", "prefer", "note"):
        if name not in row:
            yield f"{name} is missing; leave it empty to say nothing"
        elif row[name] is not None and not isinstance(row[name], str):
            yield f"{name} is {type(row[name]).__name__}, not text"
            return
    verdict, prefer = _verdict_of(row), _prefer_of(row)
    if verdict and verdict not in _VERDICTS:
        yield f"unknown verdict {verdict!r:.60}; the verdicts are {', '.join(_VERDICTS)}"
    if prefer and prefer not in SIDES:
        yield f"prefer is {prefer!r:.60}; write a or b, or nothing"
    if not verdict and (prefer or (row.get("note") or "").strip()):
        yield "prefer or note without a verdict"
    if len(row.get("note") or "") > MAX_COMMENT_CHARS:
        yield f"note is longer than {MAX_COMMENT_CHARS:,} characters"


def _verdict_of(row: Mapping[str, Any]) -> str:
    """Return a verdict as it is known, also where somebody wrote it like ``Updated version``."""
    return "_".join((row.get("verdict") or "").lower().split())


def _prefer_of(row: Mapping[str, Any]) -> str:
    return (row.get("prefer") or "").strip().lower()


def _answer(number: int, row: Mapping[str, Any]) -> Answer:
    a, b = row["a"], row["b"]
    return Answer(
        number=number,
        relation_id=str(row["relation_id"]),
        digests=(a.get("digest"), b.get("digest")),
        stated=Stated(
            _VERDICTS[_verdict_of(row)], _prefer_of(row) or None, (row.get("note") or "").strip() or None
        ),
    )
