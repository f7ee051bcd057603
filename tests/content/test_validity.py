"""Which responses can serve as evidence, and what might help the others."""

# ruff: noqa: E501  a row of a table is a line

from __future__ import annotations

from typing import Any

import pytest

from scrapy_dedup.content import Extraction, ResponseFacts, is_html, judge
from scrapy_dedup.records import Recovery, Text, Validity

TEXT = Text("Closed.", "markdown", "x", "t", "n", None, None, None, 7, 1, "0" * 16, "simhash64-w3-1")
GOOD = Extraction("sha256:0", TEXT)
NONE = Extraction("sha256:0")


def facts(**changes: Any) -> ResponseFacts:
    usual = {"status": 200, "content_type": "text/html", "payload_bytes": 100, "extraction": GOOD}
    return ResponseFacts(**{**usual, **changes})


def failed(failure: str) -> Extraction:
    return Extraction("sha256:0", failure=failure)


@pytest.mark.parametrize(
    ("given", "validity", "reason", "recovery"),
    [
        pytest.param(facts(), "valid", None, "none", id="a short notice"),
        pytest.param(facts(status=206), "valid", None, "none", id="another 2xx"),
        pytest.param(facts(status=404), "http_error", "http_404", "none", id="404 with a text"),
        pytest.param(facts(status=410), "http_error", "http_410", "none", id="410"),
        pytest.param(facts(status=401), "http_error", "http_401", "authenticate", id="401"),
        pytest.param(facts(status=403), "http_error", "http_403", "authenticate", id="403"),
        pytest.param(facts(status=408), "http_error", "http_408", "retry", id="408"),
        pytest.param(facts(status=429), "http_error", "http_429", "retry", id="429"),
        pytest.param(facts(status=503), "http_error", "http_503", "retry", id="503"),
        pytest.param(facts(status=304), "http_error", "http_304", "none", id="a status that is no page"),
        pytest.param(
            facts(declared_valid=False, declared_reason="out of stock"),
            "unexpected_content", "out of stock", "none", id="the spider says so",
        ),
        pytest.param(
            facts(declared_valid=False), "unexpected_content", "declared_by_spider", "none", id="without a reason"
        ),
        pytest.param(facts(declared_valid=True, status=500), "http_error", "http_500", "retry", id="status first"),
        pytest.param(facts(payload_bytes=0, extraction=None), "empty", "no_body", "retry", id="no body"),
        pytest.param(
            facts(supported=False, content_type="application/pdf", extraction=None),
            "unsupported_type", "application/pdf", "none", id="PDF",
        ),
        pytest.param(
            facts(supported=False, content_type=None, extraction=None),
            "unsupported_type", "no_content_type", "none", id="no type",
        ),
        pytest.param(
            facts(extraction=failed("malformed_text")), "malformed_text", "lone_surrogate", "none", id="malformed"
        ),
        pytest.param(facts(extraction=failed("time_limit")), "extraction_failed", "time_limit", "retry", id="slow"),
        pytest.param(facts(extraction=failed("worker_died")), "extraction_failed", "worker_died", "retry", id="died"),
        pytest.param(
            facts(extraction=failed("input_over_cap")), "extraction_failed", "input_over_cap", "none", id="too large"
        ),
        pytest.param(
            facts(unmet_expectation="css: h1.price"), "unexpected_content", "css: h1.price", "none", id="expectation"
        ),
        pytest.param(facts(extraction=NONE), "empty", "no_main_text", "none", id="no text"),
        pytest.param(
            facts(extraction=Extraction("", flags=("scripted",))), "empty", "no_main_text", "render", id="scripts"
        ),
        pytest.param(
            facts(extraction=Extraction("", flags=("main_not_visible",))),
            "empty", "text_not_visible", "render", id="text that is not shown",
        ),
        pytest.param(facts(status=None), "valid", None, "none", id="a response without a status"),
    ],
)  # fmt: skip
def test_judge(given, validity, reason, recovery):
    judgement = judge(given)
    assert (judgement.validity, judgement.reason, judgement.recovery) == (
        Validity(validity),
        reason,
        Recovery(recovery),
    )


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        pytest.param("text/html; charset=utf-8", b"", True, id="declared"),
        pytest.param("Application/XHTML+XML", b"", True, id="XHTML"),
        pytest.param(None, b"\xef\xbb\xbf \n<!DOCTYPE html>", True, id="undeclared"),
        pytest.param("text/plain", b"<?xml version='1.0'?>\n<html xmlns='x'>", True, id="vague and XHTML"),
        pytest.param("text/plain", b"plain words", False, id="plain text"),
        pytest.param("image/png", b"<html>", False, id="a definite other type"),
        pytest.param(None, b"", False, id="nothing"),
        pytest.param("application/json", b"{}", False, id="JSON"),
    ],
)
def test_is_html(content_type, body, expected):
    assert is_html(content_type, body) is expected
