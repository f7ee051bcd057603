"""Crawl-delay: the pause between requests that a host asks for in its robots.txt.

Scrapy reads the directive and does not act on it. Here the downloader slot of a host's requests gets the
delay before the first of them goes out, since Scrapy awaits ``robots_parsed`` and only then lets them pass.
A slot never gets faster than its user made it, and it can serve several hosts, which then share the longest
delay. AutoThrottle goes on adjusting the slot above that floor.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.suite import Suite

if TYPE_CHECKING:
    from scrapy.core.downloader import Downloader
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)

MAX_DELAY_S = 60.0
"""Longer delays are shortened to this: some hosts state a day, to have nothing but their front page read."""

SLOT = "download_slot"


class CrawlDelayMiddleware:
    """Keeps the pauses that hosts ask for; a downloader middleware, next to the downloader."""

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)
        settings = crawler.settings
        if not self._suite.config.crawl_delay or not settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured
        self._robots_agent: str | None = settings["ROBOTSTXT_USER_AGENT"]
        self._agent: str | None = settings["USER_AGENT"]
        self._own_delay_s = settings.getfloat("DOWNLOAD_DELAY")
        self._host_delays_s: dict[str, float] = {}  # by host and port, as robots.txt holds for them
        self._slot_floors_s: dict[str, float] = {}
        self._has_shortened = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware, as Scrapy does for each crawler.

        Raises:
            NotConfigured: DEDUP_CRAWL_DELAY is off, or robots.txt is not obeyed.
        """
        middleware = cls(crawler)
        crawler.signals.connect(middleware.robots_parsed, signal=signals.robots_parsed)
        return middleware

    @property
    def _downloader(self) -> Downloader:
        return self._suite.crawler.engine.downloader

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        """Take note of the delay that a host states, before its first request goes on."""
        host = urlparse_cached(request).netloc
        delay_s = self._delay_for(host, robotparser, self._agent_of(request))
        if delay_s is None:
            return
        if not self._host_delays_s:
            # Now, not at the start: whoever else adjusts slots on this signal has connected before us.
            self._suite.crawler.signals.connect(self.response_downloaded, signal=signals.response_downloaded)
        self._host_delays_s[host] = delay_s
        self._suite.stats.inc_value(names.CRAWL_DELAY_HOSTS)
        self._slow_down(request, delay_s)

    def process_request(self, request: Request) -> None:
        """Slow down the slot that a request is about to enter, whichever its meta names."""
        delay_s = self._host_delays_s.get(urlparse_cached(request).netloc)
        if delay_s is None or request.meta.get("dont_obey_robotstxt"):
            return
        self._slow_down(request, delay_s)

    def response_downloaded(self, response: Response, request: Request, spider: Spider) -> None:  # noqa: ARG002
        """Undo what AutoThrottle took from a delay, before the slot sends its next request."""
        slot = self._downloader.slots.get(request.meta.get(SLOT, ""))
        if slot is not None:
            slot.delay = max(slot.delay, self._slot_floors_s.get(request.meta[SLOT], 0.0))

    def _agent_of(self, request: Request) -> str | bytes | None:
        """Return the agent whose rules are obeyed, by the same rule as Scrapy's own middleware."""
        return self._robots_agent or request.headers.get(b"User-Agent", self._agent)

    def _delay_for(self, host: str, robotparser: RobotParser, agent: str | bytes | None) -> float | None:
        try:
            stated = robotparser.crawl_delay(agent) if agent else None
            delay_s = None if stated is None else float(stated)
        except (TypeError, ValueError, OverflowError) as error:
            logger.debug("robots.txt of %s states a Crawl-delay that is no number (%s)", host, error)
            return None
        if delay_s is None:
            return None
        if not is_pause(delay_s):
            logger.debug("robots.txt of %s states a Crawl-delay that is no pause: %r", host, delay_s)
            return None
        if delay_s > MAX_DELAY_S and not self._has_shortened:
            self._has_shortened = True
            logger.info(
                "robots.txt of %s asks for %g s between requests; it gets %g s, and so does every other host "
                "that asks for more",
                host,
                delay_s,
                MAX_DELAY_S,
            )
        return min(delay_s, MAX_DELAY_S)

    def _slow_down(self, request: Request, delay_s: float) -> None:
        if keeps_the_slot_of_another_host(request):
            del request.meta[SLOT]
        downloader = self._downloader
        key = downloader.get_slot_key(request)
        if self._slot_floors_s.get(key, 0.0) >= delay_s:
            return
        configured = downloader.per_slot_settings.get(key, {})
        floor_s = max(delay_s, float(configured.get("delay", self._own_delay_s)))
        self._slot_floors_s[key] = floor_s
        # Scrapy forgets idle slots and makes them anew from these settings.
        downloader.per_slot_settings[key] = {**configured, "delay": floor_s, "jitter": 0.0}
        slot = downloader.slots.get(key)
        if slot is not None:
            slot.delay = max(slot.delay, floor_s)
            slot.jitter = 0.0


def is_pause(delay_s: float) -> bool:
    """Tell whether a number of seconds is one to wait.

    >>> is_pause(0.5), is_pause(0), is_pause(-1), is_pause(float("nan")), is_pause(float("inf"))
    (True, False, False, False, False)
    """
    return math.isfinite(delay_s) and delay_s > 0


def keeps_the_slot_of_another_host(request: Request) -> bool:
    """Tell whether a redirect brought along the slot of the host that it left, as Scrapy's redirects do."""
    came_from = {urlsplit(url).hostname for url in request.meta.get("redirect_urls", ())}
    return request.meta.get(SLOT) in came_from - {urlparse_cached(request).hostname}
