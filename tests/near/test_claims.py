"""Pairs of texts: what only looks different, what changes a claim, and what is another text."""

from __future__ import annotations

import os
import random
import re
import tarfile
import tracemalloc
from collections import deque
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scrapy_dedup.near import claim_tokens as module
from scrapy_dedup.near.claim_tokens import Kind, claim_tokens
from scrapy_dedup.near.claims import Verdict, compare

PARAGRAPH = (
    "The ferry to the island leaves from the old harbour every morning and returns in the evening. Tickets "
    "are sold at the window beside the gate, where a list of departures hangs. Whoever brings a bicycle pays "
    "for it too, and dogs travel for nothing. In stormy weather the crossing is called off, which a sign at "
    "the gate announces. The crew helps with luggage and prams. From the upper deck one sees the lighthouse."
)

# description: two spellings of one text
SAME_WORDS = {
    "spaces and line ends": ("One  line\r\nand\tanother", "One line and another"),
    "case": ("ONE line", "one Line"),
    "punctuation": ("First, second; third.", "First second (third)!"),
    "curly quotes": ("She said \u201cit\u2019s fine\u201d.", 'She said "it\'s fine".'),
    "dashes": ("A pause \u2014 then more", "A pause - then more"),
    "a range with a dash": ("pages 5\u20137", "pages 5-7"),
    "a hyphen that does not break": ("a well\u2011known fact", "a well-known fact"),
    "a minus sign": ("it was \u22125 outside", "it was -5 outside"),
    "spaces that do not break": ("10\u00a0000\u202f\u20ac", "10 000 \u20ac"),
    "thousands with commas or spaces": ("1,250,000 people", "1 250 000 people"),
    "soft hyphens and zero-width characters": ("hy\u00adphen\u200bated", "hyphenated"),
    "composed and decomposed": ("caf\u00e9", "cafe\u0301"),
    "ligatures": ("the \ufb01rst o\ufb00er", "the first offer"),
    "an ellipsis": ("and so on\u2026", "and so on..."),
    "short and long not": ("They don't know", "They do not know"),
    "emphasis": ("a **bold** and *slanted* `code` word", "a bold and slanted code word"),
    "headings": ("# Title\n\nText", "Title\n=====\n\nText"),
    "bullets": ("* one\n* two\n", "- one\n- two\n"),
    "quoted lines": ("> said so\n> twice", "said so twice"),
    "a table and its cells": ("| a | b |\n|---|---|\n| 1 | 2 |", "a b 1 2"),
    "a fence around code": ("```python\nx = 1\n```", "x = 1"),
    "two fences of other signs": ("~~~c++\nx = 1\n~~~\n```\ny\n````", "x = 1\ny"),
    "text behind a rule": ("intro\n-- end", "> **intro**\n-- _end_"),
    "a word behind a rule": ("intro\n--- end", "intro\n_end_"),
    "emphasis around a version": ("since v2.3", "since _v2.3_"),
    "emphasis around a sign": ("it was -5 outside", "it was _-5_ outside"),
    "emphasis around a short not": ("They don't know", "They _don't_ know"),
    "rules between sections": ("one\n\n---\n\ntwo", "one\n\n***\n\ntwo"),
    "a sign that closes a box": ("\u00d7 one more", "one more"),
    "a way back to the top": ("\u2191 one more", "one more"),
    "dots of mathematics": ("one \u22c5 two \u22ef", "one two"),
    "an address in brackets": ("see https://a.example/b now", "see (https://a.example/b/). now"),
    "a word that begins a sentence": ("Rain falls.", "rain falls."),
    "arrows": ("first -> second", "first \u2192 second"),
    "a version with and without v": ("since v2.3", "since 2.3"),
    "right to left": (
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
        "\u200f\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd\u200e",
    ),
}

