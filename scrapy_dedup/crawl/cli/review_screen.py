"""The screen of a review: one pair of texts side by side, drawn with rich for a terminal of any size.

Whatever a page wrote is shown as text: control characters and marks that turn the writing direction as
escapes, and nothing in it is read as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest

from rich import box
from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from scrapy_dedup.content.passages import Mark, Passage, Piece, SideBySide, side_by_side
from scrapy_dedup.crawl.cli.output import printable, shown_url
from scrapy_dedup.crawl.cli.relations import evidence, similarity
from scrapy_dedup.ledger.review_queue import Entry
from scrapy_dedup.ledger.review_sides import Page, Side
from scrapy_dedup.ledger.review_verdicts import SIDES, ReviewVerdict
from scrapy_dedup.records import RelationKind, RelationRecord

VERDICT_KEYS: Mapping[str, ReviewVerdict] = {
    "r": ReviewVerdict.REPRODUCTION,
    "v": ReviewVerdict.UPDATED_VERSION,
    "p": ReviewVerdict.PARTIAL_QUOTATION,
    "t": ReviewVerdict.TRANSLATION,
    "e": ReviewVerdict.RELATED,
    "d": ReviewVerdict.DIFFERENT,
}
"""The key of each verdict."""

# Short enough for two lines of a terminal of 80 columns.
HELP = (
    ("r", "reproduction"),
    ("v", "updated"),
    ("p", "quotation"),
    ("t", "translation"),
    ("e", "related"),
    ("d", "different"),
    ("a/b", "prefer"),
    ("s", "skip"),
    ("u", "undo"),
    ("n", "next claim"),
    ("j/k", "scroll"),
    ("q", "quit"),
)

FIRST_PAGES = 3
"""URLs of either text above the texts; the others stand below them."""

# Variation selectors, and the colours of emoji.
_MODIFIERS = re.compile("[\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")

_KINDS = {
    RelationKind.CANONICAL: "A declares B to be its canonical",
    RelationKind.RESIDUAL_DIFFERS: "one main text, other prose beside it",
}
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_CLAIM = "claim"
_STYLES = {
    Mark.EQUAL: Style(),
    Mark.DIFFERS: Style(color="yellow", underline=True),
    Mark.CLAIM: Style(color="red", bold=True, reverse=True, meta={_CLAIM: True}),
    Mark.LEFT_OUT: Style(dim=True),
}
_BAR, _KEY, _FAINT = Style(reverse=True), Style(bold=True, color="cyan"), Style(dim=True)

Lines = list[list[Segment]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A pair as it is shown, with its texts compared."""

    entry: Entry
    a: Side
    b: Side
    text: SideBySide

    @classmethod
    def of(cls, entry: Entry, a: Side, b: Side) -> Shown:
        """Compare the texts of a pair."""
        return cls(entry, a, b, side_by_side(a.body.text, b.body.text))


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the pair.

    Attributes:
        heading: the first line: which pair, who decides.
        message: what the last key did, or what is preferred.
    """

    heading: str
    message: str


def draw(console: Console, frame: Frame, body: Lines, scroll: int) -> int:
    """Draw a screen and return the place that the body was scrolled to.

    Args:
        console: the terminal.
        frame: what stands above and below.
        body: as `body_of` gives it for the width of the terminal.
        scroll: the first line of the body that is to be seen.
    """
    width, height = console.size
    help_lines = _lines(console, _help(width), width)
    room = max(1, height - 2 - len(help_lines))
    scroll = max(0, min(scroll, len(body) - room))
    seen = body[scroll : scroll + room]
    hidden = len(body) - scroll - len(seen)
    more = f"  [{hidden} more lines]" if hidden else ""
    rows = [
        *_lines(console, _one_line(frame.heading), width, _BAR)[:1],
        *seen,
        *([[Segment(" " * width)]] * (room - len(seen))),
        *_lines(console, _one_line(frame.message + more), width, _FAINT)[:1],
        *help_lines,
    ][:height]
    console.print(_Rows(rows), end="", crop=False)
    return scroll


@contextmanager
def full_screen(console: Console) -> Iterator[None]:
    """Use the whole terminal, which is left as it was.

    Lines do not wrap: terminals do not agree on how wide some characters are, and a line that is wider than
    it was drawn would push all others down.
    """
    with console.screen(hide_cursor=True):
        console.file.write(_NO_WRAP)
        try:
            yield
        finally:
            console.file.write(_WRAP)


def room_of(console: Console) -> int:
    """Return how many lines of the body are to be seen at once."""
    return max(
        1, console.size.height - 2 - len(_lines(console, _help(console.size.width), console.size.width))
    )


def next_claim(body: Lines, scroll: int) -> int | None:
    """Return the next line behind the first one seen that has a mark of a changed claim, else the first."""
    marked = [
        number
        for number, line in enumerate(body)
        if any(segment.style and segment.style.meta.get(_CLAIM) for segment in line)
    ]
    return next((number for number in marked if number > scroll), marked[0] if marked else None)


def body_of(console: Console, shown: Shown) -> Lines:
    """Return the lines of a pair for the width of the terminal."""
    return _lines(console, Group(*_parts(shown, console.encoding)), console.size.width)


def message_of(text: str, encoding: str = "utf-8") -> Text:
    """Return a text that a page may have written, harmless and without markup."""
    return Text(harmless(text, encoding))


def harmless(text: str, encoding: str = "utf-8") -> str:
    r"""Return a text with its lines, and with all else that could act on a terminal as escapes.

    So is what changes the width of a character before it, and what the terminal cannot show: no column gets
    wider than it was drawn.

    >>> harmless("a\tb\n\x1b[31mc")
    'a   b\n\\x1b[31mc'
    """
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    shown = _MODIFIERS.sub(_escaped, "\n".join(map(printable, lines)))
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


# -- the parts of a pair -----------------------------------------------------------------------------------


def _parts(shown: Shown, encoding: str) -> Iterator[RenderableType]:
    entry = shown.entry
    relation = entry.relation
    yield message_of(_measures(relation), encoding)
    yield Text(
        f"place in the queue {entry.priority:.1f}: impact {entry.impact:.1f} x "
        f"uncertainty {entry.uncertainty:.2f} ({entry.because})",
        _FAINT,
    )
    yield _table([(_side("A", shown.a, encoding), _side("B", shown.b, encoding))])
    yield Padding(_places(shown.text), (1, 0))
    if relation.kind is RelationKind.RESIDUAL_DIFFERS:
        yield Text("The main texts are equal. The prose beside them is not stored: open both URLs.", _FAINT)
    yield _table(
        (_cell(a, encoding), _cell(b, encoding))
        for passage in shown.text.passages
        for a, b in _aligned(passage)
    )
    yield from _rest(shown.text)
    further = [side.pages[FIRST_PAGES:] for side in (shown.a, shown.b)]
    if any(further):
        yield Padding(Text("Further URLs", _FAINT), (1, 0, 0, 0))
        yield _table([tuple(_pages(pages, encoding) for pages in further)])


def _measures(relation: RelationRecord) -> str:
    """Return what is known of a pair and why, in one or two lines."""
    if relation.kind is not RelationKind.NEAR:
        return f"{_KINDS[relation.kind]}: {evidence(relation)}"
    return similarity(relation, "A", "B")


def _table(rows: Iterable[Sequence[RenderableType]]) -> Table:
    table = Table(box=box.MINIMAL, show_header=False, show_edge=False, expand=True, padding=(0, 1, 0, 0))
    table.add_column(ratio=1, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _side(name: str, side: Side, encoding: str) -> Text:
    body = side.body
    facts = f"{name}  {body.language or 'language unknown'}, {body.word_count:,} words"
    times = "once" if side.observations == 1 else f"{side.observations:,} times"
    first, last = (_minute(moment) for moment in (side.first_seen, side.last_seen))
    seen = f"seen {times}, {first}" + (f" to {last}" if last != first else "")
    text = Text.assemble((harmless(facts, encoding), Style(bold=True)), "\n", (seen, _FAINT))
    if not side.is_current:
        text.append("\nno page shows this text any more", Style(italic=True))
    text.append("\n").append_text(_pages(side.pages[:FIRST_PAGES], encoding))
    listed = min(len(side.pages), FIRST_PAGES)
    more = len(side.pages) - listed + side.more_pages
    if more:
        below = f", {len(side.pages) - listed:,} of them below" if len(side.pages) > listed else ""
        text.append(f"\nand {more:,} more URLs{below}", _FAINT)
    return text


def _minute(moment: str | None) -> str:
    """Return a time as it is shown, in UTC.

    >>> _minute("2026-01-02T03:04:05.678901Z")
    '2026-01-02 03:04'
    """
    return (moment or "unknown")[:16].replace("T", " ")


def _pages(pages: Sequence[Page], encoding: str) -> Text:
    return Text("\n").join(
        Text(harmless(shown_url(page.url), encoding) + (f" ({page.times}x)" if page.times > 1 else ""))
        for page in pages
    )


def _places(text: SideBySide) -> Text:
    if not text.places:
        return Text("no difference")
    places = f"{text.places:,} place{'s differ' if text.places > 1 else ' differs'}"
    claims = f", {text.claim_places:,} can change a claim" if text.claim_places else ", none changes a claim"
    legend = Text(places + claims + ":  ")
    legend.append("differs", _STYLES[Mark.DIFFERS])
    # Without the mark of a claim, which is for lines of the texts.
    legend.append("  ").append("changes a claim", Style(color="red", bold=True, reverse=True))
    return legend


def _aligned(passage: Passage) -> Iterator[tuple[list[Piece], list[Piece]]]:
    """Yield the pieces of both texts line by line, as far as the lines end in what is equal."""
    a: list[Piece] = []
    b: list[Piece] = []
    nothing: tuple[list[Piece], str] = ([], "")
    for left, right in zip_longest(_up_to_equal(passage.a), _up_to_equal(passage.b), fillvalue=nothing):
        a, b = [*a, *left[0]], [*b, *right[0]]
        *ended, rest = (left[1] or right[1]).split("\n")
        for line in ended:
            equal = Piece(line, Mark.EQUAL, len(line))
            yield [*a, equal], [*b, equal]
            a, b = [], []
        equal = Piece(rest, Mark.EQUAL, len(rest))
        a, b = [*a, equal], [*b, equal]
    yield a, b


def _up_to_equal(pieces: Sequence[Piece]) -> Iterator[tuple[list[Piece], str]]:
    """Yield what differs together with the equal text behind it; of that both texts have the same."""
    held: list[Piece] = []
    for piece in pieces:
        if piece.mark is Mark.EQUAL:
            yield held, piece.text
            held = []
        else:
            held = [*held, piece]
    if held:
        yield held, ""


def _cell(pieces: Sequence[Piece], encoding: str) -> Text:
    text = Text()
    for piece in pieces:
        text.append(_shown(piece, encoding), _STYLES[piece.mark])
    return text


def _shown(piece: Piece, encoding: str) -> str:
    if piece.mark is Mark.LEFT_OUT:
        return f"[... {piece.chars:,} characters ...]\n"
    shown = harmless(piece.text, encoding)
    # The end of a line that only one text has is to be seen too.
    return shown if piece.mark is Mark.EQUAL else shown.replace("\n", "\\n\n")


def _rest(text: SideBySide) -> Iterator[RenderableType]:
    if text.more_places:
        yield Text(f"and {text.more_places:,} more places that differ", _FAINT)
    if text.rest_a or text.rest_b:
        rest = (text.rest_a, text.rest_b)
        yield _table([tuple(Text(f"[... {chars:,} characters]" if chars else "", _FAINT) for chars in rest)])


# -- the frame ---------------------------------------------------------------------------------------------


def preferred(prefer: str | None) -> str:
    """Return what is to be said of a preference."""
    return f"{prefer.upper()} is preferred; now the verdict" if prefer in SIDES else ""


def _help(width: int) -> Text:
    """Return the keys, as many to a line as there is room for; none stands apart from what it does."""
    text, used = Text(), 0
    for key, label in HELP:
        size = len(key) + 1 + len(label)
        if used and used + 2 + size > width:
            text.append("\n")
            used = 0
        elif used:
            text.append("  ")
            used += 2
        text.append(key, _KEY).append(f" {label}")
        used += size
    return text


def _one_line(text: str) -> Text:
    return Text(printable(text), no_wrap=True, overflow="ellipsis")


def _lines(console: Console, part: RenderableType, width: int, style: Style | None = None) -> Lines:
    options = console.options.update(width=width, height=None)
    return console.render_lines(part, options, style=style, pad=True)


class _Rows:
    """Lines as they are, each in its row of the terminal."""

    def __init__(self, rows: Lines) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: object) -> Iterator[Segment]:
        for number, row in enumerate(self._rows):
            yield Control.move_to(0, number).segment
            yield from row
