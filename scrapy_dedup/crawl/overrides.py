"""What was decided by hand before a crawl, put above what the URL policy and the judgement of pages say."""

from __future__ import annotations

import functools

from scrapy_dedup.content.validity import Judgement
from scrapy_dedup.ledger import Overrides
from scrapy_dedup.records import DecisionAction, Recovery, Validity
from scrapy_dedup.urls import Change, UrlDecision, UrlPolicy, Verdict, redact

# One request is decided about at each station of its way, and pages of a site link to the same URLs.
RECENT_URLS = 4096

DECIDED = "decided"  # the rule and the reason of whatever is so because somebody decided it

_BY_ACTION = {
    DecisionAction.ACCEPT: Judgement(Validity.VALID, DECIDED, Recovery.NONE),
    DecisionAction.REJECT: Judgement(Validity.UNEXPECTED_CONTENT, DECIDED, Recovery.NONE),
}


class Urls:
    """The URL policy of a crawl under what was decided about single URLs.

    URLs stand in the ledger without credentials, so they are compared in that form.

    Attributes:
        decide: what the policy and, above it, a person decide about a URL as it was linked; remembers the
            latest.
        key_of: the identity of a URL that was, or is going to be, requested as it stands; likewise.
    """

    def __init__(self, policy: UrlPolicy, overrides: Overrides) -> None:
        self._policy = policy
        self._decided = overrides.urls
        self.decide = functools.lru_cache(RECENT_URLS)(self._decide if self._decided else policy.decide)
        self.key_of = functools.lru_cache(RECENT_URLS)(self._key_of)

    def shows_facets(self, url: str) -> bool:
        """Tell whether a URL was requested against its policy, as happens after a redirect to a facet."""
        return self._policy.drops_facets(url) and not self.is_decided(url)

    def is_decided(self, url: str) -> bool:
        """Tell whether the policy would have another URL fetched, or none, had nobody decided."""
        return bool(self._decided) and any(change.rule == DECIDED for change in self.decide(url).changes)

    def _decide(self, url: str) -> UrlDecision:
        decision = self._policy.decide(url)
        action = self._decided.get(redact(url))
        is_denied = decision.verdict is Verdict.DENY
        if action is DecisionAction.DIFFERENT and not is_denied:
            changed = decision._replace(key=self._policy.own_key(url), changes=())
        elif action is DecisionAction.ACCEPT and is_denied:
            changed = decision._replace(key=self._key_by_policy(url))
        else:
            return decision
        changes = (*changed.changes, Change(DECIDED))
        return changed._replace(fetch_url=url, verdict=Verdict.ALLOW, changes=changes)

    def _key_of(self, url: str) -> str:
        return self.decide(url).key if self.is_decided(url) else self._key_by_policy(url)

    def _key_by_policy(self, url: str) -> str:
        """Return the identity that the policy gives a URL.

        A request for a facet comes here only when the policy could not clean its URL: by a redirect, as a
        last resort, or because it was accepted. It shows the facet's page, so it never takes the key of the
        unfiltered one.
        """
        if self._policy.drops_facets(url):
            return self._policy.conservative_key(url)
        return self._policy.decide(url).key


def judged(judgement: Judgement, action: DecisionAction | None, *, has_text: bool) -> Judgement:
    """Return the judgement of a page under what was decided about this payload under this key.

    An error by its status stays one, and where no text was found there is none to accept.
    """
    if action is None or judgement.validity is Validity.HTTP_ERROR:
        return judgement
    if action is DecisionAction.ACCEPT and not has_text:
        return judgement
    return _BY_ACTION.get(action, judgement)
