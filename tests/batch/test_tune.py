"""``scrapy dedup tune``: what it says about labelled pairs, what it draws from a ledger, what it refuses."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from scrapy_dedup.batch.sampling import MAX_OF_A_TEXT, draw
from scrapy_dedup.batch.verification import PAIR
from scrapy_dedup.config import SETTINGS, Config
from scrapy_dedup.crawl.cli import pair_file, tune_plot
from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting, record_decision
from scrapy_dedup.near.overlap import ShingleSets
from scrapy_dedup.near.shingles import shingle_hashes
from scrapy_dedup.near.tuning import JACCARDS, RADII
from scrapy_dedup.records import DecisionAction, RelationKind

from ..crawl import by_hand
from ..crawl.conftest import run_dedup
from .conftest import lines, planted, write

OWN = Path(__file__).parent.parent / "data" / "labelled-pairs.jsonl"

STORY = (
    "The ferry leaves the harbour at nine in the morning, and the winter timetable holds until spring. "
    "Passengers wait in the hall beside the pier, where tickets are sold and the weather is announced. "
)
EDITED = STORY.replace("Passengers wait", "Passengers sit")
CLAIMED = STORY.replace("at nine", "at ten")
OTHER = "Granite from the quarry is cut in the yard behind the station."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tune(*arguments):
    done = run_dedup("tune", *arguments)
    return done.code, done.out, done.err


def pair(a, b, same, note="", **more):
    return {"a": a, "b": b, "same": same, "note": note, **more}


def said_row(out, start):
    """The row of the table that starts so, as its cells."""
    (row,) = (line for line in out.splitlines() if line.startswith(start) and line.split()[2][0].isdigit())
    return row.split()[3:]


# -- labelled pairs


def test_our_own_pairs_false_merges_first_then_thresholds_schemes_and_advice(folder):
    code, out, err = tune(OWN, "--json", "scores.json")

    assert (code, err) == (0, "")
    places = [
        out.index(part)
        for part in (
            "43 labelled pairs, 27 different and 16 the same",
            "false merges that a threshold could make",
            "jaccard >= 0.50",
            "simhash <= 12",
            "recall without a false merge",
            "recommended: ",
            "no other scheme keeps more than simhash64-w3-1",
        )
    ]
    assert places == sorted(places)
    held = [line for line in out.splitlines() if "apart: " in line]
    assert len(held) == 14
    assert "MERGED: " not in out

    found = json.loads(Path("scores.json").read_text("utf-8"))
    assert len(found["pairs"]) == found["labelled"] == 43
    schemes = {score["scheme"] for score in found["scores"]}
    assert schemes == {f"simhash64-{kind}{length}-1" for kind in "wc" for length in range(1, 6)}
    assert len(found["scores"]) == len(schemes) * (13 + 11) * 2
    rows = {
        (score["measure"], score["threshold"]): score
        for score in found["scores"]
        if score["scheme"] == "simhash64-w3-1" and score["claim_diff"]
    }
    best = found["recommended"]
    assert best["false_merges"] == []
    safe = [
        score for (measure, _), score in rows.items() if measure == "jaccard" and not score["false_merges"]
    ]
    assert best["merged"] == max(score["merged"] for score in safe)
    assert f"DEDUP_NEAR_JACCARD = {best['DEDUP_NEAR_JACCARD']:g}" in out
    assert f"scrapy dedup batch {best['batch']}" in out
    loosest = rows["jaccard", 0.5]
    assert said_row(out, "jaccard >= 0.50")[:3] == [
        str(len(loosest["false_merges"])),
        f"{loosest['precision']:.3f}",
        f"{loosest['recall']:.3f}",
    ]
    by_line = {one["line"]: one for one in found["pairs"]}
    assert all(not by_line[line]["same"] for line in loosest["false_merges"])


def test_each_false_merge_is_named_with_its_line_measures_difference_and_note(folder):
    write(
        folder / "pairs.jsonl",
        [
            pair(STORY, EDITED, True),
            pair(STORY, CLAIMED, False, "another\x1b[31m hour"),
            pair(STORY, EDITED, False),
            pair(STORY, OTHER, False),
        ],
    )

    _, out, _ = tune("pairs.jsonl", "--json", "scores.json")

    sets = ShingleSets(*shingle_hashes([STORY, CLAIMED]))
    jaccard = sets.overlaps(np.array([[0, 1]])).jaccard[0]
    first, second = out[out.index("claim diff\n") :].splitlines()[1:3]
    assert first.split()[0] == "3"
    assert "MERGED: edited; wait / sit" in first
    assert second.split()[:2] == ["2", f"{jaccard:.3f}"]
    assert "apart: claim_changed; nine / ten; another\\x1b[31m hour" in second
    assert "2; the claim diff holds 1 of them apart" in out
    reason = json.loads(Path("scores.json").read_text("utf-8"))["not_recommended"]
    assert reason == "every threshold that keeps a pair merges a different one too"
    assert f"nothing can be recommended: {reason}" in out


def test_the_advice_names_the_settings_and_what_so_few_pairs_cannot_show(folder):
    long = STORY + " ".join(f"word{number}" for number in range(90))
    write(
        folder / "pairs.jsonl",
        [
            pair(long, long.replace("Passengers wait", "Passengers sit"), True),
            pair(STORY, CLAIMED, False),
            pair(STORY, OTHER, None),
            {"a": STORY, "b": OTHER},
            pair("one", "One ", True),
        ],
    )

    code, out, _ = tune("pairs.jsonl")

    assert code == 0
    assert "3 labelled pairs, 1 different and 2 the same" in out
    assert "left out: 2 without a label" in out
    assert "never merged: 1 with a text of fewer than 3 tokens" in out
    assert "recommended: jaccard >= 0.95 with the claim diff; merges 0 of 1 different pairs" in out
    assert "DEDUP_NEAR_JACCARD = 0.95" in out
    assert "or more: finds 1 of 1 such pairs of 100 words or more, and verifies each" in out
    assert "equal but for white space and case: 1, which every threshold merges" in out
    assert "scrapy dedup batch --jaccard 0.95" in out
    assert "of 1 different pairs none was merged; of all there are, up to 100.0% may be" in out


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([True], "no pair is labelled different"),
        ([False], "no pair is labelled the same"),
        ([None], "no pair is labelled"),
        ([], "no pair is labelled"),
    ],
)
def test_labels_of_one_kind_allow_no_advice(folder, labels, reason):
    write(folder / "pairs.jsonl", [pair(STORY, EDITED, label) for label in labels])

    code, out, _ = tune("pairs.jsonl", "--json", "scores.json")

    assert code == 0
    assert f"nothing can be recommended: {reason}" in out
    assert "recommended: " not in out.replace("be recommended: ", "")
    scores = json.loads(Path("scores.json").read_text("utf-8"))
    assert scores["recommended"] is None
    assert scores["not_recommended"].startswith(reason)


def test_all_faulty_lines_are_named_and_nothing_is_written(folder, monkeypatch):
    monkeypatch.setattr(pair_file, "MAX_LINE_BYTES", 2_000)
    monkeypatch.setattr(pair_file, "MAX_TEXT_CHARS", 1_000)
    good = json.dumps(pair(STORY, EDITED, True))
    faulty = [
        ("nothing", "no JSON"),
        ("[1]", "a JSON list; an object is needed"),
        (json.dumps({"a": "x", "same": 1}), "'b' has to be a text; 'same' has to be true, false or null"),
        (json.dumps(pair("x", "\ud800", True)), "'b' holds a lone surrogate"),
        (json.dumps(pair("x", "y", True, 5)), "'note' has to be a text"),
        (json.dumps(pair("x" * 1_001, "y", True)), "'a' is longer than 1,000 characters"),
        (json.dumps(pair("x" * 5_000, "y", True)), "longer than"),
        (b'{"a": "\xff"}', "no UTF-8 at byte 7"),
        ("[" * 1_999, "no JSON"),
        ('{"a": "x", "b": "y", "same": false, "same": true}', "'same' stands in it twice"),
    ]
    rows = [good, "", *(row for row, _ in faulty), good]
    content = b"\n".join(row if isinstance(row, bytes) else row.encode() for row in rows)
    (folder / "pairs.jsonl").write_bytes(content)

    code, out, err = tune("pairs.jsonl", "--json", "scores.json", "--plot", "plot.svg")

    assert (code, out) == (2, "")
    assert f"{len(faulty)} problem(s) in the input; nothing was written" in err
    for number, (_, fault) in enumerate(faulty, 3):
        assert f"pairs.jsonl, line {number}: {fault}" in err
    assert [path.name for path in folder.iterdir()] == ["pairs.jsonl"]


def test_more_pairs_than_anybody_labels_are_refused(folder, monkeypatch):
    monkeypatch.setattr(pair_file, "MAX_PAIRS", 2)
    write(folder / "pairs.jsonl", [pair(STORY, EDITED, label) for label in (True, None, False, True)])

    code, _, err = tune("pairs.jsonl")

    assert code == 2
    assert "line 4: more than 2 labelled pairs; split the file" in err


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ([], ["either a file of labelled pairs, or --sample N"]),
        (["pairs.jsonl", "--sample", 3], ["either a file of labelled pairs, or --sample N"]),
        (
            ["missing.jsonl", "--plot", "plot.gif", "--json", "nowhere/x.json", "--seed", 3, "--out", "x"],
            [
                "5 problem(s) in the options of tune",
                "--out goes with --sample",
                "--seed goes with --sample",
                "missing.jsonl is no file",
                "--json nowhere/x.json: there is no such folder",
                "--plot plot.gif: its name has to end in .png or .svg",
            ],
        ),
        (["pairs.jsonl", "--json", "pairs.jsonl"], ["--json pairs.jsonl is the file of pairs itself"]),
        (["pairs.jsonl", "--json", "../x/pairs.jsonl"], ["../x/pairs.jsonl is the file of pairs itself"]),
        (["pairs.jsonl", "--json", "x.svg", "--plot", "./x.svg"], ["--json and --plot both name ./x.svg"]),
        (["pairs.jsonl", "--json", "."], ["--json . is no file that can be replaced"]),
        (
            ["--sample", 0, "--jaccard", 1.5, "--out", "pairs.jsonl", "--plot", "x.svg"],
            [
                "--plot goes with a file of pairs",
                "--sample is 0; it has to be 1 to 10,000",
                "--jaccard is 1.5",
                "--out pairs.jsonl exists already, perhaps with labels",
            ],
        ),
        (["--sample", 3, "--out", "nowhere/x.jsonl"], ["--out nowhere/x.jsonl: there is no such folder"]),
    ],
)
def test_all_that_is_wrong_with_the_options_is_said_at_once(folder, arguments, problems):
    write(folder / "pairs.jsonl", [])

    code, out, err = tune(*(str(one).replace("../x/", f"../{folder.name}/") for one in arguments))

    assert (code, out) == (1, "")
    for problem in problems:
        assert problem.replace("../x/", f"../{folder.name}/") in err
    assert [path.name for path in folder.iterdir()] == ["pairs.jsonl"]


def test_where_one_file_cannot_be_written_none_is(folder):
    write(folder / "pairs.jsonl", [pair(STORY, EDITED, True)])
    long = "s" * 240 + ".svg"
    (folder / long).touch()
    nowhere = Path("/proc/dedup-scores.json")

    code, out, err = tune("pairs.jsonl", "--json", nowhere, "--plot", "plot.svg")

    assert (code, out) == (1, "")
    assert f"{nowhere}: No such file or directory" in err
    assert tune("pairs.jsonl", "--plot", long)[0] == 0
    assert sorted(path.name for path in folder.iterdir()) == ["pairs.jsonl", long]


def test_without_matplotlib_one_sentence_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    write(folder / "pairs.jsonl", [])

    code, _, err = tune("pairs.jsonl", "--plot", "plot.svg")

    assert code == 1
    assert "--plot needs matplotlib, which is not installed: pip install matplotlib" in err


@pytest.mark.slow
def test_a_plot_is_written_in_both_formats_and_the_same_each_time(folder):
    pytest.importorskip("matplotlib")
    write(folder / "pairs.jsonl", [pair(STORY, EDITED, True), pair(STORY, CLAIMED, False)])

    assert tune("pairs.jsonl", "--plot", "plot.svg")[0] == 0
    first = (folder / "plot.svg").read_bytes()
    assert tune("pairs.jsonl", "--plot", "plot.svg")[0] == 0
    assert tune("pairs.jsonl", "--plot", "plot.PNG")[0] == 0

    assert (folder / "plot.svg").read_bytes() == first
    assert b"<svg" in first
    assert (folder / "plot.PNG").read_bytes().startswith(b"\x89PNG")
    assert set(tune_plot.PLOT_FORMATS) == {".png", ".svg"}
    assert {path.name for path in folder.iterdir()} == {"pairs.jsonl", "plot.svg", "plot.PNG"}


# -- pairs to be labelled


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The path of a ledger with similar texts that nobody writes to."""
    path = tmp_path_factory.mktemp("tune") / "dedup.db"
    fill(path, [entry["text"] for entry in planted(60, 120, seed=5)])
    return path


