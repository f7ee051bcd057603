"""Every exported line validates against the JSON Schema of its kind, which lists exactly its fields."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json

import jsonschema
import pytest

from scrapy_dedup.records import (
    AliasRecord,
    BodyRecord,
    ChangeRecord,
    JobRecord,
    ObservationRecord,
    Outcome,
    Sourced,
    Validity,
    to_dict,
)

KINDS = {
    "job": JobRecord,
    "observation": ObservationRecord,
    "body": BodyRecord,
    "alias": AliasRecord,
    "change": ChangeRecord,
}
CLOSED = {"outcome": Outcome, "validity": Validity}


def schema_of(kind: str) -> dict:
    return json.loads(
        (importlib.resources.files("scrapy_dedup") / "schemas" / f"{kind}.json").read_text("utf-8")
    )


@functools.cache
def validator_of(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema_of(kind))


def validate(record) -> None:
    line = json.loads(json.dumps(to_dict(record)))
    validator_of(record.schema.split("/")[1]).validate(line)


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_valid_and_lists_exactly_the_fields_of_the_record(kind):
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    names = ["schema", *(field.name for field in dataclasses.fields(KINDS[kind]))]
    assert list(schema["properties"]) == names
    assert schema["required"] == names
    assert schema["properties"]["schema"] == {"const": KINDS[kind].schema}


@pytest.mark.parametrize("name", CLOSED)
def test_the_schema_knows_every_state(name):
    states = schema_of("observation")["properties"][name]["enum"]
    assert set(states) - {None} == {state.value for state in CLOSED[name]}


def test_all_records_of_a_ledger_validate(crawl, read):
    one = crawl()
    one.see("T", byline=Sourced("B", "meta"), extra={"own": [1]}, redirect_urls=("http://site.example/x",))
    one.see("T ")
    one.see(None, validity=Validity.EMPTY, validity_reason="no_text")
    one.see(
        None, outcome=Outcome.ERROR, validity=None, http_status=None, payload_digest=None, payload_bytes=None
    )
    for number in range(102):
        one.note(f"http://raw/{number}", "key")
    one.writer.finish("finished")
    crawl("job-2").see("Running")
    ledger = read()
    lines = [*ledger.jobs(), *ledger.observations(), *ledger.bodies(), *ledger.aliases()]
    assert len(lines) == 2 + 5 + 3 + 101
    for record in lines:
        validate(record)


def test_an_unknown_field_or_a_wrong_digest_is_refused(records):
    line = to_dict(records.job())
    for change in ({"surprise": 1}, {"started_at": "yesterday"}, {"schema": "scrapy-dedup/job/2"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(line | change, schema_of("job"))
