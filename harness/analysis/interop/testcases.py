"""The interop runner's test cases and measurements, in its order, with what it calls them."""

from __future__ import annotations

from typing import Final

#: Where their scenarios are.
FOLDER: Final = "interop/"
#: Name → abbreviation.
CASES: Final[dict[str, str]] = {
    "handshake": "H", "transfer": "DC", "longrtt": "LR", "chacha20": "C20", "multiplexing": "M", "retry": "S",
    "resumption": "R", "zerortt": "Z", "http3": "3", "blackhole": "B", "keyupdate": "U", "ecn": "E",
    "amplificationlimit": "A", "handshakeloss": "L1", "transferloss": "L2", "handshakecorruption": "C1",
    "transfercorruption": "C2", "ipv6": "6", "v2": "V2", "rebind-port": "BP", "rebind-addr": "BA",
    "connectionmigration": "CM", "versionnegotiation": "V",
}  # fmt: skip
MEASUREMENTS: Final[dict[str, str]] = {"goodput": "G", "crosstraffic": "C"}
#: Defined by the runner, and disabled (its issue 20).
DISABLED: Final = frozenset({"versionnegotiation"})


def case_of(scenario: str) -> str | None:
    """The test case that a scenario is; None of any other."""
    name = scenario.removeprefix(FOLDER)
    return name if scenario.startswith(FOLDER) and name in CASES else None
