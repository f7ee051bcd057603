"""Repeated hits are dropped, with the reason; nothing is reordered, changed or lost."""

from __future__ import annotations

import copy
import random
import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scrapy_dedup.near import simhash
from scrapy_dedup.near.claims import Verdict, compare
from scrapy_dedup.retrieval import Dropped, DropReason, Hit, Kept, dedupe_hits
from scrapy_dedup.retrieval import hits as hits_module
from scrapy_dedup.retrieval.repetition import Passages, places_between, screened_claims

GATE = (
    "The gate of the garden closes at nine in the evening, and visitors are asked to leave the paths by "
    "then. Dogs may be taken along on a lead. The glass house is heated in winter and shows plants of the "
    "tropics."
)
GATE_CORRECTED = GATE.replace("asked", "kindly asked")
GATE_AT_TEN = GATE.replace("at nine", "at ten")
GATE_NOT_HEATED = GATE.replace("is heated", "is not heated")
GATE_AND_MORE = (
    f"{GATE} A small shop beside the gate sells seeds, books, honey and cards, and it keeps the hours of "
    "the garden all the year round."
)
BICYCLES = (
    "Bicycles are kept in the yard behind the house. There is room for a dozen of them under the roof, and "
    "whoever comes later has to lean theirs against the wall."
)


def run(*hits, **options):
    kept, dropped = dedupe_hits(hits, **options)
    return [hits.index(one.hit) for one in kept], {
        hits.index(one.hit): (one.reason.value, None if one.kept is None else hits.index(one.kept))
        for one in dropped
    }


def hit(text, place=0, **fields):
    return {"text": text, "url": f"https://s.example/{place}", **fields}


