"""A batch that was killed goes on with --resume, and ends with the bytes of one that was not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scrapy_dedup.batch import local, reading, work
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.errors import DedupError
from scrapy_dedup.near.bands import Banding

from .conftest import planted, write

ROOT = Path(__file__).parents[2]
FILES = ("pairs.jsonl", "groups.jsonl")


def start(path, out, mode):
    command = [sys.executable, "-m", "tests.batch.child", str(path), str(out), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.slow
def test_a_killed_batch_goes_on_and_ends_like_another(tmp_path):
    path, whole, broken = tmp_path / "in.jsonl", tmp_path / "whole", tmp_path / "broken"
    write(path, planted(1_200, 40))
    with start(path, whole, "anew") as process:
        steps = process.stdout.readlines()
    assert len(steps) > 50

    kills = 0
    for _ in range(200):
        with start(path, broken, "resume") as process:
            # Killed a little further on each time, so in each of the steps and between them.
            said = [line for _, line in zip(range(3 + kills % 5), process.stdout, strict=False)]
            process.kill()
        if any(line == "complete\n" for line in said):
            break
        kills += 1
        assert said[0] == ("begun\n" if kills == 1 else "resumed\n")
    assert kills > 10

    for name in FILES:
        assert (broken / name).read_bytes() == (whole / name).read_bytes()
    assert sorted(one.name for one in broken.iterdir()) == sorted(FILES)


def test_what_comes_after_the_last_checkpoint_is_done_again(batch, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "CHECKPOINT_S", 0.0)
    monkeypatch.setattr(reading, "_CHUNK_TEXTS", 20)
    entries = planted(100, 30)
    expected = batch(entries)[1:]
    path = tmp_path / "in.jsonl"
    write(path, entries)
    sign, signed = reading.sign, []

    def stops_after_three(given):
        if len(signed) == 3:
            raise KeyboardInterrupt
        signed.append(given)
        return sign(given)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "sign", stops_after_three)
        with pytest.raises(KeyboardInterrupt):
            batch(path, work=tmp_path / "work")
    for column in (tmp_path / "work").glob("[rik]*"):
        column.write_bytes(column.read_bytes() + b"half of a chunk that was not finished")

    assert batch(path, work=tmp_path / "work", resume=True)[1:] == expected


def test_other_options_or_another_input_are_no_batch_to_go_on_with(batch, tmp_path, monkeypatch):
    path = tmp_path / "in.jsonl"
    write(path, planted(10, 30))
    with monkeypatch.context() as patch:
        patch.setattr(local, "find_candidates", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            batch(path, work=tmp_path / "work")

    with pytest.raises(DedupError, match="other values of --bands and --rows, --no-claims"):
        batch(path, work=tmp_path / "work", resume=True, banding=Banding(4, 4), with_claims=False)
    write(path, planted(11, 30))
    with pytest.raises(DedupError, match="other values of --input"):
        batch(path, work=tmp_path / "work", resume=True)
    batch(path, work=tmp_path / "work")  # begins anew


def test_a_second_batch_in_the_same_place_is_kept_out(tmp_path):
    with (
        WorkFolder(tmp_path / "work", {}, resume=False),
        pytest.raises(DedupError, match="Another batch works in"),
        WorkFolder(tmp_path / "work", {}, resume=True),
    ):
        pytest.fail("two batches share a folder")


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("x", encoding="utf-8")
    with pytest.raises(DedupError, match="holds something that no batch made"):
        WorkFolder(tmp_path, {}, resume=False).__enter__()
    assert (tmp_path / "thesis.txt").exists()


def test_a_batch_that_could_not_even_begin_is_in_nobodys_way(tmp_path):
    (tmp_path / "MANIFEST.draft").touch()

    with WorkFolder(tmp_path, {}, resume=False) as folder:
        assert not folder.discarded


@pytest.mark.parametrize("manifest", ["{", "[]", json.dumps({"format": "another"})])
def test_a_strange_manifest_stops_the_run(tmp_path, manifest):
    (tmp_path / "MANIFEST").write_text(manifest, encoding="utf-8")
    with pytest.raises(DedupError, match=r"no manifest|not made by this version"):
        WorkFolder(tmp_path, {}, resume=True).__enter__()


def test_columns_are_cut_to_their_last_checkpoint(tmp_path):
    numbers = np.arange(5, dtype=np.int64)
    with WorkFolder(tmp_path, {}, resume=False) as folder:
        folder.append("numbers", numbers)
        folder.checkpoint(seen=5)
        folder.append("numbers", numbers)
    with WorkFolder(tmp_path, {}, resume=True) as folder:
        folder.append("numbers", numbers[:1])
        assert folder.get("seen") == 5
        assert folder.column("numbers", np.int64).tolist() == [0, 1, 2, 3, 4, 0]
