"""The funnel: how many of the URLs that a crawl met were still there after each layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scrapy_dedup.crawl import stats
from scrapy_dedup.records import Validity


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the funnel.

    Attributes:
        label: what is counted.
        stat: the name of its counter.
        base: the labels of the rows whose sum it is a share of; without them it stands alone.
        saves: whether the row is what the layer left of its base (True), or a part of its base (False).
        always: whether the row is shown when nothing was counted.
    """

    label: str
    stat: str
    base: tuple[str, ...] = ()
    saves: bool = True
    always: bool = True


_ROWS = (
    _Row("requests seen", stats.REQUESTS_SEEN),
    _Row("merged by key", stats.REQUESTS_MERGED, ("requests seen",), saves=False),
    _Row("denied", stats.REQUESTS_DENIED, ("requests seen",), saves=False),
    _Row("fresh", stats.REQUESTS_FRESH, ("requests seen",), saves=False),
    _Row("pages fetched", stats.PAGES_FETCHED, ("requests seen",)),
    _Row("not modified", stats.PAGES_NOT_MODIFIED, ("requests seen",), saves=False),
    # A page that has not changed is as valid as it was, without having been fetched.
    _Row("valid pages", stats.PAGES_BY_VALIDITY + Validity.VALID.value, ("pages fetched", "not modified")),
    _Row("distinct payloads", stats.PAYLOADS_DISTINCT, ("valid pages",)),
    _Row("distinct bodies", stats.BODIES_DISTINCT, ("distinct payloads",)),
    _Row("new bodies", stats.BODIES_NEW, ("distinct bodies",), saves=False),
    _Row("near texts", stats.NEAR_TEXTS, ("new bodies",), saves=False),
    _Row("suppressed", stats.NEAR_SUPPRESSED, ("new bodies",), saves=False),
    _Row("chunks", stats.CHUNKS, always=False),
    _Row("distinct chunks", stats.CHUNKS_DISTINCT, ("chunks",), always=False),
    _Row("reused vectors", stats.EMBEDDINGS_REUSED, ("distinct chunks",), saves=False, always=False),
    _Row("aliases kept", stats.ALIASES_KEPT),
)


def funnel(counters: Mapping[str, int]) -> str:
    r"""Return the funnel as a table of plain text, one line for each layer.

    Args:
        counters: the stats of the suite by name; a missing one counts as 0.

    >>> print(funnel({"dedup/requests/seen": 200, "dedup/requests/merged": 140, "dedup/requests/fresh": 10,
    ...               "dedup/pages/fetched": 50,
    ...               "dedup/pages/validity/valid": 40, "dedup/payloads/distinct": 30,
    ...               "dedup/bodies/distinct": 27, "dedup/bodies/new": 9, "dedup/near/texts": 3,
    ...               "dedup/aliases/kept": 120}))
    requests seen           200
      merged by key         140   70.0 % of requests seen
      denied                  0    0.0 % of requests seen
      fresh                  10    5.0 % of requests seen
    pages fetched            50   75.0 % less than requests seen
      not modified            0    0.0 % of requests seen
    valid pages              40   20.0 % less than pages fetched
    distinct payloads        30   25.0 % less than valid pages
    distinct bodies          27   10.0 % less than distinct payloads
      new bodies              9   33.3 % of distinct bodies
      near texts              3   33.3 % of new bodies
      suppressed              0    0.0 % of new bodies
    aliases kept            120
    """
    counts = {row.label: counters.get(row.stat, 0) for row in _ROWS}
    return "\n".join(_line(row, counts) for row in _ROWS if row.always or row.stat in counters)


def _line(row: _Row, counts: Mapping[str, int]) -> str:
    label = row.label if row.saves else f"  {row.label}"
    line = f"{label:<17}{counts[row.label]:>10,}"
    base = sum(counts[label] for label in row.base)
    if not base:
        return line
    of = " and ".join(label for label in row.base if counts[label])
    percent = 100 * counts[row.label] / base
    if not row.saves:
        return f"{line}  {percent:5.1f} % of {of}"
    if percent > 100:
        return f"{line}  {percent - 100:5.1f} % more than {of}"
    return f"{line}  {100 - percent:5.1f} % less than {of}"