def fill(path, texts):
    writer = LedgerWriter(f"sqlite:///{path}", by_hand.job("j"), by_hand.POLICY.spec(), reuse_normalized=True)
    writer.open()
    for number, text in enumerate(texts):
        seen = by_hand.observation(writer, "j", f"https://site.example/{number}")
        writer.record(Sighting(seen, by_hand.text_of(text))).result(20)
    writer.finish("finished")


def test_a_sample_lies_around_the_threshold_and_waits_for_labels(folder, ledger):
    code, out, err = tune("--sample", 10, "--ledger", ledger, "--out", "drawn.jsonl", "--jaccard", 0.9)

    assert (code, err) == (0, "")
    drawn = lines(folder / "drawn.jsonl")
    assert "wrote 10 pairs to drawn.jsonl: 5 with a Jaccard similarity of 0.9 or more, 5 below\nset" in out
    assert [one["same"] for one in drawn] == [None] * 10
    assert sum(one["jaccard"] >= 0.9 for one in drawn) == 5
    with Ledger.open(f"sqlite:///{ledger}") as held:
        texts = {body.body_id: body.text for body in held.bodies()}
    for one in drawn:
        assert (texts[one["a_id"]], texts[one["b_id"]]) == (one["a"], one["b"])
        sets = ShingleSets(*shingle_hashes([one["a"], one["b"]]))
        assert one["jaccard"] == round(float(sets.overlaps(np.array([[0, 1]])).jaccard[0]), 6)
    assert {path.name for path in folder.iterdir()} == {"drawn.jsonl"}

    code, out, _ = tune("drawn.jsonl")
    assert code == 0
    assert "left out: 10 without a label" in out


