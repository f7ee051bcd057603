"""Signatures and the Hamming index, their bounds and their peers: ``python tests/bench/bench_near.py``.

Peers see the same texts in turns, a few at a time, so that a slow moment of the machine meets all of them;
CPU time of this process counts, and the ratios of one run matter. Peers are given the tokens of
``re.findall(r"\\w+", text.lower())``, which are those of our rule in these texts; to find them is part of
what "from text" costs. Words have the frequencies of Zipf's law. Exit code 1 when a bound is missed.
``--index 10000000`` also builds an index of that size on disk.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import math
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from report import Report

from scrapy_dedup.near import simhash_batch
from scrapy_dedup.near.hamming import HammingIndex
from scrapy_dedup.near.minhash import PERMUTATIONS, minhash_batch, similarity

BATCH = 64
WORDS_OF_TEXT = 450
CHUNKS = 6

_LETTERS = random.Random(3)
WORDS = ["".join(_LETTERS.choices("eetaaoinshrdlu", k=2 + number % 8)) for number in range(20_000)]
FREQUENCIES = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(1, len(WORDS) + 1)))


def make_texts(count: int, words: int, seed: int = 1) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, cum_weights=FREQUENCIES, k=words)) + "." for _ in range(count)]


def edited(text: str, changes: int, source: random.Random) -> str:
    words = text.split(" ")
    for _ in range(changes):
        words[source.randrange(len(words))] = source.choice(WORDS)
    return " ".join(words)


def take_turns(
    candidates: dict[str, Callable[[Sequence[str]], object]], texts: Sequence[str], slow: frozenset[str]
) -> dict[str, float]:
    """Return the microseconds of CPU of each candidate for a text; slow ones see one batch in four."""
    spent, seen = Counter(), Counter()
    for function in candidates.values():
        function(texts[:4])
    for number, start in enumerate(range(0, len(texts), BATCH)):
        part = texts[start : start + BATCH]
        for name, function in candidates.items():
            if name in slow and number % 4:
                continue
            started = time.process_time()
            function(part)
            spent[name] += time.process_time() - started
            seen[name] += len(part)
    return {name: spent[name] / seen[name] * 1e6 for name in candidates}


# -- SimHash


def shingles(text: str) -> list[str]:
    words = re.findall(r"\w+", text.lower())
    return [" ".join(words[place : place + 3]) for place in range(len(words) - 2)]


def naive_simhash(text: str) -> int:
    totals = [0] * 64
    for shingle, weight in Counter(shingles(text)).items():
        digest = int.from_bytes(hashlib.blake2b(shingle.encode(), digest_size=8).digest(), "little")
        for bit in range(64):
            totals[bit] += weight if digest >> bit & 1 else -weight
    return sum(1 << bit for bit in range(64) if totals[bit] > 0)


def reference_simhash(text: str) -> int:
    """Return what `naive_simhash` does, in less time."""
    weights = Counter(shingles(text))
    digests = b"".join(hashlib.blake2b(shingle.encode(), digest_size=8).digest() for shingle in weights)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    votes = np.array(list(weights.values())) @ bits.astype(np.int64)
    return int(np.packbits(2 * votes > weights.total(), bitorder="little").view("<u8")[0])


def with_package(texts: Sequence[str]) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from simhash import Simhash

        return [Simhash(shingles(text)).value for text in texts]


def page_with_chunks(texts: Sequence[str]) -> object:
    """Sign each page together with its chunks, one call for each page, as a crawl does."""
    return [simhash_batch([text, *chunks_of(text)]) for text in texts]


def chunks_of(text: str) -> list[str]:
    size = len(text) // CHUNKS + 1
    return [text[start : start + size] for start in range(0, len(text), size)]


def bench_simhash(report: Report, texts: Sequence[str]) -> None:
    costs = take_turns(
        {
            "ours": simhash_batch,
            "page alone": lambda part: [simhash_batch([text]) for text in part],
            "page and chunks": page_with_chunks,
            "naive": lambda part: [naive_simhash(text) for text in part],
            "simhash": with_package,
        },
        texts,
        frozenset({"naive", "simhash"}),
    )
    print("SimHash,", ", ".join(f"{name} {cost:,.0f} us" for name, cost in costs.items()))
    report.line("times as fast as the naive loop", costs["naive"] / costs["ours"], least=40)
    report.line("times as fast as the simhash package", costs["simhash"] / costs["ours"], least=12)
    both = costs["page and chunks"] / costs["page alone"]
    report.line("page and 6 chunks in one call to page alone", both, most=1.3)


def bench_minhash(report: Report, texts: Sequence[str]) -> None:
    from datasketch import MinHash
    from rensa import RMinHash

    def datasketch(part: Sequence[str]) -> object:
        encoded = [[shingle.encode() for shingle in shingles(text)] for text in part]
        return MinHash.bulk(encoded, num_perm=PERMUTATIONS)

    def rensa(part: Sequence[str]) -> object:
        made = []
        for text in part:
            one = RMinHash(num_perm=PERMUTATIONS, seed=1)
            one.update(shingles(text))
            made.append(one)
        return made

    costs = take_turns(
        {"ours": minhash_batch, "datasketch": datasketch, "rensa": rensa}, texts, frozenset({"datasketch"})
    )
    print("MinHash from text,", ", ".join(f"{name} {cost:,.0f} us" for name, cost in costs.items()))
    report.line("times as fast as datasketch in bulk", costs["datasketch"] / costs["ours"], least=6)
    report.line("times as fast as rensa", costs["rensa"] / costs["ours"], least=2)


# -- quality


def bench_quality(report: Report, count: int) -> None:
    print(f"quality, {count:,} texts")
    texts = make_texts(count, WORDS_OF_TEXT, seed=2)
    prints = np.array([int(value, 16) for value in simhash_batch(texts)], np.uint64)
    bits = (prints[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    balance = bits.mean(axis=0)
    report.line("least share of ones in a bit", balance.min(), least=0.43)
    report.line("largest share of ones in a bit", balance.max(), most=0.57)
    distances = np.bitwise_count(prints[: count // 2] ^ prints[count // 2 : count // 2 * 2])
    report.line("mean distance of unrelated texts", float(distances.mean()), least=31.7, most=32.3)

    source = random.Random(4)
    pairs = 2 * count  # so many that chance moves the share by less than the bound
    originals = make_texts(pairs, WORDS_OF_TEXT, seed=6)
    copies = [edited(text, 1 + number % 12, source) for number, text in enumerate(originals)]
    ours = [
        (int(a, 16) ^ int(b, 16)).bit_count() <= 7
        for a, b in zip(simhash_batch(originals), simhash_batch(copies), strict=True)
    ]
    theirs = [
        (reference_simhash(a) ^ reference_simhash(b)).bit_count() <= 7
        for a, b in zip(originals, copies, strict=True)
    ]
    difference = np.mean(ours) - np.mean(theirs)
    print(f"  recall at radius 7 on planted pairs: ours {np.mean(ours):.3f}, blake2b {np.mean(theirs):.3f}")
    report.line("difference of the two", float(difference), least=-0.02)

    errors, variances = [], []
    copies = [edited(text, number % 60, source) for number, text in enumerate(texts)]
    for a, b, left, right in zip(texts, copies, minhash_batch(texts), minhash_batch(copies), strict=True):
        first, second = set(shingles(a)), set(shingles(b))
        jaccard = len(first & second) / len(first | second)
        errors.append(similarity(left, right) - jaccard)
        variances.append(jaccard * (1 - jaccard) / PERMUTATIONS)
    ratio = math.sqrt(sum(error * error for error in errors) / sum(variances))
    report.line("error of MinHash to what theory says", ratio, least=0.9, most=1.1)


# -- index


def bench_index(report: Report, count: int, *, large: bool) -> None:
    source = np.random.default_rng(5)
    random_prints = source.integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2)
    centres = random_prints[source.integers(0, count // 20, count // 2)]  # half of them in clusters
    flips = np.left_shift(np.uint64(1), source.integers(0, 64, (2, count // 2)).astype(np.uint64))
    random_prints[: count // 2] = centres ^ flips[0] ^ flips[1]
    order = source.permutation(count)
    prints = random_prints[order]
    ids = np.arange(1, count + 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        print(f"Hamming index of {count:,}, half of them in clusters")
        index = HammingIndex(path, "bench")
        started, clock = time.process_time(), time.perf_counter()
        for start in range(0, count, 10_000):
            index.add(ids[start : start + 10_000], prints[start : start + 10_000])
        index.flush()
        spent, waited = time.process_time() - started, time.perf_counter() - clock
        size = sum(file.stat().st_size for file in path.iterdir())
        report.line("inserts a second", count / spent, least=100_000)
        report.line("bytes on disk for each", size / count, most=60)
        if large:
            report.line("seconds to build, on the clock", waited, most=60)
        clock = time.perf_counter()
        index = HammingIndex(path, "bench", writes=False)
        report.line("seconds to open", time.perf_counter() - clock, most=1)
        queries = prints[source.integers(0, count, 4_000)] ^ np.uint64(1 << 40)
        queries[::2] = source.integers(0, 1 << 63, 2_000, dtype=np.uint64)
        index.search(queries[:500], 3)
        bounds = {(1, 3): 150, (16, 3): 30, (16, 7): math.inf}
        for (batch, radius), bound in bounds.items():
            asked = queries[: 2_000 if batch == 1 else 4_000]
            started = time.process_time()
            for start in range(0, len(asked), batch):
                index.search(asked[start : start + batch], radius)
            cost = (time.process_time() - started) / len(asked) * 1e6
            most = math.inf if large else bound
            report.line(f"us for a query of radius {radius}, {batch} at a time", cost, most=most)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--index", type=int, default=0, help="also build an index of this size")
    options = parser.parse_args()
    report = Report()
    texts = make_texts(options.texts, WORDS_OF_TEXT)
    bench_simhash(report, texts)
    bench_minhash(report, texts)
    bench_quality(report, options.texts)
    bench_index(report, 1_000_000, large=False)
    if options.index:
        bench_index(report, options.index, large=True)
    print("ok" if not report.missed else f"{report.missed} bounds were missed")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
