"""The program: `python3 -m endpoint (client|server) [--option=value ...] [URL ...]`."""

from __future__ import annotations

import asyncio
import logging
import sys

from endpoint.client import run_client
from endpoint.logs import Logs
from endpoint.options import parse
from endpoint.server import run_server


def main() -> int:
    """Run one role; the exit code is 0 only if everything it was told to do was done."""
    # The library warns of each CONNECTION_CLOSE that comes, also of one without an error.
    logging.basicConfig(level=logging.ERROR, format="qh3-endpoint: %(message)s")
    try:
        options = parse(sys.argv[1:])
        with Logs() as logs:
            asyncio.run(run_client(options, logs) if options.role == "client" else run_server(options, logs))
    except (OSError, asyncio.CancelledError) as error:
        print(f"qh3-endpoint: {str(error) or 'told to stop'}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
