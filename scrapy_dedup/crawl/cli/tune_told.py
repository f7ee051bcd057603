"""What ``scrapy dedup tune`` has counted, as text, false merges first, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.crawl.cli.pair_file import PairFile
from scrapy_dedup.near.claims import POLICY
from scrapy_dedup.near.schemes import PRODUCT, SCHEMES
from scrapy_dedup.near.simhash import MIN_WORDS
from scrapy_dedup.near.tuning import (
    DISTANCES,
    JACCARDS,
    MIN_TOKENS,
    Measure,
    MeasuredPair,
    Score,
    best_rule,
    better_schemes,
    likely_harm,
    radius_for,
    recommended,
    scores_of,
    unfit_for_advice,
)

FORMAT = "scrapy-dedup-tuning-1"

SHOWN_PAIRS = 30
SHOWN_SCHEMES = 2
SHOWN_LINES = 10
_SHOWN_CHARS = 60

# Rules that the product does not act by: what each of them could be trusted with by itself.
_ALONE = (
    ("fingerprints and the claim diff alone", Measure.SIMHASH, True),
    ("fingerprints alone", Measure.SIMHASH, False),
    ("Jaccard alone, as batch --no-claims", Measure.JACCARD, False),
)


def told(file: PairFile, pairs: Sequence[MeasuredPair], found: Sequence[Score]) -> str:
    """Return all that is said about labelled pairs.

    Args:
        file: that they stand in.
        pairs: the measured pairs.
        found: the scores of all rules.
    """
    same = sum(pair.same for pair in pairs)
    labels = f"{len(pairs) - same:,} different and {same:,} the same"
    lines = [f"{printable(str(file.path))}: {len(pairs):,} labelled pairs, {labels}"]
    if file.unlabelled:
        lines.append(f"left out: {file.unlabelled:,} without a label ('same' is true or false)")
    if file.equal:
        lines.append(f"equal but for white space and case: {file.equal:,}, which every threshold merges")
    short = sum(pair.tokens < MIN_TOKENS for pair in pairs)
    if short:
        lines.append(f"never merged: {short:,} with a text of fewer than {MIN_TOKENS} tokens")
    if pairs:
        lines += ["", *_false_merges(pairs), "", *_score_table(found), "", *_scheme_table(pairs, found)]
    return "\n".join([*lines, "", *_advice(pairs, found)])


def _false_merges(pairs: Sequence[MeasuredPair]) -> Iterator[str]:
    """Yield the pairs labelled different that some threshold would merge, those without a defence first."""
    doubtful = [
        pair
        for pair in pairs
        if not pair.same
        and pair.tokens >= MIN_TOKENS
        and (
            pair.value(PRODUCT, Measure.JACCARD) >= JACCARDS[0]
            or pair.value(PRODUCT, Measure.SIMHASH) <= DISTANCES[-1]
        )
    ]
    doubtful.sort(key=lambda pair: (not pair.joins, -pair.value(PRODUCT, Measure.JACCARD), pair.line))
    within = f"jaccard {JACCARDS[0]:g} or more, or {DISTANCES[-1]} bits or fewer"
    if not doubtful:
        yield f"false merges: none, however loose the threshold ({within})"
        return
    held = sum(not pair.joins for pair in doubtful)
    yield (
        f"false merges that a threshold could make ({within}): {len(doubtful):,}; "
        f"the claim diff holds {held:,} of them apart"
    )
    yield f"{'line':>8}{'jaccard':>9}{'bits':>6}{'in b':>7}{'in a':>7}  claim diff"
    for pair in doubtful[:SHOWN_PAIRS]:
        jaccard, bits = (pair.value(PRODUCT, measure) for measure in Measure)
        yield (
            f"{pair.line:>8,}{jaccard:>9.3f}{bits:>6.0f}{pair.containment_a:>7.2f}{pair.containment_b:>7.2f}"
            f"  {'apart: ' if not pair.joins else 'MERGED: '}{pair.verdict.value}{_because(pair)}"
        )
    if len(doubtful) > SHOWN_PAIRS:
        yield f"and {len(doubtful) - SHOWN_PAIRS:,} more (--json has all)"


def _because(pair: MeasuredPair) -> str:
    """Return the first difference of a pair and its note, in short."""
    parts = [f"{_short(span.a) or '-'} / {_short(span.b) or '-'}" for span in pair.spans[:1]]
    parts += [_short(pair.note)] if pair.note else []
    return printable("".join(f"; {part}" for part in parts))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


def _score_table(found: Sequence[Score]) -> Iterator[str]:
    """Yield what each threshold does under the scheme of the product."""
    yield f"{PRODUCT.name:<18}{'with the claim diff':^29}{'without':^29}".rstrip()
    yield f"{'':<18}" + f"{'false':>8}{'precision':>11}{'recall':>8}  " * 2
    for measure in Measure:
        with_claims, without = (scores_of(found, PRODUCT, measure, claims=claims) for claims in (True, False))
        for left, right in zip(with_claims, without, strict=True):
            yield f"{_rule(left):<18}{_cells(left)}{_cells(right)}".rstrip()


def _rule(score: Score) -> str:
    return f"{score.measure.value} {_bound(score)}"


def _cells(score: Score) -> str:
    return f"{len(score.false_merges):>8,}{_share(score.precision):>11}{_share(score.recall):>8}  "


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _scheme_table(pairs: Sequence[MeasuredPair], found: Sequence[Score]) -> Iterator[str]:
    """Yield how much each scheme keeps at its best threshold without a false merge."""
    if unfit_for_advice(pairs):
        return
    yield f"{'recall without a false merge':<32}{'with the claim diff':^32}{'without':^32}".rstrip()
    yield " " * 32 + "".join(f"{measure.value:<16}" for measure in Measure) * 2
    for scheme in SCHEMES:
        cells = [
            _best_cell(recommended(found, scheme, measure, claims=claims))
            for claims in (True, False)
            for measure in Measure
        ]
        name = f"{scheme.name} (the product's)" if scheme is PRODUCT else scheme.name
        yield f"{name:<32}{''.join(cells)}".rstrip()


def _best_cell(score: Score | None) -> str:
    if score is None:
        return f"{'-':<16}"
    return f"{f'{_share(score.recall)} {_bound(score)}':<16}"


def _bound(score: Score) -> str:
    return f">= {score.threshold:.2f}" if score.measure is Measure.JACCARD else f"<= {score.threshold:.0f}"


def _advice(pairs: Sequence[MeasuredPair], found: Sequence[Score]) -> Iterator[str]:
    """Yield what is recommended, and where to put it."""
    best = best_rule(pairs, found, Measure.JACCARD)
    if (reason := _reason_against(pairs, best)) is not None:
        yield f"nothing can be recommended: {reason}"
    if unfit_for_advice(pairs):
        return
    different = sum(not pair.same for pair in pairs)
    if best is None:
        strictest = scores_of(found, PRODUCT, Measure.JACCARD, claims=True)[-1]
        if strictest.false_merges:
            named = ", ".join(f"{line:,}" for line in strictest.false_merges[:SHOWN_LINES])
            yield f"  merged even at {_rule(strictest)}: line {named}; look whether the label is right"
    else:
        yield (
            f"recommended: {_rule(best)} with the claim diff; merges 0 of {different:,} different pairs, and "
            f"{best.merged:,} of {best.merged + best.missed:,} the same (recall {_share(best.recall)})"
        )
        yield f"  crawls     DEDUP_NEAR_JACCARD = {best.threshold:g}"
        yield f"             {_radius_advice(pairs, best)}"
        yield f"  a corpus   scrapy dedup batch --jaccard {best.threshold:g}"
        yield (
            f"of {different:,} different pairs none was merged; of all there are, up to "
            f"{likely_harm(different):.1%} may be"
        )
    for name, measure, claims in _ALONE:
        rule = best_rule(pairs, found, measure, claims=claims)
        yield f"{name}: {f'{_rule(rule)} (recall {_share(rule.recall)})' if rule else 'no threshold is safe'}"
    yield from _other_schemes(pairs, found)


def _reason_against(pairs: Sequence[MeasuredPair], best: Score | None) -> str | None:
    """Return why nothing is recommended, None where something is."""
    if best is not None:
        return None
    return unfit_for_advice(pairs) or "every threshold that keeps a pair merges a different one too"


def _other_schemes(pairs: Sequence[MeasuredPair], found: Sequence[Score]) -> Iterator[str]:
    """Yield which other schemes would keep more, although none of them can be chosen."""
    any_better = False
    for measure in Measure:
        best = best_rule(pairs, found, measure)
        for score in better_schemes(found, measure, best)[:SHOWN_SCHEMES]:
            any_better = True
            ours = f"{best.merged:,} at {_rule(best)}" if best else "none"
            yield (
                f"better on these pairs: {score.scheme.name}, {score.merged:,} the same at {_rule(score)}; "
                f"{PRODUCT.name}: {ours}"
            )
    if any_better:
        yield (
            f"no setting chooses a scheme, all texts are signed with {PRODUCT.name}; how many candidates "
            "another one would bring in a corpus, such pairs do not show"
        )
    else:
        yield f"no other scheme keeps more than {PRODUCT.name}"


def _radius_advice(pairs: Sequence[MeasuredPair], best: Score) -> str:
    radius = radius_for(pairs, best)
    if radius is None:
        return (
            f"DEDUP_SIMHASH_DISTANCE stays: no such pair has {MIN_WORDS} words, shorter texts are "
            "found without it"
        )
    return (
        f"DEDUP_SIMHASH_DISTANCE = {radius.bits} or more: finds {radius.found:,} of {radius.wanted:,} such "
        f"pairs of {MIN_WORDS} words or more, and verifies each"
    )


def as_json(file: PairFile, pairs: Sequence[MeasuredPair], found: Sequence[Score]) -> Mapping[str, Any]:
    """Return all measures and scores, and what is recommended, as JSON takes them; arguments as `told`."""
    best = best_rule(pairs, found, Measure.JACCARD)
    radius = radius_for(pairs, best) if best else None
    return {
        "format": FORMAT,
        "pairs_file": str(file.path),
        "claims": POLICY,
        "labelled": len(pairs),
        "same": sum(pair.same for pair in pairs),
        "unlabelled": file.unlabelled,
        "equal": file.equal,
        "recommended": None
        if best is None
        else {
            **_score_object(best),
            "DEDUP_NEAR_JACCARD": best.threshold,
            "DEDUP_SIMHASH_DISTANCE": radius.bits if radius else None,
            "batch": f"--jaccard {best.threshold:g}",
        },
        "not_recommended": _reason_against(pairs, best),
        "better_schemes": [
            _score_object(score)
            for measure in Measure
            for score in better_schemes(found, measure, best_rule(pairs, found, measure))
            if not unfit_for_advice(pairs)
        ],
        "scores": [_score_object(score) for score in found],
        "pairs": [_pair_object(pair) for pair in pairs],
    }


def _score_object(score: Score) -> Mapping[str, Any]:
    return {
        "scheme": score.scheme.name,
        "measure": score.measure.value,
        "threshold": score.threshold,
        "claim_diff": score.claims,
        "false_merges": score.false_merges,
        "merged": score.merged,
        "missed": score.missed,
        "precision": score.precision,
        "recall": score.recall,
    }


def _pair_object(pair: MeasuredPair) -> Mapping[str, Any]:
    return {
        "line": pair.line,
        "same": pair.same,
        "note": pair.note,
        "tokens": pair.tokens,
        "words": pair.words,
        "verdict": pair.verdict.value,
        "containment_a": round(pair.containment_a, 6),
        "containment_b": round(pair.containment_b, 6),
        "spans": [{"a": span.a, "b": span.b, "changes_claim": span.changes_claim} for span in pair.spans],
        "bits": _by_scheme(pair.distances),
        "jaccard": _by_scheme(tuple(round(value, 6) for value in pair.jaccards)),
    }


def _by_scheme(values: Sequence[float]) -> Mapping[str, float]:
    return {scheme.name: value for scheme, value in zip(SCHEMES, values, strict=True)}
