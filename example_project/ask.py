"""``python ask.py [QUESTION ...]``: what a search finds before and after deduplication.

An example of applying a plan: ``dedup-plan/plan.jsonl`` is applied to an index in a file beside it.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from semantic_text_splitter import MarkdownSplitter
from word_index import PLAN_IT, apply_plan, read_index, search, words, write_index

from scrapy_dedup import Ledger
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.errors import DedupError
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
    write_index(index, after)
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
    asked = set(words(question))
    sentences = re.split(r"(?<=[.!?])\s+|\n+", text)
    closest = max(sentences, key=lambda sentence: len(asked & set(words(sentence))))
    more = f" and {len(urls) - 1} more" if urls[1:] else ""
    return printable(
        f"{textwrap.shorten(closest, 70, placeholder=' ...'):<70} {urlsplit(urls[0]).path}{more}"
    )


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