CASES = [
    ("nothing", [], {}, [], {}),
    ("different passages stay", [hit(GATE), hit(BICYCLES, 1)], {}, [0, 1], {}),
    (
        "a copy further down is dropped, and what stands between stays",
        [hit(GATE), hit(BICYCLES, 1), hit(GATE, 2)],
        {},
        [0, 1],
        {2: ("same_text", 0)},
    ),
    (
        "a corrected copy is dropped",
        [hit(GATE), hit(BICYCLES, 1), hit(GATE_CORRECTED, 2)],
        {},
        [0, 1],
        {2: ("jaccard", 0)},
    ),
    (
        "another case and other white space",
        [hit(GATE), hit(GATE.upper().replace(" ", "\n"), 1)],
        {},
        [0],
        {1: ("jaccard", 0)},
    ),
    (
        "of hits with scores the best is kept, in its place",
        [hit(GATE, 0, score=0.2), hit(BICYCLES, 1, score=0.5), hit(GATE, 2, score=0.9)],
        {},
        [1, 2],
        {0: ("same_text", 2)},
    ),
    (
        "where one has no score the first is kept",
        [hit(GATE, 0, score=0.2), hit(BICYCLES, 1), hit(GATE, 2, score=0.9)],
        {},
        [0, 1],
        {2: ("same_text", 0)},
    ),
    (
        "a score that is no number is none",
        [hit(GATE, 0, score=0.2), hit(GATE, 2, score=float("nan"))],
        {},
        [0],
        {1: ("same_text", 0)},
    ),
    ("another number is another claim", [hit(GATE), hit(GATE_AT_TEN, 1)], {}, [0, 1], {}),
    ("a negation is another claim", [hit(GATE), hit(GATE_NOT_HEATED, 1)], {}, [0, 1], {}),
    (
        "equal vectors do not make another claim the same",
        [hit(GATE, vector=[1, 0]), hit(GATE_AT_TEN, 1, vector=[1, 0])],
        {},
        [0, 1],
        {},
    ),
    (
        "equal fingerprints do not make another claim the same",
        [hit(GATE, simhash="00000000000000ff"), hit(GATE_AT_TEN, 1, simhash="00000000000000ff")],
        {},
        [0, 1],
        {},
    ),
    (
        "a group does not make the claims of two members the same",
        [hit(GATE, id="b", group="a"), hit(GATE_AT_TEN, 1, id="c", group="a")],
        {},
        [0, 1],
        {},
    ),
    (
        "what stands in a kept hit adds nothing",
        [hit(GATE_AND_MORE), hit(GATE, 1)],
        {},
        [0],
        {1: ("contained", 0)},
    ),
    ("what holds a kept hit and more is kept", [hit(GATE), hit(GATE_AND_MORE, 1)], {}, [0, 1], {}),
    (
        "a phrase stands in other passages by chance",
        [hit(GATE), hit("The gate of the garden", 1)],
        {},
        [0, 1],
        {},
    ),
    (
        "two members of a group",
        [hit(GATE, id="b", group="a"), hit(GATE_CORRECTED, 1, id="c", group="a")],
        {},
        [0],
        {1: ("same_group", 0)},
    ),
    (
        "a group is told before the text",
        [hit(GATE, id="a", group="a"), hit(GATE, 1, id="a", group="a")],
        {},
        [0],
        {1: ("same_group", 0)},
    ),
    (
        "the ledger has compared what it put into two groups",
        [hit(GATE, id="a", group="a"), hit(GATE_CORRECTED, 1, id="b", group="b")],
        {},
        [0, 1],
        {},
    ),
    (
        "what has no group is compared with what has one",
        [hit(GATE, id="a", group="a"), hit(GATE_CORRECTED, 1)],
        {},
        [0],
        {1: ("jaccard", 0)},
    ),
    (
        "fingerprints alone",
        [{"text": None, "simhash": "00000000000000ff"}, {"text": None, "simhash": "00000000000000fc"}],
        {},
        [0],
        {1: ("simhash", 0)},
    ),
    (
        "fingerprints that differ in too many bits",
        [{"text": None, "simhash": "00000000000000ff"}, {"text": None, "simhash": "00000000000000f0"}],
        {},
        [0, 1],
        {},
    ),
    (
        "fingerprints of texts without words are near to nothing",
        [{"text": "!", "simhash": "0000000000000000"}, {"text": "?", "simhash": "0000000000000000"}],
        {},
        [0, 1],
        {},
    ),
    (
        "other words for the same, as vectors say",
        [
            hit("The garden is full of flowers in bloom.", vector=[0.6, 0.8]),
            hit("Blooming flowers fill the garden.", 1, vector=[0.61, 0.79]),
        ],
        {},
        [0],
        {1: ("cosine", 0)},
    ),
    (
        "vectors that are not close enough",
        [
            hit("The garden is full of flowers in bloom.", vector=[1, 0]),
            hit("Cats roam.", 1, vector=[0.9, 0.5]),
        ],
        {},
        [0, 1],
        {},
    ),
    (
        "vectors of other lengths, without direction, or not finite",
        [
            hit("One.", vector=[1, 0]),
            hit("Two.", 1, vector=[1, 0, 0]),
            hit("Three.", 2, vector=[0, 0]),
            hit("Four.", 3, vector=[float("inf"), 0]),
            hit("Five.", 4, vector=[float("nan"), 0]),
        ],
        {},
        [0, 1, 2, 3, 4],
        {},
    ),
    ("empty texts repeat nothing", [hit(""), hit("", 1), hit(None, 2)], {}, [0, 1, 2], {}),
    (
        "the limit keeps the best and says what it left out",
        [hit(GATE, score=1), hit(BICYCLES, 1, score=3), hit("Tea.", 2, score=2), hit(BICYCLES, 3, score=0)],
        {"limit": 2},
        [1, 2],
        {0: ("over_limit", None), 3: ("same_text", 1)},
    ),
    ("a limit of none", [hit(GATE)], {"limit": 0}, [], {0: ("over_limit", None)}),
    (
        "Chinese: a character in many",
        [
            hit("花园的大门每天晚上关闭请游客按时离开" * 3),
            hit("花园的大门每天晚上关闭请游客按时离开" * 3 + "谢谢", 1),
        ],
        {},
        [0],
        {1: ("jaccard", 0)},
    ),
]


@pytest.mark.parametrize(
    ("hits", "options", "kept", "dropped"),
    [pytest.param(*case, id=about) for about, *case in CASES],
)
def test_what_is_kept_and_what_is_dropped_and_why(hits, options, kept, dropped):
    assert run(*hits, **options) == (kept, dropped)


def test_pages_of_one_template_that_say_different_things_are_all_kept():
    template = "Opening hours are on the door. Tickets are sold inside. Children come in free of charge. " * 4
    own = ["Rooms show coins and seals of the old mint", "Halls house engines and pumps from mines nearby"]
    pages = [
        f"{template} {text}, {text.lower()} and much beside that nobody has seen before." for text in own
    ]

    assert run(*(hit(page, place) for place, page in enumerate(pages))) == ([0, 1], {})
    assert run(*(hit(page, place, vector=[1, 0]) for place, page in enumerate(pages))) == ([0, 1], {})


