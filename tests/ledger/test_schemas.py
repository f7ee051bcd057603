"""Every exported line validates against the JSON Schema of its kind, which lists exactly its fields."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json

import jsonschema
import pytest

from scrapy_dedup.ledger import record_decision
from scrapy_dedup.ledger.decisions import opposite
from scrapy_dedup.records import (
    AliasRecord,
    BodyRecord,
    ChangeRecord,
    ChunkRecord,
    DecisionAction,
    DecisionRecord,
    GroupRecord,
    JobRecord,
    ObservationRecord,
    Outcome,
    PairRecord,
    PlanOp,
    PlanRecord,
    RelationKind,
    RelationRecord,
    RelationState,
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
    "relation": RelationRecord,
    "decision": DecisionRecord,
    "pair": PairRecord,
    "group": GroupRecord,
    "chunk": ChunkRecord,
    "plan": PlanRecord,
}
CLOSED = [
    ("observation", "outcome", Outcome),
    ("observation", "validity", Validity),
    ("relation", "kind", RelationKind),
    ("relation", "state", RelationState),
    ("decision", "action", DecisionAction),
    ("plan", "op", PlanOp),
]


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


@pytest.mark.parametrize(("kind", "name", "states"), CLOSED, ids=[name for _, name, _ in CLOSED])
def test_the_schema_knows_every_state(kind, name, states):
    known = schema_of(kind)["properties"][name]["enum"]
    assert set(known) - {None} == {state.value for state in states}


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


def test_all_relations_and_decisions_of_a_ledger_validate(crawl, read, ledger_url):
    one = crawl()
    for number, url in enumerate(["a/b", "c/d", "e/f", "g/h", "i/j"]):
        one.see("Sorry.", f"http://site.example/{url}")
        one.see(f"Text {number}", "http://site.example/a", payload_digest=None)
    one.see("text  0", "http://site.example/b")
    one.see(None, validity=Validity.LOGIN)
    one.see(None, outcome=Outcome.SKIPPED, validity=None, http_status=None, payload_digest=None)
    one.note("http://raw/1", "key")
    one.note("http://raw/2", "key", "facet", verdict="denied")
    one.writer.finish("finished")
    for relation in read().relations():
        record_decision(ledger_url, relation, opposite(relation), by="human:ann", note="why")
        record_decision(ledger_url, relation, DecisionAction.UNDO, by="policy:tests")
    ledger = read()
    relations = list(ledger.relations())
    assert {one.kind.value for one in relations} == {
        "shared_template",
        "same_text",
        "same_normalized",
        "revision",
        "content_invalid",
        "skipped",
        "url_merged",
        "url_denied",
    }
    decisions = list(ledger.decisions())
    assert len(decisions) == 2 * len(relations)
    for record in [*relations, *decisions, *ledger.observations()]:
        validate(record)


def test_an_unknown_field_or_a_wrong_digest_is_refused(records):
    line = to_dict(records.job())
    for change in ({"surprise": 1}, {"started_at": "yesterday"}, {"schema": "scrapy-dedup/job/2"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(line | change, schema_of("job"))
