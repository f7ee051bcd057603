"""What an index holds, read from chunk records and from plans, alike for every framework.

An entry's text is the string that its vector is made of, and its metadata is flat and says nothing that
changes from crawl to crawl: no time, no job, no score.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scrapy_dedup.chunks.keys import entry_id, entry_uuid
from scrapy_dedup.chunks.template import HEADING_SEPARATOR
from scrapy_dedup.content.normalise import is_well_formed
from scrapy_dedup.errors import InputError
from scrapy_dedup.records import ChunkRecord, PlanRecord, to_dict
from scrapy_dedup.retrieval.hits import Kept

Scalar = str | int | float | bool
Vectors = MutableMapping[str, Sequence[float]]
"""Vectors by ``embed_key``: a dict, or anything that behaves like one and outlives the process."""

IdKind = Literal["uuid", "id"]
"""Which identity an index uses: the UUID, which every store takes, or the ``id`` of the records."""

SHOWN_PROBLEMS = 10

MAX_NUMBER = 2**63 - 1
"""In metadata; stores keep 64 bits."""

BATCH = 256
"""Entries that a store gets in one call."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an index.

    Attributes:
        id: of the record, ``entry1-...``.
        uuid: the same as a UUID.
        text: the exact string that is embedded.
        metadata: flat; ``sources`` has on each line the URL of a page that shows the text itself.
        embed_key: entries of equal keys have equal vectors.
    """

    id: str
    uuid: str
    text: str
    metadata: Mapping[str, Scalar]
    embed_key: str

    def identity(self, kind: IdKind) -> str:
        """Return the identity that an index uses."""
        return self.uuid if kind == "uuid" else self.id


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """What a plan asks for.

    Attributes:
        plan_id: to confirm it by; None for a plan without lines.
        upserts: entries to write.
        deletes: id and uuid of each entry to take out.
        kept: how many stay as they are.
    """

    plan_id: str | None
    upserts: Sequence[Entry]
    deletes: Sequence[tuple[str, str]]
    kept: int

    def deleted(self, kind: IdKind) -> list[str]:
        """Return the identities of what is to be taken out."""
        return [uuid if kind == "uuid" else identity for identity, uuid in self.deletes]

    def applied(self, reused: int | None) -> Applied:
        """Return what was done once all of it is; ``reused`` as `Applied` has it."""
        return Applied(self.plan_id, len(self.upserts), len(self.deletes), self.kept, reused)


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done in an index.

    Attributes:
        plan_id: for ``scrapy dedup plan --applied``.
        upserted: entries written.
        deleted: entries taken out.
        kept: entries that were left alone.
        reused: of those written, how many got a vector that was known; None where the store embeds by itself.
    """

    plan_id: str | None
    upserted: int
    deleted: int
    kept: int
    reused: int | None


Source = str | Path | Iterable[Any]
"""The path of a JSON Lines file, or records, or mappings as their lines have them."""


def read_chunks(source: Source) -> Iterator[Entry]:
    """Yield the entries of chunk records.

    Raises:
        InputError: a line is no chunk record, or holds what no index can take.
    """
    for place, record in _records(source):
        wrong = _problems(place, record, ChunkRecord.schema, _CHUNK_FIELDS)
        if wrong:
            raise InputError([f"{place}: {problem}" for problem in wrong], len(wrong))
        entry = _chunk_entry(record)
        if wrong := _unfit(entry):
            raise InputError([f"{place}: {problem}" for problem in wrong], len(wrong))
        yield entry


