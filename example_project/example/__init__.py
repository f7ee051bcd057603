"""A Scrapy project that shows the suite at work: a spider for its own nasty site and one for any real site."""
