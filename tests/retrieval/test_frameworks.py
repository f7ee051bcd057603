"""What crawls bring reaches LangChain, LlamaIndex and Haystack stores, and leaves them, as plans say."""

from __future__ import annotations

import contextlib
import json
import math

import pytest

from scrapy_dedup.errors import InputError
from scrapy_dedup.records import PlanOp, to_dict
from scrapy_dedup.retrieval import dedupe_hits, entries
from scrapy_dedup.retrieval.entries import as_hit, read_chunks, read_plan

from ..jobs.conftest import GONE, SITE, TIMEOUT
from .conftest import section

X, Y, SHARED = section("Alpha", "Bread"), section("Beta", "Cheese"), section("Common", "Honey")
A, B = f"{SHARED}\n\n{X}", f"{SHARED}\n\n{Y}"


class LangChain:
    """The in-memory vector store of LangChain."""

    def __init__(self, embedder) -> None:
        pytest.importorskip("langchain_core")
        from langchain_core.embeddings import Embeddings
        from langchain_core.vectorstores import InMemoryVectorStore

        from scrapy_dedup.chunks import Model
        from scrapy_dedup.retrieval import langchain

        class Words(Embeddings):
            def embed_documents(self, texts):
                return [embedder.embed(text) for text in texts]

            def embed_query(self, text):
                return embedder.embed(text)

        self.adapter = langchain
        self.store = InMemoryVectorStore(langchain.RememberedEmbeddings(Words(), {}, Model()))

    def apply(self, plan):
        return self.adapter.apply_plan(plan, self.store)

    def held(self):
        return {one["id"]: (one["text"], one["metadata"]) for one in self.store.store.values()}

    def writes(self):
        return [(type(self.store), "add_documents"), (type(self.store), "delete")]

    def documents(self, chunks):
        return {one.id: (one.page_content, one.metadata) for one in self.adapter.documents(chunks)}


class LlamaIndex:
    """The simple vector store of LlamaIndex, behind an index since it keeps no text."""

    def __init__(self, embedder) -> None:
        pytest.importorskip("llama_index.core")
        from llama_index.core import VectorStoreIndex
        from llama_index.core.base.embeddings.base import BaseEmbedding

        from scrapy_dedup.retrieval import llamaindex

        class Words(BaseEmbedding):
            def _get_text_embedding(self, text):
                return embedder.embed(text)

            def _get_query_embedding(self, query):
                return embedder.embed(query)

            async def _aget_query_embedding(self, query):
                return embedder.embed(query)

        self.adapter = llamaindex
        self.model = Words()
        self.index = VectorStoreIndex(nodes=[], embed_model=self.model)
        self.vectors = {}

    def apply(self, plan):
        return self.adapter.apply_plan(plan, self.index, embed_model=self.model, vectors=self.vectors)

    def held(self):
        nodes = self.index.docstore.docs
        assert set(self.index.vector_store.data.embedding_dict) == set(nodes)
        return {identity: (node.text, node.metadata) for identity, node in nodes.items()}

    def writes(self):
        names = [(self.index.vector_store, "add"), (self.index.vector_store, "delete_nodes")]
        stored = [(self.index.docstore, "add_documents"), (self.index.docstore, "delete_document")]
        return [(type(owner), name) for owner, name in names + stored]

    def documents(self, chunks):
        return {one.node_id: (one.text, one.metadata) for one in self.adapter.nodes(chunks)}


class Haystack:
    """The in-memory document store of Haystack."""

    def __init__(self, embedder) -> None:
        pytest.importorskip("haystack")
        from dataclasses import replace

        from haystack.document_stores.in_memory import InMemoryDocumentStore

        from scrapy_dedup.retrieval import haystack

        class Words:
            def run(self, documents):
                return {
                    "documents": [replace(one, embedding=embedder.embed(one.content)) for one in documents]
                }

        self.adapter = haystack
        self.store = InMemoryDocumentStore(shared=False)
        self.model = Words()
        self.vectors = {}

    def apply(self, plan):
        return self.adapter.apply_plan(plan, self.store, embedder=self.model, vectors=self.vectors)

    def held(self):
        found = self.store.filter_documents()
        assert all(one.embedding for one in found)
        return {one.id: (one.content, one.meta) for one in found}

    def writes(self):
        return [(type(self.store), "write_documents"), (type(self.store), "delete_documents")]

    def documents(self, chunks):
        return {one.id: (one.content, one.meta) for one in self.adapter.documents(chunks)}


@pytest.fixture(params=[LangChain, pytest.param(LlamaIndex, marks=pytest.mark.slow), Haystack])
def index(request, embedder):
    return request.param(embedder)


