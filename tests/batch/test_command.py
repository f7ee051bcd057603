"""``scrapy dedup batch`` over files and over a ledger: what it says, what it writes, what it refuses."""

from __future__ import annotations

import errno
import functools
import importlib.resources
import json
import os
import subprocess
import sys

import jsonschema
import pytest

from scrapy_dedup.batch import reading
from scrapy_dedup.batch.sources import JsonLines
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting, record_decision
from scrapy_dedup.ledger.near_relations import FEW_PAGES, is_suppressible
from scrapy_dedup.ledger.nearness import NearOptions
from scrapy_dedup.ledger.review_verdicts import ReviewVerdict, Stated, note_of
from scrapy_dedup.records import DecisionAction, RelationKind, RelationState

from ..crawl import by_hand
from ..crawl.conftest import run_dedup
from .conftest import lines, planted, write

STORY = (
    "The ferry leaves the harbour at nine in the morning, and the winter timetable holds until spring. "
    "Passengers wait in the hall beside the pier, where tickets are sold and the weather is announced. "
    "Children travel with their parents at no charge, and bicycles are carried as long as there is room."
)
EDITED = STORY.replace("Passengers wait", "Passengers sit")
CLAIMED = STORY.replace("at nine", "at ten")
LONGER = STORY + " The old lighthouse keeper still tells every visitor about storms of long ago."


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that runs the command in this process and in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    return functools.partial(run_dedup, "batch", "--workers", 1)


@functools.cache
def validator(kind):
    schema = importlib.resources.files("scrapy_dedup") / "schemas" / f"{kind}.json"
    return jsonschema.Draft202012Validator(json.loads(schema.read_text("utf-8")))