# description: two sentences of which each claims something else
OTHER_CLAIM = {
    "negation": ("The bridge is open today.", "The bridge is not open today."),
    "negation, short": ("They do know it.", "They don't know it."),
    "polarity": ("The bridge is open today.", "The bridge is closed today."),
    "a number": ("It holds 25 people.", "It holds 26 people."),
    "a number in words": ("It holds two people.", "It holds three people."),
    "a sign before a number": ("It was 5 outside.", "It was -5 outside."),
    "a decimal": ("It is 3.5 long.", "It is 35 long."),
    "a version": ("Use Node 18.18 or newer.", "Use Node 20.19.4 or newer."),
    "a version within a word": ("It needs iOS17 to run.", "It needs iOS18 to run."),
    "a date": ("Valid until 2026-01-02 only.", "Valid until 2026-01-20 only."),
    "a month": ("It opens in March again.", "It opens in May again."),
    "a weekday": ("It opens on Monday again.", "It opens on Friday again."),
    "a unit": ("Add 5 mg of it.", "Add 5 g of it."),
    "a currency": ("It costs 5 \u20ac now.", "It costs 5 $ now."),
    "percent": ("It grew by 5 % then.", "It grew by 5 then."),
    "modality": ("You must restart it.", "You may restart it."),
    "an ordinal": ("the second attempt", "the third attempt"),
    "a name": ("Yesterday Anna Smith spoke.", "Yesterday Berta Smith spoke."),
    "an operator": ("if a == b then", "if a != b then"),
    "less and greater": ("where x < 3 holds", "where x > 3 holds"),
    "a sign of logic": ("so that x \u2208 A holds", "so that x \u2209 A holds"),
    "a sign of negation": ("where \u00acx is known", "where x is known"),
    "a function of APL": ("it is \u2374 list then", "it is \u2373 list then"),
    "times and divided by": ("it is 6 \u00d7 2 then", "it is 6 \u00f7 2 then"),
    "up and down": ("it went \u2191 5 today", "it went \u2193 5 today"),
    "and in code": ("if ready && open", "if ready || open"),
    "an exponent": ("x\u00b2 is its value", "x2 is its value"),
    "a fraction": ("\u00bd of it", "\u00bc of it"),
    "a thumb": ("Great \U0001f44d news", "Great \U0001f44e news"),
    "a number behind a rule": ("open until\n--- 5", "open until\n--- 6"),
    "a number in a rule": ("open until\n___5", "open until\n___6"),
    "a word behind a fence that nothing closes": ("It is\n```open", "It is\n```closed"),
    "a sign within emphasis": ("It was _5_ outside.", "It was _-5_ outside."),
    "a box ticked in Markdown": ("- [x] delivered\n", "- [ ] delivered\n"),
    "a name in a heading": ("# Berlin\n\nrain", "# Paris\n\nrain"),
    "a name that begins a sentence": ("It rains. Berlin is wet.", "It rains. Paris is wet."),
    "a language and another one": ("Use C++ here.", "Use C here."),
    "a negation in code": ("if (!found) return", "if (found) return"),
    "both or one": ("if a && b then", "if a || b then"),
    "a sum and a difference": ("take x + y then", "take x - y then"),
    "milli and mega": ("It takes 5 mW then.", "It takes 5 MW then."),
    "bits and bytes": ("It sends 10 Mb then.", "It sends 10 MB then."),
    "an address": ("See https://a.example/ferry now", "See https://a.example/train now"),
    "a scheme": ("See https://a.example now", "See http://a.example now"),
    "a mailbox": ("Write to anna@a.example now", "Write to berta@a.example now"),
    "a ticked box": ("\u2611 done", "\u2610 done"),
    "German": ("Das Tor ist offen.", "Das Tor ist nicht offen."),
    "German modality": ("Man muss warten.", "Man darf warten."),
    "French": ("Le pont est ouvert.", "Le pont n'est pas ouvert."),
    "French polarity": ("Le pont est ouvert.", "Le pont est ferm\u00e9."),
    "Spanish": ("El puente abre hoy.", "El puente no abre hoy."),
    "Spanish month": ("Abre en mayo.", "Abre en junio."),
    "Italian": ("Il ponte \u00e8 aperto.", "Il ponte non \u00e8 aperto."),
    "Portuguese": ("A ponte abre hoje.", "A ponte n\u00e3o abre hoje."),
    "Japanese hours": (
        "\u6e21\u3057\u8239\u306f\u4e5d\u6642\u306b\u51fa\u308b",
        "\u6e21\u3057\u8239\u306f\u5341\u6642\u306b\u51fa\u308b",
    ),
    "Japanese weekday": (
        "\u6e21\u3057\u8239\u306f\u6708\u66dc\u65e5\u306b\u51fa\u308b",
        "\u6e21\u3057\u8239\u306f\u91d1\u66dc\u65e5\u306b\u51fa\u308b",
    ),
    "Japanese direction": (
        "\u5317\u53e3\u304b\u3089\u51fa\u308b\u3002\u8239\u306f\u6bce\u65e5\u51fa\u308b",
        "\u5357\u53e3\u304b\u3089\u51fa\u308b\u3002\u8239\u306f\u6bce\u65e5\u51fa\u308b",
    ),
    "Chinese negation": ("\u6865\u4eca\u5929\u5f00\u653e", "\u6865\u4eca\u5929\u4e0d\u5f00\u653e"),
}

