"""Pages as Scrapy items: `PageItem`, which a spider yields, and `PageRow`, which goes to the feeds alone."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from itemadapter import ItemAdapter, is_item
from scrapy.http import Response

from scrapy_dedup.content.expectations import problems_of_expectation
from scrapy_dedup.records import BodyRecord, ChangeRecord, ObservationRecord

if TYPE_CHECKING:
    from typing_extensions import Self

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

MAX_EXTRA_BYTES = 64 * 1024  # the fields of one page, not its content: what is larger belongs in an own item
MAX_EXTRA_DEPTH = 20  # deeper than any data that a page states; also ends structures that contain themselves


@dataclass(frozen=True, slots=True)
class PageRow:
    """What the feeds get for a page or failure that is no item of the spider.

    Attributes:
        observation: the observation as the ledger holds it.
        body: its body, only when this observation brought it into the ledger.
        changes: what became of its key, and of keys that led to it; empty unless a feed asks for it.
    """

    observation: ObservationRecord
    body: BodyRecord | None
    changes: tuple[ChangeRecord, ...] = ()


@dataclass
class PageItem:
    """One page, yielded by a spider in place of the automatic page for its response.

    The spider makes it with `from_response`. The item pipeline of the suite fills ``observation``, ``body``,
    ``action`` and ``body_is_new``; pipelines after it can read them.

    Attributes:
        url: the URL of the response.
        extra: the spider's own fields, JSON-ready; they travel to the ``extra`` of the observation.
        content_valid: the spider's own judgement of the page; None leaves it to the suite.
        validity_reason: why, in the spider's words.
        expect: what the page must hold: a ``text``, a ``css`` selector that matches, or both.
        observation: the observation as the ledger holds it.
        body: the body that the observation refers to.
        action: ``keep``, ``reuse``, ``review`` or ``none``.
        body_is_new: whether this observation brought the body into the ledger.
        response: where the page came from, until it is processed; not a field, so never exported.
        is_repeat: whether an earlier item already stands for the same response; not a field.
        changes: what became of the page's key, where a feed asks for it; not a field.
    """

    url: str
    extra: dict[str, Any] = field(default_factory=dict)
    content_valid: bool | None = None
    validity_reason: str | None = None
    expect: dict[str, str] | None = None
    observation: ObservationRecord | None = field(default=None, repr=False)
    body: BodyRecord | None = field(default=None, repr=False)
    action: str | None = None
    body_is_new: bool = False

    def __post_init__(self) -> None:
        self.response: Response | None = None
        self.is_repeat = False
        self.changes: tuple[ChangeRecord, ...] = ()

    @classmethod
    def from_response(
        cls,
        response: Response,
        /,
        *,
        content_valid: bool | None = None,
        validity_reason: str | None = None,
        expect: Mapping[str, str] | None = None,
        **own_fields: object,
    ) -> Self:
        """Make the page item of a response.

        Args:
            response: the response of the page.
            content_valid: False when the page is not what it should be, True when it is; None leaves the
                judgement to the suite.
            validity_reason: why, kept with the observation.
            expect: ``{"text": ...}``, ``{"css": ...}`` or both; a page without it is ``unexpected_content``.
            **own_fields: kept in the ``extra`` of the observation. Dates, decimals, sets, enumerations and
                items are converted to JSON.

        Raises:
            ValueError: when an argument is wrong, or an own field cannot be written as JSON or is too large.
        """
        if not isinstance(response, Response):
            raise ValueError(f"PageItem.from_response takes a Response, not {_type_name(response)}")
        if content_valid is not None and not isinstance(content_valid, bool):
            raise ValueError(f"content_valid is {content_valid!r}; use True, False or None")
        if validity_reason is not None and not isinstance(validity_reason, str):
            raise ValueError(f"validity_reason is {_type_name(validity_reason)}; use a string")
        if validity_reason is not None and content_valid is None:
            raise ValueError("validity_reason needs content_valid=True or content_valid=False")
        item = cls(
            url=response.url,
            extra=json_ready_fields(own_fields),
            content_valid=content_valid,
            validity_reason=validity_reason,
            expect=None if expect is None else _checked_expectation(expect),
        )
        item.response = response
        return item


def json_ready_fields(own_fields: Mapping[str, object]) -> dict[str, Json]:
    """Return the fields as plain JSON values.

    Dates and times become ISO 8601 strings, decimals strings, sets sorted lists, enumerations their values,
    nested items dicts.

    Raises:
        ValueError: naming the field that has no JSON form, or the size of all when they are too large.
    """
    plain = {name: _json_ready(value, name, MAX_EXTRA_DEPTH) for name, value in own_fields.items()}
    size_bytes = len(json.dumps(plain, separators=(",", ":"), ensure_ascii=True))
    if size_bytes > MAX_EXTRA_BYTES:
        largest = max(plain, key=lambda name: len(json.dumps(plain[name])))
        raise ValueError(
            f"the own fields of this page take {size_bytes} bytes as JSON, the limit is {MAX_EXTRA_BYTES}; "
            f"the largest is {largest!r}. Keep content in an item of your own"
        )
    return plain


def _json_ready(value: object, path: str, depth_left: int) -> Json:
    if depth_left < 0:
        raise ValueError(f"field {path!r} is nested more than {MAX_EXTRA_DEPTH} deep")
    if isinstance(value, enum.Enum):
        return _json_ready(value.value, path, depth_left - 1)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"field {path!r} is {value}, which JSON cannot hold; use None")
        return value
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return _json_ready_container(value, path, depth_left)


def _json_ready_container(value: object, path: str, depth_left: int) -> Json:
    if isinstance(value, (list, tuple)):
        return [_json_ready(entry, f"{path}[{index}]", depth_left - 1) for index, entry in enumerate(value)]
    if isinstance(value, Set):
        return sorted((_json_ready(entry, path, depth_left - 1) for entry in value), key=json.dumps)
    if is_item(value):  # dicts, Scrapy items, dataclass, attrs and pydantic objects
        value = dict(ItemAdapter(value))
    if not isinstance(value, Mapping):
        raise ValueError(
            f"field {path!r} holds {_type_name(value)}, which has no JSON form; convert it first"
        )
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"field {path!r} has the key {key!r}; keys are strings in JSON")
    return {key: _json_ready(entry, f"{path}.{key}", depth_left - 1) for key, entry in value.items()}


def _checked_expectation(expect: Mapping[str, str]) -> dict[str, str]:
    for problem in problems_of_expectation(expect):
        separator = "" if problem.startswith("[") else " "
        raise ValueError(f"expect{separator}{problem}")
    return dict(expect)


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
