"""What deduplication does for retrieval: ``python tests/bench/bench_retrieval.py``.

Three sites: A, four released versions of the Django documentation (downloaded once as source distributions,
kept in a cache); B, pages that share a preamble; C, pages of one template that all say different things,
where every merge is harm. Each goes through a ledger, as a crawl would put it there; the chunks are those of
``scrapy dedup export chunks``, the vectors those of wordllama, whose weights come with the package. All seeds
are fixed. Exit code 1 when a bound is missed.

A question's five best hits are judged without the suite: a hit is waste when four fifths of its runs of five
words stand in the hits before it; a question is hit when one of the five comes from the section or the page
that answers it, in whatever version.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from made_records import made_job, made_observation, made_text
from report import Report
from retrieval_sites import (
    Model,
    NotAvailable,
    Question,
    Site,
    Vectors,
    cache_folder,
    manual,
    page_of,
    preamble_site,
    template_site,
)

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.jobs.live import live_chunks
from scrapy_dedup.jobs.similar import relate_similar
from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting
from scrapy_dedup.near import SCHEME, simhash
from scrapy_dedup.records import ChunkRecord
from scrapy_dedup.retrieval import DropReason, dedupe_hits
from scrapy_dedup.urls import UrlPolicy

POLICY = UrlPolicy.preset("standard")
SHOWN = 5
FETCHED = 20
WASTE = 0.8
NOT_REPEATED = {DropReason.OVER_LIMIT, DropReason.NOT_VISIBLE}


# -- from a site to chunk records


def fill(url: str, pages: Mapping[str, str]) -> None:
    """Put the pages into a ledger, as one crawl."""
    writer = LedgerWriter(url, made_job(POLICY.policy_id), POLICY.spec(), reuse_normalized=True)
    writer.open()
    waiting = [writer.record(sighting(writer.next_seq(), page, text)) for page, text in pages.items()]
    for one in waiting:
        one.result(timeout=120)
    writer.finish("finished")


def sighting(seq: int, url: str, text: str) -> Sighting:
    decision = POLICY.decide(url)
    return Sighting(
        made_observation(seq, url, decision.policy_id, url_key=decision.key),
        made_text(text, simhash=simhash(text), simhash_scheme=SCHEME),
    )


def chunks_of(url: str, options: ChunkOptions, *, relates: bool) -> list[ChunkRecord]:
    with Ledger.open(url) as ledger, live_chunks(ledger, "default", options) as live:
        if relates:
            relate_similar(live)
        return [*live.records()]


# -- indexes and searching


@dataclass(frozen=True)
class Entry:
    """What an index holds: a chunk, and the pages that it is known from there."""

    chunk: ChunkRecord
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A way to index and to search.

    Attributes:
        entries: the index.
        fetched: hits that are asked for.
        once: whether `dedupe_hits` picks from them.
        vectors: whether it is given vectors.
        groups: whether it is given the groups of the ledger.
    """

    name: str
    entries: Sequence[Entry]
    fetched: int = SHOWN
    once: bool = False
    vectors: bool = False
    groups: bool = False


def whole(records: Iterable[ChunkRecord]) -> list[Entry]:
    return [Entry(one, tuple(source.url for source in one.sources)) for one in records]


def each_place(records: Iterable[ChunkRecord]) -> list[Entry]:
    """Return an entry for each place of each chunk, as an index has them that knows nothing of copies."""
    return [Entry(one, (source.url,)) for one in records for source in one.sources]


def leading(records: Iterable[ChunkRecord]) -> list[ChunkRecord]:
    return [one for one in records if one.group in {None, one.id}]


def variants(plain: Sequence[ChunkRecord], cut: Sequence[ChunkRecord]) -> list[Variant]:
    """Return the variants, from raw to all stages.

    Args:
        plain: distinct chunks where no block counts as repeated.
        cut: distinct chunks as the suite makes them by default.
    """
    raw = each_place(plain)
    return [
        Variant("raw", raw),
        Variant("exact", whole(plain)),
        Variant("exact + near", whole(leading(plain))),
        Variant("block (the default chunks)", whole(cut)),
        Variant("block + near", whole(leading(cut))),
        Variant("query time on raw", raw, FETCHED, once=True),
        Variant("query time on raw, vectors too", raw, FETCHED, once=True, vectors=True),
        Variant("block + query time", whole(cut), FETCHED, once=True),
        Variant("block + query time by groups", whole(cut), FETCHED, once=True, groups=True),
    ]


