"""A small shop-and-handbook site with every duplicate trap of the real web, made from a seed.

Build it with `example.site.pages.build_pages`, ask it with `example.site.site.Site.respond`, serve it with
``python -m example.site``. Nothing here knows anything about how duplicates are found.
"""