# description: two texts that differ in words of no such kind
EDITED = {
    "another word that begins a sentence": (PARAGRAPH, PARAGRAPH.replace("The crew helps", "A crew helps")),
    "a word before the first one": (PARAGRAPH, "However, the" + PARAGRAPH.removeprefix("The")),
    "a name or not at the beginning, of one side alone": (PARAGRAPH, "Ferries: " + PARAGRAPH),
    "another adjective": (PARAGRAPH, PARAGRAPH.replace("old harbour", "small harbour")),
    "a word added": (PARAGRAPH, PARAGRAPH.replace("The crew helps", "The crew kindly helps")),
    "a word taken out": (PARAGRAPH, PARAGRAPH.replace("and prams", "")),
}
PASSAGE = " A kiosk on the lower deck sells warm drinks and simple meals while the boat is under way."


@pytest.mark.parametrize("case", SAME_WORDS)
def test_what_only_looks_different_is_reformatted(case):
    a, b = SAME_WORDS[case]

    assert compare(a, b).verdict is Verdict.REFORMATTED
    assert compare(f"{PARAGRAPH}\n\n{a}\n\n{PARAGRAPH}", f"{PARAGRAPH}\n\n{b}\n\n{PARAGRAPH}").verdict is (
        Verdict.REFORMATTED
    )


@pytest.mark.parametrize("case", OTHER_CLAIM)
def test_what_changes_a_claim_is_found_alone_and_within_a_long_text(case):
    a, b = OTHER_CLAIM[case]

    alone = compare(a, b, min_jaccard=0.0)
    within = compare(f"{PARAGRAPH} {a} {PARAGRAPH}", f"{PARAGRAPH} {b} {PARAGRAPH}")
    assert alone.verdict is within.verdict is Verdict.CLAIM_CHANGED
    assert compare(b, a, min_jaccard=0.0).verdict is Verdict.CLAIM_CHANGED
    assert within.spans[0].changes_claim


@pytest.mark.parametrize("case", OTHER_CLAIM)
def test_a_short_text_with_another_claim_is_another_text(case):
    assert compare(*OTHER_CLAIM[case]).verdict in (Verdict.DIFFERENT, Verdict.CLAIM_CHANGED)


@pytest.mark.parametrize("case", EDITED)
def test_an_ordinary_edit(case):
    found = compare(*EDITED[case])

    assert found.verdict is Verdict.EDITED
    assert found.jaccard >= 0.8
    assert not any(span.changes_claim for span in found.spans)


def test_a_text_with_a_further_passage_contains_the_other_one():
    longer = compare(PARAGRAPH, PARAGRAPH + PASSAGE)
    shorter = compare(PARAGRAPH + PASSAGE, PARAGRAPH)

    assert longer.verdict is shorter.verdict is Verdict.CONTAINS
    assert (longer.passage_tokens_a, longer.passage_tokens_b) == (0, 18)
    assert (shorter.passage_tokens_a, shorter.passage_tokens_b) == (18, 0)
    assert longer.containment_a == 1.0 > longer.containment_b


MOVED = [f"Part {number} of it. {PARAGRAPH}" for number in ("one", "two", "three", "four", "five")]
ADDED = "Beside the engine a kiosk sells warm drinks and simple meals to whoever is hungry"


@pytest.mark.parametrize(
    ("passage", "verdict"),
    [
        pytest.param(f"{ADDED}.", Verdict.EDITED, id="words"),
        pytest.param(f"{ADDED} from 19.0 on.", Verdict.CLAIM_CHANGED, id="a version"),
        pytest.param(f"{ADDED} but not children.", Verdict.CLAIM_CHANGED, id="a negation"),
    ],
)
def test_what_a_passage_claims_counts_where_each_text_has_one_that_the_other_lacks(passage, verdict):
    """Else the one that is left out would take its claim along."""
    other = "A small library of old sea tales stands beside the stairs and whoever reads is welcome"
    text = " ".join(f"{word} {PARAGRAPH}" for word in ("Here", "There", "Then"))

    forth = compare(f"{other}. {text}", f"{text} {passage}", min_jaccard=0.5)
    back = compare(f"{text} {passage}", f"{other}. {text}", min_jaccard=0.5)
    assert forth.passage_tokens_a > 0 < forth.passage_tokens_b
    assert (forth.verdict, back.verdict) == (verdict, verdict)


