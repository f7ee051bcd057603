"""Values as they are stored: every stored form has its inverse, and the schemes never change by accident."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.errors import RecordError
from scrapy_dedup.ledger import codec

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # surrogates and controls too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(ANY_TEXT)
def test_escape_has_an_inverse_and_leaves_nothing_that_an_engine_refuses(text):
    stored = codec.escape(text)
    assert codec.unescape(stored) == text
    assert "\x00" not in stored
    stored.encode()


@given(ANY_TEXT, ANY_TEXT)
def test_different_strings_are_stored_differently(one, other):
    assert (codec.escape(one) == codec.escape(other)) == (one == other)
    assert (codec.url_digest(one) == codec.url_digest(other)) == (one == other)


@given(JSON)
def test_json_comes_back_as_it_was(value):
    stored = codec.pack_json(value)
    assert codec.unpack_json(stored) == value
    assert "\x00" not in stored
    stored.encode()


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_times_come_back_to_the_microsecond(micros):
    assert codec.to_micros(codec.from_micros(micros)) == micros


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.500000Z"),
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2026-01-02T03:04:05.250-05:00", "2026-01-02T08:04:05.250000Z"),
    ],
)
def test_times_are_written_in_one_way(written, canonical):
    assert codec.from_micros(codec.to_micros(written)) == canonical


@pytest.mark.parametrize("written", ["", "now", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"])
def test_a_time_without_its_form_or_offset_is_refused(written):
    with pytest.raises(RecordError, match="RFC 3339"):
        codec.to_micros(written)


@pytest.mark.parametrize("written", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_has_no_form_in_utc_is_refused(written):
    with pytest.raises(RecordError, match="years 1 to 9999"):
        codec.to_micros(written)


@given(st.binary(min_size=32, max_size=32))
def test_digests_come_back(digest):
    assert codec.pack_digest(codec.unpack_digest(digest)) == digest


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:zz", "md5:" + "0" * 64, "sha256:" + " 0" * 32, "0" * 64]
)
def test_a_digest_without_its_form_is_refused(digest):
    with pytest.raises(RecordError, match="sha256"):
        codec.pack_digest(digest)


@given(st.integers(0, (1 << 64) - 1))
def test_fingerprints_come_back(bits):
    hexadecimal = f"{bits:016x}"
    assert codec.unpack_simhash(codec.pack_simhash(hexadecimal)) == hexadecimal


@pytest.mark.parametrize("fingerprint", ["", "0", "-000000000000001", "xxxxxxxxxxxxxxxx", "0" * 17])
def test_a_fingerprint_without_its_form_is_refused(fingerprint):
    with pytest.raises(RecordError, match="16"):
        codec.pack_simhash(fingerprint)


@given(st.text())
def test_texts_come_back(text):
    assert codec.unpack_text(codec.CODEC_ZLIB, codec.pack_text(text)) == text


@pytest.mark.parametrize(("number", "data"), [(2, b"x"), (1, b"x"), (1, codec.pack_text("text")[:-3])])
def test_a_damaged_text_or_an_unknown_codec_is_an_error(number, data):
    with pytest.raises(RecordError):
        codec.unpack_text(number, data)


def test_identities_never_change():
    """Golden values: ledgers and feeds in the world hold them."""
    digest = "sha256:" + "0" * 64
    assert codec.observation_id("job-1", 7) == "obs1-23ffceb13b01ffcd706549fa08ee85f1"
    assert codec.observation_id("j\u00f6b \ud800", 0) == "obs1-1951b986144e114ba8bb110ca0d86136"
    assert codec.body_id("default", digest, "markdown", "x-1") == "body1-41e93eb7bb64f08b94183ccc510ea0c8"
    assert codec.body_id("default", digest, "markdown", "x-1", 1) == "body1-274d1ca71eee7664afec87c21f98f9f5"
    assert codec.url_digest("http://site.example/").hex() == "0125762c04c3e236cc0f8cd27d70ceba"
    assert codec.unpack_text(1, bytes.fromhex("78012b49ad280100046701c6")) == "text"


@pytest.mark.parametrize(
    ("one", "other"), [(("ab", "c"), ("a", "bc")), (("a", ""), ("", "a")), (("a,", "b"), ("a", ",b"))]
)
def test_identities_know_where_each_of_their_parts_ends(one, other):
    assert codec.relation_id("same_text", "default", *one) != codec.relation_id(
        "same_text", "default", *other
    )
    assert codec.body_id(*one, "markdown", "x-1") != codec.body_id(*other, "markdown", "x-1")
    assert codec.observation_id(one[0] + "1", 1) != codec.observation_id(one[0], 11)
