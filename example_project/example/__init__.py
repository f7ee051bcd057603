"""A Scrapy project that shows the suite at work: one spider for its own nasty site, one for any real site."""