RECOMMENDED = "block + query time"


@dataclass
class Result:
    """What a variant made of some questions, on average."""

    distinct: float
    waste: float
    hit: float
    repeated: int  # drops that dedupe_hits has called repetitions


class Searching:
    """One variant, with its vectors."""

    def __init__(self, variant: Variant, vectors: Mapping[str, int], matrix: Vectors) -> None:
        self.variant = variant
        self._rows = matrix[[vectors[one.chunk.id] for one in variant.entries]]

    def best(self, question: np.ndarray) -> tuple[list[Entry], int]:
        """Return the hits that are shown, and how many were dropped as repetitions."""
        scores = self._rows @ question
        places = np.argsort(-scores, kind="stable")[: self.variant.fetched].tolist()
        found = [self.variant.entries[place] for place in places]
        if not self.variant.once:
            return found[:SHOWN], 0
        hits = [
            {
                "text": one.chunk.text,
                "score": float(scores[place]),
                "id": one.chunk.id,
                "sources": one.urls,
                "entry": one,
                "group": (one.chunk.group or one.chunk.id) if self.variant.groups else None,
                "vector": self._rows[place] if self.variant.vectors else None,
            }
            for place, one in zip(places, found, strict=True)
        ]
        kept, dropped = dedupe_hits(hits, SHOWN)
        return [one.hit["entry"] for one in kept], sum(one.reason not in NOT_REPEATED for one in dropped)

    def ask(self, questions: Sequence[Question], vectors: Vectors) -> Result:
        distinct, waste, hit, repeated = [], [], [], 0
        for question, vector in zip(questions, vectors, strict=True):
            shown, dropped = self.best(vector)
            new = new_texts([one.chunk.text for one in shown])
            distinct.append(sum(new))
            waste.append(1 - sum(new) / len(new))
            hit.append(any(answers(one, question) for one in shown))
            repeated += dropped
        return Result(float(np.mean(distinct)), float(np.mean(waste)), float(np.mean(hit)), repeated)


def new_texts(texts: Sequence[str]) -> list[bool]:
    """Tell of each text whether it is more than a repetition of those before it."""
    seen: set[tuple[str, ...]] = set()
    found = []
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        runs = {tuple(words[place : place + 5]) for place in range(max(1, len(words) - 4))}
        found.append(len(runs & seen) < WASTE * len(runs))
        seen |= runs
    return found


def answers(entry: Entry, question: Question) -> bool:
    if question.words is not None:
        return question.words in entry.chunk.text
    if question.page not in {page_of(url) for url in entry.urls}:
        return False
    if question.section is None:
        return True
    inside = re.findall(r"^#+ (.+)$", entry.chunk.text, re.MULTILINE)
    return question.section in (inside or entry.chunk.headings[-1:])


# -- the three sites


