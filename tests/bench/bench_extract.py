"""Print the cost and the quality of extraction on real article pages, ours beside trafilatura alone.

Needs the corpus: ``SCRAPY_DEDUP_CORPUS=<dir> python tests/bench/bench_extract.py``. All sides run on each
page in turn, in one process; times are CPU milliseconds. Quality is word-level F1 against the hand-made
article bodies.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import statistics
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import trafilatura

from scrapy_dedup.content import ExtractOptions, Payload
from scrapy_dedup.content.extract import extract

WORD = re.compile(r"\w+")


def pages(corpus: Path) -> dict[str, bytes]:
    with tarfile.open(corpus / "pages" / "aeb-html.tar") as archive:
        files = [member for member in archive if member.name.endswith(".html.gz")]
        return {
            Path(member.name).name.removesuffix(".html.gz"): gzip.decompress(
                archive.extractfile(member).read()
            )
            for member in files
        }


def bodies(corpus: Path) -> dict[str, str]:
    with tarfile.open(corpus / "pages" / "aeb-ground-truth.tar.xz") as archive:
        (member,) = (member for member in archive if member.name.endswith(".json"))
        return {page: truth["articleBody"] for page, truth in json.load(archive.extractfile(member)).items()}


def ours(body: bytes) -> str:
    found = extract(Payload(body, "utf-8", "http://bench.invalid/"), ExtractOptions())
    return found.text.text if found.text else ""


def theirs(body: bytes) -> str:
    found = trafilatura.bare_extraction(
        body.decode("utf-8", "replace"), with_metadata=True, include_comments=False
    )
    return found.text if found else ""


def markdown_with_metadata(body: bytes) -> str:
    options = {"output_format": "markdown", "include_comments": False, "with_metadata": True}
    return trafilatura.extract(body.decode("utf-8", "replace"), **options) or ""


def f1(text: str, truth: str) -> float:
    got, expected = Counter(WORD.findall(text.lower())), Counter(WORD.findall(truth.lower()))
    shared = (got & expected).total()
    return 2 * shared / max(1, got.total() + expected.total())


def main() -> None:
    corpus = Path(os.environ.get("SCRAPY_DEDUP_CORPUS") or sys.exit("SCRAPY_DEDUP_CORPUS is not set"))
    truths = bodies(corpus)
    sides: dict[str, Callable[[bytes], str]] = {
        "scrapy_dedup": ours,
        "trafilatura, text and metadata": theirs,
        "trafilatura, Markdown with metadata": markdown_with_metadata,
    }
    costs: dict[str, list[float]] = {side: [] for side in sides}
    scores: dict[str, list[float]] = {side: [] for side in sides}
    for number, (page, body) in enumerate(pages(corpus).items()):
        order = list(sides.items())
        for side, run in order[number % 3 :] + order[: number % 3]:
            start = time.process_time()
            text = run(body)
            costs[side].append(1000 * (time.process_time() - start))
            scores[side].append(f1(text, truths[page]))
    for side in sides:
        cost, score = costs[side], scores[side]
        lost = sum(value < 0.5 for value in score)
        print(
            f"{side:36} {statistics.mean(cost):6.1f} ms mean {statistics.median(cost):6.1f} ms median", end=""
        )
        print(f"   F1 {statistics.mean(score):.4f}   below 0.5: {lost}")


if __name__ == "__main__":
    main()
