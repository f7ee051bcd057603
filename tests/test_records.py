"""Records become plain JSON and lose nothing on the way."""

from __future__ import annotations

import json

from scrapy_dedup.records import AliasRecord, Conditions, JobRecord, Outcome, Sourced, Validity, to_dict

JOB = JobRecord(
    "j1", "spider", "default", "sha256:00", "standard-1:00", "x-1", None, "2026-01-01T00:00:00.000000Z"
)
ALIAS = AliasRecord(
    "j1", "http://h/?b&a", "http://h/?b&a", "http://h/?a&b", "merged", "query_order", None, 2, 7
)


def test_schema_stands_first_and_fields_keep_their_order():
    assert list(to_dict(JOB))[:3] == ["schema", "job_id", "spider"]
    assert to_dict(JOB)["schema"] == "scrapy-dedup/job/1"


def test_unknown_stays_null():
    assert to_dict(JOB)["finished_at"] is None


def test_nested_values_and_states_are_plain():
    class Holder:
        pass

    assert json.loads(json.dumps(to_dict(ALIAS)))["count"] == 7
    assert Outcome.GONE.value == "gone"
    assert Validity("valid") is Validity.VALID
    assert Sourced("a", "meta:author") == Sourced("a", "meta:author")
    assert Conditions().method == "GET"