def foods(index):
    return sorted(
        word for text, _ in index.held().values() for word in ("Bread", "Cheese", "Honey") if word in text
    )


def test_a_shared_chunk_stays_until_its_last_owner_is_gone(site, index):
    site.crawl({"/a": A, "/b": B})
    index.apply(site.plan())
    assert foods(index) == ["Bread", "Cheese", "Honey"]

    site.crawl({"/a": GONE})
    first = index.apply(site.plan())
    assert foods(index) == ["Cheese", "Honey"]

    site.crawl({"/b": GONE})
    second = index.apply(site.plan())
    assert index.held() == {}
    assert (first.deleted, second.deleted) == (1, 2)


def test_a_second_crawl_at_another_time_embeds_and_writes_nothing(site, index, embedder):
    site.crawl({"/a": A, "/b": B})
    index.apply(site.plan())
    before, seen = index.held(), len(embedder.seen)

    site.crawl({"/a": A, "/b": B})
    applied = index.apply(site.plan())

    assert (applied.upserted, applied.deleted, applied.kept) == (0, 0, 3)
    assert (index.held(), len(embedder.seen)) == (before, seen)


def test_every_page_of_a_text_stays_listed_whoever_comes_last(site, index):
    site.crawl({"/a": A, "/b": A})
    index.apply(site.plan())
    site.crawl({"/b": A})
    index.apply(site.plan())

    for _, metadata in index.held().values():
        assert metadata["url"] == f"{SITE}/a"
        assert metadata["sources"].splitlines() == [f"{SITE}/a", f"{SITE}/b"]


@pytest.mark.parametrize("run", [{}, {"/a": TIMEOUT, "/b": TIMEOUT}], ids=["no page", "all time out"])
def test_a_crawl_that_brings_nothing_deletes_nothing(site, index, run):
    site.crawl({"/a": A, "/b": B})
    index.apply(site.plan())

    site.crawl(run)
    applied = index.apply(site.plan())

    assert applied.deleted == 0
    assert foods(index) == ["Bread", "Cheese", "Honey"]


def test_a_page_that_is_back_gets_the_vectors_that_it_had(site, index, embedder):
    site.crawl({"/a": A, "/b": B})
    index.apply(site.plan())
    site.crawl({"/a": GONE})
    index.apply(site.plan())
    seen = len(embedder.seen)

    site.crawl({"/a": A})
    plan = site.plan()
    applied = index.apply(plan)

    assert {one.reuse_embedding for one in plan if one.op is PlanOp.UPSERT} == {True}
    assert foods(index) == ["Bread", "Cheese", "Honey"]
    assert len(embedder.seen) == seen
    assert applied.reused in {None, applied.upserted}


def test_what_is_embedded_is_the_text_under_its_headings_and_nothing_else(site, index, embedder):
    site.crawl({"/a": A})
    plan = site.plan()
    index.apply(plan)

    assert sorted(embedder.seen) == sorted(one.embed_text for one in plan)


def test_a_plan_can_be_applied_twice_and_comes_from_a_file(site, index, tmp_path):
    site.crawl({"/a": A, "/b": B})
    path = tmp_path / "plan.jsonl"
    path.write_text("".join(json.dumps(to_dict(one)) + "\n" for one in site.plan()), encoding="utf-8")

    first = index.apply(path)
    held = index.held()
    index.apply(str(path))

    assert index.held() == held
    assert first.plan_id.startswith("plan1-")
    assert first.upserted == 3


def test_a_plan_that_a_store_breaks_off_anywhere_is_applied_again(site, index, embedder, monkeypatch):
    """The store fails before and after each of its writes and each vector; then the plan is applied anew."""
    monkeypatch.setattr(entries, "BATCH", 1)
    site.crawl({"/a": A, "/b": B, "/c": section("Gamma", "Dates")})
    index.apply(site.plan())
    site.crawl({"/a": GONE, "/b": A, "/c": section("Delta", "Eggs"), "/d": section("Omega", "Figs")})
    plan = site.plan()
    breaking = Breaking()
    for owner, name in [*index.writes(), (embedder, "embed")]:
        monkeypatch.setattr(owner, name, breaking.wrap(getattr(owner, name)))
    points = 0
    while breaking.has_failed:
        breaking.fails_at(points)
        with contextlib.suppress(ConnectionError):
            index.apply(plan)
        points += 1

    expected = index.documents(site.chunks())
    assert {key: text for key, (text, _) in index.held().items()} == {
        key: text for key, (text, _) in expected.items()
    }
    assert points >= 4