def read_plan(source: Source) -> IndexChanges:
    """Return what a plan asks for, once all of it was read.

    Raises:
        InputError: lines are no plan records, are those of several plans, name an entry twice, or hold what
            no index can take.
    """
    upserts: list[Entry] = []
    deletes: list[tuple[str, str]] = []
    problems: list[str] = []
    plan_ids: dict[str, None] = {}
    named: dict[str, str] = {}
    kept = 0
    for place, record in _records(source):
        op = record.get("op")
        fields = _UPSERT_FIELDS if op == "upsert" else _PLAN_FIELDS
        wrong = _problems(place, record, PlanRecord.schema, fields)
        if not wrong and op not in _OPS:
            wrong = [f"op is {op!r}; known are {', '.join(_OPS)}"]
        if not wrong and (first := named.setdefault(record["id"], place)) != place:
            wrong = [f"{record['id']} is named by {first} already"]
        entry = _plan_entry(record) if op == "upsert" and not wrong else None
        wrong = wrong or ([] if entry is None else _unfit(entry))
        if wrong:
            problems += [f"{place}: {problem}" for problem in wrong]
            continue
        plan_ids[record["plan_id"]] = None
        if entry is not None:
            upserts.append(entry)
        elif op == "delete":
            deletes.append((record["id"], record["uuid"]))
        else:
            kept += 1
    if len(plan_ids) > 1:
        problems.append(f"the lines are of {len(plan_ids)} plans: {', '.join(plan_ids)}")
    if problems:
        raise InputError(problems[:SHOWN_PROBLEMS], len(problems))
    return IndexChanges(next(iter(plan_ids), None), upserts, deletes, kept)


def passage_of(content: str, metadata: Mapping[str, Any]) -> str:
    """Return the text of an entry less the path of headings that the default template puts before it."""
    headings = metadata.get("headings")
    return content.removeprefix(f"{headings}\n\n") if isinstance(headings, str) else content