def test_a_passage_that_has_moved_claims_nothing_else():
    first, *rest = MOVED

    assert compare(" ".join(MOVED), " ".join([*rest, first])).verdict is Verdict.EDITED


def test_a_page_within_a_much_longer_one_is_contained_though_hardly_similar():
    found = compare(PARAGRAPH, " ".join([PASSAGE * 20, PARAGRAPH, PASSAGE.upper() * 20]))

    assert found.verdict is Verdict.CONTAINS
    assert found.jaccard < 0.8


def test_numbers_that_stand_in_other_places_of_both_texts_are_a_changed_claim():
    text = " ".join(PARAGRAPH.replace("ferry", name) for name in ("boat", "ferry", "ship", "launch"))
    first = f"{text} Since the year 2024 the company has sold its tickets on the web as well."
    second = f"Since 1999 it belongs to the town and is run by its own people. {text}"

    assert compare(first, second, min_jaccard=0.5).verdict is Verdict.CLAIM_CHANGED


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        pytest.param("", "", Verdict.DIFFERENT, id="both empty"),
        pytest.param("", "word", Verdict.DIFFERENT, id="one empty"),
        pytest.param("word", "word", Verdict.REFORMATTED, id="one word"),
        pytest.param("word", "other", Verdict.DIFFERENT, id="two words"),
        pytest.param("...", "!!!", Verdict.DIFFERENT, id="only punctuation"),
        pytest.param("---", "---", Verdict.REFORMATTED, id="the same punctuation"),
        pytest.param("\U0001f600", "\U0001f621", Verdict.DIFFERENT, id="two emoji"),
        pytest.param("1 2 3 4 5", "1 2 3 4 6", Verdict.DIFFERENT, id="all numbers, short"),
        pytest.param(
            " ".join(map(str, range(300))),
            " ".join(map(str, [*range(299), 7])),
            Verdict.CLAIM_CHANGED,
            id="numbers",
        ),
        pytest.param(
            "again and again. " * 500, "again and again. " * 499, Verdict.EDITED, id="repeated lines"
        ),
    ],
)
def test_odd_texts_have_a_defined_result(a, b, verdict):
    assert compare(a, b).verdict is verdict


@pytest.mark.slow
def test_five_megabytes_are_read_in_bounded_time():
    source = random.Random(3)
    words = [source.choice(PARAGRAPH.split()) for _ in range(900_000)]
    other = [*words]
    other[450_000] = "17"

    assert compare(" ".join(words), " ".join(other)).verdict is Verdict.CLAIM_CHANGED


@pytest.mark.slow
@pytest.mark.parametrize("change", ["number", "not"])
def test_every_single_change_in_300_texts_of_450_words_is_found(change):
    missed = []
    for trial in range(300):
        source = random.Random(trial)
        words = [source.choice(PARAGRAPH.split()) for _ in range(450)]
        place = source.randrange(450)
        value = source.randrange(2, 5000)
        first = [*words[:place], str(value), *words[place:]]
        second = [*words[:place], str(value + source.choice([-1, 1, 1000])), *words[place:]]
        if change == "not":
            second = [*first[:place], source.choice(["not", "never", "no"]), *first[place:]]
        if compare(" ".join(first), " ".join(second)).verdict is not Verdict.CLAIM_CHANGED:
            missed.append(trial)
    assert missed == []


