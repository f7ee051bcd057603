"""Pairs of a ledger around the threshold, written to a file for somebody to label."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scrapy_dedup.batch import Plan
from scrapy_dedup.batch.corpus import from_ledger
from scrapy_dedup.batch.plan import DEFAULT_MEMORY_BYTES
from scrapy_dedup.batch.record_files import drafts_of
from scrapy_dedup.batch.related import decided_pairs
from scrapy_dedup.batch.sampling import MAX_OF_A_TEXT, SampledPair, sample_pairs
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.crawl.addon import read_config
from scrapy_dedup.crawl.cli.batch import bars, chosen_space, cores
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.crawl.cli.pair_file import MAX_TEXT_CHARS
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.near.bands import Banding
from scrapy_dedup.records import RelationKind

MAX_SAMPLE = 10_000
SAMPLED_BELOW = 0.2
"""So far below the threshold pairs are looked for."""

FEW_TEXTS = 1_000
"""So many are read by one process before others have started."""

DEFAULT_OUT = "pairs.jsonl"


def sampling_problems(options: argparse.Namespace) -> Iterator[str]:
    """Yield what is wrong with the options of a sample."""
    if not 1 <= options.sample <= MAX_SAMPLE:
        yield f"--sample is {options.sample}; it has to be 1 to {MAX_SAMPLE:,}"
    if options.jaccard is not None and not 0 < options.jaccard <= 1:
        yield f"--jaccard is {options.jaccard:g}; it has to be above 0 and at most 1"
    out = Path(options.out or DEFAULT_OUT)
    if out.exists():
        yield f"--out {out} exists already, perhaps with labels; name another file"
    elif not out.absolute().parent.is_dir():
        yield f"--out {out}: there is no such folder"


def lowest_for(threshold: float) -> float:
    """Return the similarity from which pairs are drawn for a threshold."""
    return max(threshold - SAMPLED_BELOW, threshold / 2)


def sample(context: Context) -> int:
    """Draw the pairs, write them, and say where they lie."""
    options = context.options
    stated = options.jaccard
    threshold = read_config(context.settings).near_jaccard if stated is None else stated
    lowest = lowest_for(threshold)
    out = Path(options.out or DEFAULT_OUT)
    with Ledger.open(context.ledger_url()) as ledger:
        space = chosen_space(context, ledger)
        workers = cores() if space.bodies > FEW_TEXTS else 1
        plan = Plan(lowest, Banding.for_threshold(lowest), False, DEFAULT_MEMORY_BYTES, workers)
        decided = decided_pairs(ledger, space.corpus)
        known = {
            (relation.a, relation.b)
            for relation in ledger.relations(kind=RelationKind.NEAR)
            if relation.corpus == space.corpus
        }
        with (
            tempfile.TemporaryDirectory(prefix=".dedup-tune-", dir=out.absolute().parent) as folder,
            WorkFolder(Path(folder) / "work", {}, resume=False) as work,
            bars() as progress,
        ):
            drawn_pairs = sample_pairs(
                from_ledger(work, ledger, space),
                plan,
                work,
                threshold=threshold,
                count=options.sample,
                seed=options.seed or 0,
                known=known,
                max_chars=MAX_TEXT_CHARS,
                progress=progress,
            )
    if not drawn_pairs:
        context.write(f"no two texts have a Jaccard similarity of {lowest:g} or more; nothing was written")
        return 0
    with drafts_of([out]) as drafts:
        with drafts[out].open("x", encoding="utf-8", newline="\n") as file:
            for pair in drawn_pairs:
                file.write(json.dumps(_to_label(pair, decided), ensure_ascii=False) + "\n")
        drafts[out].replace(out)
    context.write("\n".join(_told_sample(out, drawn_pairs, threshold, decided, wanted=options.sample)))
    return 0


def _told_sample(
    out: Path,
    pairs: Sequence[SampledPair],
    threshold: float,
    decided: Mapping[tuple[str, str], bool],
    *,
    wanted: int,
) -> Iterator[str]:
    below = sum(pair.jaccard < threshold for pair in pairs)
    shares = f"{len(pairs) - below:,} with a Jaccard similarity of {threshold:g} or more, {below:,} below"
    pairs_written = "1 pair" if len(pairs) == 1 else f"{len(pairs):,} pairs"
    yield f"wrote {pairs_written} to {printable(str(out))}: {shares}"
    if len(pairs) < wanted:
        yield (
            f"fewer than the {wanted:,} asked for: pairs are drawn from a similarity of "
            f"{lowest_for(threshold):g} on, and no text for more than {MAX_OF_A_TEXT} of them"
        )
    known = sum(_sides(pair) in decided for pair in pairs)
    if known:
        yield f"{known:,} of them {'was' if known == 1 else 'were'} decided before and labelled so"
    yield "set 'same' of each to true or false, then: scrapy dedup tune " + printable(str(out))


def _to_label(pair: SampledPair, decided: Mapping[tuple[str, str], bool]) -> Mapping[str, Any]:
    same = decided.get(_sides(pair))
    return {
        "same": same,
        "note": "" if same is None else "decided in the ledger",
        "a": pair.a,
        "b": pair.b,
        "jaccard": round(pair.jaccard, 6),
        "a_id": pair.a_id,
        "b_id": pair.b_id,
    }


def _sides(pair: SampledPair) -> tuple[str, str]:
    return (min(pair.a_id, pair.b_id), max(pair.a_id, pair.b_id))
