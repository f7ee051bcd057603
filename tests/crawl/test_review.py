"""``scrapy dedup review``: the screen, the keys, the verdicts and the files, driven in this process."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shutil
from types import SimpleNamespace

import pytest
from rich.console import Console

from scrapy_dedup.crawl.cli import review_keys
from scrapy_dedup.crawl.cli.review_keys import TerminalKeys
from scrapy_dedup.crawl.cli.review_screen import HELP, VERDICT_KEYS, harmless
from scrapy_dedup.crawl.cli.review_session import Session
from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting, record_decision, relations
from scrapy_dedup.ledger.decisions import in_force
from scrapy_dedup.ledger.near_relations import Measures, Side, near_relation
from scrapy_dedup.ledger.review_verdicts import ReviewVerdict, Stated, stated_in
from scrapy_dedup.records import DecisionAction, Reason, RelationState

from .by_hand import POLICY, job, observation, text_of

HOSTILE = "Ferry \x1b[31mred\x1b[0m \x1b]0;owned\x07 \u202egnirts \x9b2J [bold red]markup[/bold red] at nine"
STORY = "The ferry leaves the harbour at nine in the morning, and passengers wait in the hall. "
PAGES = {
    "http://a.example/1": STORY,
    "http://b.example/1": STORY.replace("nine", "ten"),
    "http://a.example/2": HOSTILE,
    "http://b.example/\u202e\x1b[2J": HOSTILE.replace("nine", "ten"),
    "http://a.example/3": "渡轮早上九点离开港口。" * 40 + "👨‍👩‍👧 👋🏽",
    "http://b.example/3": "渡轮早上十点离开港口。" * 40 + "👨‍👩‍👧 👋🏽",
    "http://a.example/4": "המעבורת יוצאת מהנמל בשעה תשע בבוקר",
    "http://b.example/4": "המעבורת יוצאת מהנמל בשעה עשר בבוקר",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The file of a ledger with four pairs of similar texts."""
    path = tmp_path_factory.mktemp("ledger") / "dedup.db"
    fill(f"sqlite:///{path}", PAGES)
    return path


@pytest.fixture
def ledger(filled, tmp_path):
    """A ledger like that for one test."""
    return f"sqlite:///{shutil.copy(filled, tmp_path)}"


def fill(url, pages, job_id="first"):
    writer = LedgerWriter(url, job(job_id), POLICY.spec(), reuse_normalized=True)
    writer.open()
    bodies = [
        writer.record(Sighting(observation(writer, job_id, page), text_of(text))).result(20).body
        for page, text in pages.items()
    ]
    writer.finish("finished")
    pairs = zip(bodies[::2], bodies[1::2], strict=True)
    relations.record(url, [related(a, b, 0.99 - number / 100) for number, (a, b) in enumerate(pairs)])
    return bodies


def related(a, b, jaccard):
    return near_relation(
        "default",
        Side(a.body_id, a.text_digest),
        Side(b.body_id, b.text_digest),
        Measures(jaccard, 0.9, 0.9, "claim_changed", 1, 1),
        policy="p",
        reasons=(Reason("jaccard", jaccard, 0.8),),
        created_at="2026-01-02T03:04:05Z",
    )


class Script:
    """Keys that were written down before; ``before`` is called ahead of each with its place."""

    def __init__(self, keys, before=lambda place: None):
        self._keys = iter(enumerate([*keys, "q"]))
        self._before = before
        self.forgotten = 0

    def read(self):
        place, key = next(self._keys)
        self._before(place)
        return key

    def forget(self):
        self.forgotten += 1


