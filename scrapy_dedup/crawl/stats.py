"""The names of all stats of the suite, with what each counts.

A name that ends in ``/`` starts a family; what follows it is the value counted (a rule, a reason, a state).
"""

from __future__ import annotations

REQUESTS_SEEN = "dedup/requests/seen"
REQUESTS_REWRITTEN = "dedup/requests/rewritten"
REQUESTS_MERGED = "dedup/requests/merged"
REQUESTS_DENIED = "dedup/requests/denied"
REQUESTS_FRESH = "dedup/requests/fresh"
REQUESTS_CANONICAL = "dedup/requests/canonical"
REQUESTS_DENIED_BY_REASON = "dedup/requests/denied/"
RULES = "dedup/rules/"
VARIANTS_REQUESTED = "dedup/variants/requested"
PAGES_FETCHED = "dedup/pages/fetched"
PAGES_NOT_MODIFIED = "dedup/pages/not_modified"
PAGES_AUTO = "dedup/pages/auto"
PAGES_ITEMS = "dedup/pages/items"
PAGES_BY_VALIDITY = "dedup/pages/validity/"
PAGES_BY_ACTION = "dedup/pages/action/"
PAGES_BY_REASON = "dedup/pages/reason/"
CANONICALS_REQUESTED = "dedup/canonical/requested"
LINKS_UNSTORABLE = "dedup/links/unstorable/"
FAILURES = "dedup/failures"
SOFT404_PROBES = "dedup/soft404/probes"
EXTRACTIONS = "dedup/extract/extractions"
EXTRACT_CACHE_HITS = "dedup/extract/cache_hits"
EXTRACT_RESTARTS = "dedup/extract/restarts"
EXTRACT_TIMEOUTS = "dedup/extract/timeouts"
PAYLOADS_DISTINCT = "dedup/payloads/distinct"
BODIES_DISTINCT = "dedup/bodies/distinct"
BODIES_NEW = "dedup/bodies/new"
NEAR_LOOKED_UP = "dedup/near/looked_up"
NEAR_TEXTS = "dedup/near/texts"
NEAR_PAIRS = "dedup/near/pairs"
NEAR_PAIRS_BY_VERDICT = "dedup/near/pairs/"
NEAR_DIFFERENT = "dedup/near/different"
NEAR_CANDIDATES_LEFT = "dedup/near/candidates_left"
NEAR_SUPPRESSED = "dedup/near/suppressed"
ALIASES_KEPT = "dedup/aliases/kept"
CHUNKS = "dedup/chunks/seen"
CHUNKS_DISTINCT = "dedup/chunks/distinct"
EMBEDDINGS_REUSED = "dedup/chunks/embeddings_reused"
FEED_FOREIGN_ITEMS = "dedup/feed/foreign_items"
FEED_WRITE_ERRORS = "dedup/feed/write_errors"
CRAWL_DELAY_HOSTS = "dedup/crawl_delay/hosts"
ERRORS = "dedup/errors"

STATS: dict[str, str] = {
    REQUESTS_SEEN: "Requests that the URL policy decided about.",
    REQUESTS_REWRITTEN: "Requests sent to another URL than the one linked.",
    REQUESTS_MERGED: "Requests not sent because their key was known.",
    REQUESTS_DENIED: "Requests not sent because a rule forbids them.",
    REQUESTS_FRESH: "Requests not sent because their page was fetched not long ago; its links were followed.",
    REQUESTS_CANONICAL: "Requests not sent because what their page is a copy of was fetched not long ago.",
    REQUESTS_DENIED_BY_REASON: "Denied requests for each reason.",
    RULES: "How often each rule changed a URL.",
    VARIANTS_REQUESTED: "Merged URLs that got their turn because the request for their key failed.",
    PAGES_FETCHED: "Responses that became observations.",
    PAGES_NOT_MODIFIED: "Pages of which the server said that they have not changed (304).",
    PAGES_AUTO: "Pages that were recorded without an item of the spider.",
    PAGES_ITEMS: "Pages that the spider yielded as PageItem.",
    PAGES_BY_VALIDITY: "Pages for each state of validity.",
    PAGES_BY_ACTION: "Pages for each action: keep, reuse, review, none.",
    PAGES_BY_REASON: "Pages for each reason of their action.",
    CANONICALS_REQUESTED: "Requests for what pages declare to be their canonical, with DEDUP_CANONICAL.",
    LINKS_UNSTORABLE: "Pages whose links cannot be stored, for each reason; they are never skipped.",
    FAILURES: "Requests that ended without a page and were recorded as failures.",
    SOFT404_PROBES: "Requests for pages that cannot exist, to see what their site says then.",
    EXTRACTIONS: "Payloads whose text was extracted.",
    EXTRACT_CACHE_HITS: "Pages whose payload had been extracted before.",
    EXTRACT_RESTARTS: "Extraction processes that were replaced after a crash.",
    EXTRACT_TIMEOUTS: "Pages whose extraction took too long and was stopped.",
    PAYLOADS_DISTINCT: "Distinct payloads among the valid pages.",
    BODIES_DISTINCT: "Distinct texts of the valid pages.",
    BODIES_NEW: "Texts that this job brought into the ledger.",
    NEAR_LOOKED_UP: "New texts for which similar ones were looked for.",
    NEAR_TEXTS: "New texts that are similar to earlier ones.",
    NEAR_PAIRS: "Pairs of a new text and an earlier one that it is similar to.",
    NEAR_PAIRS_BY_VERDICT: "Similar pairs for each verdict: reformatted, edited, claim_changed, contains.",
    NEAR_DIFFERENT: "Texts that looked similar to a new one and turned out to be different.",
    NEAR_CANDIDATES_LEFT: "Texts that looked similar to a new one and were not read, since too many did.",
    NEAR_SUPPRESSED: "New texts that a similar earlier one stands for, with DEDUP_NEAR = 'suppress'.",
    ALIASES_KEPT: "URLs recorded as merged, rewritten, redirected or denied.",
    CHUNKS: "Chunks of all live pages of the corpus, with a feed of the format chunks.",
    CHUNKS_DISTINCT: "Distinct chunks among them.",
    EMBEDDINGS_REUSED: "Distinct chunks whose vector was made for a confirmed plan of the default index.",
    FEED_FOREIGN_ITEMS: "Items that our feed formats refused because they are no pages.",
    FEED_WRITE_ERRORS: "Feeds of ours that stopped because a write failed; the ledger goes on.",
    CRAWL_DELAY_HOSTS: "Hosts whose robots.txt asks for a pause between requests, which they get.",
    ERRORS: "Faults in the suite's own background work; each is logged.",
}
