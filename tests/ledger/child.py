"""A crawl in a process of its own, to be killed: prints the seq of each page that the ledger acknowledged.

``python child.py URL JOB_ID PAGES [same]``: with "same", several children write the same texts.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import Crawl, make_job

WORDS = "word " * 300


def main(url: str, job_id: str, pages: int, mode: str) -> None:
    one = Crawl(url, make_job(job_id))
    one.writer.open()
    print("open", flush=True)
    if mode.startswith("limit="):  # as a disk that is full
        limit = int(mode.partition("=")[2])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    waiting = []
    for number in range(pages):
        # every third text was seen before; bursts, so that commits hold several pages
        text = f"{number - number % 3 if mode == 'same' else (job_id, number - number % 3)} {WORDS}"
        waiting.append(one.submit(text, f"http://site.example/{job_id}/{number}"))
        one.note(f"http://site.example/{number}?utm_source=x", f"key {number % 7}")
        if len(waiting) >= 1 + number % 5:
            acknowledge(waiting)
    acknowledge(waiting)
    one.writer.finish("finished")
    print("finished", flush=True)


def acknowledge(waiting: list) -> None:
    for future in waiting:
        print(future.result(60).observation.seq, flush=True)
    waiting.clear()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
