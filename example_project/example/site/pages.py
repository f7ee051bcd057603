"""The pages of the site, as their author sees them: what each one says, and which ones say the same.

This is the model that the manifest is written from. It knows which pages exist and what their texts are;
which URLs lead to them is the business of `example.site.site`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from example.site.handbook import PREAMBLE, chapters
from example.site.prose import Writer

SEED = "harbour-street-7"

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "tools": ("saw", "plane", "clamp", "chisel", "mallet"),
    "garden": ("secateurs", "rake", "watering can", "trowel", "wheelbarrow"),
    "kitchen": ("kettle", "grater", "casserole", "bread knife", "coffee mill"),
    "lighting": ("desk lamp", "lantern", "wall light", "torch", "reading lamp"),
    "storage": ("tin box", "shelf", "basket", "drawer unit", "coat rack"),
}

FACETS: Mapping[str, tuple[str, ...]] = {
    "color": ("black", "blue", "green", "grey", "red", "white"),
    "material": ("canvas", "glass", "nylon", "oak", "rubber", "steel"),
    "size": ("xs", "s", "m", "l", "xl", "xxl"),
    "brand": ("Aalto", "Brennan", "Corvi", "Dahl", "Ersen", "Fjord"),
    "rating": ("0", "1", "2", "3", "4", "5"),
}

SORTS = ("price", "name", "newest", "popular")

PRODUCTS_PER_CATEGORY = 40
PRODUCTS_PER_LISTING = 10

_LINES = ("Nordvik", "Tamm", "Sorrel", "Calder", "Ostrava", "Juniper", "Mistral", "Quarry")

_GUIDE_TOPICS = (
    "installing the controller", "bleeding the heating circuit", "replacing the sensor head",
    "winter shutdown", "updating the firmware", "calibrating the meter", "pairing a second gateway",
    "reading the event log", "descaling the heat exchanger", "testing the emergency stop",
    "balancing the phases", "flushing the filter", "restoring a backup", "naming the zones",
    "setting the night schedule", "exporting measurements", "moving the service display",
    "checking the earth connection", "changing the pump seal", "ordering spare parts",
)  # fmt: skip

_NEWS_TOPICS = (
    "the new tram timetable", "the swimming pool fee", "the tree register", "the harbour wall",
    "the reading week", "the glass recycling trial",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Product:
    """One article of the shop; ``facets`` holds one value for each facet."""

    slug: str
    name: str
    category: str
    price: int
    facets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """One page and the text that a reader finds in it.

    Attributes:
        key: path and meaningful query, for example ``/news?page=2``; unique for each host.
        kind: what sort of page it is, for the manifest and the look.
        title: the heading.
        paragraphs: the main text, as sentences; empty for a page without any.
        host: ``main``, or ``alias`` for a page that the second host name serves itself.
        duplicates_of: key of the page that has the same text, None for an original.
        product: the article that the page is about.
        category: the category whose goods the page lists.
        number: which page of the list this is.
        headings: one above each paragraph, or none at all.
        preamble: what stands above the main text, the same on many pages.
    """

    key: str
    kind: str
    title: str
    paragraphs: tuple[tuple[str, ...], ...]
    host: str = "main"
    duplicates_of: str | None = None
    product: Product | None = None
    category: str | None = None
    number: int = 1
    headings: tuple[str, ...] = ()
    preamble: tuple[tuple[str, ...], ...] = ()

    @property
    def path(self) -> str:
        """The path without the query."""
        return self.key.partition("?")[0]


def build_products() -> tuple[Product, ...]:
    """Return the 200 articles of the shop."""
    chance = random.Random(f"{SEED}/products")
    products = []
    for category, nouns in CATEGORIES.items():
        for number in range(PRODUCTS_PER_CATEGORY):
            noun = nouns[number % len(nouns)]
            line = _LINES[number // len(nouns)]
            name = f"{line} {noun} {chance.randrange(100, 1000)}"
            facets = {facet: chance.choice(values) for facet, values in FACETS.items()}
            slug = name.lower().replace(" ", "-")
            products.append(Product(slug, name, category, chance.randrange(40, 900), facets))
    return tuple(products)


def build_pages(edition: int = 1) -> tuple[Page, ...]:
    """Return every page of the site.

    Args:
        edition: 1 or more; another edition differs in the text of ``/changelog`` alone.
    """
    writer = Writer(SEED)
    originals = [*_shop(writer), *_guides(writer), *_news(writer), *_special(writer), *_handbook()]
    originals.append(_changelog(edition, writer))
    return (*originals, *_copies({page.key: page for page in originals}))


def _shop(writer: Writer) -> Iterator[Page]:
    yield Page(
        "/shop/",
        "landing",
        "The shop on Harbour Street",
        writer.paragraphs("listing", {"topic": "household"}),
    )
    products = build_products()
    for category in CATEGORIES:
        for number in range(1, PRODUCTS_PER_CATEGORY // PRODUCTS_PER_LISTING + 1):
            text = writer.paragraphs("listing", {"topic": category}, count=2)
            page = Page(
                f"/shop/{category}?page={number}",
                "listing",
                f"{category.capitalize()}, page {number}",
                text,
                category=category,
                number=number,
            )
            if number == 1:
                yield replace(page, key=f"/shop/{category}")
                yield replace(page, duplicates_of=f"/shop/{category}")
            else:
                yield page
    # The target of /shop/sale: a filtered view that nothing but a redirect should lead into the store.
    yield Page(
        "/shop/garden?color=red&sort=price",
        "facet_view",
        "Red garden things on sale",
        writer.paragraphs("listing", {"topic": "red garden"}, count=2),
        category="garden",
    )
    for product in products:
        noun = " ".join(product.name.split()[1:-1])
        text = writer.paragraphs("product", {"name": product.name, "noun": noun})
        key = f"/shop/{product.category}/{product.slug}"
        yield Page(key, "product", product.name, text, product=product)


def _guides(writer: Writer) -> Iterator[Page]:
    for topic in _GUIDE_TOPICS:
        slug = topic.replace(" the ", " ").replace(" a ", " ").replace(" ", "-")
        yield _guide(f"/docs/{slug}", "guide", topic, writer)
    for key, topic in (
        ("/docs/api/Client", "using the Client class"),
        ("/docs/api/client", "running client.exe"),
    ):
        yield _guide(key, "case_sensitive", topic, writer)


def _guide(key: str, kind: str, topic: str, writer: Writer) -> Page:
    text = writer.paragraphs("guide", {"topic": topic})
    return Page(key, kind, topic.capitalize(), text, preamble=PREAMBLE)


def _handbook() -> Iterator[Page]:
    for chapter in chapters():
        key = f"/handbook/v{chapter.version}/{chapter.name}"
        yield Page(key, "handbook", chapter.title, chapter.paragraphs, headings=chapter.headings)


def _news(writer: Writer) -> Iterator[Page]:
    for number, topic in enumerate(_NEWS_TOPICS, start=1):
        page = Page(
            f"/news?page={number}",
            "news",
            f"Town news, page {number}",
            writer.paragraphs("news", {"topic": topic}),
        )
        if number == 1:
            yield replace(page, key="/news")
            yield replace(page, duplicates_of="/news")
        else:
            yield page


_SPECIAL: tuple[tuple[str, str, str, str], ...] = (
    ("/", "home", "news", "the harbour street site"),
    ("/guides/", "slash_added", "guide", "finding the right guide"),
    ("/faq", "slash_removed", "guide", "asking for help"),
    ("/foo", "slash_is_404", "guide", "foo connectors"),
    ("/bar/", "no_slash_is_404", "guide", "bar graphs"),
    ("/compare?a=1&b=2", "order_sensitive", "guide", "comparing two units"),
    ("/p", "utm_redirect", "news", "the spring campaign"),
    ("/c", "session_redirect", "guide", "the guided tour"),
    ("/wall", "cookie_redirect", "news", "the age check"),
    ("/broken", "broken_html", "guide", "mending old pages"),
    ("/manual/", "base_href", "guide", "using the manual"),
    ("/manual/v2/install", "behind_base", "guide", "mounting the cabinet"),
    ("/manual/v2/configure", "behind_base", "guide", "choosing the units"),
    ("/manual/v2/operate", "behind_base", "guide", "the daily round"),
    ("/live", "changing", "news", "the water level"),
    ("/gallery?id=1", "query_is_content", "news", "the first photograph"),
    ("/gallery?id=2", "query_is_content", "news", "the second photograph"),
    ("/gallery?id=3", "query_is_content", "news", "the third photograph"),
    ("/map?utm_zone=32&utm_easting=461300", "not_tracking", "news", "the western map sheet"),
    ("/map?utm_zone=33&utm_easting=461300", "not_tracking", "news", "the eastern map sheet"),
    ("/files/report?doc=A7", "signed", "news", "the annual report"),
    ("/files/report?doc=B2", "signed", "news", "the noise report"),
    ("/files/report?doc=C9", "signed", "news", "the bridge report"),
)


def _special(writer: Writer) -> Iterator[Page]:
    for key, kind, genre, topic in _SPECIAL:
        yield Page(key, kind, topic[0].upper() + topic[1:], writer.paragraphs(genre, {"topic": topic}))
    yield Page("/empty", "empty", "", ())


def _changelog(edition: int, others: Writer) -> Page:
    writer = Writer(f"{SEED}/changelog/{edition}", after=others)
    topic = f"release {edition}.0"
    return Page("/changelog", "edited", "What is new", writer.paragraphs("guide", {"topic": topic}))


def _copies(originals: Mapping[str, Page]) -> Iterator[Page]:
    guides = [page for page in originals.values() if page.kind == "guide"]
    products = [page for page in originals.values() if page.kind == "product"]
    handbook = [page for page in originals.values() if page.kind == "handbook"]
    live = originals["/live"]
    yield from _under("/mirror", "mirror", [*guides[:10], live])
    yield from _under("/print", "print", [*guides[5:10], *products[:10], *handbook, live])
    for page in guides[10:15]:
        yield replace(page, kind="alias", host="alias", duplicates_of=page.key)


def _under(prefix: str, kind: str, pages: Iterable[Page]) -> Iterator[Page]:
    for page in pages:
        yield replace(page, key=prefix + page.key, kind=kind, duplicates_of=page.key)