def measure(name: str, site: Site, model: Model) -> dict[str, dict[str, Result]]:
    """Print the table of a site; return the results by variant and kind of question."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as folder:
        url = f"sqlite:///{folder}/dedup.db"
        fill(url, site.pages)
        plain = chunks_of(
            url, ChunkOptions(size=site.chunk_size, shared_share=None), relates=site.relates_raw
        )
        cut = chunks_of(url, ChunkOptions(size=site.chunk_size), relates=True)
    strings = {one.id: one.embed_text for one in [*plain, *cut]}
    places = {identity: place for place, identity in enumerate(strings)}
    matrix = model.embed([*strings.values()])
    asked = {kind: model.embed([one.text for one in some]) for kind, some in site.questions.items()}
    print(
        f"{name}: {len(site.pages):,} pages, {', '.join(f'{len(q)} {k}' for k, q in site.questions.items())}"
    )
    print(f"  {'':<32} {'embeddings':>10} {'less':>6}", end="")
    print("".join(f" | {kind:>8}: distinct@5  waste@5  hit@5" for kind in asked))
    results: dict[str, dict[str, Result]] = {}
    raw_count = 0
    for variant in variants(plain, cut):
        if variant.name == "exact + near" and not site.relates_raw:
            continue
        searching = Searching(variant, places, matrix)
        raw_count = raw_count or len(variant.entries)
        less = 1 - len(variant.entries) / raw_count
        results[variant.name] = {
            kind: searching.ask(site.questions[kind], vectors) for kind, vectors in asked.items()
        }
        row = "".join(
            f" | {'':>8}  {one.distinct:10.2f} {one.waste:8.1%} {one.hit:6.3f}"
            for one in results[variant.name].values()
        )
        print(f"  {variant.name:<32} {len(variant.entries):>10,} {less:>6.1%}{row}", flush=True)
    tell_groups("similar chunks that stand behind another", plain, cut)
    tell_releases(cut)
    print(f"  {time.perf_counter() - started:.0f} seconds")
    results["_saved"] = {
        "cut": Result(0, 0, 1 - len(cut) / raw_count, 0),
        "false": Result(0, 0, 0, sum(one.group not in {None, one.id} for one in cut)),
    }
    return results


def tell_groups(what: str, plain: Sequence[ChunkRecord], cut: Sequence[ChunkRecord]) -> None:
    counts = [sum(one.group not in {None, one.id} for one in records) for records in (plain, cut)]
    print(f"  {what}: {counts[0]:,} where repeated blocks stay, {counts[1]:,} by default")


def tell_releases(cut: Sequence[ChunkRecord]) -> None:
    """Tell how many vectors each version of a manual needs that the ones before it did not."""
    first = Counter(
        min(re.findall(r"//[^/]+/(\d\.\d)/", " ".join(s.url for s in one.sources)), default="") for one in cut
    )
    if set(first) != {""}:
        print("  new embeddings by version:", ", ".join(f"{name} {first[name]:,}" for name in sorted(first)))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cache", type=Path, default=cache_folder(), help="where downloads are kept")
    options.add_argument("--only", choices=["A", "B", "C"])
    chosen = options.parse_args()
    try:
        model = Model()
    except ImportError as error:
        print(f"{error}; the benchmark needs the packages of the extra 'bench'")
        return 1
    report = Report()
    if chosen.only in {None, "A"}:
        try:
            site = manual(chosen.cache)
        except NotAvailable as error:
            print(f"A is left out: {error}. It needs a network once, or the files in {chosen.cache}")
        else:
            judge_manual(report, measure("A, four versions of a manual", site, model))
    if chosen.only in {None, "B"}:
        judge_preamble(report, measure("B, a shared preamble", preamble_site(), model))
    if chosen.only in {None, "C"}:
        judge_template(report, measure("C, one template", template_site(), model))
    return min(report.missed, 1)


def judge_manual(report: Report, results: dict[str, dict[str, Result]]) -> None:
    best = results[RECOMMENDED]["headings"]
    report.line("distinct@5", best.distinct, least=4.8)
    report.line("waste@5", best.waste, most=0.05)
    hits = [found["headings"].hit for found in results.values() if "headings" in found]
    report.line("lowest hit@5 of any variant, less that of raw", min(hits) - hits[0], least=0)
    report.line("share of embeddings saved", results["_saved"]["cut"].hit, least=0.65)


def judge_preamble(report: Report, results: dict[str, dict[str, Result]]) -> None:
    report.line("waste@5 of questions on the preamble", results[RECOMMENDED]["preamble"].waste, most=0)
    for kind in ("own", "preamble"):
        gain = results[RECOMMENDED][kind].hit - results["raw"][kind].hit
        report.line(f"hit@5 of {kind} questions, less that of raw", gain, least=0)


def judge_template(report: Report, results: dict[str, dict[str, Result]]) -> None:
    report.line("pages that stand behind another", results["_saved"]["false"].repeated, most=0)
    report.line("hits dropped as repetitions", results[RECOMMENDED]["own"].repeated, most=0)
    report.line("hits dropped as repetitions on raw", results["query time on raw"]["own"].repeated, most=0)
    gain = results[RECOMMENDED]["own"].hit - results["raw"]["own"].hit
    report.line("hit@5, less that of raw", gain, least=0)


if __name__ == "__main__":
    sys.exit(main())