def test_a_seed_gives_the_same_pairs_and_another_one_others(folder, ledger):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert tune("--sample", 6, "--seed", seed, "--ledger", ledger, "--out", name)[0] == 0
    first, again, other = ((folder / name).read_bytes() for name in "abc")
    assert first == again != other


def test_a_pair_that_somebody_decided_has_its_label(folder):
    path = folder / "dedup.db"
    fill(path, [STORY, EDITED, CLAIMED])
    assert run_dedup("batch", "--ledger", path, "--workers", 1, "--jaccard", 0.5).code == 0
    with Ledger.open(f"sqlite:///{path}") as held:
        names = {body.body_id: body.text for body in held.bodies()}
        (relation,) = (
            one
            for one in held.relations(kind=RelationKind.NEAR)
            if {names[one.a], names[one.b]} == {STORY, CLAIMED}
        )
    record_decision(f"sqlite:///{path}", relation, DecisionAction.DIFFERENT, by="human:ann")

    _, out, _ = tune("--sample", 5, "--ledger", path)

    labels = {frozenset((one["a"], one["b"])): one["same"] for one in lines(folder / "pairs.jsonl")}
    assert labels == {
        frozenset((STORY, EDITED)): None,
        frozenset((STORY, CLAIMED)): False,
        frozenset((EDITED, CLAIMED)): None,
    }
    assert "1 of them was decided before and labelled so" in out
    assert "wrote 3 pairs to pairs.jsonl" in out
    assert (
        "fewer than the 5 asked for: pairs are drawn from a similarity of 0.6 on, and no text for more than 2"
        in out
    )