def review(url, keys, *, width=80, height=24, before=lambda place: None, limit=None):
    """Run a session; the screens are those before each key."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, height=height, color_system="standard")
    with Ledger.open(url) as read:
        queue = read.for_review("default")
    ends = []

    def seen(place):
        ends.append(out.tell())
        before(place)

    script = Script(keys, seen)
    tally = Session(url, queue, by="human:ann", console=console, keys=script).run()
    drawn = out.getvalue()
    screens = [Screen(drawn[:end], width, height) for end in ends]
    return SimpleNamespace(tally=tally, screens=screens, drawn=drawn, queue=queue, script=script)


class Screen:
    """The last screen that was drawn, row by row, and the escapes that were used."""

    def __init__(self, drawn, width, height):
        last = drawn.rindex("\x1b[1;1H")
        rows = re.split(r"\x1b\[\d+;1H", drawn[last:])[1:]
        self.rows = [re.sub(r"\x1b\[[\d;]*m", "", row) for row in rows]
        self.text = "\n".join(self.rows)
        self.raw = drawn[last:]
        assert len(rows) == height


def held(url):
    with Ledger.open(url) as read:
        found = {}
        for decision in read.decisions():
            now = in_force(read.history(decision.relation_id))
            found[decision.relation_id] = (now.action.value, now.note) if now else None
    return found


def test_one_key_decides_writes_at_once_and_turns_to_the_next_pair(ledger):
    written = []
    done = review(ledger, "rbvq", before=lambda _: written.append(len(held(ledger))))

    assert written == [0, 1, 1, 2]
    assert sorted(held(ledger).values()) == [
        ("different", "verdict=updated_version; prefer=b"),
        ("same", "verdict=reproduction"),
    ]
    assert [one.verdict for one in done.tally.verdicts] == [
        ReviewVerdict.REPRODUCTION,
        ReviewVerdict.UPDATED_VERSION,
    ]
    assert "pair 1 of 4   0 decided   human:ann" in done.screens[0].rows[0]
    assert "pair 2 of 4   1 decided" in done.screens[1].text
    assert "reproduction: they count as one (u takes it back)" in done.screens[1].text
    assert "B is preferred; now the verdict" in done.screens[2].text
    assert "updated version: both stay" in done.screens[3].text
    assert done.script.forgotten == 3  # nothing typed ahead decides about a pair that nobody has seen
    assert len(review(ledger, "").queue.entries) == 2


def test_every_verdict_has_its_key_and_its_word_in_the_help(tmp_path):
    url = f"sqlite:///{tmp_path / 'dedup.db'}"
    fill(url, {f"http://a.example/{number}": STORY + str(number) for number in range(2 * len(VERDICT_KEYS))})

    done = review(url, "".join(VERDICT_KEYS))

    decided = held(url)
    assert [one.verdict for one in done.tally.verdicts] == list(VERDICT_KEYS.values())
    for one in done.tally.verdicts:
        action, note = decided[one.decision.relation_id]
        assert stated_in(note) == Stated(one.verdict)
        assert (action == "same") == (one.verdict is ReviewVerdict.REPRODUCTION)
    for key, verdict in VERDICT_KEYS.items():
        assert dict(HELP)[key] in verdict.value


def test_what_was_done_is_taken_back_in_turn_and_shown_again(ledger):
    done = review(ledger, "dsuuu")

    assert [screen.rows[0].split("   ")[0] for screen in done.screens] == [
        f"pair {number} of 4" for number in (1, 2, 3, 2, 1, 1)
    ]
    assert list(held(ledger).values()) == [None]
    assert (done.tally.verdicts, done.tally.skipped, done.tally.undone) == ([], 0, 1)
    assert "different was taken back" in done.screens[4].text
    assert "nothing to take back" in done.screens[5].text


def test_the_end_of_the_queue_can_be_taken_back_too(ledger):
    done = review(ledger, "ddddrud")

    assert "no pair is left of 4   4 decided" in done.screens[4].rows[0]
    assert "u takes the last verdict back" in done.screens[5].text
    assert "pair 4 of 4   3 decided" in done.screens[6].rows[0]
    assert len(done.tally.verdicts) == 4


def test_what_somebody_else_decides_meanwhile_is_neither_asked_nor_overruled(ledger):
    with Ledger.open(ledger) as read:
        first, second, *_ = [entry.relation for entry in read.for_review("default").entries]

    def meanwhile(place):
        if place == 0:
            for relation in (first, second):
                record_decision(ledger, relation, DecisionAction.DIFFERENT, by="human:bob", note="mine")

    done = review(ledger, "r", before=meanwhile)

    assert set(held(ledger).values()) == {("different", "mine")}
    assert done.tally.verdicts == []
    assert "pair 3 of 4" in done.screens[1].rows[0]
    assert "passed over, decided meanwhile: different by human:bob" in done.screens[1].text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50), (40, 12), (30, 14)])
def test_no_page_acts_on_the_terminal_and_the_help_is_always_to_be_seen(width, height, ledger):
    done = review(ledger, "nsjsns", width=width, height=height)

    escapes = set(re.findall(r"\x1b(?:\[[^A-Za-z]*[A-Za-z]|.)", done.drawn))
    kinds = {re.sub(r"[\d;]+", "", one) for one in escapes}
    assert kinds <= {"\x1b[m", "\x1b[H", "\x1b[?h", "\x1b[?l"}
    assert not set(done.drawn) & set("\x07\x9b\u202e\r\t\u200d")
    for screen in done.screens:
        said = " ".join(screen.text.split())
        assert all(f"{key} {label}" in said for key, label in HELP)
    if width == 160:
        shown = next("".join(screen.text.split()) for screen in done.screens if "owned" in screen.text)
        assert r"\x1b[31mred\x1b[0m\x1b]0;owned\x07\u202egnirts\x9b2J[boldred]markup[/boldred]at" in shown
        assert r"http://b.example/\u202e\x1b[2J" in shown


def test_a_changed_claim_is_marked_otherwise_than_another_difference(tmp_path):
    url = f"sqlite:///{tmp_path / 'dedup.db'}"
    fill(url, {"http://a.example/": STORY * 2, "http://b.example/": STORY * 2 + "nothing."})
    fill(
        url,
        {
            "http://c.example/": STORY,
            "http://d.example/": STORY.replace("wait", "rest").replace("nine", "six"),
        },
        "2",
    )

    first, second = review(url, "s", width=120).screens[:2]

    raw = next(screen for screen in (first, second) if "at six" in screen.text).raw
    assert re.search(r"\x1b\[4;33mrest\x1b\[0m", raw)
    assert re.search(r"\x1b\[1;7;31msix\x1b\[0m", raw)


def test_long_pairs_scroll_and_show_all_pages(tmp_path):
    url = f"sqlite:///{tmp_path / 'dedup.db'}"
    long = "\n".join(f"Line {number} of the register." for number in range(100))
    pages = {f"http://mirror.example/{number}": long for number in range(9)}
    fill(url, pages | {"http://old.example/": long.replace("Line 90", "Line 91")})
    with Ledger.open(url) as read:
        (body, other) = read.bodies()
    relations.record(url, [related(body, other, 0.98)])

    done = review(url, ["j", "n", review_keys.END, review_keys.HOME, review_keys.PAGE_DOWN, "?"])

    first, down, claim, end, home, page, unknown = (screen.text for screen in done.screens)
    assert "and 6 more URLs, 6 of them below" in first
    assert "more lines]" in first
    assert first.split("\n")[2] == down.split("\n")[1]
    assert "Line 90 of the register." in claim
    assert "Line 90 of the register." not in down
    assert "http://mirror.example/8" in end
    assert home == first
    assert page != first
    assert "this key means nothing here" in unknown


def test_the_screen_follows_the_size_of_the_terminal(ledger):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)
    with Ledger.open(ledger) as read:
        queue = read.for_review("default")

    def smaller(place):
        console.size = (50, 10)

    Session(ledger, queue, by="human:ann", console=console, keys=Script([review_keys.RESIZED], smaller)).run()

    assert all(len(row) <= 50 for row in Screen(out.getvalue(), 50, 10).rows[:-1])


def test_what_a_terminal_cannot_show_is_escaped():
    assert harmless("naïve ☕", "ascii") == "na\\xefve \\u2615"
    assert harmless("❤️ 👋🏽") == "❤\\ufe0f 👋\\U0001f3fd"


# -- the keys of a terminal


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        (b"r", "r"),
        (b" ", " "),
        (b"\x1b[A", review_keys.UP),
        (b"\x1bOB", review_keys.DOWN),
        (b"\x1b[6~", review_keys.PAGE_DOWN),
        (b"\x1b", "escape"),
        (b"\x1b[99~", "unknown"),
        (b"\x04", review_keys.QUIT),
        (b"\xff", "\ufffd"),
    ],
    ids=repr,
)
def test_keys_have_names(typed, key):
    ours, theirs = pty.openpty()
    try:
        with TerminalKeys(theirs, lambda: (80, 24)) as keys:
            os.write(ours, b"x")
            assert keys.read() == "x"  # the mode is set with the first read
            os.write(ours, b"ddd")
            keys.forget()
            os.write(ours, typed)
            assert keys.read() == key
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_new_size_is_read_like_a_key():
    ours, theirs = pty.openpty()
    sizes = iter([(80, 24), (80, 24), (100, 30)])
    try:
        with TerminalKeys(theirs, lambda: next(sizes)) as keys:
            assert keys.read() == review_keys.RESIZED
    finally:
        os.close(ours)
        os.close(theirs)


# -- files


def exported(dedup, tmp_path, ledger, **options):
    done = dedup("review", "--ledger", ledger, "--export", tmp_path / "pairs.jsonl", *options)
    assert done.code == 0, done.err
    return [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text("utf-8").splitlines()]


def taken(dedup, path, rows, ledger, by="ann"):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return dedup("review", "--ledger", ledger, "--import", path, "--by", by)


def test_pairs_go_out_with_their_texts_and_come_back_as_decisions_once(dedup, tmp_path, ledger):
    rows = exported(dedup, tmp_path, ledger)

    assert [row["place"] for row in rows] == [1, 2, 3, 4]
    rows.sort(key=lambda row: row["a"]["words"])  # the story first
    story = rows.pop()
    rows.insert(0, story)
    sides = {story[side]["urls"][0]: story[side] for side in ("a", "b")}
    assert sides["http://a.example/1"]["text"] == STORY
    assert {json.dumps(one, sort_keys=True) for one in story["differences"]} <= {
        '{"a": "nine", "b": "ten", "changes_claim": true}',
        '{"a": "ten", "b": "nine", "changes_claim": true}',
    }
    again = dedup("review", "--ledger", ledger, "--export", tmp_path / "pairs.jsonl")
    assert (again.code, "exists already" in again.err) == (1, True)

    rows[0] |= {"verdict": "Updated version", "prefer": "b", "note": "the winter timetable"}
    rows[1] |= {"verdict": "reproduction"}
    path = tmp_path / "filled.jsonl"
    assert "2 new, 0 known already, 2 without a verdict" in taken(dedup, path, rows, ledger).out
    assert held(ledger) == {
        rows[0]["relation_id"]: ("different", "verdict=updated_version; prefer=b; the winter timetable"),
        rows[1]["relation_id"]: ("same", "verdict=reproduction"),
    }
    with Ledger.open(ledger) as read:
        made = list(read.decisions())
    assert "0 new, 2 known already" in taken(dedup, path, rows, ledger, by="bob").out
    rows[1] |= {"verdict": "related"}
    assert (
        "1 new, 1 known already, 2 without a verdict, 1 of the new ones in place"
        in taken(dedup, path, rows, ledger).out
    )
    with Ledger.open(ledger) as read:
        assert [one.decision_id for one in read.decisions()][:2] == [one.decision_id for one in made]
        assert read.relation(rows[1]["relation_id"]).state is RelationState.REFUTED
    undone = dedup("undo", "--ledger", ledger, rows[1]["relation_id"])
    assert "undone: different by human:ann" in undone.out


def test_two_texts_that_count_as_two_are_decided_about_and_not_undone(dedup, ledger):
    with Ledger.open(ledger) as read:
        identity = next(iter(read.lookup("http://a.example/1").relations)).relation_id
    nearly = re.compile(r"(?:http://[ab].example/1( is nearly the text of )?){2}")
    decide = f"scrapy dedup decide {identity[:21]} same --ledger {ledger}"

    explained = dedup("explain", "http://a.example/1", "--ledger", ledger).out
    assert nearly.search(explained)
    assert (
        "refuted: claim_changed, jaccard 0.990 (threshold 0.8), 0.900 of the first in the second" in explained
    )
    assert re.search(r", the (first|second) leads\n", explained)
    assert re.search(r'differs: "(nine" / "ten|ten" / "nine)"\n', explained)
    assert f"  decide: {decide}\n" in explained
    assert "undo:" not in explained[explained.index("near rel1-") :]
    refused = dedup("undo", identity, "--ledger", ledger)
    assert (refused.code, nearly.search(refused.err) is not None) == (1, True)
    assert f"nothing to undo; to count them as one: {decide}" in refused.err
    assert held(ledger) == {}

    first = dedup("decide", identity, "same", "--by", "ann", "--ledger", ledger).out
    assert nearly.search(first)
    assert "in place of" not in first
    again = dedup("decide", identity, "different", "--by", "bob", "--ledger", ledger).out
    assert "decided: different by human:bob at " in again
    assert "in place of: same by human:ann at " in again
    decided = dedup("explain", "http://a.example/1", "--ledger", ledger).out
    assert "refuted: decided different, claim_changed, jaccard" in decided
    assert "undo: scrapy dedup undo dec1-" in decided


def test_all_faults_of_a_file_are_told_by_line_and_nothing_is_written(dedup, tmp_path, ledger):
    rows = exported(dedup, tmp_path, ledger)
    first, second, third, fourth = rows
    with Ledger.open(ledger) as read:
        decided = read.relation(third["relation_id"])
    record_decision(ledger, decided, DecisionAction.SAME, by="human:bob")
    # One page of the fourth pair has another text by now.
    (changed,) = fourth["a"]["urls"]
    fill(ledger, {changed: "Something else.", "http://c.example/": "Once more."}, "second")
    empty = {**first, "verdict": ""}
    path = tmp_path / "filled.jsonl"
    lines = [
        first | {"verdict": "merge", "prefer": "c"},
        first | {"verdict": "related"},
        "no json",
        [],
        {"verdict": "related"},
        {name: value for name, value in empty.items() if name != "prefer"},
        empty | {"prefer": "a"},
        empty | {"verdict": 1},
        second | {"verdict": "related", "relation_id": "rel1-" + "0" * 32},
        second | {"verdict": "related", "a": second["a"] | {"digest": "sha256:" + "0" * 64}},
        third | {"verdict": "related"},
        fourth | {"verdict": "related"},
        first | {"verdict": "different"},
        first | {"verdict": "related", "relation_id": "rel1-x"},
        first | {"verdict": "related", "b": None},
        first | {"verdict": "related", "note": "n" * 3_000},
        json.dumps(first)[:-1] + ', "verdict": "related"}',
    ]
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\n\n\xff\n")
    with Ledger.open(ledger) as read:
        before = list(read.decisions())

    done = dedup("review", "--ledger", ledger, "--import", path, "--by", "ann")

    assert done.code == 1
    assert "18 problem(s) in the input; nothing was written" in done.err
    told = {
        int(number): problem
        for number, problem in re.findall(r"line (\d+): (.*)", done.err.replace("c'; write", "c'"))
    }
    for number, part in {
        3: "it is no JSON",
        4: "it is no JSON object",
        5: "it is no line of a review",
        6: "prefer is missing; leave it empty",
        7: "prefer or note without a verdict",
        8: "verdict is int, not text",
        9: "the ledger holds no pair rel1-0000",
        10: "are others in the ledger; export the pairs again",
        11: "human:bob decided same meanwhile; undo that first",
        12: "no page shows text A any more; export the pairs again",
        13: "another verdict on this pair stands in line 2",
        14: "relation_id is not as it was written",
        15: "b is not as it was written",
        16: "note is longer than 2,000 characters",
        17: "'verdict' stands in it twice",
        19: "it is not UTF-8",
    }.items():
        assert part in told[number]
    assert "unknown verdict 'merge'; the verdicts are reproduction, updated_version" in done.err
    assert "prefer is 'c'" in done.err
    endless = dedup("review", "--ledger", ledger, "--import", "/dev/zero", "--by", "ann")
    assert (endless.code, "/dev/zero is no file" in endless.err) == (1, True)
    with Ledger.open(ledger) as read:
        assert list(read.decisions()) == before


# -- the command


def test_without_a_terminal_it_says_what_to_do(dedup, ledger):
    done = dedup("review", "--ledger", ledger)

    assert (done.code, done.out) == (1, "")
    assert "4 pairs are open, but there is no terminal to show them on" in done.err
    assert "--export FILE" in done.err


def test_with_nothing_open_it_says_so(dedup, ledger):
    review(ledger, "dddd")

    done = dedup("review", "--ledger", ledger)

    assert (done.code, done.err) == (0, "")
    assert "4 pairs are decided, and none is open" in done.out


def test_options_that_do_not_go_together_are_all_named(dedup, ledger, tmp_path):
    done = dedup(
        *("review", "--ledger", ledger, "--export", "x", "--import", "y", "--limit", "0", "--json"),
    )

    assert done.code == 1
    assert "3 problem(s) in the options of the review" in done.err
    assert "--export and --import: one of them at a time" in done.err
    assert not (tmp_path / "x").exists()


def test_what_suppression_would_do_is_told_and_noted(dedup, tmp_path):
    url = f"sqlite:///{tmp_path / 'dedup.db'}"
    bodies = fill(
        url, {"http://a.example/": STORY, "http://b.example/\x1b[2J": STORY.replace("wait", "rest")}
    )
    empty = dedup("review", "--ledger", url, "--corpus", "none", "--would-suppress")
    assert "No similar texts are known in the corpus none" in empty.out
    sides = [Side(body.body_id, body.text_digest) for body in bodies]
    measures = Measures(0.9, 0.95, 0.95, "edited", 1, 0)
    relations.record(
        url,
        [
            near_relation(
                "default", *sides, measures, policy="p", reasons=(), created_at="2026-01-02T03:04:05Z"
            )
        ],
    )

    told = dedup("review", "--ledger", url, "--would-suppress")
    listed = json.loads(dedup("review", "--ledger", url, "--would-suppress", "--json").out)
    stricter = dedup("review", "--ledger", url, "--would-suppress", "-s", "DEDUP_NEAR_JACCARD=0.95")
    wrong = dedup("review", "--ledger", url, "--would-suppress", "-s", "DEDUP_NEAR_JACCARD=much")

    assert "would have marked 1 of 2 texts" in told.out
    assert "edited 0.900  http://b.example/\\x1b[2J\n    as http://a.example/\n    keep both: " in told.out
    assert (listed["suppressed"], listed["pairs"][0]["leader_url"]) == (1, "http://a.example/")
    assert "would have marked 0 of 2 texts" in stricter.out
    assert (wrong.code, "use a number from 0.5 to 1" in wrong.err) == (1, True)
    assert not dedup("check", "--ledger", url).code
