"""The command line, the same for all of our endpoints as far as the stack honours it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, urlsplit

from endpoint.datagrams import Datagrams, read_datagrams


@dataclass(frozen=True)
class Options:
    """What the program is to do; what is None is left to qh3."""

    role: str
    protocol: str
    initial_rtt: float | None
    """Seconds."""
    idle_timeout: float
    """Seconds."""
    connection_window: int | None
    stream_window: int | None
    max_udp_payload: int | None = None
    """Of the server; the client's search for larger datagrams goes beyond it."""
    plan: str = "single"
    downloads: Path = Path("/downloads")
    session_dir: Path | None = None
    zero_rtt: bool = True
    path_mtu_discovery: bool = True
    """Of the client; qh3's server never probes."""
    urls: tuple[SplitResult, ...] = ()
    upload: bool = False
    port: int = 443
    root: Path = Path("/www")
    certificate: Path = Path("/certs/cert.pem")
    private_key: Path = Path("/certs/priv.key")
    retry: bool = False
    datagrams: Datagrams | None = None
    connections: int = 1
    """Of the client at once, which share its URLs."""


def _between(low: int, high: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must lie between {low} and {high}")
        return value

    return number


def _milliseconds(most: float) -> Callable[[str], float]:
    """A reader of a time in ms, above 0 and up to `most` seconds, which gives seconds."""

    def seconds(text: str) -> float:
        value = float(text) / 1000
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"must lie above 0 and up to {most:g} s")
        return value

    return seconds


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise argparse.ArgumentTypeError(f"must be on or off, not {text}")
    return text == "on"


def _url(text: str) -> SplitResult:
    url = urlsplit(text)
    if url.scheme != "https" or not url.hostname or not PurePosixPath(url.path).name:
        raise argparse.ArgumentTypeError(f"not a usable URL: {text}")
    return url


def parse(arguments: Sequence[str]) -> Options:
    """Options from the command line and the environment. Anything unknown ends the program with exit code 2.

    Raises OSError for an environment that makes no sense.
    """
    window = _between(1, 2**62 - 1)
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--protocol", choices=("h3", "hq-interop"), default="h3")
    common.add_argument("--initial-rtt", type=_milliseconds(60), metavar="MS")
    # qh3 has 30 s; a path may be dark for longer.
    common.add_argument("--idle-timeout", type=_milliseconds(86_400), default=60.0, metavar="MS")
    common.add_argument("--connection-window", type=window, metavar="BYTES")
    common.add_argument("--stream-window", type=window, metavar="BYTES")

    parser = argparse.ArgumentParser("qh3-endpoint", allow_abbrev=False)
    roles = parser.add_subparsers(dest="role", required=True)
    client = roles.add_parser("client", parents=[common], allow_abbrev=False, argument_default=argparse.SUPPRESS)
    client.add_argument("--plan", choices=("single", "resume", "early-data", "each"))
    client.add_argument("--downloads", type=Path)
    client.add_argument("--session-dir", type=Path)
    client.add_argument("--zero-rtt", type=_switch, metavar="{on,off}")
    client.add_argument("--path-mtu-discovery", type=_switch, metavar="{on,off}")
    client.add_argument("urls", type=_url, nargs="+", metavar="URL")
    server = roles.add_parser("server", parents=[common], allow_abbrev=False, argument_default=argparse.SUPPRESS)
    server.add_argument("--max-udp-payload", type=_between(1200, 1452), metavar="BYTES")
    server.add_argument("--port", type=_between(1, 65535))
    server.add_argument("--root", type=Path)
    server.add_argument("--certificate", type=Path)
    server.add_argument("--private-key", type=Path)
    server.add_argument("--retry", action="store_true")
    given = {**vars(parser.parse_args(arguments)), "datagrams": read_datagrams()}
    if "urls" in given:
        given["urls"] = tuple(given["urls"])
        given["upload"] = os.environ.get("DIRECTION") == "to_server"
        given["connections"] = int(os.environ.get("CONNECTIONS", "1"))
    return Options(**given)
