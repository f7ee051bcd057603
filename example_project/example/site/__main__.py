"""``python -m example.site``: serve the site until standard input ends, or write its manifest."""

from __future__ import annotations

import argparse
import sys
import threading

from example.site.server import SiteServer
from example.site.site import Site, write_manifest


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m example.site", description=__doc__)
    parser.add_argument("--port", type=int, default=8765, help="where to listen; 0 lets the system choose")
    parser.add_argument("--edition", type=int, default=1, help="which edition of the pages to show")
    parser.add_argument("--manifest", action="store_true", help="write the manifest as JSON and end")
    options = parser.parse_args()
    if options.manifest:
        sys.stdout.write(write_manifest(options.edition))
        return 0
    try:
        server = SiteServer(Site(options.edition), options.port)
    except OSError as error:
        print(f"cannot listen on port {options.port} of 127.0.0.1: {error}", file=sys.stderr)
        return 1
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://localhost:{server.server_port}/", flush=True)
    sys.stdin.buffer.read()  # ends when whoever started us closes it, or is no more
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
