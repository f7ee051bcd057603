"""``python ask.py [QUESTION ...]``: what a search finds before and after deduplication.

An example of applying a plan: ``dedup-plan/plan.jsonl`` is applied to an index in a file beside it. The index
weighs words (BM25, Robertson and Zaragoza 2009) where a real one compares vectors of ``embed_text``; what
deduplication changes is the same.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from semantic_text_splitter import MarkdownSplitter

from scrapy_dedup import Ledger
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.errors import DedupError
from scrapy_dedup.retrieval import Hit, dedupe_hits

PROJECT = Path(__file__).resolve().parent
PLAN_IT = "'scrapy dedup plan --rebuild'"
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


def read_index(path: Path) -> dict[str, Hit]:
    """Return what the index holds; one that was never written holds nothing.

    Raises:
        DedupError: the file cannot be read, or somebody else wrote it.
    """
    try:
        return {identity: Hit(**entry) for identity, entry in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DedupError(f"{path} is no index ({error!r:.100}); delete it, and {PLAN_IT}") from error


def apply_plan(index: Mapping[str, Hit], plan: Path) -> dict[str, Hit]:
    """Return what an index holds once a plan is applied; a second time changes nothing more.

    Raises:
        DedupError: the file is not there, a line of it is none of a plan, or it keeps what the index lacks.
    """
    entries: dict[str, Hit] = {}
    lacking = 0
    try:
        with plan.open(encoding="utf-8") as lines:  # a text may hold what `str.splitlines` takes for an end
            for record in map(json.loads, lines):
                if record["op"] == "upsert":
                    urls = [source["url"] for source in record["sources"]]
                    entries[record["id"]] = Hit(record["text"], url=urls[0], sources=urls)
                elif record["op"] == "keep" and record["id"] in index:
                    entries[record["id"]] = index[record["id"]]
                else:  # what is deleted is not carried over
                    lacking += record["op"] == "keep"
    except OSError as error:
        raise DedupError(f"{plan} cannot be read ({error.strerror}); {PLAN_IT} makes one") from error
    except (ValueError, LookupError, TypeError) as error:
        raise DedupError(f"{plan} is no plan ({error!r:.100}); {PLAN_IT} makes it anew") from error
    if lacking:
        raise DedupError(f"{plan} keeps {lacking} entries that the index lacks; {PLAN_IT} plans all of it")
    return entries


def search(index: dict[str, Hit], question: str, limit: int) -> list[Hit]:
    """Return the best of the hits that have words of the question, the best first."""
    counts = {key: Counter(_words(hit.text)) for key, hit in index.items()}
    mean = max(1, sum(map(Counter.total, counts.values()))) / max(1, len(counts))
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
    """Apply the plan, ask both indexes, and print the sentence of each hit that is closest to the question.

    Raises:
        DedupError: there is no ledger or no plan, or the plan does not fit the index.
    """
    plan = PROJECT / "dedup-plan" / "plan.jsonl"
    before, index = every_page(), plan.with_name("index.json")
    after = apply_plan(read_index(index), plan)
    if before and not after:
        raise DedupError(f"{plan} leaves an index without entries; {PLAN_IT} plans all of it")
    index.write_text(json.dumps({identity: asdict(hit) for identity, hit in after.items()}), encoding="utf-8")
    for question in questions:
        remark = f"  ({QUESTIONS[question]})" if question in QUESTIONS else ""
        print(f"\n{printable(textwrap.shorten(question, 300, placeholder=' ...'))}{remark}")
        found = [(hit.text, [hit.url]) for hit in search(before, question, limit=5)]
        _tell(f"before, {len(before)} passages", question, found)
        kept, _ = dedupe_hits(search(after, question, limit=20), limit=5)
        found = [(one.hit.text, [one.source, *one.also_seen_at]) for one in kept]
        _tell(f"after, {len(after)} passages", question, found)


def _tell(heading: str, question: str, found: Iterable[tuple[str, list[str]]]) -> None:
    print(f"  {heading} in the index:")
    told = [f"- {_told(text, question, urls)}" for text, urls in found]
    for line in told or ["nothing (what is looked for is words of four letters and more)"]:
        print(f"    {line}")


def _told(text: str, question: str, urls: list[str]) -> str:
    asked = set(_words(question))
    sentences = re.split(r"(?<=[.!?])\s+|\n+", text)
    closest = max(sentences, key=lambda sentence: len(asked & set(_words(sentence))))
    more = f" and {len(urls) - 1} more" if urls[1:] else ""
    return printable(
        f"{textwrap.shorten(closest, 70, placeholder=' ...'):<70} {urlsplit(urls[0]).path}{more}"
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w{4,}", text.lower())  # shorter ones say little


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack what a page says
    try:
        main(sys.argv[1:] or QUESTIONS)
        sys.stdout.flush()
    except DedupError as error:
        sys.exit(f"ask.py: {error}")
    except BrokenPipeError:  # whoever reads has seen enough, as behind ``| head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
