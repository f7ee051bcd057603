"""Everything that knows Scrapy: the add-on, middlewares, fingerprinter, pipeline, exporters and commands."""
