"""The look of the site: a page as HTML, with the furniture and the link spellings that real sites add."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from example.site.pages import (
    CATEGORIES,
    FACETS,
    PRODUCTS_PER_CATEGORY,
    PRODUCTS_PER_LISTING,
    SORTS,
    Page,
    Product,
)

COOKIE_BANNER = (
    "We value your privacy and use cookies to remember your basket and to count visits to this site.",
    "By choosing accept you agree that our partners may store them for up to thirteen months.",
)
SIDEBAR = (
    "Join our monthly newsletter and receive a voucher worth fifty crowns for your next order with us.",
    "Our shop on Harbour Street is open every weekday from nine until six, and until noon on Saturdays.",
)
LEGAL = (
    "All prices include value added tax at the statutory rate and exclude the cost of carriage.",
    "Harbour Street Trading is entered in the commercial register of the district court under number 4711.",
    "No liability is accepted for the content of external links, for which their operators alone answer.",
)
NAVIGATION = (
    ("/", "Home"),
    ("/shop/", "Shop"),
    *((f"/shop/{category}", category.capitalize()) for category in CATEGORIES),
    ("/guides/", "Guides and manuals"),
    ("/news", "News from the town"),
    ("/faq", "Questions and answers"),
    ("/changelog", "What has changed"),
    ("/live", "Live water level"),
)


@dataclass(frozen=True, slots=True)
class Visit:
    """What differs from one fetch of a page to the next.

    Attributes:
        port: where the site listens; it stands in absolute links.
        count: how many requests came before; session ids, tokens and advertisements follow from it.
        now: the time to show.
        query: the pairs of the query string, as sent.
    """

    port: int
    count: int
    now: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def main(self) -> str:
        """Origin of the site."""
        return f"http://localhost:{self.port}"

    @property
    def alias(self) -> str:
        """Origin of the site under its second host name."""
        return f"http://127.0.0.1:{self.port}"

    def token(self, purpose: str) -> str:
        """Return 32 hexadecimal digits that no other visit gets."""
        return hashlib.sha256(f"{purpose}/{self.count}".encode()).hexdigest()[:32]


def render(page: Page, visit: Visit, *, goods: Sequence[Product] = (), links: Sequence[str] = ()) -> str:
    """Return a page as HTML.

    Args:
        page: what to show.
        visit: the fetch that it is shown to.
        goods: the articles to list below the text, in this order.
        links: further links, already spelled as they shall stand in the page.
    """
    furnished = page.kind != "print"
    parts = (
        _head(page),
        _navigation(visit, personal=_is_personal(page)) if furnished else "",
        _paragraphs("div", 'id="cookie-banner" class="cookie-consent" role="dialog"', COOKIE_BANNER),
        f"<main>{_article(page, visit)}{_goods(goods, visit)}</main>",
        _facets(page, visit) if page.category else "",
        _variants(page.product, visit) if page.product and furnished else "",
        _related(visit) if _is_live(page) else "",
        _link_list("more", links),
        _paragraphs("aside", 'class="sidebar"', SIDEBAR) if furnished else "",
        _paragraphs("footer", 'class="legal"', LEGAL),
        "</body></html>\n",
    )
    return "\n".join(part for part in parts if part)


def render_message(title: str, text: str, visit: Visit) -> str:
    """Return a page of the server itself, such as an error message."""
    top = _head(Page("", "message", title, ())) + _navigation(visit, personal=False)
    return f"{top}<main><h1>{title}</h1><p>{text}</p></main></body></html>\n"


def break_markup(document: str) -> str:
    """Return the document as a careless author would have left it: unclosed, crossed and unescaped."""
    for right, wrong in (
        ("<p>", "<p><b><i>"),
        ("</p>", "</b></i>"),
        ("</article>", "</span></div>"),
        ("</body></html>", "<p>Fish & chips < 5 crowns"),
        ("<!DOCTYPE html>", ""),
        ('class="legal"', "class=legal id=legal id=again"),
    ):
        document = document.replace(right, wrong)
    return document


def _head(page: Page) -> str:
    base = '<base href="/manual/v2/">' if page.kind == "base_href" else ""
    title = escape(f"{page.title} - Harbour Street")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{base}<title>{title}</title></head><body>"
    )  # fmt: skip


def _navigation(visit: Visit, *, personal: bool) -> str:
    """Return the top of a page; a personal one holds a session id and a token that no other visit gets."""
    entries = [f'<li><a href="{path}">{text}</a></li>' for path, text in NAVIGATION]
    form = ""
    if personal:
        session = visit.token("session").upper()
        entries.append(f'<li><a href="/shop/;jsessionid={session}">Basket</a></li>')
        form = (
            f'<form action="/search"><input type="hidden" name="csrf" value="{visit.token("csrf")}"></form>'
        )
    return f'<header class="site-header">{form}<nav><ul>{"".join(entries)}</ul></nav></header>'


def _paragraphs(tag: str, attributes: str, sentences: Iterable[str]) -> str:
    return f"<{tag} {attributes}>" + "".join(f"<p>{escape(text)}</p>" for text in sentences) + f"</{tag}>"


def _article(page: Page, visit: Visit) -> str:
    paragraphs = [*map(_paragraph, page.preamble), *map(_paragraph, page.paragraphs)]
    if page.headings:
        paragraphs = [
            f"<h2>{escape(heading)}</h2>{text}"
            for heading, text in zip(page.headings, paragraphs, strict=True)
        ]
    if _is_live(page):
        paragraphs = [_timestamp(visit), paragraphs[0], _advertisement(visit), *paragraphs[1:]]
    text = "\n".join(paragraphs)
    return f"<article><h1>{escape(page.title)}</h1>\n{text}\n{_properties(page.product)}</article>"


def _paragraph(sentences: Sequence[str]) -> str:
    return f"<p>{escape(' '.join(sentences))}</p>"


def _properties(product: Product | None) -> str:
    if product is None:
        return ""
    rows = "".join(f"<tr><th>{facet}</th><td>{value}</td></tr>" for facet, value in product.facets.items())
    return f"<table><tr><th>price</th><td>{product.price} crowns</td></tr>{rows}</table>"


def _goods(goods: Sequence[Product], visit: Visit) -> str:
    if not goods:
        return ""
    cards = "".join(
        f'<li><a href="{escape(spelling)}">{escape(product.name)}</a></li>'
        for number, product in enumerate(goods)
        for spelling in (spell(_path(product), number, visit), spell(_path(product), number + 1, visit))
    )
    return f'<ul class="goods">{cards}</ul>'


def _facets(page: Page, visit: Visit) -> str:
    """Return the filters of a listing: a click adds, changes or drops one pair; pairs stand as clicked."""
    links = []
    pairs = [(name, value) for name, value in visit.query if name in FACETS or name in ("sort", "view")]
    for name, values in (*FACETS.items(), ("sort", SORTS), ("view", ("grid", "list"))):
        others = [pair for pair in pairs if pair[0] != name]
        links += [_listing(page, [*others, (name, value)]) for value in values]
        links.append(_listing(page, others))
    pages = range(1, PRODUCTS_PER_CATEGORY // PRODUCTS_PER_LISTING + 1)
    links += [_listing(page, [*pairs, ("page", str(number))]) for number in pages]
    return _link_list("filters", links)


def _listing(page: Page, pairs: list[tuple[str, str]]) -> str:
    query = urlencode(pairs)
    return page.path + ("?" + query if query else "")


def _variants(product: Product, visit: Visit) -> str:
    path = _path(product)
    links = [f"{path}?{facet}={value}" for facet in ("color", "size") for value in FACETS[facet]]
    links += [f"{path}?ref=similar", f"{path}#reviews", f"{path}?utm_source=share&utm_medium=mail"]
    links += [spell(path, visit.count, visit)]
    return _link_list("variants", links)


def _is_live(page: Page) -> bool:
    """Tell whether this is the page, or a copy of it, that looks different at each fetch."""
    return (page.duplicates_of or page.key) == "/live"


def _is_personal(page: Page) -> bool:
    return bool(page.product or page.category or _is_live(page))


def _timestamp(visit: Visit) -> str:
    return f'<p class="timestamp">Updated <time>{visit.now}</time></p>'


def _advertisement(visit: Visit) -> str:
    link = f"/p?utm_source=ad-{visit.token('ad')[:8]}"
    return f'<div class="ad-slot"><a href="{link}">Sponsored offer {visit.count}</a></div>'


def _related(visit: Visit) -> str:
    chosen = NAVIGATION[visit.count % 5 :][:4]
    return _link_list("related", [f"{path}?utm_campaign={visit.token('related')[:6]}" for path, _ in chosen])


def _link_list(name: str, links: Sequence[str]) -> str:
    if not links:
        return ""
    entries = "".join(f'<li><a href="{escape(link)}">{escape(_label(link))}</a></li>' for link in links)
    return f'<nav class="{name}"><ul>{entries}</ul></nav>'


def _label(link: str) -> str:
    return link.rpartition("/")[2][:24] or "index"


def _path(product: Product) -> str:
    return f"/shop/{product.category}/{product.slug}"


def spell(path: str, number: int, visit: Visit) -> str:
    """Return the path of a page as one of the many spellings of it that the web is full of."""
    return _SPELLINGS[number % len(_SPELLINGS)](path, visit)


def all_spellings(path: str, visit: Visit) -> Iterator[str]:
    """Yield every spelling of a path."""
    return (spelling(path, visit) for spelling in _SPELLINGS)


def _first_letter_encoded(path: str, _: Visit) -> str:
    start, _slash, last = path.rpartition("/")
    return f"{start}/%{ord(last[0]):02x}{last[1:]}"


_SPELLINGS = (
    lambda path, _: path,
    lambda path, visit: f"{path};jsessionid={visit.token('session').upper()}",
    lambda path, _: f"{path}?utm_source=list&utm_campaign=spring",
    lambda path, visit: f"http://LOCALHOST:{visit.port}{path}",
    lambda path, _: f"{path}#details",
    lambda path, visit: f"HTTP://localhost:0{visit.port}{path}",
    lambda path, _: f"{path}?fbclid=IwAR0x7Q",
    lambda path, _: f"/docs/..{path}",
    _first_letter_encoded,
    lambda path, _: f"{path}?",
)
