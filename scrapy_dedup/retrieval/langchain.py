"""LangChain: documents from chunk records, plans for a vector store, and a compressor of retrieved documents.

Needs the extra ``langchain``. A vector store of LangChain embeds what it is given by itself; vectors that
are known are reused when the store was made with `RememberedEmbeddings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from scrapy_dedup.chunks.keys import Model, embed_key
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
from scrapy_dedup.retrieval.hits import dedupe_hits


class HitDeduplicator(BaseDocumentCompressor):
    """Keeps each passage of the retrieved documents once; for a `ContextualCompressionRetriever` or a chain.

    What is kept has ``also_seen_at``, a list of further URLs, in its metadata. The documents that come in are
    not changed, and keep their ids and their order.

    Attributes:
        limit: so many documents at most.
        visible: tells whether the reader may see a URL; the first visible one becomes ``url``.
        diverse: see `dedupe_hits`, as for the others.
        jaccard: from which two passages are the same.
        containment: from which one adds nothing to another.
    """

    limit: int | None = None
    visible: Callable[[str], bool] | None = None
    diverse: bool = False
    jaccard: float = MIN_JACCARD
    containment: float = MIN_CONTAINMENT

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,  # noqa: ARG002 - of the interface
        callbacks: Callbacks = None,  # noqa: ARG002
    ) -> Sequence[Document]:
        """Return the documents that are kept."""
        hits = [{**as_hit(one.page_content, one.metadata, one.id), "document": one} for one in documents]
        kept, _ = dedupe_hits(
            hits,
            self.limit,
            visible=self.visible,
            diverse=self.diverse,
            jaccard=self.jaccard,
            containment=self.containment,
        )
        found = []
        for one in kept:
            document: Document = one.hit["document"]
            found.append(document.model_copy(update={"metadata": cited(document.metadata, one)}))
        return found


class RememberedEmbeddings(Embeddings):
    """Embeddings that are made once for each string; give them to a vector store in place of the model's own.

    Args:
        embeddings: make what is not known.
        vectors: by ``embed_key``; new ones are added.
        model: what names the model in ``DEDUP_CHUNKS``, so that another one does not get its vectors.
    """

    def __init__(self, embeddings: Embeddings, vectors: Vectors, model: Model) -> None:
        self._embeddings = embeddings
        self._vectors = vectors
        self._model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of some strings."""
        keys = [embed_key(text, self._model) for text in texts]
        unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        if unknown:
            made = self._embeddings.embed_documents([*unknown.values()])
            remember(self._vectors, unknown, made)
        return [[*self._vectors[key]] for key in keys]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, which is not remembered."""
        return self._embeddings.embed_query(text)


def documents(chunks: Source, *, ids: IdKind = "uuid") -> Iterator[Document]:
    """Yield a document for each chunk record.

    Its id follows from its text alone. With LangChain's ``index()`` use ``key_encoder=lambda one: one.id``,
    for other keys change with the metadata.

    Args:
        chunks: path of ``chunks.jsonl``, or chunk records.
        ids: what becomes the id.

    Raises:
        InputError: a line is no chunk record.
    """
    return (_document(entry, ids) for entry in read_chunks(chunks))


def apply_plan(plan: Source, store: VectorStore, *, ids: IdKind = "uuid") -> Applied:
    """Do in a vector store what a plan says; what is written first, what goes last.

    A plan that was interrupted can be applied again. The store has to replace what has a known id, which
    the interface asks for; one that refuses it (FAISS) needs the entries deleted before.

    Args:
        plan: path of ``plan.jsonl``, or plan records.
        store: any LangChain vector store.
        ids: what becomes the id.

    Raises:
        InputError: a line is no plan record; nothing was written.
    """
    changes = read_plan(plan)
    for batch in in_batches(changes.upserts):
        written = [_document(entry, ids) for entry in batch]
        store.add_documents(written, ids=[entry.identity(ids) for entry in batch])
    if changes.deletes:
        store.delete(ids=changes.deleted(ids))
    return changes.applied(None)


def _document(entry: Entry, ids: IdKind) -> Document:
    return Document(id=entry.identity(ids), page_content=entry.text, metadata={**entry.metadata})
