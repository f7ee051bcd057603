"""How values stand in the ledger: pure functions, each with its inverse, the same on every engine.

Strings: neither SQLite nor PostgreSQL can hold every Python string. PostgreSQL refuses U+0000, both drivers
refuse lone surrogates, and URLs, headers and titles of real pages contain both. ``escape`` writes each such
character, and its own escape character U+0010, as U+0010 followed by four hexadecimal digits; ``unescape``
is exact. The text of a body is well-formed by contract and is stored as compressed UTF-8 bytes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
import re
import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from scrapy_dedup.errors import RecordError

CODEC_ZLIB = 1
"""Level 1: 73 microseconds and a third of the size for an average page; more effort gains little."""

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
MAX_EXTRA_BYTES = 262_144
MAX_SOURCED_CHARS = 10_000
_MAX_DEPTH = 20

_ESCAPE = "\x10"
_UNSAFE = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")
_IDENTITY = re.compile("(?:obs1|body1|rel1|dec1|entry1|plan1)-([0-9a-f]{32})")
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_canonical = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND


def escape(text: str) -> str:
    r"""Return ``text`` in a form that every engine can hold.

    >>> escape("caf\u00e9"), escape("a\x00b")
    ('café', 'a\x100000b')
    """
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def unescape(stored: str) -> str:
    """Return the string that ``escape`` was given."""
    if _ESCAPE not in stored:
        return stored
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), stored)


def escape_optional(text: str | None) -> str | None:
    """``escape`` that lets None pass."""
    return None if text is None else escape(text)


def unescape_optional(stored: str | None) -> str | None:
    """``unescape`` that lets None pass."""
    return None if stored is None else unescape(stored)


def pack_int(value: int | None, largest: int) -> int | None:
    """Return a whole number that a column of up to ``largest`` can hold; None passes.

    >>> pack_int(200, MAX_INT32)
    200

    Raises:
        RecordError: it is no whole number, or beyond the column.
    """
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError as error:
        raise RecordError(f"{value!r:.50} is not a whole number") from error
    if abs(number) > largest:
        raise RecordError(f"a whole number of {number.bit_length()} bits does not fit into the ledger")
    return number


def to_micros(moment: str) -> int:
    """Return the microseconds since 1970 of an RFC 3339 time with an offset.

    >>> to_micros("1970-01-01T00:00:01.5Z")
    1500000

    Raises:
        RecordError: the string is not such a time, or not one that can be written in UTC.
    """
    head, dot, tail = moment.replace("Z", "+00:00").partition(".")
    if dot:
        digits = re.match(r"\d*", tail)
        fraction = digits[0] if digits else ""
        head = f"{head}.{fraction[:6]:0<6}{tail[len(fraction) :]}"
    try:
        micros = (datetime.fromisoformat(head) - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError) as error:
        raise RecordError(f"{moment!r} is not an RFC 3339 time with an offset") from error
    if not _FIRST <= micros <= _LAST:
        raise RecordError(f"{moment!r} is outside the years 1 to 9999 in UTC")
    return micros


def from_micros(micros: int) -> str:
    """Return the RFC 3339 time in UTC of ``micros``; the fraction stands only where there is one.

    >>> from_micros(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return (_EPOCH + micros * _MICROSECOND).replace(tzinfo=None).isoformat() + "Z"


def pack_digest(digest: str) -> bytes:
    """Return the 32 bytes of ``sha256:<64 hex>``.

    Raises:
        RecordError: the string is not such a digest.
    """
    scheme, _, hexadecimal = digest.partition(":")
    try:
        packed = bytes.fromhex(hexadecimal)
    except ValueError:
        packed = b""
    if scheme != "sha256" or len(packed) != 32 or len(hexadecimal) != 64:
        raise RecordError(f"{digest!r} is not a digest of the form sha256:<64 hex>")
    return packed


def unpack_digest(packed: bytes) -> str:
    """Return the written form of a SHA-256 digest."""
    return "sha256:" + bytes(packed).hex()


def pack_simhash(hexadecimal: str) -> int:
    """Return 16 hexadecimal digits as the signed 64-bit integer that both engines can hold.

    >>> pack_simhash("ffffffffffffffff"), pack_simhash("0000000000000010")
    (-1, 16)
    """
    try:
        unsigned = int(hexadecimal, 16)
    except ValueError:
        unsigned = -1
    if len(hexadecimal) != 16 or unsigned < 0:
        raise RecordError(f"{hexadecimal!r} is not a fingerprint of 16 hexadecimal digits")
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def unpack_simhash(signed: int) -> str:
    """Return the 16 hexadecimal digits of a signed 64-bit fingerprint."""
    return f"{signed & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def pack_text(text: str) -> bytes:
    """Return the text of a body as compressed UTF-8.

    Raises:
        RecordError: the text holds a lone surrogate; such text is malformed and is never a body.
    """
    try:
        return zlib.compress(text.encode(), 1)
    except UnicodeEncodeError as error:
        raise RecordError("the text of a body holds a lone surrogate") from error


def unpack_text(codec: int, data: bytes) -> str:
    """Return the text of a body.

    Raises:
        RecordError: the codec is unknown or the data is damaged.
    """
    if codec != CODEC_ZLIB:
        raise RecordError(f"the text of a body is stored with an unknown codec {codec}")
    try:
        return zlib.decompress(data).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise RecordError("the stored text of a body is damaged") from error


def pack_json(value: object) -> str:
    """Return compact JSON, escaped for storage."""
    if value in ({}, []):
        return "{}" if value == {} else "[]"
    return escape(_compact(value))


def unpack_json(stored: str) -> Any:
    """Return the value that ``pack_json`` was given."""
    if stored in {"{}", "[]"}:  # most pages have no fields of their own and no redirects
        return {} if stored == "{}" else []
    return json.loads(unescape(stored))


def jsonable(value: object, depth: int = 0) -> Any:
    """Return ``value`` in types that JSON has; whatever JSON cannot say is written as its string.

    >>> jsonable({"price": 1.5, "seen": {3}, 4: (1, None), "odd": float("nan")})
    {'price': 1.5, 'seen': '{3}', '4': [1, None], 'odd': 'nan'}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        return {str(key): jsonable(entry, depth + 1) for key, entry in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
        return [jsonable(entry, depth + 1) for entry in value]
    return str(value)


def bounded(fields: Mapping[str, Any], max_bytes: int = MAX_EXTRA_BYTES) -> dict[str, Any]:
    """Return ``fields`` as JSON values within ``max_bytes``; fields that don't fit are named, not kept.

    Fields are kept in order as long as they fit. The names of the others stand under ``dropped_fields``.

    >>> bounded({"a": 1, "b": "x" * 100}, max_bytes=50)
    {'a': 1, 'dropped_fields': ['b']}
    """
    plain: dict[str, Any] = jsonable(fields)
    if not plain or len(pack_json(plain).encode()) <= max_bytes:
        return plain
    room = max_bytes
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, value in plain.items():
        size = len(pack_json({name[:max_bytes]: value}).encode())
        if size <= room:
            kept[name] = value
            room -= size
        else:
            dropped.append(name[:100])
    if dropped:
        kept["dropped_fields"] = dropped[:100]
    return kept


def url_digest(url: str) -> bytes:
    """Return the 16 bytes by which a URL or a key is found; equal strings only have equal digests."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()[:16]


@functools.lru_cache(maxsize=1024)
def observation_id(job_id: str, seq: int) -> str:
    """Return the identity of one observation: a digest of its job and its place in it."""
    return _identity("obs1-", ["observation", 1, job_id, seq])


def body_id(corpus: str, text_digest: str, representation: str, extractor_id: str, variant: int = 0) -> str:
    """Return the identity of one body.

    ``variant`` is 0; a text that differs under an equal digest counts on.
    """
    return _identity("body1-", ["body", 1, corpus, text_digest, representation, extractor_id, variant])


def relation_id(
    kind: str, corpus: str, a: str, b: str, *, a_digest: str | None = None, b_digest: str | None = None
) -> str:
    """Return the identity of a relation: of its kind, its sides, and the content that they had."""
    return _identity("rel1-", ["relation", 1, kind, corpus, a, b, a_digest, b_digest])


def decision_id(relation: str, action: str, by: str, at: str, nonce: str) -> str:
    """Return the identity of a decision; ``nonce`` tells two equal ones of the same moment apart."""
    return _identity("dec1-", ["decision", 1, relation, action, by, at, nonce])


def pack_id(identity: str) -> bytes:
    """Return the 16 bytes of an identity.

    Raises:
        RecordError: it is none.
    """
    found = _IDENTITY.fullmatch(identity)
    if found is None:
        raise RecordError(f"{identity!r:.100} is not an identity of a record")
    return bytes.fromhex(found[1])


def unpack_observation_id(packed: bytes) -> str:
    """Return the written form of a stored observation identity."""
    return "obs1-" + bytes(packed).hex()


def unpack_body_id(packed: bytes) -> str:
    """Return the written form of a stored body identity."""
    return "body1-" + bytes(packed).hex()


def unpack_relation_id(packed: bytes) -> str:
    """Return the written form of a stored relation identity."""
    return "rel1-" + bytes(packed).hex()


def unpack_decision_id(packed: bytes) -> str:
    """Return the written form of a stored decision identity."""
    return "dec1-" + bytes(packed).hex()


def spec_digest(spec: str) -> bytes:
    """Return the 16 bytes under which a policy's specification is stored."""
    return hashlib.sha256(spec.encode()).digest()[:16]


def _identity(prefix: str, parts: list[str | int | None]) -> str:
    return prefix + hashlib.sha256(_canonical(parts).encode()).hexdigest()[:32]
