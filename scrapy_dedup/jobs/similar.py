"""Which distinct chunks are similar: the batch of whole texts, run over the chunks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from scrapy_dedup.batch import Plan, run_batch
from scrapy_dedup.batch.local import stated_by
from scrapy_dedup.batch.results import Results
from scrapy_dedup.batch.sources import JsonLines, write_lines
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.errors import DedupError, FileNotWritten
from scrapy_dedup.jobs.live import LiveChunks
from scrapy_dedup.near.bands import Banding

MIN_JACCARD = 0.8


def relate_similar(live: LiveChunks, *, workers: int = 1) -> None:
    """Find the similar chunks, compare each pair side by side, and note what they are to each other.

    Args:
        live: the chunks; what was found is in its records from then on.
        workers: processes; 1 does all the work in this one.

    Raises:
        DedupError: the work files cannot be written.
    """
    try:
        _relate(live, workers)
    except (OSError, FileNotWritten) as error:
        cause = error.__cause__ if isinstance(error, FileNotWritten) else error
        raise DedupError(
            f"the work files of the comparison of chunks in {tempfile.gettempdir()} cannot be written "
            f"({getattr(cause, 'strerror', None) or cause}); make room there, name another folder with the "
            "environment variable TMPDIR, or leave the comparison out with --no-near"
        ) from error


def _relate(live: LiveChunks, workers: int) -> None:
    plan = Plan(MIN_JACCARD, Banding.for_threshold(MIN_JACCARD), workers=workers)
    with tempfile.TemporaryDirectory(prefix="dedup-similar-") as name:
        folder = Path(name)
        path = folder / "chunks.jsonl"
        write_lines(path, _texts(live))
        with WorkFolder(folder / "work", stated_by(plan, {}), resume=False) as work:
            _, results = run_batch([JsonLines.at(path, name="chunks")], plan, work, folder / "found")
            live.relate(_pairs(results), _groups(results))
            work.discard()


def _texts(live: LiveChunks) -> Iterator[Mapping[str, object]]:
    for row in live.file.execute("select place, id, text from entry order by place"):
        yield {"id": row["id"], "text": row["text"], "rank": row["place"]}


def _pairs(results: Results) -> Iterator[tuple[str, str, str, float, float, float]]:
    for pair in results.pairs():
        if pair.verdict != "different":
            yield pair.a, pair.b, str(pair.verdict), pair.jaccard, pair.containment_a, pair.containment_b


def _groups(results: Results) -> Iterator[tuple[str, str]]:
    for group in results.groups():
        yield group.leader, group.leader
        for member in group.members:
            yield member.id, group.leader
