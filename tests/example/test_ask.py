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
    copy_script(folder)
    site = Site(folder)
    site.crawl(
        {"/valve": VALVE, "/copy": VALVE, "/other": "Nothing else is told on this page of the handbook."}
    )
    (folder / "dedup-plan").mkdir()
    write_plan(folder, site.plan())
    return folder


def copy_script(folder) -> None:
    for name in ("ask.py", "word_index.py"):
        shutil.copyfile(EXAMPLE_PROJECT / name, folder / name)


def write_plan(folder, plan) -> None:
    lines = (json.dumps(to_dict(one), ensure_ascii=False) + "\n" for one in plan.records)
    (folder / "dedup-plan" / "plan.jsonl").write_text("".join(lines), encoding="utf-8")


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
    assert said.count("before, 3 passages in the index:\n    nothing (") == len(questions) - 1
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
        pytest.param(lambda plan: plan.write_text(""), "plan.jsonl leaves an index without", id="empty"),
        pytest.param(
            lambda plan: plan.with_name("index.json").write_text("[]"), "index.json is no index", id="index"
        ),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(folder, tmp_path, monkeypatch, damage, said):
    shutil.copytree(folder, tmp_path / "copy")
    damage(tmp_path / "copy" / "dedup-plan" / "plan.jsonl")
    monkeypatch.setattr(script, "PROJECT", tmp_path / "copy")
    with pytest.raises(DedupError, match=re.escape(said)):
        script.main(["valve"])


def test_each_plan_is_applied_to_the_index_of_those_before_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "dedup-plan").mkdir()
    monkeypatch.setattr(script, "PROJECT", tmp_path)
    site = Site(tmp_path)
    site.crawl({"/valve": VALVE, "/other": "Nothing else is told on this page of the handbook."})
    write_plan(tmp_path, site.plan(apply=True))
    script.main(["safety valve"])
    site.crawl({"/valve": VALVE.replace("six", "nine")})
    write_plan(tmp_path, site.plan())
    for _ in range(2):
        capsys.readouterr()
        script.main(["safety valve", "handbook"])
        said = capsys.readouterr().out
        assert said.count("after, 2 passages in the index:") == 2
        assert "opens at nine bar" in said
        assert "Nothing else" in said
    (tmp_path / "dedup-plan" / "index.json").unlink()
    with pytest.raises(DedupError, match=r"keeps 1 entries that the index lacks; .* --rebuild"):
        script.main(["valve"])


def test_an_error_is_one_line(tmp_path):
    copy_script(tmp_path)
    done = ask(tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("ask.py: There is no ledger at")
