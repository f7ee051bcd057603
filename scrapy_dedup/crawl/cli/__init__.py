"""The subcommands of ``scrapy dedup``, one module for each, with one function ``run``."""
