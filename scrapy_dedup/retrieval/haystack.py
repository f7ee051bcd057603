"""Haystack: documents from chunk records, plans for a document store, and a component behind a retriever.

Needs the extra ``haystack``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from haystack import Document, component
from haystack.document_stores.types import DocumentStore, DuplicatePolicy

from scrapy_dedup.near.claims import MIN_CONTAINMENT, MIN_JACCARD
from scrapy_dedup.retrieval.entries import (
    Applied,
    Entry,
    IdKind,
    Source,
    Vectors,
    as_hit,
    cited,
    in_batches,
    read_chunks,
    read_plan,
    remember,
)
from scrapy_dedup.retrieval.hits import MIN_COSINE, dedupe_hits


class DocumentEmbedder(Protocol):
    """A Haystack component that puts embeddings into documents."""

    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Return the documents with embeddings, in their order, under ``documents``."""


@component
class HitDeduplicator:
    """Keeps each passage of the documents found once; a component between retriever and prompt.

    What is kept has ``also_seen_at``, a list of further URLs, in its meta. The documents that come in are not
    changed, and keep their ids, scores and order.

    Args:
        top_k: so many documents at most.
        visible: tells whether the reader may see a URL; the first visible one becomes ``url``. A pipeline
            that has one cannot be written to YAML.
        diverse: see `dedupe_hits`, as for the others.
        jaccard: from which two passages are the same.
        containment: from which one adds nothing to another.
        cosine: of the documents' embeddings, where they come with any.
    """

    def __init__(
        self,
        top_k: int | None = None,
        *,
        visible: Callable[[str], bool] | None = None,
        diverse: bool = False,
        jaccard: float = MIN_JACCARD,
        containment: float = MIN_CONTAINMENT,
        cosine: float = MIN_COSINE,
    ) -> None:
        self.top_k = top_k
        self.visible = visible
        self.diverse = diverse
        self.jaccard = jaccard
        self.containment = containment
        self.cosine = cosine

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """Return the documents that are kept.

        Args:
            documents: what was found.
            top_k: so many at most, in place of the component's own.
        """
        hits = [
            {
                **as_hit(one.content or "", one.meta, one.id, one.score, one.embedding),
                "document": one,
            }
            for one in documents
        ]
        kept, _ = dedupe_hits(
            hits,
            self.top_k if top_k is None else top_k,
            visible=self.visible,
            diverse=self.diverse,
            jaccard=self.jaccard,
            containment=self.containment,
            cosine=self.cosine,
        )
        found = []
        for one in kept:
            document: Document = one.hit["document"]
            found.append(replace(document, meta=cited(document.meta, one)))
        return {"documents": found}


def documents(chunks: Source, *, ids: IdKind = "uuid") -> Iterator[Document]:
    """Yield a document for each chunk record; its id follows from its text alone.

    Args:
        chunks: path of ``chunks.jsonl``, or chunk records.
        ids: what becomes the id.

    Raises:
        InputError: a line is no chunk record.
    """
    return (_document(entry, ids) for entry in read_chunks(chunks))


def apply_plan(
    plan: Source,
    store: DocumentStore,
    *,
    embedder: DocumentEmbedder | None = None,
    vectors: Vectors | None = None,
    ids: IdKind = "uuid",
) -> Applied:
    """Do in a document store what a plan says; what is written first, what goes last.

    A plan that was interrupted can be applied again.

    Args:
        plan: path of ``plan.jsonl``, or plan records.
        store: any Haystack document store that can overwrite.
        embedder: makes the vectors that are not known; without one, documents have no embedding unless it is
            known, which is right for a store that is searched by words.
        vectors: by ``embed_key``; what is known is reused, and new ones are added.
        ids: what becomes the id.

    Raises:
        InputError: a line is no plan record; nothing was written.
        ValueError: the embedder did not return an embedding for each document.
    """
    changes = read_plan(plan)
    known: Vectors = {} if vectors is None else vectors
    reused = 0
    for batch in in_batches(changes.upserts):
        unknown = {entry.embed_key: entry for entry in batch if entry.embed_key not in known}
        reused += sum(entry.embed_key not in unknown for entry in batch)
        if unknown and embedder is not None:
            made = embedder.run(documents=[_document(entry, ids) for entry in unknown.values()])
            remember(known, unknown, [document.embedding for document in made["documents"]])
        written = [_document(entry, ids, known.get(entry.embed_key)) for entry in batch]
        store.write_documents(written, policy=DuplicatePolicy.OVERWRITE)
    if changes.deletes:
        store.delete_documents(changes.deleted(ids))
    return changes.applied(reused)


def _document(entry: Entry, ids: IdKind, vector: Sequence[float] | None = None) -> Document:
    return Document(
        id=entry.identity(ids),
        content=entry.text,
        meta={**entry.metadata},
        embedding=None if vector is None else [*vector],
    )