def as_hit(
    content: str,
    metadata: Mapping[str, Any],
    identity: str | None,
    score: float | None = None,
    vector: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Return what a framework found as a hit for `scrapy_dedup.retrieval.dedupe_hits`.

    Metadata that others made may have the same names for other things: a ``group`` of theirs is none of
    similar texts, and what is no URL is no place.
    """
    is_ours = isinstance(metadata.get("entry_id"), str)
    named = [one for one in (metadata.get("url"), metadata.get("source")) if isinstance(one, str)]
    sources = metadata.get("sources")
    are_places = isinstance(sources, str) or (
        isinstance(sources, (list, tuple)) and all(isinstance(one, str) for one in sources)
    )
    lineage = metadata.get("lineage")
    return {
        "text": passage_of(content, metadata),
        "score": score,
        "id": metadata["entry_id"] if is_ours else identity,
        "url": named[0] if named else None,
        "sources": sources if are_places else None,
        "group": metadata.get("group") if is_ours else None,
        "simhash": metadata.get("simhash") if is_ours else None,
        "vector": vector,
        "lineage": lineage if isinstance(lineage, str) else None,
    }


def cited(metadata: Mapping[str, Any], kept: Kept[Any]) -> dict[str, Any]:
    """Return the metadata of a kept hit: the page to cite is ``url``, ``also_seen_at`` lists the others."""
    url = {} if kept.source is None else {"url": kept.source}
    return {**metadata, **url, "also_seen_at": [*kept.also_seen_at]}


def remember(vectors: Vectors, keys: Iterable[str], made: Iterable[Sequence[float] | None]) -> None:
    """Add vectors that were made, all or none of them.

    Args:
        vectors: where they are kept.
        keys: ``embed_key`` of each.
        made: what the model returned.

    Raises:
        ValueError: there is not a vector for each key.
    """
    found: dict[str, Sequence[float]] = {}
    for key, vector in zip(keys, made, strict=True):
        if vector is None:
            raise ValueError("the model returned no vector for one of the texts")
        found[key] = vector
    vectors.update(found)


def in_batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield entries, at most `BATCH` at a time."""
    for start in range(0, len(entries), BATCH):
        yield entries[start : start + BATCH]


# A file of the other kind is taken for a slip in its name: one message for all of its lines.
_OTHER_KINDS = {
    ChunkRecord.schema: "a chunk record and no line of a plan; documents() takes these (LlamaIndex: nodes())",
    PlanRecord.schema: "a line of a plan and no chunk record; apply_plan() takes these",
}

_OPS = ("upsert", "keep", "delete")
_CHUNK_FIELDS: Mapping[str, type] = {
    "id": str,
    "uuid": str,
    "embed_text": str,
    "embed_key": str,
    "headings": list,
    "sources": list,
}
_PLAN_FIELDS: Mapping[str, type] = {"plan_id": str, "op": str, "id": str, "uuid": str, "embed_key": str}
_UPSERT_FIELDS = {**_PLAN_FIELDS, "embed_text": str, "metadata": dict, "sources": list}


def _records(source: Source) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each record as its line would have it, with its place."""
    if not isinstance(source, (str, Path)):
        for number, record in enumerate(source, 1):
            is_record = isinstance(record, (ChunkRecord, PlanRecord))
            yield f"record {number}", to_dict(record) if is_record else _mapping(record)
        return
    path = Path(source)
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path} line {number}", _parsed(line)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([f"{path} cannot be read: {error}"], 1) from error


def _parsed(line: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return _mapping(record)


def _mapping(record: Any) -> Mapping[str, Any]:
    return record if isinstance(record, Mapping) else {}


def _problems(place: str, record: Mapping[str, Any], schema: str, fields: Mapping[str, type]) -> list[str]:
    if (stated := record.get("schema")) != schema:
        if isinstance(stated, str) and stated in _OTHER_KINDS:
            raise InputError([f"{place} is {_OTHER_KINDS[stated]}"], 1)
        return [f"is no record of {schema}"]
    wrong = [
        f"{name} has to be of type {kind.__name__}"
        for name, kind in fields.items()
        if not isinstance(record.get(name), kind)
    ]
    if wrong:
        return wrong
    sources = record.get("sources") or ()
    if not all(isinstance(source, Mapping) and isinstance(source.get("url"), str) for source in sources):
        wrong.append("sources lack a url")
    if "embed_text" in fields and not sources:
        wrong.append("sources is empty")
    if record["uuid"] != entry_uuid(record["id"]):
        wrong.append("uuid is not that of the id")
    return wrong


def _unfit(entry: Entry) -> list[str]:
    """Return why an index cannot take an entry, or would hold another text under its identity."""
    wrong = []
    if not is_well_formed(entry.text) or entry.id != entry_id(entry.text):
        wrong.append(f"{entry.id:.50} is not the identity of its text, which was changed after it was made")
    if not all(isinstance(value, (str, int, float)) for value in entry.metadata.values()):
        wrong.append("metadata holds more than strings, numbers and flags")
    if not all(map(is_well_formed, [entry.text, *_texts(entry.metadata)])):
        wrong.append("has text with lone surrogates, which UTF-8 cannot hold")
    numbers = [value for value in entry.metadata.values() if isinstance(value, (int, float))]
    if not all(abs(value) <= MAX_NUMBER for value in numbers):  # true of no NaN
        wrong.append("metadata has a number that is none, or is too large")
    return wrong


def _texts(metadata: Mapping[str, Any]) -> Iterator[str]:
    for name, value in metadata.items():
        yield str(name)
        if isinstance(value, str):
            yield value


def _chunk_entry(record: Mapping[str, Any]) -> Entry:
    first = record["sources"][0]
    stated = {
        "url": first["url"],
        "title": first.get("title"),
        "headings": HEADING_SEPARATOR.join(map(str, record["headings"])) or None,
        "language": record.get("language"),
        "corpus": record.get("corpus"),
        "shared": record.get("shared"),
        "group": record.get("group"),
        "simhash": record.get("simhash"),
    }
    return _entry(record, stated)


def _plan_entry(record: Mapping[str, Any]) -> Entry:
    return _entry(record, record["metadata"])


def _entry(record: Mapping[str, Any], stated: Mapping[str, Scalar | None]) -> Entry:
    metadata = {name: value for name, value in stated.items() if value is not None}
    metadata["entry_id"] = record["id"]
    # Whoever may see a page of another text only, which this one stands for, may not see this one.
    shown = (source["url"] for source in record["sources"] if not source.get("similar"))
    metadata["sources"] = "\n".join(dict.fromkeys(shown))
    return Entry(record["id"], record["uuid"], record["embed_text"], metadata, record["embed_key"])
