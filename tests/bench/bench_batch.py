"""A whole corpus at once: recall against the exact truth, against datasketch, and how time and memory grow.

``python tests/bench/bench_batch.py [--texts 100000] [--workers N]``. A million texts of 100 words have to
take 15 minutes on two cores and 4 GB; fewer are measured by default, and what they say of a million is told
as such. Exit code 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from report import Report
from scipy import sparse

from scrapy_dedup.batch import Plan, run_batch
from scrapy_dedup.batch.corpus import from_files, stated_by_files
from scrapy_dedup.batch.local import stated_by
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.near.bands import Banding
from scrapy_dedup.near.shingles import shingle_hashes

THRESHOLD = 0.8
MILLION_S = 15 * 60
MILLION_BYTES = 4_000_000_000

_LETTERS = random.Random(3)
WORDS = ["".join(_LETTERS.choices("eetaaoinshrdlu", k=2 + number % 8)) for number in range(30_000)]
FREQUENCIES = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(1, len(WORDS) + 1)))


def make_texts(count: int, words: int, seed: int = 1) -> Iterator[str]:
    """Yield texts of which one in five is an earlier one with words replaced, down to a similarity of 0.6."""
    source = random.Random(seed)
    recent: list[list[str]] = []
    for number in range(count):
        if number % 5 == 4:
            text = list(source.choice(recent))
            for _ in range(source.randint(1, max(1, words // 14))):
                text[source.randrange(words)] = source.choice(WORDS)
        else:
            text = source.choices(WORDS, cum_weights=FREQUENCIES, k=words)
            recent = [*recent[-500:], text]
        yield " ".join(text)


def write_texts(path: Path, count: int, words: int, seed: int = 1) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(make_texts(count, words, seed)):
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")


def run(path: Path, plan: Plan) -> tuple[float, float, set[tuple[int, int]]]:
    """Return CPU seconds of all processes, seconds on the clock, and the pairs."""
    out, clock, before = path.with_suffix(".out"), time.perf_counter(), cpu_seconds()
    reached: dict[str, float] = {}

    def note(step: str, done: int, total: int) -> None:
        reached[step] = time.perf_counter() - clock

    with WorkFolder(out / ".work", stated_by(plan, stated_by_files([path])), resume=False) as work:
        run_batch(from_files(work, [path]), plan, work, out, progress=note)
        work.discard()
    pairs = set()
    with (out / "pairs.jsonl").open(encoding="utf-8") as file:
        for line in file:
            pair = json.loads(line)
            a, b = sorted((int(pair["a"]), int(pair["b"])))
            pairs.add((a, b))
    print("  " + ", ".join(f"{step} until {seconds:.1f} s" for step, seconds in reached.items()))
    return cpu_seconds() - before, time.perf_counter() - clock, pairs


def cpu_seconds() -> float:
    """Return what this process and those that it has waited for have used."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def truth(texts: list[str]) -> set[tuple[int, int]]:
    """Return the pairs above the threshold by a product of the matrix of texts and shingles with itself."""
    hashes, offsets = shingle_hashes(texts)
    _, numbers = np.unique(hashes, return_inverse=True)
    matrix = sparse.csr_matrix((np.ones(len(numbers), np.int32), numbers, offsets))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    sizes = np.diff(matrix.indptr)
    found: set[tuple[int, int]] = set()
    for start in range(0, len(texts), 1_000):
        shared = (matrix[start : start + 1_000] @ matrix.T).tocoo()
        rows, columns = shared.row + start, shared.col
        jaccard = shared.data / (sizes[rows] + sizes[columns] - shared.data)
        similar = (rows < columns) & (jaccard >= THRESHOLD)
        found.update(zip(rows[similar].tolist(), columns[similar].tolist(), strict=True))
    return found