class Breaking:
    """Lets a call fail, before or after it has done its work."""

    def __init__(self) -> None:
        self._left = None
        self.has_failed = True

    def fails_at(self, call) -> None:
        """Let the n-th next moment fail, counted from zero, before or after a call."""
        self._left, self.has_failed = call, False

    def wrap(self, function):
        def call(*args, **options):
            self._count()
            result = function(*args, **options)
            self._count()
            return result

        return call

    def _count(self) -> None:
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0 and not self.has_failed:
            self.has_failed = True
            raise ConnectionError("the store went away")


def test_documents_have_the_ids_of_the_plan_and_metadata_that_stays(site, index):
    site.crawl({"/a": A, "/b": B})
    index.apply(site.plan())
    before = index.documents(site.chunks())
    site.crawl({"/b": B, "/a": A})

    assert before == index.documents(site.chunks())
    assert {identity: text for identity, (text, _) in before.items()} == {
        identity: text for identity, (text, _) in index.held().items()
    }
    for _, metadata in before.values():
        assert all(isinstance(value, (str, int, float)) for value in metadata.values())
        assert "fetched_at" not in metadata


# -- what is no plan


def plan_lines(site):
    site.crawl({"/a": A})
    return [to_dict(one) for one in site.plan()]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[0].update(schema="scrapy-dedup/plan/9"), "record 1: is no record of"),
        (lambda lines: lines[1].update(op="drop"), "record 2: op is 'drop'"),
        (lambda lines: lines[0].update(embed_text=None), "record 1: embed_text has to be of type str"),
        (lambda lines: lines[0].update(sources=[]), "record 1: sources is empty"),
        (lambda lines: lines[0].update(sources=[{"url": 3}]), "record 1: sources lack a url"),
        (lambda lines: lines[0].update(metadata={"a": []}), "record 1: metadata holds more"),
        (lambda lines: lines[0].update(plan_id="plan1-other"), "of 2 plans"),
        (lambda lines: lines[0].update(embed_text="Edited."), "record 1: entry1-.* is not the identity of"),
        (lambda lines: lines[0].update(embed_text="\ud800"), "record 1: entry1-.* is not the identity of"),
        (lambda lines: lines[0].update(uuid="x"), "record 1: uuid is not that of the id"),
        (lambda lines: lines[0].update(op="delete", uuid="x"), "record 1: uuid is not that of the id"),
        (lambda lines: lines[0]["metadata"].update(score=math.nan), "record 1: metadata has a number"),
        (lambda lines: lines[0]["metadata"].update(score=10**400), "record 1: metadata has a number"),
        (
            lambda lines: lines[0]["metadata"].update(title="\udfff"),
            "record 1: has text with lone surrogates",
        ),
        (
            lambda lines: lines[0]["sources"][0].update(url="\ud800"),
            "record 1: has text with lone surrogates",
        ),
        (
            lambda lines: lines.append({**lines[0], "op": "delete"}),
            "record 3: entry1-.* is named by record 1",
        ),
        (lambda lines: lines.insert(0, 5), "record 1: is no record of"),
    ],
)
def test_what_is_no_plan_is_refused_before_anything_is_written(site, embedder, damage, message):
    index = Haystack(embedder)
    lines = plan_lines(site)
    damage(lines)

    with pytest.raises(InputError, match=message):
        index.apply(lines)

    assert index.held() == {}


def test_chunks_are_not_taken_for_a_plan_nor_a_plan_for_chunks(site):
    plan = plan_lines(site)
    with pytest.raises(InputError, match=r"record 1 is a chunk record .* documents\(\)") as refused:
        read_plan(site.chunks())
    assert refused.value.count == 1
    with pytest.raises(InputError, match=r"record 1 is a line of a plan .* apply_plan\(\)"):
        list(read_chunks(plan))


def test_a_vector_that_was_not_made_is_not_known(site, embedder):
    index = Haystack(embedder)
    plan = plan_lines(site)
    index.model.run = lambda documents: {"documents": documents}
    with pytest.raises(ValueError, match="returned no vector"):
        index.apply(plan)
    assert (index.vectors, index.store.filter_documents()) == ({}, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"language": 5, "corpus": ["x"]},
        {"headings": ["\ud800"]},
        {"sources": [{"url": "https://docs.example/", "title": {}}]},
        {"group": math.inf},
        {"embed_text": "Edited."},
    ],
    ids=str,
)
def test_chunk_records_that_no_index_can_take_are_refused(site, changes):
    site.crawl({"/a": A})
    (line, *_) = map(to_dict, site.chunks())
    with pytest.raises(InputError, match="record 1: "):
        list(read_chunks([{**line, **changes}]))


