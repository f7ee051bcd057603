"""Which texts others stand for: by the crawl that brought them, and by what was decided since."""

from __future__ import annotations

from scrapy_dedup.ledger import record_decision
from scrapy_dedup.ledger.nearness import NearOptions
from scrapy_dedup.near.simhash import simhash
from scrapy_dedup.records import DecisionAction, RelationKind

from .test_nearness import LONG, S, T, edited


def test_texts_that_are_suppressed_spelled_otherwise_or_decided_are_known(crawl, read, records, ledger_url):
    one = crawl(near=NearOptions("suppress"))
    spelled = LONG.replace(" ", "  ", 1)
    for url, text in ((S + "/a", LONG), (T + "/a", edited(LONG, 1)), (T + "/b", spelled), (S + "/c", LONG)):
        one.see(records.text(text, simhash=simhash(text)), url)
    one.writer.finish("finished")
    assert read().stand_ins("default") == {2: 1, 3: 1}
    assert read().stand_ins("elsewhere") == {}

    for kind in (RelationKind.NEAR, RelationKind.SAME_NORMALIZED):
        for relation in read().relations(kind=kind):
            record_decision(ledger_url, relation, DecisionAction.DIFFERENT, by="human:ann")
    assert read().stand_ins("default") == {}
    record_decision(ledger_url, relation, DecisionAction.SAME, by="human:ann")
    assert read().stand_ins("default") == {3: 1}
