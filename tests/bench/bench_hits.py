"""What it takes to drop repeated hits, its bounds and its peers: ``python tests/bench/bench_hits.py``.

Twenty hits of 700 characters come in fresh texts each time, and peers take turns on the same ones; CPU time
of this process counts, the least of three runs. The peers: a loop over Python sets of word triples (the same
Jaccard threshold, and nothing about claims), and LangChain's filters by vectors, where they are installed,
with vectors that were computed before. Exit code 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from report import Report

from scrapy_dedup.near import simhash_batch
from scrapy_dedup.near.claim_tokens import claim_tokens
from scrapy_dedup.retrieval import dedupe_hits

HITS = 20
CHARS = 700
DIMENSIONS = 256
RUNS = 12  # of which the fastest counts: what else the machine does is no cost of ours

_LETTERS = random.Random(3)
WORDS = ["".join(_LETTERS.choices("eetaaoinshrdlu", k=2 + number % 8)) for number in range(20_000)]
FREQUENCIES = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(1, len(WORDS) + 1)))


def is_ordinary(word: str) -> bool:
    """Tell whether a word has small letters alone and changes no claim in any language of the tables."""
    return word.islower() and word.isalpha() and claim_tokens(word)[0].kind is None


ORDINARY = [word for word in WORDS if is_ordinary(word)]

Hits = list[dict[str, object]]


def passage(source: random.Random) -> list[str]:
    """Return the words of some sentences of 700 characters, some of them with a number."""
    words, chars, left = [], 0, 0
    while chars < CHARS:
        word = source.choices(WORDS, cum_weights=FREQUENCIES)[0]
        if left == 0:
            word, left = word.capitalize(), source.randint(8, 20)
        elif source.random() < 0.03:
            word = str(source.randint(2, 900))
        left -= 1
        words.append(f"{word}." if left == 0 else word)
        chars += len(words[-1]) + 1
    return words


def corrected(words: Sequence[str], source: random.Random) -> list[str]:
    """Return the words with an ordinary one replaced by another."""
    place = source.choice([place for place, word in enumerate(words) if is_ordinary(word)])
    return [*words[:place], source.choice(ORDINARY), *words[place + 1 :]]


def with_another_number(words: Sequence[str], source: random.Random) -> list[str]:
    places = [place for place, word in enumerate(words) if word.isdigit()] or [len(words) // 2]
    place = source.choice(places)
    return [*words[:place], str(source.randint(1000, 2000)), *words[place + 1 :]]


def different(source: random.Random) -> Hits:
    return as_hits([passage(source) for _ in range(HITS)], source)


def copied(source: random.Random) -> Hits:
    """Return five passages: each twice, and twice with a corrected word."""
    return as_hits(
        [
            version
            for words in (passage(source) for _ in range(HITS // 4))
            for version in (words, words, corrected(words, source), corrected(words, source))
        ],
        source,
    )


def revised(source: random.Random) -> Hits:
    """Return five passages: each twice, once with a corrected word, and once with another number."""
    return as_hits(
        [
            version
            for words in (passage(source) for _ in range(HITS // 4))
            for version in (words, words, corrected(words, source), with_another_number(words, source))
        ],
        source,
    )


def grouped(source: random.Random) -> Hits:
    """Return what `copied` does, as a ledger knows it: with groups, ids and fingerprints."""
    hits = copied(source)
    ids: dict[object, str] = {}
    groups: dict[object, str] = {}
    for place, hit in enumerate(hits):
        hit["id"] = ids.setdefault(hit["text"], f"entry1-{place:032x}")
        hit["group"] = groups.setdefault(hit.pop("passage"), str(hit["id"]))
        hit["simhash"] = simhash_batch([str(hit["text"])])[0]
    return hits


def as_hits(texts: Sequence[Sequence[str]], source: random.Random) -> Hits:
    hits: Hits = [
        {"text": " ".join(words), "url": f"https://s.example/{place}", "passage": place // 4}
        for place, words in enumerate(texts)
    ]
    source.shuffle(hits)
    return [{**hit, "score": 1 - place / 100} for place, hit in enumerate(hits)]


# -- peers


def with_sets(hits: Hits) -> Hits:
    kept: list[tuple[dict[str, object], frozenset[tuple[str, ...]]]] = []
    for hit in hits:
        words = re.findall(r"\w+", str(hit["text"]).lower())
        own = frozenset(zip(words, words[1:], words[2:], strict=False))
        if all(len(own & other) / len(own | other) < 0.8 for _, other in kept):
            kept.append((hit, own))
    return [hit for hit, _ in kept]


def vector_peers() -> dict[str, Callable[[Sequence[object], np.ndarray], object]]:
    peers: dict[str, Callable[[Sequence[object], np.ndarray], object]] = {}
    try:
        from langchain_core.vectorstores.utils import maximal_marginal_relevance
    except ImportError:
        print("LangChain is not installed; its filters are left out")
        return peers
    peers["LangChain MMR"] = lambda _, vectors: maximal_marginal_relevance(
        vectors[0], [*vectors], lambda_mult=0.5, k=5
    )
    try:
        from langchain_community.document_transformers import EmbeddingsRedundantFilter
    except ImportError:
        print("langchain-community is not installed; EmbeddingsRedundantFilter is left out")
        return peers
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    class Given(Embeddings):
        vectors: ClassVar[list[list[float]]] = []

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return self.vectors[: len(texts)]

        def embed_query(self, text: str) -> list[float]:
            raise NotImplementedError

    given = Given()
    redundant = EmbeddingsRedundantFilter(embeddings=given)

    def filtered(hits: Sequence[object], vectors: np.ndarray) -> object:
        Given.vectors = vectors.tolist()
        return redundant.transform_documents([Document(page_content=str(hit["text"])) for hit in hits])

    peers["EmbeddingsRedundantFilter"] = filtered
    return peers


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=60)
    rounds = options.parse_args().rounds
    source = random.Random(1)
    numbers = np.random.default_rng(1)
    spent: dict[str, list[float]] = defaultdict(list)
    kept: dict[str, int] = {}
    peers = vector_peers()

    def timed(name: str, function: Callable[[], object]) -> object:
        times = []
        for _ in range(RUNS):
            started = time.process_time_ns()
            result = function()
            times.append((time.process_time_ns() - started) / 1e6)
        spent[name].append(min(times))
        return result

    cases = {"different": different, "copied": copied, "revised": revised, "grouped": grouped}
    for _ in range(rounds):
        for name, make in cases.items():
            hits = make(source)
            found, _ = timed(name, lambda hits=hits: dedupe_hits(hits, limit=None))
            kept[name] = len(found)
            if name == "copied":
                timed("sets", lambda hits=hits: with_sets(hits))
                vectors = numbers.normal(size=(HITS, DIMENSIONS)).astype(np.float32)
                for peer, function in peers.items():
                    timed(peer, lambda function=function, hits=hits, v=vectors: function(hits, v))
    print(f"{HITS} hits of {CHARS} characters, {rounds} rounds, milliseconds of CPU (median)")
    report = Report()
    cost = {name: statistics.median(times) for name, times in spent.items()}
    report.line(f"all different (kept {kept['different']})", cost["different"], most=2.5)
    report.line(f"copies and corrected copies (kept {kept['copied']})", cost["copied"], most=2.5)
    report.line(f"copies, corrections, other numbers (kept {kept['revised']})", cost["revised"], most=2.5)
    report.line(f"with groups of the ledger (kept {kept['grouped']})", cost["grouped"], most=0.1)
    for peer in ("sets", *peers):
        report.line(f"{peer} to copies and corrected copies", cost[peer] / cost["copied"])
    return min(report.missed, 1)


if __name__ == "__main__":
    sys.exit(main())