def test_metadata_of_others_is_not_taken_for_ours():
    stated = {"group": "team", "simhash": "none", "url": 3, "source": "https://a.example/", "sources": 7}
    hits = [
        as_hit(text, {**stated, "lineage": ["x"]}, text) for text in ("Bread is made here.", "Cheese is.")
    ]
    kept, dropped = dedupe_hits(hits)
    assert [one.source for one in kept] == ["https://a.example/"] * 2
    assert dropped == []


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl cannot be read"):
        read_plan(tmp_path / "none.jsonl")
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"schema": \n', encoding="utf-8")
    with pytest.raises(InputError, match=r"broken\.jsonl line 1: is no record of scrapy-dedup/chunk/1"):
        list(read_chunks(broken))


# -- at query time


def test_langchain_shows_each_passage_once(site, embedder):
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document

    from scrapy_dedup.retrieval.langchain import HitDeduplicator

    documents = [
        Document(id="1", page_content=X, metadata={"source": "https://docs.example/v1"}),
        Document(id="2", page_content=Y, metadata={"source": "https://docs.example/y"}),
        Document(id="3", page_content=X, metadata={"source": "https://docs.example/v2"}),
    ]
    before = [one.model_copy(deep=True) for one in documents]

    chain = (lambda _: documents) | _runnable(HitDeduplicator(limit=5))
    found = chain.invoke("bread")

    assert documents == before
    assert [one.id for one in found] == ["1", "2"]
    assert found[0].metadata["also_seen_at"] == ["https://docs.example/v2"]
    seen_by = HitDeduplicator(visible=lambda url: url.endswith("v2")).compress_documents(documents, "bread")
    assert [(one.id, one.metadata["url"]) for one in seen_by] == [("3", "https://docs.example/v2")]


def _runnable(compressor):
    from langchain_core.runnables import RunnableLambda

    return RunnableLambda(lambda documents: compressor.compress_documents(documents, "bread"))


def test_langchain_index_adds_nothing_the_second_time(site, embedder):
    pytest.importorskip("langchain_core")
    from langchain_core.indexing import InMemoryRecordManager, index

    held = LangChain(embedder)
    manager = InMemoryRecordManager("docs")
    manager.create_schema()

    def run():
        return index(
            held.adapter.documents(site.chunks()),
            manager,
            held.store,
            cleanup="full",
            key_encoder=lambda one: one.id,
        )

    site.crawl({"/a": A, "/b": B})
    first = run()
    site.crawl({"/a": A, "/b": B})
    second = run()

    assert (first["num_added"], second["num_added"], second["num_deleted"]) == (3, 0, 0)


@pytest.mark.slow
def test_llamaindex_shows_each_passage_once(embedder):
    held = LlamaIndex(embedder)
    from llama_index.core.schema import TextNode

    nodes = [
        TextNode(id_=name, text=text, metadata={"url": f"https://docs.example/{name}"})
        for name, text in [("v1", X), ("v2", X), ("y", Y)]
    ]
    held.index.insert_nodes(nodes)
    found = held.index.as_retriever(similarity_top_k=3).retrieve("Bread is told here")
    before = [one.model_copy(deep=True) for one in found]

    kept = held.adapter.HitDeduplicator(limit=5).postprocess_nodes(found, query_str="Bread is told here")

    assert found == before
    assert [one.node.node_id for one in kept] == [found[0].node.node_id, "y"]
    assert kept[0].node.metadata["also_seen_at"] == [found[1].node.metadata["url"]]
    assert [one.score for one in kept] == [found[0].score, found[2].score]


def test_haystack_shows_each_passage_once_in_a_pipeline(embedder):
    pytest.importorskip("haystack")
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever

    held = Haystack(embedder)
    documents = [
        Document(id=name, content=text, meta={"url": f"https://docs.example/{name}"})
        for name, text in [("v1", X), ("v2", X), ("y", Y)]
    ]
    held.store.write_documents(documents)
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(held.store, top_k=3))
    pipeline.add_component("once", held.adapter.HitDeduplicator(top_k=5))
    pipeline.connect("retriever", "once")

    found = pipeline.run({"retriever": {"query": "Bread is told here"}})["once"]["documents"]

    assert sorted(one.id for one in found) in (["v1", "y"], ["v2", "y"])
    (first,) = (one for one in found if one.id != "y")
    assert first.meta["also_seen_at"] == [f"https://docs.example/{'v2' if first.id == 'v1' else 'v1'}"]
    assert "also_seen_at" not in documents[0].meta
    stored = pipeline.to_dict()["components"]["once"]
    assert stored["init_parameters"]["top_k"] == 5
    limited = pipeline.run({"retriever": {"query": "Bread is told here"}, "once": {"top_k": 1}})
    assert len(limited["once"]["documents"]) == 1
