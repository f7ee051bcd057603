"""Corpora with planted pairs, and a batch over them in this process."""

from __future__ import annotations

import json
import random

import pytest

from scrapy_dedup.batch import Plan, run_batch
from scrapy_dedup.batch.corpus import from_files, stated_by_files
from scrapy_dedup.batch.local import stated_by
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.near.bands import Banding

_LETTERS = random.Random(2)
WORDS = ["".join(_LETTERS.choices("eetaaoinshrdlu", k=2 + number % 8)) for number in range(5_000)]


def planted(count: int, words: int, *, seed: int = 1) -> list[dict]:
    """Return texts of which two in five are another one with a few words replaced."""
    source = random.Random(seed)
    texts: list[list[str]] = []
    for number in range(count):
        if number % 5 < 2 and texts:
            text = list(source.choice(texts[-200:]))
            for _ in range(source.choice([1, 2, words // 30, words // 20])):
                text[source.randrange(len(text))] = source.choice(WORDS)
        else:
            text = source.choices(WORDS, k=words)
        texts.append(text)
    return [{"id": f"t{number}", "text": " ".join(text)} for number, text in enumerate(texts)]


def write(path, entries) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def batch(tmp_path):
    """Run a batch over entries or over a file, each time in folders of its own; return what it wrote."""
    runs = iter(range(1_000))

    def run(entries, *, resume=False, work=None, decided=None, **options):
        number = next(runs)
        path = tmp_path / f"input-{number}.jsonl"
        if isinstance(entries, list):
            write(path, entries)
        else:
            path = entries
        options = {"banding": Banding.for_threshold(options.get("jaccard", 0.8)), "jaccard": 0.8, **options}
        plan = Plan(**options)
        out = tmp_path / f"out-{number}"
        stated = stated_by(plan, stated_by_files([path]))
        with WorkFolder(work or tmp_path / f"work-{number}", stated, resume=resume) as folder:
            summary, _ = run_batch(from_files(folder, [path]), plan, folder, out, decided=decided)
        return summary, lines(out / "pairs.jsonl"), lines(out / "groups.jsonl")

    return run
