"""A batch in a process of its own that makes a checkpoint at every step, to be killed at any of them."""

from __future__ import annotations

import sys
from pathlib import Path

from scrapy_dedup.batch import Plan, reading, run_batch, verification, work
from scrapy_dedup.batch.corpus import from_files, stated_by_files
from scrapy_dedup.batch.local import stated_by
from scrapy_dedup.near.bands import Banding


def main(path: Path, out: Path, *, resume: bool) -> None:
    work.CHECKPOINT_S = 0.0
    reading._CHUNK_TEXTS = 50
    verification._SLICE_PAIRS = 20
    plan = Plan(0.8, Banding.for_threshold(0.8))
    with work.WorkFolder(out / ".work", stated_by(plan, stated_by_files([path])), resume=resume) as folder:
        print("resumed" if folder.resumed else "begun", flush=True)
        run_batch(
            from_files(folder, [path]), plan, folder, out, progress=lambda *now: print(*now, flush=True)
        )
        folder.discard()
    print("complete", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), resume=sys.argv[3] == "resume")
