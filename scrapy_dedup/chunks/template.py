"""How a chunk becomes the string that is embedded.

By default it is the headings that the chunk stands under, and its text. A template of one's own may name
other things; whatever it renders is part of the identity of the chunk, so ``{url}`` makes of one text on two
pages two chunks.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

HEADING_SEPARATOR = " > "
FIELDS = ("headings", "text", "title", "url", "language")
OF_THE_PAGE = frozenset({"title", "url"})


@dataclass(frozen=True, slots=True)
class Template:
    """A template.

    Attributes:
        pattern: with fields in braces, see `FIELDS`; None is the default.

    Raises:
        ValueError: the pattern has other fields, or lacks the text.
    """

    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.pattern is None:
            return
        parsed = list(string.Formatter().parse(self.pattern))
        names = [name for _, name, _, _ in parsed if name is not None]
        if any(spec or conversion for _, _, spec, conversion in parsed):
            raise ValueError("names fields with a format or conversion; write plain fields such as {text}")
        if unknown := sorted(set(names) - set(FIELDS)):
            raise ValueError(f"names {', '.join(unknown)}; known are {', '.join(FIELDS)}")
        if "text" not in names:
            raise ValueError("lacks {text}")

    @property
    def names_the_page(self) -> bool:
        """Whether the same chunk is another string on another page."""
        return bool(OF_THE_PAGE & {name for _, name, _, _ in string.Formatter().parse(self.pattern or "")})

    def render(
        self, text: str, headings: tuple[str, ...], *, title: str | None, url: str, language: str | None
    ) -> str:
        r"""Return the string that is sent to the model.

        >>> Template().render("Words.", ("Guide", "Install"), title=None, url="", language=None)
        'Guide > Install\n\nWords.'
        """
        path = HEADING_SEPARATOR.join(headings)
        if self.pattern is None:
            return f"{path}\n\n{text}" if path else text
        values = {
            "text": text,
            "headings": path,
            "title": title or "",
            "url": url,
            "language": language or "",
        }
        return self.pattern.format_map(values).strip()
