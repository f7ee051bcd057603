"""``scrapy dedup export chunks`` and ``scrapy dedup plan``: files, confirmation, refusals."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
import tempfile
from types import SimpleNamespace

import pytest
from scrapy.settings import Settings

from scrapy_dedup.batch.record_files import _parquet_fields
from scrapy_dedup.crawl.cli.context import run_reported
from scrapy_dedup.crawl.cli.export import run as run_export
from scrapy_dedup.crawl.cli.plan import run as run_plan
from scrapy_dedup.crawl.commands import DedupCommand
from scrapy_dedup.errors import DedupError

from ..ledger.test_schemas import validator_of
from .conftest import GONE
from .test_live import PREAMBLE, paragraph

RUNS = {"export": run_export, "plan": run_plan}


@pytest.fixture
def run(site, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = DedupCommand()
    command.settings = Settings()
    parser = argparse.ArgumentParser()
    command.add_options(parser)

    def run_command(*words, **settings):
        options = parser.parse_args([*words, "--ledger", site.url])
        options.set = []
        code = run_reported(RUNS[words[0]], options, Settings(settings))
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run_command


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def plan_id(done) -> str:
    return re.search(r"plan1-[0-9a-f]{32}", done.out)[0]


def test_chunks_are_exported_with_what_they_are_like(site, run, tmp_path):
    site.crawl(
        {f"/p/{number}": "\n\n".join([paragraph(number), *PREAMBLE]) for number in range(6)}
        | {"/near": paragraph(50), "/like": paragraph(50).replace("5001", "pretty 5001")}
    )
    done = run("export", "chunks")
    assert done.code == 0
    assert re.search(r"chunks +26\ndistinct chunks +11\n +shared +3", done.out)
    found = lines(tmp_path / "dedup-export" / "chunks.jsonl")
    for line in found:
        validator_of("chunk").validate(line)
    like = [line for line in found if line["near"]]
    assert len(like) == 2
    assert {one["near"][0]["id"] for one in like} == {one["id"] for one in like}
    assert not any(line["near"] for line in found if line not in like)


def test_a_plan_is_written_applied_and_then_empty(site, run, tmp_path):
    site.crawl({"/a": paragraph(1), "/b": paragraph(2)})
    first = run("plan", "--model", "m", "--dimensions", "256")
    path = tmp_path / "dedup-plan" / "plan.jsonl"
    before = path.read_bytes()
    for line in lines(path):
        validator_of("plan").validate(line)
    assert f"scrapy dedup plan --applied {plan_id(first)}" in first.out
    run("plan", "--model", "m", "--dimensions", "256")
    assert path.read_bytes() == before
    assert "is confirmed" in run("plan", "--applied", plan_id(first)).out
    assert "was confirmed before" in run("plan", "--applied", plan_id(first)).out
    chosen = {"DEDUP_CHUNKS": {"model": "m", "dimensions": 256}}
    again = run("plan", **chosen)
    assert "nothing is to be done" in again.out
    assert [line["op"] for line in lines(path)] == ["keep", "keep"]
    assert "is confirmed" in run("plan", "--applied", plan_id(again), "--dimensions", "0").out


def test_a_plan_that_was_not_applied_can_be_forgotten(site, run):
    site.crawl({"/a": paragraph(1)})
    first = plan_id(run("plan"))
    assert f"{first} is forgotten" in run("plan", "--discard", first).out
    refused = run("plan", "--discard", first)
    assert (refused.code, "nothing to forget" in refused.err) == (1, True)
    assert "none waits" in run("plan", "--applied", first).err


def test_a_plan_is_known_to_the_ledger_before_its_file_can_be_applied(site, run, tmp_path, monkeypatch):
    site.crawl({"/a": paragraph(1)})
    first = plan_id(run("plan"))
    path = tmp_path / "dedup-plan" / "plan.jsonl"
    before = path.read_bytes()
    site.crawl({"/b": paragraph(2)})

    def full(*_, **__):
        raise DedupError("the ledger is full")

    with monkeypatch.context() as patched:
        patched.setattr("scrapy_dedup.crawl.cli.plan.save_plan", full)
        assert run("plan").code == 1
    assert path.read_bytes() == before
    assert "is confirmed" in run("plan", "--applied", first).out
    assert [one.name for one in path.parent.iterdir()] == ["plan.jsonl"]


def test_without_pyarrow_one_sentence_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for words in (["plan"], ["export", "chunks"]):
        done = run(*words, "--format", "parquet")
        assert (done.code, "--format parquet needs pyarrow, which is not" in done.err) == (1, True)


@pytest.mark.parametrize("name", ["pairs", "groups", "chunks", "plan"])
def test_parquet_has_the_columns_of_the_schemas(name):
    pyarrow = pytest.importorskip("pyarrow")

    def compare(fields, schema):
        assert sorted(name for name, _ in fields) == sorted(schema["properties"])
        for name, kind in fields:
            parts, stated = getattr(kind, "value_type", kind), schema["properties"][name]
            stated = stated.get("items", stated)
            if "properties" in stated:
                compare([(part.name, part.type) for part in parts], stated)

    compare(_parquet_fields(pyarrow)[name], validator_of(name.rstrip("s")).schema)


@pytest.mark.parametrize("words", [["plan"], ["export", "chunks", "--no-near"], ["export"]], ids=" ".join)
def test_a_file_that_cannot_be_written_is_named_and_what_stood_there_stays(
    site, run, tmp_path, monkeypatch, words
):
    site.crawl({"/a": "Text."})
    assert run(*words, "--out", "out").code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    site.crawl({"/b": "Another text."})

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # of a write it names no file

    monkeypatch.setattr("os.fsync", full)
    done = run(*words, "--out", "out")
    assert done.code == 1
    assert re.search(r"/out/\w+\.jsonl cannot be written \(No space left on device\)", done.err)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    if "chunks" in words:
        compared = run("export", "chunks", "--out", "out")
        assert f"work files of the comparison of chunks in {tempfile.gettempdir()} cannot" in compared.err


@pytest.mark.parametrize("words", [["plan"], ["export", "chunks"], ["export"]], ids=" ".join)
def test_a_place_that_is_no_folder_is_named(site, run, tmp_path, words):
    site.crawl({"/a": "Text."})
    (tmp_path / "taken").write_text("mine")
    for place in ("taken", "taken/deeper"):
        done = run(*words, "--out", str(tmp_path / place))
        assert done.code == 1
        assert f"{tmp_path / 'taken'} is no folder, so nothing can be written there; name ano" in done.err
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_mass_delete_is_refused_and_leaves_the_files_as_they_are(site, run, tmp_path):
    site.crawl({f"/p/{number}": paragraph(number) for number in range(20)})
    run("plan", "--applied", plan_id(run("plan")))
    before = (tmp_path / "dedup-plan" / "plan.jsonl").read_bytes()
    site.crawl({f"/p/{number}": GONE for number in range(12)})
    refused = run("plan")
    assert refused.code == 1
    assert "would delete 12 of the 20 entries" in refused.err
    assert "why: 12 gone" in refused.err
    assert refused.err.endswith("dedup-plan/plan.jsonl is an earlier plan\n")
    assert (tmp_path / "dedup-plan" / "plan.jsonl").read_bytes() == before
    assert run("plan", "--max-delete", "0.6").code == 0


def test_the_share_that_may_go_is_taken_at_its_word(site, run):
    site.crawl({f"/p/{number}": paragraph(number) for number in range(20)})
    run("plan", "--applied", plan_id(run("plan")))
    site.crawl({"/p/1": GONE})
    for none in ("0", "0%", "0.0"):
        refused = run("plan", "--max-delete", none)
        assert "would delete 1 of the 20 entries of the index (5 %; --max-delete is 0%)" in refused.err
    for wrong in ("1", "101%", "1.01", "-1", "nan", "inf", "1e-1", "", "20%%", "5"):
        assert f"--max-delete is {wrong!r}; use a share" in run("plan", f"--max-delete={wrong}").err
    for enough in ("0.000001", "1.0", "100%", " 5 %"):
        assert run("plan", "--max-delete", enough).code == 0


def test_parquet_holds_the_same_lines(site, run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    site.crawl({"/a": "\n\n".join(["# Title", paragraph(1), paragraph(2)])})
    for what, name in (("export", "chunks"), ("plan", "plan")):
        words = [what, "chunks"] if what == "export" else [what]
        for form in ("jsonl", "parquet"):
            assert run(*words, "--out", str(tmp_path / "out"), "--format", form).code == 0
        rows = parquet.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist()
        expected = lines(tmp_path / "out" / f"{name}.jsonl")
        for line in expected:
            if line.get("metadata"):
                line["metadata"] = {"headings": None, **line["metadata"]}
        assert rows == expected


def test_all_faults_of_the_options_are_told_at_once(site, run, tmp_path):
    site.crawl({"/a": "Text."})
    wrong = ["--max-delete", "x", "--target", "a b", "--since", "j", "--rebuild", "--applied", "p"]
    done = run("plan", *wrong, "--discard", "")
    assert done.code == 1
    assert "8 problem(s) in options" in done.err
    done = run("export", "chunks", "--since", "x", "--backup", "copy.db")
    assert "--since goes with changes, not with chunks" in done.err
    assert "--backup goes with records, not with chunks" in done.err
    done = run("export", "--format", "parquet", "--corpus", "c", "--no-near", "--max-tokens", "9")
    for option in ("--format", "--corpus", "--no-near", "--max-tokens"):
        assert f"{option} goes with chunks, not with records" in done.err
    assert not (tmp_path / "dedup-export").exists()
    assert run("plan", "--dimensions", "0").code == 1
    for words in (["plan"], ["export", "chunks"]):
        done = run(*words, "--corpus", "defautl")
        assert (done.code, "no job of the corpus 'defautl'; its corpora: default" in done.err) == (1, True)
    assert "unknown option 'sise'" in run("plan", DEDUP_CHUNKS={"sise": 1}).err
    assert "no plan was made" in run("plan", "--applied", "plan1-" + "0" * 32).err
    assert not (tmp_path / "dedup-plan").exists()
