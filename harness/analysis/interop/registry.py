"""The checks of test cases by name, what each needs, and the interop runner's list of test cases."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from harness.analysis.interop.evidence import Evidence
from harness.capture.quic.dissector import Packet
from harness.errors import did_you_mean
from harness.formatting import format_value
from harness.scenario.schema import Scenario
from harness.scenario.validation_errors import Mistake


@dataclass(frozen=True)
class Passed:
    """The requirement is met; the sentence says what was seen."""

    sentence: str


@dataclass(frozen=True)
class Failed:
    """The requirement is not met."""

    sentence: str
    packet: Packet | None = None
    """The first packet that is wrong."""


@dataclass(frozen=True)
class Undetermined:
    """The check cannot be decided."""

    sentence: str


@dataclass(frozen=True)
class NotExercised:
    """What the check is about never happened, so that it says nothing of the endpoints."""

    sentence: str


CheckResult = Passed | Failed | Undetermined | NotExercised
ValueKind = Literal["a count", "true", "a word"]


@dataclass(frozen=True)
class Check:
    """One check."""

    name: str
    value_kind: ValueKind
    words: tuple[str, ...]
    """The allowed words, if it takes a word."""
    title: str
    """The requirement, in a line."""
    source: str
    """The RFC's section."""
    exercised_by: str
    """What must happen for the check to say anything; without it, a run is neither passed nor failed."""
    upstream: str
    """What the interop runner checks instead, and why it is otherwise here; empty where it checks the same."""
    needs_keys: bool
    """Whether it examines packets that are encrypted with secrets of the endpoints."""
    judge: Callable[[Evidence, Any], CheckResult]

    @property
    def example(self) -> str:
        """An example of it as a scenario writes it."""
        value = {"a count": "1", "true": "true", "a word": self.words[0] if self.words else ""}[self.value_kind]
        return f"{self.name}: {value}"


_DECLARED: dict[str, Check] = {}


def check(
    name: str,
    *,
    takes: ValueKind,
    title: str,
    source: str,
    exercised_by: str,
    upstream: str = "",
    words: tuple[str, ...] = (),
    needs_keys: bool = True,
) -> Callable[[Callable[[Evidence, Any], CheckResult]], Callable[[Evidence, Any], CheckResult]]:
    """Declare the decorated function as a check. ValueError for a name that is already taken."""

    def declare(judge: Callable[[Evidence, Any], CheckResult]) -> Callable[[Evidence, Any], CheckResult]:
        if name in _DECLARED:
            raise ValueError(f"the check {name} is declared twice")
        _DECLARED[name] = Check(name, takes, words, title, source, exercised_by, upstream, needs_keys, judge)
        return judge

    return declare


def declared_checks() -> dict[str, Check]:
    """All checks by name, in alphabetical order."""
    importlib.import_module("harness.analysis.interop.checks")
    return dict(sorted(_DECLARED.items()))


# --- The interop runner's test cases and measurements, in its order, with its names.


#: The folder of their scenarios.
FOLDER: Final = "interop/"
#: Name → abbreviation.
CASES: Final[dict[str, str]] = {
    "handshake": "H",
    "transfer": "DC",
    "longrtt": "LR",
    "chacha20": "C20",
    "multiplexing": "M",
    "retry": "S",
    "resumption": "R",
    "zerortt": "Z",
    "http3": "3",
    "blackhole": "B",
    "keyupdate": "U",
    "ecn": "E",
    "amplificationlimit": "A",
    "handshakeloss": "L1",
    "transferloss": "L2",
    "handshakecorruption": "C1",
    "transfercorruption": "C2",
    "ipv6": "6",
    "v2": "V2",
    "rebind-port": "BP",
    "rebind-addr": "BA",
    "connectionmigration": "CM",
    "versionnegotiation": "V",
}
#: The folder of the scenarios of its test cases over WebTransport, and those by name.
WEBTRANSPORT_FOLDER: Final = "webtransport/"
WEBTRANSPORT_CASES: Final[dict[str, str]] = {
    "handshake": "H",
    "transfer-unidirectional-receive": "UR",
    "transfer-unidirectional-send": "US",
    "transfer-bidirectional-receive": "BR",
    "transfer-bidirectional-send": "BS",
    "transfer-datagram-receive": "DR",
    "transfer-datagram-send": "DS",
}
MEASUREMENTS: Final[dict[str, str]] = {"goodput": "G", "crosstraffic": "C"}
#: The checks of a client that changes its path.
PATH_CHECKS: Final = frozenset({"rebound", "migrated"})
#: Defined by the runner, and disabled (its issue 20).
DISABLED: Final = frozenset({"versionnegotiation"})


def case_of(scenario: str) -> str | None:
    """The test case of a scenario; None for any other scenario."""
    name = scenario.removeprefix(FOLDER)
    return name if scenario.startswith(FOLDER) and name in CASES else None


# --- Whether a scenario's checks can be made.


def mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """Unknown checks, and values that a check does not take."""
    checks = declared_checks()
    for name, value in scenario.checks.items():
        entry = checks.get(name)
        if entry is None:
            yield Mistake(("checks", name), f"there is no check '{name}'", did_you_mean(name, checks), of_key=True)
        elif not _fits(entry, value):
            expected = entry.value_kind if not entry.words else " or ".join(f"'{word}'" for word in entry.words)
            yield Mistake(
                ("checks", name), f"{name} takes {expected}, not {format_value(value)}", f"write {entry.example}"
            )


def _fits(entry: Check, value: bool | int | str) -> bool:
    if entry.value_kind == "true":
        return value is True
    if entry.value_kind == "a count":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return not isinstance(value, bool) and str(value) in entry.words
