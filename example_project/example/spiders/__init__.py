"""The two spiders: `demo` for the site that this project serves itself, `site` for any other."""