def test_a_ledger_without_similar_texts_gives_no_file(folder):
    fill(folder / "dedup.db", [STORY, OTHER])

    code, out, _ = tune("--sample", 5, "--ledger", "dedup.db")

    assert code == 0
    assert "no two texts have a Jaccard similarity of 0.6 or more; nothing was written" in out
    assert not (folder / "pairs.jsonl").exists()


def columns_of(jaccards):
    pairs = np.zeros(len(jaccards), PAIR)
    pairs["a"], pairs["b"] = np.arange(len(jaccards)) * 2, np.arange(len(jaccards)) * 2 + 1
    pairs["jaccard"] = jaccards
    return pairs


@pytest.mark.parametrize(
    ("jaccards", "count", "above", "below"),
    [
        ([0.7, 0.9], 2, 1, 1),
        ([0.7, 0.8, 0.9], 1, 1, 0),
        ([0.7, 0.75, 0.9], 4, 1, 2),
        ([0.81, 0.82, 0.83, 0.84], 4, 4, 0),
        ([0.71, 0.72, 0.73, 0.84], 4, 1, 3),
        ([], 4, 0, 0),
    ],
)
def test_what_one_side_lacks_the_other_gives(jaccards, count, above, below):
    drawn = draw(columns_of(jaccards), 0.8, count, random.Random(1))
    assert (sum(drawn["jaccard"] >= 0.8), sum(drawn["jaccard"] < 0.8)) == (above, below)


def test_the_nearest_are_drawn_and_no_text_fills_the_sample():
    pairs = columns_of(np.linspace(0.8, 1.0, 200))
    assert draw(pairs, 0.8, 10, random.Random(1))["jaccard"].max() < 0.85

    pairs["a"] = 1_000
    assert len(draw(pairs, 0.8, 10, random.Random(1))) == MAX_OF_A_TEXT


def test_tuning_speaks_of_the_settings_of_the_product(tmp_path):
    ranges = {"DEDUP_NEAR_JACCARD": JACCARDS, "DEDUP_SIMHASH_DISTANCE": RADII}
    rows = {row.name: row for row in SETTINGS if row.name in ranges}
    for name, values in ranges.items():
        for value in values:
            Config.from_settings({name: value}, base_dir=tmp_path)
        assert rows[name].default in values
