"""Page items: what a spider may put into one, and what it learns when it may not."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json

import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from itemadapter import ItemAdapter
from scrapy.http import HtmlResponse

from scrapy_dedup.crawl.items import MAX_EXTRA_BYTES, PageItem, json_ready_fields


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Price:
    amount: decimal.Decimal


class Offer(scrapy.Item):
    price = scrapy.Field()


def response():
    return HtmlResponse("https://shop.example/p", body=b"<h1>Lamp</h1>", encoding="utf-8")


def test_an_item_carries_its_response_outside_its_fields():
    page = response()
    item = PageItem.from_response(page, sku="L-1")
    assert item.response is page
    assert item.url == "https://shop.example/p"
    assert "response" not in ItemAdapter(item).field_names()
    assert ItemAdapter(item).asdict()["extra"] == {"sku": "L-1"}


def test_the_log_line_of_an_item_shows_no_page_text():
    assert "observation" not in repr(PageItem.from_response(response()))


def test_items_do_not_share_their_fields():
    first, second = PageItem(url="a"), PageItem(url="b")
    first.extra["x"] = 1
    assert second.extra == {}


CONVERTED = [
    ("text", "x", "x"),
    ("none", None, None),
    ("true stays a boolean", True, True),
    ("date", dt.date(2026, 1, 2), "2026-01-02"),
    ("aware time", dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone.utc), "2026-01-02T03:00:00+00:00"),
    ("decimal keeps its digits", decimal.Decimal("1.10"), "1.10"),
    ("set is sorted", {"b", "a"}, ["a", "b"]),
    ("set of mixed types is sorted too", frozenset({"1", 1}), ["1", 1]),
    ("tuple", (1, 2), [1, 2]),
    ("enumeration", Colour.RED, "red"),
    ("dataclass", Price(decimal.Decimal(3)), {"amount": "3"}),
    ("Scrapy item", Offer(price=3), {"price": 3}),
    ("nested", {"a": [{"b": {1}}]}, {"a": [{"b": [1]}]}),
]


@pytest.mark.parametrize(
    ("value", "expected"), [case[1:] for case in CONVERTED], ids=[c[0] for c in CONVERTED]
)
def test_own_fields_become_json(value, expected):
    extra = PageItem.from_response(response(), own=value).extra
    assert extra == {"own": expected}
    assert json.loads(json.dumps(extra)) == extra


def itself():
    loop = []
    loop.append(loop)
    return loop


REFUSED = [
    ("object", {"own": object()}, r"'own' holds builtins\.object"),
    ("bytes", {"own": b"x"}, r"'own' holds builtins\.bytes"),
    ("nested object", {"own": {"a": [object()]}}, r"'own\.a\[0\]' holds"),
    ("selector list", {"own": response().css("h1")}, r"'own\[0\]' holds parsel\.selector\.Selector|Selector"),
    ("not a number", {"own": float("nan")}, "'own' is nan"),
    ("infinite", {"own": float("inf")}, "'own' is inf"),
    ("key that is no string", {"own": {1: 2}}, "'own' has the key 1"),
    ("a list that holds itself", {"own": itself()}, "deep"),
    (
        "too large",
        {"small": 1, "own": "x" * MAX_EXTRA_BYTES},
        f"limit is {MAX_EXTRA_BYTES}; the largest is 'own'",
    ),
    ("expect is no mapping", {"expect": "text"}, "expect is 'text'"),
    ("expect is empty", {"expect": {}}, "expect is {}"),
    ("unknown expectation", {"expect": {"xpath": "//p"}}, "key 'xpath'; the keys are 'text' and 'css'"),
    ("empty text", {"expect": {"text": " "}}, r"expect\['text'\] is ' '"),
    ("number as text", {"expect": {"text": 3}}, r"expect\['text'\] is 3"),
    ("broken selector", {"expect": {"css": "h1:::"}}, r"expect\['css'\] is 'h1:::', not a CSS selector"),
    ("validity as text", {"content_valid": "no"}, "content_valid is 'no'"),
    ("validity as number", {"content_valid": 0}, "content_valid is 0"),
    (
        "reason that is no text",
        {"content_valid": False, "validity_reason": 3},
        "validity_reason is builtins.int",
    ),
    ("reason without judgement", {"validity_reason": "sold out"}, "needs content_valid"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_a_wrong_argument_is_refused_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        PageItem.from_response(response(), **arguments)


def test_an_own_field_may_be_called_response_but_not_hold_one():
    with pytest.raises(ValueError, match="'response' holds"):
        PageItem.from_response(response(), response=response())


def test_only_a_response_makes_a_page():
    with pytest.raises(ValueError, match=r"takes a Response, not builtins\.str"):
        PageItem.from_response("https://shop.example/")


def test_a_judgement_and_an_expectation_are_kept():
    item = PageItem.from_response(
        response(),
        content_valid=False,
        validity_reason="sold out",
        expect={"text": "Lamp", "css": "h1::text"},
    )
    assert (item.content_valid, item.validity_reason) == (False, "sold out")
    assert item.expect == {"text": "Lamp", "css": "h1::text"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_json_stays_as_it_is(fields):
    assert json_ready_fields(fields) == fields
