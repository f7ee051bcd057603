"""All similar pairs of a corpus on one machine, in bounded memory, as often interrupted as need be.

1. Read: each line is checked, told from its copies by the digest of its normal form, and signed; only the
   keys of its bands are kept (`reading`).
2. Place: copies and texts of fewer than three tokens are set aside, the others ordered by priority
   (`places`).
3. Candidates: the keys of one band at a time are sorted, equal ones make pairs (`candidates`).
4. Verify: Jaccard and containment of each candidate are counted exactly, and the claims of similar pairs
   compared (`verification`).
5. Groups form around leaders by direct pairs that say the same (`results`).

Each step leaves columns in a work folder (`work`), from which a run that was stopped goes on. The same texts
with the same identities give the same result, whatever their order, the memory and the number of processes.

Rejected: connected components of candidates, in which one chain of templates joins texts that share nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scrapy_dedup.batch.candidates import find_candidates
from scrapy_dedup.batch.places import Counts, find_places
from scrapy_dedup.batch.plan import Plan
from scrapy_dedup.batch.reading import read_all
from scrapy_dedup.batch.record_files import write_files
from scrapy_dedup.batch.results import Decided, Results, counted_verdicts, tallied_groups
from scrapy_dedup.batch.sources import JsonLines
from scrapy_dedup.batch.verification import verify_all
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.batch.workers import Workers
from scrapy_dedup.records import GroupRecord

SHOWN_GROUPS = 5

RESULTS = PAIRS, GROUPS = "pairs", "groups"
"""The names of the files that a batch writes, less their ending."""

Progress = Callable[[str, int, int], object]
"""Is told the step, how much of it is done, and how much there is."""


def untold(_step: str, _done: int, _total: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Summary:
    """What a batch found.

    Attributes:
        counts: of the texts.
        candidates: pairs that bands proposed.
        verdicts: pairs for each verdict; those not compared count as ``similar``.
        groups: of at least two texts.
        grouped: texts in them.
        largest: leader and size of the largest groups.
        files: what was written.
    """

    counts: Counts
    candidates: int
    verdicts: Counter[str] = field(default_factory=Counter)
    groups: int = 0
    grouped: int = 0
    largest: list[tuple[str, int]] = field(default_factory=list)
    files: Sequence[Path] = ()

    def add_group(self, group: GroupRecord) -> None:
        """Count a group."""
        self.groups += 1
        self.grouped += group.size
        largest = [*self.largest, (group.leader, group.size)]
        self.largest = heapq.nsmallest(SHOWN_GROUPS, largest, key=lambda one: (-one[1], one[0]))


def stated_by(plan: Plan, corpus: Mapping[str, object]) -> Mapping[str, object]:
    """Return what the columns of a work folder depend on: the options, and what the corpus states."""
    return {
        "--jaccard": plan.jaccard,
        "--bands and --rows": [plan.banding.bands, plan.banding.rows],
        "--no-claims": not plan.with_claims,
        "the rules": plan.policy,
        **corpus,
    }


def run_batch(
    sources: Sequence[JsonLines],
    plan: Plan,
    work: WorkFolder,
    out: Path,
    *,
    file_format: str = "jsonl",
    decided: Decided | None = None,
    progress: Progress = untold,
) -> tuple[Summary, Results]:
    """Find the similar pairs and the groups of a corpus and write them.

    Args:
        sources: the texts.
        plan: the options.
        work: the entered work folder; the caller discards it once it has done with the results.
        out: the folder for the files of pairs and groups.
        file_format: ``jsonl`` or ``parquet``.
        decided: pairs of which somebody decided whether they are one.
        progress: is told how it goes.

    Raises:
        InputError: lines of the input cannot be taken; the caller discards the work folder.
        DedupError: the input has changed, a process has died, or the memory is not enough.
    """
    with Workers(plan.workers) as workers:
        read_all(sources, plan, work, workers, partial(progress, "reading"))
        counts = find_places(work)
        candidates = find_candidates(plan, work, partial(progress, "pairing"))
        verify_all(sources, plan, work, workers, partial(progress, "comparing"))
    results = Results(work, decided or {})
    summary = Summary(counts, candidates)
    summary.files = write_files(
        out,
        file_format,
        {
            PAIRS: counted_verdicts(results.pairs(), summary.verdicts),
            GROUPS: tallied_groups(results.groups(), summary.add_group),
        },
    )
    return summary, results
