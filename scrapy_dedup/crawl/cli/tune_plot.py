"""The plot of ``scrapy dedup tune``: what each threshold keeps, and what it merges falsely."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from scrapy_dedup.errors import DedupError
from scrapy_dedup.near.schemes import PRODUCT
from scrapy_dedup.near.tuning import THRESHOLDS, Measure, Score, scores_of

PLOT_FORMATS = (".png", ".svg")

# Colours that are told apart with every kind of colour vision (Okabe and Ito 2008).
_WITH, _WITHOUT, _CHOSEN = "#0072b2", "#d55e00", "#009e73"

_AXES = {
    Measure.JACCARD: ("least Jaccard similarity", 0.05),
    Measure.SIMHASH: ("greatest SimHash distance, bits", 1.0),
}
_STYLES = ((True, "with the claim diff", _WITH, -0.2), (False, "without", _WITHOUT, 0.2))


def load_matplotlib() -> Any:
    """Return the class ``matplotlib.figure.Figure``, which draws without a screen.

    Raises:
        DedupError: it is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra that most users never need
    except ImportError as error:
        raise DedupError("--plot needs matplotlib, which is not installed: pip install matplotlib") from error
    return Figure


def drawn(found: Sequence[Score], best: Mapping[Measure, Score | None], suffix: str) -> bytes:
    """Return an image of the scores of the product's scheme.

    Args:
        found: all scores.
        best: the rules to mark, by measure.
        suffix: one of `PLOT_FORMATS`.

    Raises:
        DedupError: matplotlib is not installed.
    """
    figure_class = load_matplotlib()
    from matplotlib import rc_context  # noqa: PLC0415

    # The same pairs give the same bytes, so that a plot can be kept under version control.
    with rc_context({"svg.hashsalt": PRODUCT.name, "font.size": 10}):
        figure = figure_class(figsize=(11, 6.5), dpi=120, layout="constrained")
        figure.suptitle(f"{PRODUCT.name}: false merges, recall and precision by threshold")
        axes = figure.subplots(2, 2, sharex="col", height_ratios=(2, 3))
        for column, measure in enumerate(Measure):
            _draw_false_merges(axes[0][column], found, measure)
            _draw_shares(axes[1][column], found, measure)
            for row in (0, 1):
                _mark(axes[row][column], best[measure], named=row == 1)
        handles, labels = axes[1][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        image = io.BytesIO()
        figure.savefig(image, format=suffix.lower()[1:], metadata=_without_date(suffix))
    return image.getvalue()


def _draw_false_merges(axes: Any, found: Sequence[Score], measure: Measure) -> None:
    _, step = _AXES[measure]
    for claims, _label, colour, offset in _STYLES:
        scores = scores_of(found, PRODUCT, measure, claims=claims)
        shift = -offset * step if measure is Measure.JACCARD else offset * step  # whose axis is inverted
        places = [score.threshold + shift for score in scores]
        bars = axes.bar(places, [len(score.false_merges) for score in scores], 0.38 * step, color=colour)
        axes.bar_label(
            bars, [str(len(score.false_merges) or "") for score in scores], fontsize=7, color=colour
        )
    axes.set_ylabel("false merges")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.2)
    _tidy(axes)


def _draw_shares(axes: Any, found: Sequence[Score], measure: Measure) -> None:
    for claims, label, colour, _ in _STYLES:
        scores = scores_of(found, PRODUCT, measure, claims=claims)
        thresholds = [score.threshold for score in scores]
        for name, style, shares in (
            ("recall", "o-", [score.recall for score in scores]),
            ("precision", "s:", [score.precision for score in scores]),
        ):
            values = [math.nan if share is None else share for share in shares]
            # Where both are equal the wider line shows beside the narrower one, which is drawn over it.
            width, order = (1.5, 3) if claims else (4.0, 2)
            axes.plot(
                thresholds,
                values,
                style,
                color=colour,
                linewidth=width,
                markersize=4 if claims else 7,
                zorder=order,
                label=f"{name} {label}",
            )
    axes.set_ylabel("share of pairs")
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel(_AXES[measure][0])
    axes.set_xticks(THRESHOLDS[measure])
    if measure is Measure.JACCARD:
        axes.invert_xaxis()  # in both columns it gets looser to the right
    _tidy(axes)


def _mark(axes: Any, best: Score | None, *, named: bool) -> None:
    if best is None:
        return
    axes.axvline(best.threshold, color=_CHOSEN, linewidth=6, alpha=0.25, zorder=0)
    if named:
        in_left_half = THRESHOLDS[best.measure].index(best.threshold) < len(THRESHOLDS[best.measure]) / 2
        to_the_right = in_left_half != (best.measure is Measure.JACCARD)
        axes.annotate(
            f"{best.threshold:g}: most recall without a false merge,\nwith the claim diff",
            (best.threshold, 0.02),
            xytext=(8 if to_the_right else -8, 0),
            textcoords="offset points",
            horizontalalignment="left" if to_the_right else "right",
            color=_CHOSEN,
            fontsize=9,
            zorder=4,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        )


def _tidy(axes: Any) -> None:
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="y", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _without_date(suffix: str) -> Mapping[str, None]:
    return {"Date": None} if suffix.lower() == ".svg" else {}
