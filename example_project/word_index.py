"""A small local index of words, in a file: what a search engine or a vector store is elsewhere.

It weighs words (BM25, Robertson and Zaragoza 2009) where a real one compares vectors of ``embed_text``; what
deduplication changes is the same.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from scrapy_dedup.errors import DedupError
from scrapy_dedup.retrieval import Hit

PLAN_IT = "'scrapy dedup plan --rebuild'"


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


def write_index(path: Path, index: Mapping[str, Hit]) -> None:
    """Keep an index for the next plan."""
    path.write_text(json.dumps({identity: asdict(hit) for identity, hit in index.items()}), encoding="utf-8")


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
                    urls = [one["url"] for one in record["sources"] if not one["similar"]]
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
    counts = {key: Counter(words(hit.text)) for key, hit in index.items()}
    mean = max(1, sum(map(Counter.total, counts.values()))) / max(1, len(counts))
    scores = dict.fromkeys(index, 0.0)
    for word in set(words(question)):
        holders = {key: count[word] for key, count in counts.items() if word in count}
        weight = math.log(1 + (len(index) - len(holders) + 0.5) / (len(holders) + 0.5))
        for key, often in holders.items():
            length = counts[key].total() / mean
            scores[key] += weight * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length))
    found = sorted(filter(scores.get, scores), key=scores.__getitem__, reverse=True)
    return [index[key] for key in found[:limit]]


def words(text: str) -> list[str]:
    """Return the words of a text that are looked for."""
    return re.findall(r"\w{4,}", text.lower())  # shorter ones say little
