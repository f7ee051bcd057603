"""Settings of the example project; the line that turns the suite on is `ADDONS`."""

BOT_NAME = "example"
SPIDER_MODULES = ["example.spiders"]
NEWSPIDER_MODULE = "example.spiders"

ADDONS = {"scrapy_dedup.Addon": 500}

# Beside the default feeds: the chunks of all live pages, for an index.
FEEDS = {"dedup/chunks.jsonl": {"format": "chunks"}}

# Manners for sites that are not our own.
USER_AGENT = "scrapy-dedup-example/0.1"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.5
CONCURRENT_REQUESTS_PER_DOMAIN = 2

# Nobody needs to talk to a running example.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

LOG_LEVEL = "INFO"