def test_no_chain_leads_from_one_passage_to_an_unlike_one():
    words = [f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(120)]
    steps = [
        " ".join(
            ["changed" if place % 12 == 5 and place < 12 * step else word for place, word in enumerate(words)]
        )
        for step in range(9)
    ]

    kept, dropped = run(*(hit(text, place) for place, text in enumerate(steps)))

    assert kept[0] == 0
    assert len(kept) > 1
    assert all(other in kept for _, other in dropped.values())


def test_a_kept_hit_lists_all_places_where_its_text_stands():
    kept, _ = dedupe_hits(
        [
            hit(GATE, 0, sources=["https://s.example/0", "https://s.example/mirror"]),
            hit(GATE, 2),
            hit(GATE_CORRECTED, 3, sources="https://s.example/4\nhttps://s.example/0"),
        ]
    )

    (one,) = kept
    assert one.source == "https://s.example/0"
    assert one.also_seen_at == tuple(f"https://s.example/{name}" for name in ("mirror", "2", "3", "4"))


def test_a_vector_does_not_say_that_a_page_shows_the_text():
    kept, dropped = dedupe_hits(
        [hit("Flowers in the garden.", 0, vector=[1, 0]), hit("Garden flowers.", 1, vector=[1, 0])]
    )

    assert kept[0].also_seen_at == ()
    assert dropped[0].measure == pytest.approx(1)


def test_the_reader_is_shown_only_what_they_may_see():
    hits = [
        hit(GATE, "private"),
        hit(GATE, "public"),
        hit(BICYCLES, "private", sources=["https://s.example/private", "https://s.example/open"]),
        {"text": "Nobody knows where this stands."},
    ]

    kept, dropped = dedupe_hits(hits, visible=lambda url: not url.endswith("private"))

    assert kept == [
        Kept(hits[1], "https://s.example/public", ()),
        Kept(hits[2], "https://s.example/open", ()),
    ]
    assert dropped == [Dropped(hits[0], DropReason.NOT_VISIBLE), Dropped(hits[3], DropReason.NOT_VISIBLE)]


@dataclass
class Found:
    text: str
    url: str
    sources: tuple[object, ...] = ()


@dataclass(frozen=True)
class Source:
    url: str


@pytest.mark.parametrize(
    "make",
    [
        lambda text, url: {"text": text, "url": url},
        lambda text, url: {"text": text, "sources": [{"url": url, "title": "x"}]},
        lambda text, url: Hit(text, url=url),
        lambda text, url: Hit(text, sources=(url,)),
        Found,
        lambda text, url: Found(text, url, (Source(url),)),
    ],
    ids=["mapping", "mapping with sources", "Hit", "Hit with sources", "dataclass", "objects as sources"],
)
def test_any_object_with_the_names_is_a_hit(make):
    first, second = make(GATE, "https://a.example/"), make(GATE, "https://b.example/")

    kept, dropped = dedupe_hits([first, second])

    assert kept[0].hit is first
    assert (kept[0].source, kept[0].also_seen_at) == ("https://a.example/", ("https://b.example/",))
    assert dropped[0].hit is second
    assert dropped[0].kept is first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": -1}, "limit is -1"),
        ({"jaccard": 0}, "jaccard is 0"),
        ({"containment": 1.5, "cosine": float("nan")}, "containment is 1.5.*cosine is nan"),
        ({"distance_bits": 65}, "distance_bits is 65"),
    ],
)
def test_what_is_out_of_range_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dedupe_hits([], **options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text": b"bytes"}, "text of hit 1 is of type bytes"),
        ({"text": "x", "score": "best"}, "hit 1 cannot be read"),
        ({"text": "x", "simhash": "xyz"}, "hit 1 cannot be read"),
        ({"text": "x", "sources": [{"title": "no url"}]}, "hit 1 cannot be read: a source has to be a URL"),
        ({"text": "x", "sources": [3]}, "hit 1 cannot be read: a source has to be a URL"),
        ({"text": "x", "score": 10**400}, "hit 1 cannot be read"),
        ({"text": "x", "simhash": 1.5}, "hit 1 cannot be read"),
        ({"text": "x", "group": ["g"]}, "hit 1 cannot be read"),
        ({"text": "x", "lineage": {}}, "hit 1 cannot be read"),
        ({"text": "x", "url": ["https://s.example/"]}, "hit 1 cannot be read"),
        ({"text": "x", "vector": 3}, "vector of hit 1 has 0 dimensions"),
        ({"text": "x", "vector": [[1, 2]]}, "vector of hit 1 has 2 dimensions"),
        ({"text": "x", "vector": "ab"}, "vector of hit 1 cannot be read"),
        ({"txt": "x", "url": "https://s.example/"}, "hit 1, of type dict, has none of text, group"),
        ("text", "hit 1, of type str, has none of text, group"),
    ],
)
def test_a_hit_that_cannot_be_read_is_named(wrong, message):
    with pytest.raises(TypeError, match=message):
        dedupe_hits([{"text": "right", "vector": [1.0, 0.0]}, wrong])


