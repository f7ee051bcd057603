"""The first layer: which URLs are one request, what to send for it, and what not to request at all."""

from scrapy_dedup.urls.authority import redact
from scrapy_dedup.urls.decision import Change, UrlDecision, Verdict
from scrapy_dedup.urls.domains import site_of
from scrapy_dedup.urls.policy import UrlPolicy

__all__ = ["Change", "UrlDecision", "UrlPolicy", "Verdict", "redact", "site_of"]
