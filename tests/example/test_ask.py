"""``ask.py`` ends as a tool does, whatever it is asked and whatever it finds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import ask as script
import pytest

from scrapy_dedup.errors import DedupError
from scrapy_dedup.records import to_dict

from ..jobs.conftest import Site
from .conftest import EXAMPLE_PROJECT

VALVE = "The safety valve opens at six bar\u2028and lets\x85water \x1b[31minto the drain."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the script, a ledger and a plan."""
    folder = tmp_path_factory.mktemp("asked")
    shutil.copyfile(EXAMPLE_PROJECT / "ask.py", folder / "ask.py")
    site = Site(folder)
    site.crawl(
        {"/valve": VALVE, "/copy": VALVE, "/other": "Nothing else is told on this page of the handbook."}
    )
    (folder / "dedup").mkdir()
    write_plan(folder, [to_dict(one) for one in site.plan().records])
    return folder


def write_plan(folder, records) -> None:
    lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in records)
    (folder / "dedup" / "plan.jsonl").write_text("".join(lines), encoding="utf-8")


def ask(folder, *questions):
    return subprocess.run(
        [sys.executable, "ask.py", *questions],
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )


def test_any_question_gets_an_answer_and_no_page_acts_on_the_terminal(folder):
    questions = ["When does the safety valve open?", "", "?", b"\xff\xfe\x1b[2J", "valves " * 9_000]
    done = ask(folder, *questions)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    said = done.stdout.decode()
    assert said.count("before, 3 passages in the index:") == len(questions)
    assert said.count("after, 2 passages in the index:\n    - The safety valve opens at six bar") == 1
    assert said.count("after, 2 passages in the index:\n    nothing (") == len(questions) - 1
    assert "/copy and 1 more" in said
    assert max(map(len, said.splitlines())) < 400


def test_a_reader_that_has_seen_enough_ends_it_in_silence(folder):
    with subprocess.Popen(
        [sys.executable, "ask.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 1


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(lambda plan: plan.unlink(), "plan.jsonl cannot be read (No such file", id="no_plan"),
        pytest.param(lambda plan: plan.write_bytes(b"\xff{"), "plan.jsonl is no plan", id="binary"),
        pytest.param(
            lambda plan: plan.write_text('{"op": "upsert"}'), "plan.jsonl is no plan", id="no_fields"
        ),
        pytest.param(lambda plan: plan.write_text("[1]"), "plan.jsonl is no plan", id="no_record"),
        pytest.param(lambda plan: plan.write_text(""), "plan.jsonl writes nothing", id="empty"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(folder, tmp_path, monkeypatch, damage, said):
    shutil.copytree(folder, tmp_path / "copy")
    damage(tmp_path / "copy" / "dedup" / "plan.jsonl")
    monkeypatch.setattr(script, "PROJECT", tmp_path / "copy")
    with pytest.raises(DedupError, match=re.escape(said)):
        script.main(["valve"])


def test_an_error_is_one_line(tmp_path):
    shutil.copyfile(EXAMPLE_PROJECT / "ask.py", tmp_path / "ask.py")
    done = ask(tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("ask.py: There is no ledger at")