@pytest.mark.slow
def test_files_give_pairs_and_groups_by_their_schemas_from_several_processes(tmp_path):
    entries = [
        {"id": "a", "text": STORY},
        {"id": "b", "text": EDITED},
        {"id": "c", "text": STORY.upper()},
        {"id": "d", "text": CLAIMED},
        {"id": "e", "text": "too short"},
    ]
    write(tmp_path / "first.jsonl", entries[:2])
    write(tmp_path / "second.jsonl", entries[2:])

    done = subprocess.run(
        [
            *(sys.executable, "-m", "scrapy", "dedup", "batch", "--input", "first.jsonl", "second.jsonl"),
            *("--jaccard", "0.7", "--workers", "2"),
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "SCRAPY_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    pairs, groups = (lines(tmp_path / "dedup-batch" / f"{name}.jsonl") for name in ("pairs", "groups"))
    for kind, found in (("pair", pairs), ("group", groups)):
        for line in found:
            validator(kind).validate(line)
    verdicts = {(pair["a"], pair["b"]): pair["verdict"] for pair in pairs}
    assert verdicts["a", "b"] == "edited"
    assert verdicts["a", "c"] == "equal"
    assert verdicts["a", "d"] == "claim_changed"
    assert [(group["leader"], [one["id"] for one in group["members"]]) for group in groups] == [
        ("a", ["c", "b"])
    ]
    said = " ".join(done.stdout.split())
    assert "25 bands of 5 rows (125 of 128 values); steepest at (1/25)^(1/5) = 0.525" in said
    assert "similarity 0.5 0.6 0.7 0.8 0.9 0.95" in said
    assert "texts 5 copies of others 1 too short, not compared 1" in said
    assert "equal 1 edited 1 claim_changed" in said
    assert "groups 1 texts in them 3 largest groups: 3 a" in said
    assert not (tmp_path / "dedup-batch" / ".work").exists()


def test_parquet_goes_in_and_comes_out(tmp_path, run):
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    columns = {
        "id": ["b", "a", "c"],
        "text": [STORY, EDITED, CLAIMED],
        "rank": [1, None, 3],
        "more": [1, 2, 3],
    }
    parquet.write_table(pa.table(columns), tmp_path / "in.parquet")

    done = run("--input", "in.parquet", "--format", "parquet", "--out", "found")

    assert (done.code, done.err) == (0, "")
    pairs = parquet.read_table(tmp_path / "found" / "pairs.parquet").to_pylist()
    (group,) = parquet.read_table(tmp_path / "found" / "groups.parquet").to_pylist()
    assert {(pair["a"], pair["b"]) for pair in pairs} >= {("a", "b")}
    for kind, found in (("pair", pairs), ("group", [group])):
        for row in found:
            validator(kind).validate(row)
    assert (group["leader"], [member["id"] for member in group["members"]]) == ("a", ["b"])


def test_all_that_is_wrong_with_the_options_is_said_at_once(tmp_path, run):
    (tmp_path / "folder").mkdir()
    (tmp_path / "no.parquet").write_text("no", encoding="utf-8")
    write(tmp_path / "in.jsonl", [])

    done = run(
        *("--input", "folder", "missing.jsonl", "in.jsonl", "./in.jsonl", "no.parquet", "/dev/zero"),
        *("--jaccard", 1.5, "--bands", 3, "--memory", "plenty", "--workers", 0),
        *("--ledger", "x.db", "--corpus", "y"),
    )

    assert (done.code, done.out) == (1, "")
    for problem in (
        "11 problem(s) in the options of the batch",
        "--jaccard is 1.5",
        "--bands and --rows go together",
        "--workers is 0",
        "--input folder is a folder",
        "--input missing.jsonl does not exist",
        "--input in.jsonl is named twice",
        "--input no.parquet cannot be read as Parquet",
        "--input /dev/zero is no file",
        "--input and --ledger",
        "--corpus chooses texts of a ledger",
        "--memory: 'plenty' is no size",
    ):
        assert problem in done.err
    assert not (tmp_path / "dedup-batch").exists()


def test_results_never_take_the_place_of_their_input(tmp_path, run):
    texts = tmp_path / "pairs.jsonl"
    write(texts, [{"id": "a", "text": STORY}])
    before = texts.read_bytes()

    done = run("--input", "pairs.jsonl", "--out", ".")

    assert (done.code, done.out) == (1, "")
    assert "--input pairs.jsonl is where the results go; name another place with --out" in done.err
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_a_full_disk_is_said_with_its_place(tmp_path, run, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(WorkFolder, "append", full)
    write(tmp_path / "in.jsonl", [{"id": "a", "text": STORY}])

    done = run("--input", "in.jsonl", "--out", "found")

    assert (done.code, done.err) == (
        1,
        f"scrapy dedup batch: {tmp_path / 'found' / '.work'}: No space left on device\n",
    )


def test_a_faulty_line_leaves_nothing_behind(tmp_path, run):
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "x"}\nnothing\n', encoding="utf-8")

    done = run("--input", "in.jsonl")

    assert done.code == 1
    assert "1 problem(s) in the input; nothing was written:\n  - in.jsonl, line 2: no JSON" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def dies(given):
    os._exit(9)


def test_a_process_that_dies_ends_the_batch_and_the_way_on_is_said(tmp_path, run, monkeypatch):
    write(tmp_path / "in.jsonl", planted(5, 20))

    with monkeypatch.context() as patch:
        patch.setattr(reading, "sign", dies)
        done = run("--input", "in.jsonl", "--workers", 2)

    assert done.code == 1
    assert "has died, perhaps for want of memory. Go on with --resume and a smaller --memory" in done.err
    assert "going on with the run that was stopped" in run("--input", "in.jsonl", "--resume").out


def test_without_pyarrow_one_sentence_says_what_to_install(tmp_path, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    write(tmp_path / "in.jsonl", [])
    (tmp_path / "in.parquet").touch()

    out = run("--input", "in.jsonl", "--format", "parquet")
    into = run("--input", "in.parquet")

    assert (out.code, into.code) == (1, 1)
    for done in (out, into):
        assert "needs pyarrow, which is not installed: pip install pyarrow" in done.err


def test_an_empty_input_gives_empty_files(tmp_path, run):
    (tmp_path / "in.jsonl").touch()

    assert run("--input", "in.jsonl").code == 0
    assert [(tmp_path / "dedup-batch" / name).read_bytes() for name in ("pairs.jsonl", "groups.jsonl")] == [
        b"",
        b"",
    ]


# -- a ledger

PAGES = {
    "http://site.example/story": STORY,
    "https://site.example/a/longer/place/of/the/story": EDITED,
    "https://site.example/later": CLAIMED,
    "https://site.example/whole": LONGER,
    "https://site.example/other": "Granite from the quarry is cut in the yard behind the station.",
}


@pytest.fixture
def filled(tmp_path):
    """The URL of a ledger with the texts of `PAGES`."""
    url = f"sqlite:///{tmp_path / 'dedup.db'}"
    see(url, "first", PAGES)
    return url


def see(url, job_id, pages, near=None):
    writer = LedgerWriter(url, by_hand.job(job_id), by_hand.POLICY.spec(), reuse_normalized=True, near=near)
    writer.open()
    for page, text in pages.items():
        writer.record(Sighting(by_hand.observation(writer, job_id, page), by_hand.text_of(text))).result(20)
    writer.finish("finished")


def near_relations(url):
    """Return the relations of the ledger by the texts of their sides, and all rows that stand for them."""
    with Ledger.open(url) as ledger:
        names = {body.body_id: body.text for body in ledger.bodies()}
        return {
            frozenset((names[relation.a], names[relation.b])): relation
            for relation in ledger.relations(kind=RelationKind.NEAR)
        }


def test_pairs_of_a_ledger_become_its_relations_once(tmp_path, filled, run):
    done = run("--ledger", "dedup.db", "--jaccard", 0.7)

    assert (done.code, done.err) == (0, "")
    assert "texts of corpus default, markdown by test-1" in done.out
    found = near_relations(filled)
    assert {pair: relation.state for pair, relation in found.items()} == {
        frozenset((STORY, EDITED)): RelationState.CONFIRMED,
        frozenset((STORY, CLAIMED)): RelationState.REFUTED,
        frozenset((EDITED, CLAIMED)): RelationState.REFUTED,
        frozenset((STORY, LONGER)): RelationState.UNRESOLVED,
        frozenset((EDITED, LONGER)): RelationState.UNRESOLVED,
        frozenset((CLAIMED, LONGER)): RelationState.REFUTED,
    }
    relation = found[frozenset((STORY, EDITED))]
    assert relation.measures["verdict"] == "edited"
    assert relation.measures["jaccard"] == relation.reasons[0].value >= relation.reasons[0].threshold == 0.7
    assert {relation.a_digest, relation.b_digest} == {by_hand.sha256(STORY), by_hand.sha256(EDITED)}
    assert "6 relations of the ledger are new" in done.out
    assert (tmp_path / "dedup-batch" / "groups.jsonl").read_text("utf-8").count("leader") == 1

    again = run("--ledger", "dedup.db", "--jaccard", 0.7)
    assert "0 relations of the ledger are new" in again.out
    explained = run_dedup("explain", "http://site.example/story", "--ledger", "dedup.db")
    story, edited = "http://site.example/story", "https://site.example/a/longer/place/of/the/story"
    assert any(
        f"{a} is nearly the text of {b}" in explained.out for a, b in ((story, edited), (edited, story))
    )
    assert "confirmed: edited, jaccard 0." in explained.out


def test_https_leads_and_a_decision_keeps_two_texts_apart(tmp_path, filled, run):
    def leaders():
        assert run("--ledger", "dedup.db").code == 0
        with Ledger.open(filled) as ledger:
            names = {body.body_id: body.text for body in ledger.bodies()}
        return [names[group["leader"]] for group in lines(tmp_path / "dedup-batch" / "groups.jsonl")]

    assert leaders() == [EDITED]

    relation = near_relations(filled)[frozenset((STORY, EDITED))]
    record_decision(filled, relation, DecisionAction.DIFFERENT, by="human:ann")

    assert leaders() == []
    assert near_relations(filled)[frozenset((STORY, EDITED))].state is RelationState.REFUTED


def test_the_text_that_a_reviewer_prefers_leads_until_that_is_undone(tmp_path, filled, run):
    def leader():
        assert run("--ledger", "dedup.db").code == 0
        with Ledger.open(filled) as ledger:
            names = {body.body_id: body.text for body in ledger.bodies()}
        (group,) = lines(tmp_path / "dedup-batch" / "groups.jsonl")
        return names[group["leader"]]

    assert leader() == EDITED  # under https
    relation = near_relations(filled)[frozenset((STORY, EDITED))]
    for preferred in (STORY, EDITED, STORY):
        side = "a" if relation.a_digest == by_hand.sha256(preferred) else "b"
        note = note_of(Stated(ReviewVerdict.REPRODUCTION, side))
        record_decision(filled, relation, DecisionAction.SAME, by="human:ann", note=note)
        assert leader() == preferred
    record_decision(filled, relation, DecisionAction.UNDO, by="human:ann")
    record_decision(filled, relation, DecisionAction.SAME, by="human:ann", note="prefer=a")
    assert leader() == EDITED


def test_what_other_rules_took_for_one_is_refuted_when_the_claims_differ(tmp_path, filled, run):
    assert run("--ledger", "dedup.db", "--jaccard", 0.7, "--no-claims").code == 0
    unread = near_relations(filled)
    assert {relation.state for relation in unread.values()} == {RelationState.UNRESOLVED}

    assert run("--ledger", "dedup.db", "--jaccard", 1).code == 0

    found = near_relations(filled)
    assert found[frozenset((STORY, CLAIMED))].state is RelationState.REFUTED
    assert found[frozenset((STORY, EDITED))].state is RelationState.UNRESOLVED


def test_relations_need_no_more_texts_in_memory_than_a_batch_may_hold(tmp_path, filled, run, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.batch.plan.BYTES_PER_CHAR", 10**8)
    held, read = [], JsonLines.read
    monkeypatch.setattr(JsonLines, "read", lambda *given: held.append(read(*given)) or held[-1])

    done = run("--ledger", "dedup.db", "--jaccard", 0.7)

    assert "6 relations of the ledger are new" in done.out
    assert max(map(len, held)) <= 2


@pytest.mark.parametrize(
    ("later", "jaccard"),
    [
        pytest.param(EDITED, 0.7, id="a pair that the batch finds too"),
        pytest.param(EDITED.replace("tickets are", "papers were"), 0.95, id="a pair below its threshold"),
    ],
)
def test_what_a_crawl_knows_of_a_pair_outlives_a_batch(tmp_path, run, later, jaccard):
    url = f"sqlite:///{tmp_path / 'dedup.db'}"
    pages = {"https://site.example/a": STORY, "https://site.example/later": later}
    see(url, "first", pages, NearOptions("review", min_jaccard=0.5))
    (before,) = near_relations(url).values()

    assert run("--ledger", "dedup.db", "--jaccard", jaccard).code == 0

    (after,) = near_relations(url).values()
    assert (after.state, after.measures) == (RelationState.CONFIRMED, before.measures)
    assert after.measures["same_host"]
    assert FEW_PAGES in [reason.code for reason in after.reasons]
    assert not is_suppressible(after, 0.5)
    assert "0 relations of the ledger are new" in run("--ledger", "dedup.db", "--jaccard", jaccard).out


def test_a_corpus_without_texts_is_an_error(tmp_path, filled, run):
    done = run("--ledger", "dedup.db", "--corpus", "another")

    assert done.code == 1
    assert "the ledger holds no texts in the corpus 'another'" in done.err
    assert not (tmp_path / "dedup-batch").exists()


def test_a_run_that_was_not_complete_is_named(tmp_path, run):
    write(tmp_path / "in.jsonl", planted(5, 20))
    work = tmp_path / "dedup-batch" / ".work"
    work.mkdir(parents=True)
    manifest = {"format": "scrapy-dedup-batch-1", "stated": {}, "noted": {}}
    (work / "MANIFEST").write_text(json.dumps(manifest), encoding="utf-8")

    refused = run("--input", "in.jsonl", "--resume")
    anew = run("--input", "in.jsonl")

    assert refused.code == 1
    assert "was begun with other values" in refused.err
    assert "an earlier run was not complete; it is begun anew" in anew.out
    assert "nothing to go on with" in run("--input", "in.jsonl", "--resume").out
