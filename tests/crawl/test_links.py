"""What a callback yields comes back from the ledger as it was, or is not kept at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import HtmlResponse, JsonRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_dedup.crawl.links import (
    MAX_LINKS,
    MAX_LINKS_BYTES,
    LinkCodec,
    LinkList,
    Unstorable,
    note_arguments,
    stored_links,
)
from scrapy_dedup.records import Outcome

URL = "https://docs.example/a"


class Base(Spider):
    name = "own"

    @property
    def trap(self):
        raise RuntimeError("nobody may look at this")

    def parse(self, response):
        return ()

    def parse_page(self, response):
        return ()

    def _secret(self, response):
        return ()

    def failed(self, failure):
        return ()


class Own(Base):
    def parse_page(self, response):
        return ()

    def parents_page(self):
        return super().parse_page

    @classmethod
    def of_the_class(cls, response):
        return ()

    @staticmethod
    def of_nobody(response):
        return ()


class Ruled(CrawlSpider):
    name = "ruled"
    rules = (Rule(callback="parse_page"), Rule())

    def parse_page(self, response):
        return ()


OWN = Own()
CODEC = LinkCodec(OWN)


def whole(*requests, author=None):
    """Return the list of some links, as of a page that `parse` was called for."""
    links = LinkList(CODEC, author or Request(URL))
    for request in requests:
        links.add(request)
    links.is_whole = True
    return links


def attributes_of(request):
    return {name: getattr(request, name) for name in Request.attributes}


KEPT = {
    "a plain link": Request(URL),
    "a fragment": Request(URL + "#part"),
    "a callback and an errback": Request(URL, OWN.parse_page, errback=OWN.failed),
    "a method with a leading underscore": Request(URL, OWN._secret),
    "arguments": Request(
        URL, cb_kwargs={"page": 2, "path": ["a", {"b": None}], "share": 0.5, "is_last": False}
    ),
    "meta of the user": Request(URL, meta={"cookiejar": 3, "rule": 1, "link_text": "Großes Ö \ud83d"}),
    "the role of a listing": Request(URL, meta={"dedup_role": "listing", "dedup": False}),
    "a verbatim URL": Request("https://docs.example/a b", meta={"verbatim_url": True}),
    "order": Request(URL, priority=-3, dont_filter=True),
    "headers of several values": Request(
        URL, headers={"Accept-Language": ["de", "fr"], "X-Odd": b"\xff\x00"}
    ),
    "another encoding": Request("https://docs.example/ä", encoding="latin-1"),
    "flags": Request(URL, flags=["seen"]),
}


@pytest.mark.parametrize("request_", KEPT.values(), ids=KEPT.keys())
def test_a_link_comes_back_as_it_was(request_):
    (made,) = stored_links(whole(request_).text(), Request(URL), CODEC)

    assert attributes_of(made) == attributes_of(request_)
    assert type(made) is Request


def test_what_belongs_to_the_way_of_one_request_is_left_out():
    journey = {
        "depth": 3,
        "retry_times": 1,
        "redirect_urls": [URL],
        "download_latency": 0.1,
        "cached_response": object(),
    }
    ours = {"dedup_linked": [URL, URL], "dedup_ticket": "ab", "dedup_yielded": True}

    (made,) = stored_links(
        whole(Request(URL, meta={**journey, **ours, "mine": 1})).text(), Request(URL), CODEC
    )

    assert made.meta == {"mine": 1}


REFUSED = {
    "a function": ("callback", lambda: Request(URL, lambda response: ())),
    "a lambda for an errback": ("callback", lambda: Request(URL, errback=lambda failure: ())),
    "a method of another spider": ("callback", lambda: Request(URL, Own().parse_page)),
    "a method that a subclass hides": ("callback", lambda: Request(URL, OWN.parents_page())),
    "a class method": ("callback", lambda: Request(URL, OWN.of_the_class)),
    "a static method": ("callback", lambda: Request(URL, OWN.of_nobody)),
    "a form": ("method", lambda: FormRequest(URL, formdata={"q": "a"})),
    "a form that is sent by GET": ("class", lambda: FormRequest(URL, method="GET", formdata={"q": "a"})),
    "a GET with a body": ("method", lambda: Request(URL, body=b"q")),
    "JSON": ("method", lambda: JsonRequest(URL, data={"q": 1})),
    "a HEAD": ("method", lambda: Request(URL, method="HEAD")),
    "cookies": ("secret", lambda: Request(URL, cookies={"session": "1"})),
    "a header with credentials": ("secret", lambda: Request(URL, headers={"authorization": "Basic YTpi"})),
    "a URL with credentials": ("secret", lambda: Request("https://ann:pass@docs.example/")),
    "a proxy with credentials": ("secret", lambda: Request(URL, meta={"proxy": "http://a:b@proxy.example"})),
    "a tuple, which JSON makes a list": ("not_json", lambda: Request(URL, meta={"pair": (1, 2)})),
    "an object": ("not_json", lambda: Request(URL, cb_kwargs={"spider": OWN})),
    "an enumeration": ("not_json", lambda: Request(URL, meta={"state": Outcome.GONE})),
    "bytes": ("not_json", lambda: Request(URL, meta={"raw": b"a"})),
    "a key that is a number": ("not_json", lambda: Request(URL, meta={"by": {1: 2}})),
    "not a number": ("not_json", lambda: Request(URL, meta={"share": float("nan")})),
    "a boolean's kin": ("not_json", lambda: Request(URL, meta={"deep": [[[{"a": {1}}]]]})),
}


@pytest.mark.parametrize(("reason", "make"), REFUSED.values(), ids=REFUSED.keys())
def test_a_page_with_a_link_that_cannot_be_told_has_no_list(reason, make):
    links = whole(Request(URL), make(), Request(URL + "/b"))

    assert links.text() is None
    assert links.fault == reason


def test_meta_that_contains_itself_is_refused():
    loop: dict = {}
    loop["again"] = loop

    assert whole(Request(URL, meta=loop)).fault == "not_json"


def test_a_list_is_whole_or_not_there():
    links = LinkList(CODEC, Request(URL))
    links.add(Request(URL))
    assert links.text() is None

    links.is_whole = True
    assert links.text() is not None

    links.spoil("failed")
    assert links.text() is None


def test_a_page_without_links_has_an_empty_list():
    assert stored_links(whole().text(), Request(URL), CODEC) == []


def test_equal_links_of_a_page_are_kept_once_and_in_order():
    links = [Request(URL + "/b"), Request(URL + "/a"), Request(URL + "/b"), Request(URL + "/b", priority=1)]

    made = stored_links(whole(*links).text(), Request(URL), CODEC)

    assert [(one.url[-1], one.priority) for one in made] == [("b", 0), ("a", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("count", "size", "fits"),
    [
        (MAX_LINKS, 30, True),
        (MAX_LINKS + 1, 30, False),
        (10, MAX_LINKS_BYTES // 11, True),
        (10, MAX_LINKS_BYTES // 10, False),
    ],
)
def test_a_list_is_bounded(count, size, fits):
    links = whole(*(Request(f"{URL}?{number}".ljust(size, "x")) for number in range(count)))

    text = links.text()
    assert (text is not None) == fits
    assert fits or links.fault == "too_many"
    assert not fits or len(stored_links(text, Request(URL), CODEC)) == count


def test_middlewares_may_change_a_request_after_it_was_taken_down():
    request = Request(URL, meta={"tags": ["a"]})
    links = whole(request)
    request.meta["tags"].append("b")
    request.priority = 9

    (made,) = stored_links(links.text(), Request(URL), CODEC)

    assert (made.meta, made.priority) == ({"tags": ["a"]}, 0)


@pytest.mark.parametrize(
    ("stored_by", "asked_by", "is_same"),
    [
        (Request(URL), Request(URL, OWN.parse), True),
        (Request(URL, OWN.parse_page), Request(URL, OWN.parse_page, cb_kwargs={"page": 1}), True),
        (Request(URL, OWN.parse_page), Request(URL), False),
        (Request(URL), Request(URL, OWN.parse_page), False),
        (Request(URL), Request(URL, lambda response: ()), False),
    ],
    ids=["parse is the default", "the same callback", "another before", "another now", "no method now"],
)
def test_links_are_of_the_callback_that_yielded_them(stored_by, asked_by, is_same):
    links = stored_links(whole(Request(URL), author=stored_by).text(), asked_by, CODEC)

    assert (links is not None) == is_same


def test_links_of_a_crawl_spider_are_of_its_rule():
    codec = LinkCodec(Ruled())
    body = f'<a href="{URL}">to <b>a</b></a>'.encode()
    (link,) = LinkExtractor().extract_links(HtmlResponse(URL, body=body, encoding="utf-8"))
    request, other = (codec._spider._build_request(rule, link) for rule in (0, 1))
    links = LinkList(codec, request)
    links.add(other)
    links.is_whole = True

    (made,) = stored_links(links.text(), request, codec)

    assert attributes_of(made) == attributes_of(other)
    assert made.meta == {"rule": 1, "link_text": "to a"}
    assert stored_links(links.text(), other, codec) is None
    assert stored_links(links.text(), Request(URL), codec) is None


DAMAGED = {
    "nothing": None,
    "no JSON": "{",
    "another kind of JSON": "[]",
    "nested without end": "[" * 100_000,
    "a later format": json.dumps({"format": 2, "author": "_parse", "links": []}),
    "no links": json.dumps({"format": 1, "author": "_parse"}),
    "a link without a URL": json.dumps({"format": 1, "author": "_parse", "links": [{}]}),
    "a URL that is none": json.dumps({"format": 1, "author": "_parse", "links": [{"url": 1}]}),
    "a callback that is gone": json.dumps(
        {"format": 1, "author": "_parse", "links": [{"url": URL, "callback": "x"}]}
    ),
    "a callback that is no method": json.dumps(
        {"format": 1, "author": "_parse", "links": [{"url": URL, "callback": "__class__"}]}
    ),
    "a property for a callback": json.dumps(
        {"format": 1, "author": "_parse", "links": [{"url": URL, "callback": "trap"}]}
    ),
    "headers that are none": json.dumps(
        {"format": 1, "author": "_parse", "links": [{"url": URL, "headers": 7}]}
    ),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_list_that_cannot_be_read_is_none(text):
    assert stored_links(text, Request(URL), CODEC) is None


PLAIN = {"left": 1, "rule": 0, "link_text": "More", "depth": 3, "proxy": "http://127.0.0.1:1"}

# What a request gives its callback when the page is asked for again, and whether its links can stand for it.
ARGUMENTS = {
    "the same": (PLAIN, {"path": ["a"]}, True),
    "the same by another way": (
        {"rule": 0, "left": 1, "depth": 9, "link_text": "Next"},
        {"path": ["a"]},
        True,
    ),
    "other meta": (PLAIN | {"left": 2}, {"path": ["a"]}, False),
    "meta of another type": (PLAIN | {"left": "1"}, {"path": ["a"]}, False),
    "more meta": (PLAIN | {"is_leaf": True}, {"path": ["a"]}, False),
    "meta that is an object": (PLAIN | {1: object(), "it": object()}, {"path": ["a"]}, False),
    "other arguments": (PLAIN, {"path": ["b"]}, False),
    "no arguments": (PLAIN, {}, False),
}


@pytest.mark.parametrize(("meta", "arguments", "stands"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_links_stand_for_a_page_under_equal_arguments_of_its_callback(meta, arguments, stands):
    first, again = Request(URL, meta=PLAIN, cb_kwargs={"path": ["a"]}), Request(URL, meta=meta)
    again.cb_kwargs.update(arguments)
    note_arguments(first)
    note_arguments(again)
    first.meta["added_by_a_middleware"] = 7

    assert (stored_links(whole(author=first).text(), again, CODEC) is not None) == stands


def test_objects_in_meta_are_told_by_their_type():
    first, again = (Request(URL, meta={"it": object(), 1: b"x"}) for _ in range(2))
    note_arguments(first)
    note_arguments(again)

    assert stored_links(whole(author=first).text(), again, CODEC) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    meta=st.dictionaries(st.text(), json_values, max_size=4),
    arguments=st.dictionaries(st.text(), json_values, max_size=4),
)
def test_whatever_json_can_say_comes_back_unchanged(meta, arguments):
    request = Request(URL, meta={f"my_{name}": value for name, value in meta.items()}, cb_kwargs=arguments)

    (made,) = stored_links(whole(request).text(), Request(URL), CODEC)

    assert repr(made.meta) == repr(request.meta)  # which tells 0 from 0.0 and -0.0
    assert repr(made.cb_kwargs) == repr(request.cb_kwargs)


def test_the_codec_says_why():
    with pytest.raises(Unstorable, match="callback"):
        CODEC.method_of("no_such_method")
