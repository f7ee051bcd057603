"""The rules: what becomes of a sighting, given what the ledger holds. No database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scrapy_dedup.ledger.codec import observation_id
from scrapy_dedup.ledger.decide import MAX_BODY_BYTES, Known, Sighting, decide
from scrapy_dedup.records import Action, Outcome, Validity

A, B = "http://site.example/a", "http://site.example/b"


@pytest.fixture
def run(records):
    """Decide in turn about steps (text or None, URL, changes)."""

    def decide_all(*steps, reuse_normalized=True):
        known, decisions = Known("default"), []
        for seq, (text, url, changes) in enumerate(steps):
            flags = {name: changes[name] for name in ("url_valid", "key_reason") if name in changes}
            residual = changes.get("residual")
            extractor = changes.get("extractor_id", "x-1")
            own = {name: changes[name] for name in ("outcome", "validity") if name in changes}
            made = None if text is None else records.text(text, residual=residual, extractor_id=extractor)
            if "text_digest" in changes:
                made = replace(made, text_digest=changes["text_digest"])
            observation = records.observation(seq, url, observation_id=observation_id("job-1", seq), **own)
            sighting = Sighting(observation, made, **flags)
            decision = decide(sighting, known, reuse_normalized=reuse_normalized)
            known.learn(sighting, decision)
            decisions.append(decision)
        return decisions

    return decide_all


def summary(decisions):
    places = {observation_id("job-1", seq): seq for seq in range(len(decisions))}
    return [
        (
            one.action.value,
            one.reason,
            None if one.related_observation_id is None else places[one.related_observation_id],
        )
        for one in decisions
    ]


CASES = [
    ("a first text", [("T", A, {})], [("keep", "new_text", None)]),
    (
        "the same text elsewhere",
        [("T", A, {}), ("T", B, {})],
        [("keep", "new_text", None), ("reuse", "text_equal", 0)],
    ),
    (
        "the same text again",
        [("T", A, {}), ("T", A, {})],
        [("keep", "new_text", None), ("reuse", "text_equal", 0)],
    ),
    (
        "a page that changes and changes back",
        [("T", A, {}), ("U", A, {}), ("T", A, {})],
        [("keep", "new_text", None), ("keep", "revision", 0), ("reuse", "text_equal", 0)],
    ),
    (
        "a revision relates to the latest valid observation of the URL",
        [("T", A, {}), ("T", A, {}), (None, A, {"validity": Validity.EMPTY}), ("U", A, {})],
        [
            ("keep", "new_text", None),
            ("reuse", "text_equal", 0),
            ("review", "content_invalid", None),
            ("keep", "revision", 1),
        ],
    ),
    (
        "the same text with other prose beside it",
        [("T", A, {"residual": "r"}), ("T", B, {"residual": "s"}), ("T", B, {"residual": "r"})],
        [("keep", "new_text", None), ("review", "residual_differs", 0), ("reuse", "text_equal", 0)],
    ),
    (
        "no prose beside the text differs from some",
        [("T", A, {}), ("T", B, {"residual": "s"})],
        [("keep", "new_text", None), ("review", "residual_differs", 0)],
    ),
    (
        "a text that differs in spaces and case",
        [("The  text", A, {}), ("the text", B, {}), ("THE TEXT", B, {})],
        [("keep", "new_text", None), ("reuse", "normalized_equal", 0), ("reuse", "normalized_equal", 0)],
    ),
    (
        "a text that differs in case, with other prose beside it",
        [("The text", A, {"residual": "r"}), ("the text", B, {"residual": "s"})],
        [("keep", "new_text", None), ("review", "residual_differs", 0)],
    ),
    (
        "another extractor never shares, and is no revision",
        [("T", A, {}), ("T", A, {"extractor_id": "x-2"}), ("T ", A, {"extractor_id": "x-3"})],
        [("keep", "new_text", None), ("keep", "new_text", None), ("keep", "new_text", None)],
    ),
    (
        "another text under an equal digest",
        [("T", A, {"text_digest": "sha256:" + "0" * 64}), ("U", A, {"text_digest": "sha256:" + "0" * 64})],
        [("keep", "new_text", None), ("keep", "digest_collision", 0)],
    ),
    ("credentials in the URL", [("T", A, {"url_valid": False})], [("review", "url_invalid", None)]),
    (
        "an invalid URL comes before a failure",
        [(None, A, {"url_valid": False, "outcome": Outcome.ERROR, "validity": None})],
        [("review", "url_invalid", None)],
    ),
    ("no text", [(None, A, {})], [("review", "content_invalid", None)]),
    (
        "text of an invalid page",
        [("T", A, {"validity": Validity.UNEXPECTED_CONTENT})],
        [("review", "content_invalid", None)],
    ),
    (
        "an error",
        [(None, A, {"outcome": Outcome.ERROR, "validity": Validity.HTTP_ERROR})],
        [("none", None, None)],
    ),
    (
        "a page that is gone",
        [(None, A, {"outcome": Outcome.GONE, "validity": Validity.HTTP_ERROR})],
        [("none", None, None)],
    ),
    (
        "invalid pages with equal text share nothing",
        [
            ("denied", A, {"validity": Validity.EMPTY}),
            ("denied", B, {"validity": Validity.EMPTY}),
            ("denied", B, {}),
        ],
        [
            ("review", "content_invalid", None),
            ("review", "content_invalid", None),
            ("keep", "new_text", None),
        ],
    ),
    (
        "a key of another kind gives its reason to ordinary decisions",
        [
            ("T", A, {"key_reason": "facet_by_redirect"}),
            ("T", B, {"key_reason": "facet_by_redirect"}),
            ("T", B, {"residual": "r", "key_reason": "facet_by_redirect"}),
            (None, B, {"key_reason": "facet_by_redirect"}),
        ],
        [
            ("keep", "facet_by_redirect", None),
            ("reuse", "facet_by_redirect", 0),
            ("review", "residual_differs", 0),
            ("review", "content_invalid", None),
        ],
    ),
]


@pytest.mark.parametrize(("steps", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_rules(run, steps, expected):
    assert summary(run(*steps)) == expected


def test_the_conservative_policy_keeps_what_differs_in_spaces_and_case(run):
    decisions = run(("The text", A, {}), ("the  text", B, {}), reuse_normalized=False)
    assert summary(decisions)[1] == ("keep", "normalized_equal", 0)
    assert decisions[1].body_is_new


def test_bodies_are_shared_only_by_equal_text(run):
    first, equal, near, prose = run(
        ("T t", A, {}), ("T t", B, {}), ("t t", B, {}), ("T t", B, {"residual": "r"})
    )
    assert first.body is equal.body is prose.body
    assert near.body.record.body_id != first.body.record.body_id
    assert [one.body_is_new for one in (first, equal, near, prose)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("count", "reason"), [(MAX_BODY_BYTES // 4, "new_text"), (MAX_BODY_BYTES // 4 + 1, "body_over_cap")]
)
def test_the_cap_counts_bytes(run, count, reason):
    (decision,) = run(("\U0001f600" * count, A, {}))
    assert decision.reason == reason


def test_original_alias_other_correction_and_empty_make_three_groups(run, records):
    """The shape of a small corpus: one article under two URLs, another one, a correction, an empty page."""
    decisions = run(
        ("The original article.", A, {}),
        ("The original article.", A + "?ref=mail", {}),
        ("Another article.", B, {}),
        ("The corrected article.", A, {}),
        (None, "http://site.example/empty", {"validity": Validity.EMPTY}),
    )
    assert [one.action for one in decisions] == [
        Action.KEEP,
        Action.REUSE,
        Action.KEEP,
        Action.KEEP,
        Action.REVIEW,
    ]
    groups = {}
    for name, one in zip(["original", "alias", "other", "correction", "empty"], decisions, strict=True):
        if one.body is not None:
            groups.setdefault(one.body.record.body_id, []).append(name)
    assert list(groups.values()) == [["original", "alias"], ["other"], ["correction"]]
    assert decisions[4].reason == "content_invalid"
    apart = run(("T", A, {}), ("T ", B, {}), ("t", B + "2", {}), ("T", B + "3", {"extractor_id": "x-2"}))
    assert len({one.body.record.body_id for one in apart}) == 4
    assert len({one.body.record.text_digest for one in apart}) == 3