# -- diversity


def test_new_text_comes_first_and_the_rest_fills_up():
    half = f"{GATE[: len(GATE) // 2]} {BICYCLES}"
    hits = [hit(GATE), hit(half, 1), hit("Tea is served on Sundays in the pavilion.", 2), hit(BICYCLES, 3)]

    assert run(*hits, limit=2) == ([0, 1], {2: ("over_limit", None), 3: ("contained", 1)})
    longer = [
        hit(GATE_AND_MORE),
        hit(f"{GATE} {BICYCLES[:100]}", 1),
        hit("Tea is served in the pavilion.", 2),
    ]
    assert run(*longer, limit=2, diverse=True) == ([0, 2], {1: ("little_new_text", None)})
    assert run(*longer, limit=3, diverse=True) == ([0, 1, 2], {})
    assert run(*longer[:2], hit(GATE, 3), limit=2, diverse=True) == ([0, 1], {2: ("contained", 0)})


def test_a_second_report_of_one_lineage_makes_room_for_another():
    hits = [
        hit(GATE, lineage="event-1"),
        hit(BICYCLES, 1, lineage="event-1"),
        hit("Tea is served on Sundays in the pavilion.", 2),
    ]

    assert run(*hits, limit=2, diverse=True) == ([0, 2], {1: ("same_lineage", None)})
    assert run(*hits, limit=2) == ([0, 1], {2: ("over_limit", None)})


def test_two_different_pages_of_one_publisher_both_stay():
    hits = [
        hit(GATE, "garden"),
        hit(BICYCLES, "yard"),
        {"text": "Tea is served.", "url": "https://b.example/"},
    ]

    assert run(*hits, limit=2, diverse=True)[0] == [0, 1]


# -- laws

SENTENCES = [GATE, GATE_CORRECTED, GATE_AT_TEN, GATE_NOT_HEATED, GATE_AND_MORE, BICYCLES, "Tea.", ""]
ANY_HITS = st.lists(
    st.fixed_dictionaries(
        {"text": st.sampled_from(SENTENCES) | st.text("ab 1.", max_size=20)},
        optional={
            "score": st.floats(0, 1) | st.none(),
            "id": st.sampled_from("abc"),
            "url": st.sampled_from(["https://a.example/", "https://b.example/x"]),
            "group": st.sampled_from("abc"),
            "simhash": st.sampled_from([simhash(GATE), simhash(BICYCLES), "0" * 16]),
            "vector": st.lists(st.floats(-1, 1), min_size=2, max_size=3),
            "lineage": st.sampled_from("xy"),
        },
    ),
    max_size=8,
)
OPTIONS = st.fixed_dictionaries(
    {
        "limit": st.none() | st.integers(0, 6),
        "diverse": st.booleans(),
        "visible": st.sampled_from([None, lambda url: "a.example" in url]),
    }
)


@settings(deadline=None, max_examples=60)
@given(ANY_HITS, OPTIONS)
def test_each_hit_is_kept_or_dropped_in_its_order_and_unchanged(hits, options):
    before = copy.deepcopy(hits)

    kept, dropped = dedupe_hits(hits, **options)

    assert repr(hits) == repr(before)
    places = {id(one): place for place, one in enumerate(hits)}
    kept_places = [places[id(one.hit)] for one in kept]
    dropped_places = [places[id(one.hit)] for one in dropped]
    assert kept_places == sorted(kept_places)
    assert dropped_places == sorted(dropped_places)
    assert sorted(kept_places + dropped_places) == [*range(len(hits))]


@settings(deadline=None, max_examples=60)
@given(ANY_HITS, OPTIONS)
def test_what_was_kept_is_kept_again(hits, options):
    kept, _ = dedupe_hits(hits, **options)

    again, dropped = dedupe_hits([one.hit for one in kept], **options)

    assert dropped == []
    assert [id(one.hit) for one in again] == [id(one.hit) for one in kept]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(SENTENCES[:-1]), min_size=1, max_size=10), st.randoms())
