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
    """What the program is to do; what is None is left to aioquic."""

    role: str
    protocol: str
    congestion_control: str
    initial_cwnd: int | None
    initial_rtt: float | None
    max_udp_payload: int
    connection_window: int | None
    stream_window: int | None
    plan: str = "single"
    downloads: Path = Path("/downloads")
    session_dir: Path | None = None
    zero_rtt: bool = True
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


def _milliseconds(text: str) -> float:
    """In seconds."""
    value = float(text) / 1000
    if not 0 < value < 60:
        raise argparse.ArgumentTypeError("must be above 0 and below a minute")
    return value


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
    common.add_argument("--congestion-control", choices=("reno", "cubic"), default="reno")
    common.add_argument("--initial-cwnd", type=_between(2, 1_000_000), metavar="PACKETS")
    common.add_argument("--initial-rtt", type=_milliseconds, metavar="MS")
    common.add_argument("--max-udp-payload", type=_between(1200, 1452), default=1200, metavar="BYTES")
    common.add_argument("--connection-window", type=window, metavar="BYTES")
    common.add_argument("--stream-window", type=window, metavar="BYTES")

    parser = argparse.ArgumentParser("aioquic-endpoint", allow_abbrev=False)
    roles = parser.add_subparsers(dest="role", required=True)
    client = roles.add_parser("client", parents=[common], allow_abbrev=False, argument_default=argparse.SUPPRESS)
    client.add_argument("--plan", choices=("single", "resume", "early-data", "each"))
    client.add_argument("--downloads", type=Path)
    client.add_argument("--session-dir", type=Path)
    client.add_argument("--zero-rtt", type=_switch, metavar="{on,off}")
    client.add_argument("urls", type=_url, nargs="+", metavar="URL")
    server = roles.add_parser("server", parents=[common], allow_abbrev=False, argument_default=argparse.SUPPRESS)
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
