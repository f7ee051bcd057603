"""``python ask.py [QUESTION ...]``: what a search finds before and after deduplication.

An example of applying a plan. The index is in memory and weighs words (BM25, Robertson and Zaragoza 2009)
where a real one compares vectors of ``embed_text``; what deduplication changes is the same.
"""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from semantic_text_splitter import MarkdownSplitter

from scrapy_dedup import Ledger
from scrapy_dedup.retrieval import Hit, dedupe_hits

PROJECT = Path(__file__).resolve().parent
QUESTIONS = {
    "How long do I have to wait before I open the cabinet?": "each guide begins with the answer",
    "How do I bleed the pump?": "all versions of the handbook, and their print pages, say the same",
    "At which pressure does the safety valve open?": "version 3 differs, so both answers have to stay",
}


def every_page() -> dict[str, Hit]:
    """Return what an index holds without deduplication: the text of each page that was fetched, in pieces."""
    with Ledger.open(f"sqlite:///{PROJECT / 'dedup.db'}") as ledger:
        texts = {body.body_id: body.text for body in ledger.bodies()}
        # By key: the next crawl may come to a page by another spelling of its URL.
        pages = {seen.url_key: seen for seen in ledger.observations() if seen.body_id}
    splitter = MarkdownSplitter(1000)
    return {
        f"{key}#{number}": Hit(text, url=seen.url)
        for key, seen in sorted(pages.items())
        for number, text in enumerate(splitter.chunks(texts[seen.body_id]))
    }


def apply_plan(index: dict[str, Hit], plan: Path) -> None:
    """Write and take out what a plan says; a second time changes nothing more."""
    for record in map(json.loads, plan.read_text(encoding="utf-8").splitlines()):
        if record["op"] == "upsert":
            urls = [source["url"] for source in record["sources"]]
            index[record["id"]] = Hit(record["text"], url=urls[0], sources=urls)
        elif record["op"] == "delete":
            index.pop(record["id"], None)


def search(index: dict[str, Hit], question: str, limit: int) -> list[Hit]:
    """Return the best of the hits that have words of the question, the best first."""
    counts = {key: Counter(_words(hit.text)) for key, hit in index.items()}
    mean = sum(map(Counter.total, counts.values())) / len(counts)
    scores = dict.fromkeys(index, 0.0)
    for word in set(_words(question)):
        holders = {key: count[word] for key, count in counts.items() if word in count}
        weight = math.log(1 + (len(index) - len(holders) + 0.5) / (len(holders) + 0.5))
        for key, often in holders.items():
            length = counts[key].total() / mean
            scores[key] += weight * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length))
    found = sorted(filter(scores.get, scores), key=scores.__getitem__, reverse=True)
    return [index[key] for key in found[:limit]]


def main(questions: Iterable[str]) -> None:
    """Ask both indexes, and print the sentence of each hit that comes closest to the question."""
    before, after = every_page(), dict[str, Hit]()
    apply_plan(after, PROJECT / "dedup" / "plan.jsonl")
    for question in questions:
        remark = f"  ({QUESTIONS[question]})" if question in QUESTIONS else ""
        print(f"\n{question}{remark}\n  before, {len(before)} passages in the index:")
        for hit in search(before, question, limit=5):
            print(f"    - {_told(hit.text, question, [hit.url])}")
        print(f"  after, {len(after)} passages in the index:")
        kept, _ = dedupe_hits(search(after, question, limit=20), limit=5)
        for one in kept:
            print(f"    - {_told(one.hit.text, question, [one.source, *one.also_seen_at])}")


def _told(text: str, question: str, urls: list[str]) -> str:
    asked = set(_words(question))
    sentences = re.split(r"(?<=[.!?])\s+|\n+", text)
    closest = max(sentences, key=lambda sentence: len(asked & set(_words(sentence))))
    more = f" and {len(urls) - 1} more" if urls[1:] else ""
    return f"{textwrap.shorten(closest, 70, placeholder=' ...'):<70} {urlsplit(urls[0]).path}{more}"


def _words(text: str) -> list[str]:
    return re.findall(r"\w{4,}", text.lower())  # shorter ones say little


if __name__ == "__main__":
    main(sys.argv[1:] or QUESTIONS)
