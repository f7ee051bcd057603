"""Work on a whole ledger beside the crawls: the chunks of its live pages, and plans for an index of them."""