def with_datasketch(path: Path) -> tuple[float, set[tuple[int, int]]]:
    """Return the CPU seconds and the candidate pairs of MinHash and MinHashLSH with its own parameters."""
    from datasketch import MinHash, MinHashLSH

    started = time.process_time()
    index = MinHashLSH(threshold=THRESHOLD, num_perm=128)
    pairs: set[tuple[int, int]] = set()
    with path.open(encoding="utf-8") as file:
        while part := list(itertools.islice(file, 1_000)):
            entries = [json.loads(line) for line in part]
            shingles = []
            for entry in entries:
                words = re.findall(r"\w+", entry["text"].lower())
                shingles.append([" ".join(words[at : at + 3]).encode() for at in range(len(words) - 2)])
            for entry, signature in zip(entries, MinHash.bulk(shingles, num_perm=128), strict=True):
                number = int(entry["id"])
                pairs.update((other, number) for other in index.query(signature))
                index.insert(number, signature)
    return time.process_time() - started, pairs


def bench_truth(report: Report, folder: Path, count: int, words: int) -> None:
    print(f"{count:,} texts of {words} words against the exact truth")
    path = folder / "truth.jsonl"
    write_texts(path, count, words, seed=2)
    expected = truth([json.loads(line)["text"] for line in path.open(encoding="utf-8")])
    plan = Plan(THRESHOLD, Banding.for_threshold(THRESHOLD), with_claims=False)
    _, _, found = run(path, plan)
    print(f"  {len(expected):,} pairs")
    report.line("recall", len(found & expected) / len(expected), least=0.99)
    report.line("precision", len(found & expected) / len(found), least=1.0)


def bench_peer(report: Report, folder: Path, count: int, words: int) -> None:
    print(f"{count:,} texts of {words} words against datasketch (MinHash.bulk and MinHashLSH)")
    path = folder / "peer.jsonl"
    write_texts(path, count, words, seed=3)
    plan = Plan(THRESHOLD, Banding.for_threshold(THRESHOLD), with_claims=False)
    ours_s, _, ours = run(path, plan)
    theirs_s, theirs = with_datasketch(path)
    print(f"  ours {ours_s:.1f} s of CPU, every pair verified; datasketch {theirs_s:.1f} s, candidates only")
    report.line("times as fast", theirs_s / ours_s, least=5)
    # What neither finds counts for neither; what they find and is not similar enough is not in ours.
    report.line(
        "similar pairs of ours to those of datasketch", len(ours) / max(1, len(theirs & ours)), least=1
    )


def bench_scale(report: Report, folder: Path, count: int, workers: int) -> None:
    print(f"{count:,} texts of 100 words, {workers} processes, with claims")
    path = folder / "scale.jsonl"
    write_texts(path, count, 100, seed=4)
    plan = Plan(THRESHOLD, Banding.for_threshold(THRESHOLD), workers=workers, memory_bytes=MILLION_BYTES)
    spent, waited, pairs = run(path, plan)
    largest = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    in_use = (largest[0] + workers * largest[1]) * 1_024
    print(f"  {len(pairs):,} pairs; {spent:.0f} s of CPU, {waited:.0f} s on the clock")
    exact = count >= 1_000_000
    said = "" if exact else f", extrapolated from {count:,}"
    factor = 1_000_000 / count
    report.line(f"seconds of a million on two cores{said}", spent / 2 * factor, most=MILLION_S)
    if exact:
        report.line("seconds on the clock", waited, most=MILLION_S)
    report.line("bytes in use at most, all processes (GB)", in_use / 1e9, most=MILLION_BYTES / 1e9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=100_000, help="of the measurement of time and memory")
    parser.add_argument("--truth", type=int, default=20_000, help="texts compared with the exact truth")
    parser.add_argument("--peer", type=int, default=50_000, help="texts compared with datasketch")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench_scale(report, folder, options.texts, options.workers)
        bench_truth(report, folder, options.truth, 450)
        bench_peer(report, folder, options.peer, 450)
    print("ok" if not report.missed else f"{report.missed} bounds were missed")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
