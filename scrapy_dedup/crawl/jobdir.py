"""A crawl that is paused and resumed with JOBDIR is one job: its file in that folder says which."""

from __future__ import annotations

import json
import os
from pathlib import Path

FILE_NAME = "dedup-job.json"


def read_job_id(folder: Path, *, spider: str, corpus: str) -> str | None:
    """Return the job that a resumed crawl continues, or None when it begins one.

    A file that is torn, or that another spider or corpus left, names no job to continue.
    """
    try:
        held = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(held, dict) or (held.get("spider"), held.get("corpus")) != (spider, corpus):
        return None
    job_id = held.get("job_id")
    return job_id if isinstance(job_id, str) and job_id else None


def write_job_id(folder: Path, job_id: str, *, spider: str, corpus: str) -> None:
    """Remember the job of a crawl for the crawl that resumes it.

    Raises:
        OSError: when the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{FILE_NAME}.new"
    with draft.open("w", encoding="utf-8") as file:
        json.dump({"job_id": job_id, "spider": spider, "corpus": corpus}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / FILE_NAME)