def test_of_equals_the_first_is_kept_whatever_their_order(texts, source):
    hits = [Hit(text, score=0.5, id=str(place)) for place, text in enumerate(texts)]
    source.shuffle(hits)

    kept, _ = dedupe_hits(hits)

    assert all(one.hit is next(hit for hit in hits if hit.text == one.hit.text) for one in kept)
    copies = [hit for hit in hits if hit.text in {GATE, BICYCLES}]
    assert {one.hit.text for one in dedupe_hits(copies)[0]} == {hit.text for hit in copies}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(SENTENCES), max_size=8), st.sampled_from([None, [1.0, 0.5]]))
def test_no_repetition_claims_something_else(texts, vector):
    _, dropped = dedupe_hits([Hit(text, vector=vector) for text in texts])

    for one in dropped:
        assert compare(one.hit.text, one.kept.text, min_jaccard=0).verdict is not Verdict.CLAIM_CHANGED


WORDS = str.split(
    "the gate was open closed not never 5 10,000 km m may must Paris in London 3.5 % on monday first "
    "a garden of plants, shows. and visitors 'quoted' co-operative don't # - > | 1 000 2024-01-01 yes no "
    "Berlin. Rain However"
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=24),
    st.lists(st.tuples(st.integers(0, 24), st.sampled_from(WORDS), st.integers(0, 2)), max_size=3),
)
@example(words=["5", "#"], changes=[(2, "km", 0)])  # a sign stands between the number and its unit
@example(words=[">"], changes=[(0, "the", 0)])  # a quotation becomes a comparison
def test_a_first_look_never_overlooks_a_claim_that_reading_the_whole_text_finds(words, changes):
    after = list(words)
    for place, word, taken_out in changes:
        after[place : place + taken_out] = [word]

    screened = screened_claims(words, after, [*places_between(words, after)])

    if screened is False:
        verdict = compare(" ".join(words), " ".join(after), min_jaccard=0, min_containment=0).verdict
        assert verdict is not Verdict.CLAIM_CHANGED


def test_many_hits_take_memory_by_their_number_and_not_by_their_pairs():
    source = random.Random(1)
    words = [f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)]
    texts = [source.choices(words, k=60) for _ in range(150)]
    corrected = [[*text[:-1], "corrected"] for text in texts]

    tracemalloc.start()
    kept, dropped = dedupe_hits([Hit(" ".join(text)) for text in texts + corrected])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [one.hit.text for one in kept] == [" ".join(text) for text in texts]
    assert [(one.hit.text, one.kept.text) for one in dropped] == [
        (" ".join(copy), " ".join(text)) for copy, text in zip(corrected, texts, strict=True)
    ]
    assert peak < 20_000_000  # all pairs at once take 100 MB


@pytest.mark.slow
def test_many_hits_that_are_all_alike_take_no_more(monkeypatch):
    """Those of one template with a number of its own each, whose vectors point the same way."""
    monkeypatch.setattr(hits_module, "MAX_READ", 1)
    texts = [GATE_AND_MORE.replace("nine", f"{place} minutes") for place in range(600)]
    hits = [Hit(text, vector=[1.0, place / 1e6]) for place, text in enumerate(texts)]
    dedupe_hits(hits[:2])
    tracemalloc.start()
    kept, _ = dedupe_hits(hits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(kept) == len(hits)
    assert peak < 10_000_000  # what all pairs are to each other takes 100 MB


@pytest.mark.parametrize(
    "fields",
    [{}, {"group": "one"}, {"simhash": "00ff00ff00ff00ff"}, {"vector": [1.0, 0.0]}],
    ids=["texts", "a group", "fingerprints", "vectors"],
)
def test_of_many_passages_that_all_claim_something_else_each_is_read_beside_some(fields, monkeypatch):
    monkeypatch.setattr(hits_module, "MAX_READ", 5)
    pairs = []
    differ = Passages.claims_differ
    monkeypatch.setattr(Passages, "claims_differ", lambda *of: pairs.append(of) or differ(*of))
    texts = [GATE.replace("nine", f"{place} minutes") for place in range(40)]

    kept, _ = dedupe_hits([Hit(text, id=f"entry {place}", **fields) for place, text in enumerate(texts)])

    assert len(kept) == 40
    assert len(pairs) <= 40 * 5 * 3
