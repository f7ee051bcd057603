"""LlamaIndex: nodes from chunk records, plans for a store or an index, and a postprocessor of found nodes.

Needs the extra ``llamaindex``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.indices import VectorStoreIndex
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import BasePydanticVectorStore

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

INTERNAL = ("entry_id", "group", "simhash", "sources", "corpus", "shared", "source_count")
"""Metadata that a language model gets nothing from."""


class HitDeduplicator(BaseNodePostprocessor):
    """Keeps each passage of the nodes found once; one of the ``node_postprocessors`` of a query engine.

    What is kept has ``also_seen_at``, a list of further URLs, in its metadata. The nodes that come in are
    not changed, and keep their ids, scores and order.

    Attributes:
        limit: so many nodes at most.
        visible: tells whether the reader may see a URL; the first visible one becomes ``url``.
        diverse: see `dedupe_hits`, as for the others.
        jaccard: from which two passages are the same.
        containment: from which one adds nothing to another.
        cosine: of the nodes' embeddings, where they come with any.
    """

    limit: int | None = None
    visible: Callable[[str], bool] | None = None
    diverse: bool = False
    jaccard: float = MIN_JACCARD
    containment: float = MIN_CONTAINMENT
    cosine: float = MIN_COSINE

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex stores the component."""
        return "ScrapyDedupHitDeduplicator"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002 - of the interface
    ) -> list[NodeWithScore]:
        hits = [
            {
                **as_hit(
                    one.node.get_content(MetadataMode.NONE),
                    one.node.metadata,
                    one.node.node_id,
                    one.score,
                    one.node.embedding,
                ),
                "found": one,
            }
            for one in nodes
        ]
        kept, _ = dedupe_hits(
            hits,
            self.limit,
            visible=self.visible,
            diverse=self.diverse,
            jaccard=self.jaccard,
            containment=self.containment,
            cosine=self.cosine,
        )
        found = []
        for one in kept:
            node: BaseNode = one.hit["found"].node
            copied = node.model_copy(update={"metadata": cited(node.metadata, one)})
            found.append(NodeWithScore(node=copied, score=one.hit["score"]))
        return found


def nodes(chunks: Source, *, ids: IdKind = "uuid") -> Iterator[TextNode]:
    """Yield a node for each chunk record.

    The metadata is kept out of what is embedded, so the vector is that of the text alone. Each node is its
    own reference document: a store that deletes by document deletes this node and no other.

    Args:
        chunks: path of ``chunks.jsonl``, or chunk records.
        ids: what becomes the id.

    Raises:
        InputError: a line is no chunk record.
    """
    return (_node(entry, ids) for entry in read_chunks(chunks))


def apply_plan(
    plan: Source,
    store: BasePydanticVectorStore | VectorStoreIndex,
    *,
    embed_model: BaseEmbedding,
    vectors: Vectors | None = None,
    ids: IdKind = "uuid",
) -> Applied:
    """Do in a vector store or an index what a plan says; what is written first, what goes last.

    A plan that was interrupted can be applied again. An entry is taken out right before it is written anew,
    since not every store replaces what has a known id.

    Args:
        plan: path of ``plan.jsonl``, or plan records.
        store: any LlamaIndex vector store, or a `VectorStoreIndex`; give the index where its store keeps no
            text, since the texts are then in its document store.
        embed_model: makes the vectors that are not known.
        vectors: by ``embed_key``; what is known is reused, and new ones are added.
        ids: what becomes the id.

    Raises:
        InputError: a line is no plan record; nothing was written.
    """
    changes = read_plan(plan)
    known: Vectors = {} if vectors is None else vectors
    reused = 0
    for batch in in_batches(changes.upserts):
        unknown = {entry.embed_key: entry.text for entry in batch if entry.embed_key not in known}
        reused += sum(entry.embed_key not in unknown for entry in batch)
        made = embed_model.get_text_embedding_batch([*unknown.values()]) if unknown else []
        remember(known, unknown, made)
        written = [_node(entry, ids) for entry in batch]
        for node, entry in zip(written, batch, strict=True):
            node.embedding = [*known[entry.embed_key]]
        _delete(store, [node.node_id for node in written])
        _add(store, written)
    if changes.deletes:
        _delete(store, changes.deleted(ids))
    return changes.applied(reused)


def _add(store: BasePydanticVectorStore | VectorStoreIndex, written: Sequence[TextNode]) -> None:
    if isinstance(store, VectorStoreIndex):
        store.insert_nodes(written)
    else:
        store.add(written)


def _delete(store: BasePydanticVectorStore | VectorStoreIndex, identities: Sequence[str]) -> None:
    """Take nodes out as far as they are there."""
    vectors = store.vector_store if isinstance(store, VectorStoreIndex) else store
    try:
        vectors.delete_nodes([*identities])
    except NotImplementedError:  # every store can delete by document, and each node is one
        for identity in identities:
            vectors.delete(identity)
    if isinstance(store, VectorStoreIndex):
        # Of a store that keeps no text the index has the nodes, in two places; an earlier attempt may have
        # come to one of them.
        for identity in identities:
            store.docstore.delete_document(identity, raise_error=False)
            store.index_struct.nodes_dict.pop(identity, None)
        store.storage_context.index_store.add_index_struct(store.index_struct)


def _node(entry: Entry, ids: IdKind) -> TextNode:
    identity = entry.identity(ids)
    return TextNode(
        id_=identity,
        text=entry.text,
        metadata={**entry.metadata},
        excluded_embed_metadata_keys=[*entry.metadata],
        excluded_llm_metadata_keys=[name for name in entry.metadata if name in INTERNAL],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=identity)},
    )
