"""The index of fingerprints: exact against a scan, whole after a crash, clear about damage."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_dedup.errors import IndexDamaged
from scrapy_dedup.near import hamming
from scrapy_dedup.near.hamming import MAX_ID, MAX_RADIUS, HammingIndex

SCHEME = "simhash64-w3-1"


@pytest.fixture
def small(monkeypatch):
    """Let the index settle and flush after a handful of fingerprints."""
    monkeypatch.setattr(hamming, "TAIL_COUNT", 8)
    monkeypatch.setattr(hamming, "FLUSH_COUNT", 32)


def flipped(fingerprint: int, bits: int, source: random.Random) -> int:
    for bit in source.sample(range(64), bits):
        fingerprint ^= 1 << bit
    return fingerprint


def family(seed: int, count: int) -> list[int]:
    """Return fingerprints of which many lie within ten bits of another."""
    source = random.Random(seed)
    centres = [source.getrandbits(64) for _ in range(max(1, count // 8))]
    return [flipped(source.choice(centres), source.randint(0, 10), source) for _ in range(count)]


def scan(held: dict[int, int], query: int, radius: int) -> list[tuple[int, int]]:
    near = [(identity, (query ^ value).bit_count()) for identity, value in held.items()]
    return sorted((found for found in near if found[1] <= radius), key=lambda found: (found[1], found[0]))


def assert_exact(index: HammingIndex, held: dict[int, int], queries: list[int]) -> None:
    for radius in (0, 3, MAX_RADIUS):
        expected = [scan(held, query, radius) for query in queries]
        assert index.search(queries, radius) == expected
        assert [index.search([query], radius)[0] for query in queries[:5]] == expected[:5]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 31, 33, 100, 300])
@pytest.mark.parametrize("on_disk", [False, True], ids=["in_memory", "on_disk"])
def test_a_search_finds_what_a_scan_finds(count, on_disk, tmp_path):
    values = family(count, count)
    index = HammingIndex(tmp_path if on_disk else None, SCHEME)
    index.add(range(1, count + 1), values)

    queries = [*family(count, 40), 0, 2**64 - 1]
    assert_exact(index, dict(enumerate(values, 1)), queries)
    assert len(index) == count


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=60),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4),
    st.integers(0, MAX_RADIUS),
    st.lists(st.integers(0, 63), max_size=MAX_RADIUS),
)
def test_a_search_finds_what_a_scan_finds_among_any_fingerprints(values, queries, radius, bits):
    if values:  # a query that is near to something
        near = values[0]
        for bit in bits:
            near ^= 1 << bit
        queries = [*queries, near]
    index = HammingIndex(None, SCHEME)
    index.add(range(1, len(values) + 1), values)

    held = dict(enumerate(values, 1))
    expected = [scan(held, query, radius) for query in queries]
    assert index.search(queries, radius) == expected
    for found, all_of_one in zip(index.nearest(queries, radius, 2), expected, strict=True):
        assert found.matches == all_of_one[:2]
        assert found.ids.tolist() == [identity for identity, _ in all_of_one]


@pytest.mark.usefixtures("small")
def test_what_was_flushed_is_there_when_opened_again_and_the_rest_is_added_again(tmp_path):
    values = family(3, 150)
    held = dict(enumerate(values, 1))
    first = HammingIndex(tmp_path, SCHEME)
    for start in range(0, 150, 7):
        first.add(range(start + 1, min(start + 7, 150) + 1), values[start : start + 7])

    again = HammingIndex(tmp_path, SCHEME)
    assert 0 < again.last_id < 150
    assert len(again) == again.last_id
    again.add(range(again.last_id + 1, 151), values[again.last_id :])

    assert_exact(again, held, family(3, 20))
    ids, fingerprints = again.everything()
    assert dict(zip(ids.tolist(), fingerprints.tolist(), strict=True)) == held


@pytest.mark.usefixtures("small")
def test_segments_are_merged_and_old_files_removed(tmp_path):
    index = HammingIndex(tmp_path, SCHEME)
    index.add(range(1, 641), family(1, 640))

    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(index.segment_counts) <= 6
    assert list(index.segment_counts) == sorted(index.segment_counts, reverse=True)
    assert len(files) == len(index.segment_counts) + 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("step", ["write", "open"])
def test_a_flush_that_fails_leaves_the_index_as_it_was(tmp_path, monkeypatch, step):
    values = family(5, 60)
    index = HammingIndex(tmp_path, SCHEME)
    index.add(range(1, 41), values[:40])
    index.flush()
    index.add(range(41, 61), values[40:])

    def fail(*given):
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(hamming.Segment, step, fail)
        with pytest.raises(OSError, match="no space"):
            index.flush()

    held = dict(enumerate(values, 1))
    assert len(index) == 60
    assert_exact(index, held, family(5, 10))
    assert HammingIndex(tmp_path, SCHEME, writes=False).last_id == 40
    index.flush()
    assert_exact(HammingIndex(tmp_path, SCHEME), held, family(5, 10))


@pytest.mark.usefixtures("small")
def test_a_reader_sees_what_was_flushed_changes_nothing_and_survives_merges(tmp_path):
    values = family(2, 200)
    writer = HammingIndex(tmp_path, SCHEME)
    writer.add(range(1, 101), values[:100])
    writer.flush()
    (tmp_path / "segment-99999999").write_bytes(b"in the making")
    reader = HammingIndex(tmp_path, SCHEME, writes=False)
    writer.add(range(101, 201), values[100:])
    writer.flush()

    reader.add([101], values[100:101])
    reader.flush()

    assert_exact(reader, dict(enumerate(values[:101], 1)), family(2, 10))
    assert (tmp_path / "segment-99999999").exists()
    assert HammingIndex(tmp_path, SCHEME, writes=False).last_id == 200


@pytest.mark.parametrize(
    "ids", [[0], [2, 1], [1, 1], [MAX_ID + 1], [5, 3]], ids=["zero", "falling", "twice", "too_large", "below"]
)
def test_ids_ascend(ids):
    index = HammingIndex(None, SCHEME)

    with pytest.raises(ValueError, match="ids have to ascend"):
        index.add(ids, [7] * len(ids))


@pytest.mark.parametrize("radius", [-1, MAX_RADIUS + 1])
def test_a_radius_that_the_index_cannot_answer_is_refused(radius):
    with pytest.raises(ValueError, match=f"the radius is {radius}"):
        HammingIndex(None, SCHEME).search([1], radius)


def truncate(folder):
    path = next(folder.glob("segment-*"))
    os.truncate(path, path.stat().st_size - 1)


def overwrite(folder):
    path = next(folder.glob("segment-*"))
    path.write_bytes(b"x" * path.stat().st_size)


DAMAGE = {
    "a segment is missing": lambda folder: next(folder.glob("segment-*")).unlink(),
    "a segment is short": truncate,
    "a segment is something else": overwrite,
    "the manifest is torn": lambda folder: (folder / "MANIFEST").write_text('{"scheme": "sim'),
    "the manifest is no object": lambda folder: (folder / "MANIFEST").write_text("[1]"),
    "the manifest leaves the folder": lambda folder: (folder / "MANIFEST").write_text(
        json.dumps({"scheme": SCHEME, "segments": ["../secret"], "last_id": 1})
    ),
    "it is of another scheme": lambda folder: (folder / "MANIFEST").write_text(
        json.dumps({"scheme": "simhash64-w2-1", "segments": [], "last_id": 0})
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_not_opened(damage, tmp_path):
    index = HammingIndex(tmp_path, SCHEME)
    index.add(range(1, 101), family(4, 100))
    index.flush()
    DAMAGE[damage](tmp_path)

    with pytest.raises(IndexDamaged, match=r"index"):
        HammingIndex(tmp_path, SCHEME)


WRITER = """
import sys
from pathlib import Path
from scrapy_dedup.near import hamming
hamming.TAIL_COUNT, hamming.FLUSH_COUNT = 16, 64
index = hamming.HammingIndex(Path(sys.argv[1]), "simhash64-w3-1")
identity = index.last_id
print("open", flush=True)
while True:
    identity += 1
    index.add([identity], [identity * 0x9E3779B97F4A7C15 % 2**64])
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_a_whole_index(tmp_path):
    source = random.Random(11)
    last = 0
    for _ in range(25):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(source.uniform(0.0, 0.3))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()

        index = HammingIndex(tmp_path, SCHEME)
        ids, fingerprints = index.everything()
        assert index.last_id >= last
        assert ids.tolist() == list(range(1, index.last_id + 1))
        assert (fingerprints == ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).all()
        last = index.last_id
    assert last > 64