def held_bytes(texts):
    """Return how many bytes more are in use once some texts were read."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        deque(map(claim_tokens, texts), maxlen=0)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_lines_in_which_each_character_is_a_word_take_little_memory(monkeypatch):
    monkeypatch.setattr(module, "MAX_HELD_CHARS", 3_000)
    monkeypatch.setattr(module, "_held_lines", module._HeldLines())
    signs = [chr(code) for code in range(0x4E00, 0x4E00 + 1_000)]
    claim_tokens("".join(signs))  # their tokens stay by themselves
    source = random.Random(1)

    assert held_bytes("".join(source.sample(signs, 1_000)) for _ in range(15)) <= 2 * 3_000 * 20


def test_long_words_do_not_stay_in_memory():
    words = (sign * 200_000 for sign in ("x", "7", "http://"))

    assert held_bytes(words) <= 200_000


@given(
    st.lists(
        st.sampled_from(
            ["5 ", "m wide", "kB", "Rain", "a Berlin", "rain", "Berlin is", "[x] ", "\u00d7", "-"]
        ),
        max_size=8,
    )
)
def test_lines_that_are_in_memory_are_read_like_others(lines):
    text = "\n".join(lines)
    held = claim_tokens(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_held_lines", module._HeldLines())
        patch.setattr(module, "MAX_HELD_LINE", 0)

        assert claim_tokens(text) == held


@given(st.text(max_size=200))
def test_any_text_is_the_same_as_itself(text):
    found = compare(text, text)

    assert found.verdict is (Verdict.REFORMATTED if text.strip() or claim_tokens(text) else Verdict.DIFFERENT)
    assert found.spans == ()


@given(st.text(max_size=120), st.text(max_size=120))
def test_both_directions_agree(a, b):
    forth, back = compare(a, b, min_jaccard=0.1), compare(b, a, min_jaccard=0.1)

    assert forth.verdict is back.verdict
    assert (forth.jaccard, forth.containment_a, forth.containment_b) == (
        back.jaccard,
        back.containment_b,
        back.containment_a,
    )


@given(st.text(alphabet="ab 1.,;-\n*#=_~`>|+<'\u2019\u00a0", max_size=80))
def test_markup_around_a_text_changes_nothing(text):
    assert (
        compare(f"intro words {text} end", f"\n> **intro words** {text} _end_\n").verdict
        is Verdict.REFORMATTED
    )


@given(st.text(alphabet="ab 17.,-\t\n*#=_~>+|<", max_size=60))
def test_no_letter_and_no_digit_is_taken_for_markup(text):
    # No word and no fence in this alphabet is spelled in another way as a token.
    compared = "".join(token.text for token in claim_tokens(text))

    assert [sign for sign in compared if sign.isalnum()] == [sign for sign in text if sign.isalnum()]


@given(st.text(alphabet="ab5v 1.,;-+=\n*#'`~>|\u2019\u00a0", max_size=80))
def test_only_languages_of_code_stand_behind_fences(text):
    assume("```" not in text)
    assume("~~~" not in text)
    first = claim_tokens(f"words {text}")

    assert claim_tokens(f"> words {text}\n***\n- - -\n") == first
    assert claim_tokens(f"~~~text\nwords {text}\n~~~") == first


def test_tokens_and_their_kinds():
    text = "Since v2.3 it costs -5 % less, says Smith; x\u00b2 isn't 10px. Not so on 2026-11-30!"

    assert [(token.text, token.kind) for token in claim_tokens(text) if token.kind] == [
        ("since", Kind.POLARITY),
        ("2.3", Kind.NUMBER),
        ("-5", Kind.NUMBER),
        ("%", Kind.UNIT),
        ("less", Kind.POLARITY),
        ("smith", Kind.NAME),
        ("x\u00b2", Kind.NUMBER),
        ("not", Kind.NEGATION),
        ("10", Kind.NUMBER),
        ("px", Kind.UNIT),
        ("not", Kind.NEGATION),
        ("on", Kind.POLARITY),
        ("2026-11-30", Kind.NUMBER),
    ]


@pytest.mark.slow
def test_no_pair_of_real_documentation_with_another_version_number_is_edited(tmp_path):
    corpus = os.environ.get("SCRAPY_DEDUP_CORPUS")
    if not corpus:
        pytest.skip("SCRAPY_DEDUP_CORPUS names no folder")
    with tarfile.open(Path(corpus) / "near" / "rn-docs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    versions = sorted({path.parent for path in tmp_path.rglob("*.md")}, key=lambda path: len(path.parts))
    roots = sorted(path for path in tmp_path.rglob("*") if path.is_dir() and path.name.startswith("version-"))
    assert len(roots) == 2, versions
    numbers = re.compile(r"\d+(?:\.\d+)+")
    wrong = []
    pairs = 0
    for first in sorted(roots[0].rglob("*.md")):
        second = roots[1] / first.relative_to(roots[0])
        if not second.is_file():
            continue
        pairs += 1
        a, b = first.read_text("utf-8"), second.read_text("utf-8")
        verdict = compare(a, b).verdict
        left, right = set(numbers.findall(a)), set(numbers.findall(b))
        if left - right and right - left and verdict in (Verdict.EDITED, Verdict.REFORMATTED):
            wrong.append(str(first))
    assert pairs > 100
    assert wrong == []
