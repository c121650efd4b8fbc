"""Runs that the published interop runner made, judged by the checks here.

Its log directory has a folder per pair and test case: SERVER_CLIENT/CASE/ with output.txt (what compose printed),
sim/trace_node_left.pcap and right, and both endpoints' logs (quic-interop-runner, interop.py).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.analysis.interop.evidence import NEAR_ENDPOINT, Evidence, before_timeout, make_evidence
from harness.analysis.interop.registry import CASES, MEASUREMENTS
from harness.analysis.interop.verdict import ResultWord, failure_text, judge_checks
from harness.capture import pcapng
from harness.capture.artefacts import CAPTURE, KEYS
from harness.capture.datagrams import parse_datagrams
from harness.capture.key_log import parse_secrets
from harness.engine.exit_rules import NOT_SUPPORTED
from harness.errors import InputError
from harness.outcome import InteropCheck
from harness.scenario.parameters import ROLES, Role
from harness.scenario.schema import Scenario

#: What compose printed of a run.
OUTPUT = "output.txt"
#: The networks of the runner's clients: a rebinding gives a client another address of these. Its servers' addresses.
_CLIENT_NETWORKS = tuple(ipaddress.ip_network(text) for text in ("193.167.0.0/24", "fd00:cafe:cafe::/64"))
_SERVERS = frozenset({"193.167.100.100", "fd00:cafe:cafe:100::100"})
#: The exit code of an endpoint, as compose prints it.
_EXIT = re.compile(r"^(client|server)\S* exited with code (\d+)", re.MULTILINE)
#: The check that needs the files themselves, which the runner's logs have of failures at most.
_FILES = "files"


@dataclass(frozen=True)
class RunnerRun:
    """One run of the runner."""

    server: str
    client: str
    case: str
    folder: Path
    repetition: str = ""

    @property
    def name(self) -> str:
        """'retry quic-go → quinn'."""
        return " ".join(filter(None, [self.case, f"{self.client} → {self.server}", self.repetition]))


@dataclass(frozen=True)
class JudgedRun:
    """A run of the runner, and what the checks here say of it."""

    run: RunnerRun
    word: ResultWord
    sentence: str
    checks: tuple[InteropCheck, ...] = ()
    exit_codes: Mapping[Role, int] = field(default_factory=dict)
    """Role → the exit code that compose printed, as far as it did."""


def find_runs(folder: Path) -> list[RunnerRun]:
    """The runs below a log directory, a pair's folder or a test case's, sorted. InputError where there is none."""
    runs = [
        run
        for file in sorted(folder.rglob(Path(CAPTURE["left"]).name))
        if (run := _run_of(file.parent.parent)) is not None
    ]
    if not runs:
        raise InputError(
            f"{folder} holds no run of the interop runner",
            f"a run is SERVER_CLIENT/CASE/{CAPTURE['left']} below its log directory (run.py -l)",
        )
    return runs


def _run_of(folder: Path) -> RunnerRun | None:
    repetition = folder.name if folder.name.isdigit() else ""
    case_folder = folder.parent if repetition else folder
    server, separator, client = case_folder.parent.resolve().name.partition("_")
    if not separator or case_folder.name not in CASES | MEASUREMENTS:
        return None
    return RunnerRun(server, client, case_folder.name, folder, repetition)


def judge_run(run: RunnerRun, scenario: Scenario) -> JudgedRun:
    """Judge a run by the checks of the scenario of its test case, all but that of the files."""
    codes = _exit_codes(run.folder / OUTPUT)
    refusing = [role for role, code in codes.items() if code == NOT_SUPPORTED]
    if refusing:
        return JudgedRun(run, "unsupported", f"the {refusing[0]} does not support the case", (), codes)
    try:
        evidence = _read(run.folder, scenario)
    except (OSError, ValueError) as error:
        return JudgedRun(run, "inconclusive", f"the captures cannot be read: {error}", (), codes)
    checks = judge_checks({name: value for name, value in scenario.checks.items() if name != _FILES}, evidence)
    return JudgedRun(run, *_summary(checks, codes), checks, codes)


def _summary(checks: Sequence[InteropCheck], codes: Mapping[Role, int]) -> tuple[ResultWord, str]:
    failed = [failure_text(check) for check in checks if check.status == "failed"]
    ended = [f"the {role} ended with exit code {code}" for role, code in codes.items() if code]
    if failed:
        return "failed", "; ".join([*failed[:1], *ended])
    if (codes or {}).get("client"):
        return "failed", "; ".join(ended)
    unknown = [f"{check.check}: {check.sentence}" for check in checks if check.status != "passed"]
    if unknown:
        return "inconclusive", "; ".join(unknown)
    if "client" not in codes:
        return "inconclusive", "all checks hold, and how the client ended is not known"
    return "succeeded", f"all {len(checks)} checks hold; the files were not compared"


def exit_line(role: Role, code: int) -> str:
    """How compose prints the end of an endpoint."""
    return f"{role} exited with code {code}"


def _exit_codes(file: Path) -> dict[Role, int]:
    codes: dict[Role, int] = {}
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return codes
    for name, code in _EXIT.findall(text):
        codes["client" if name == "client" else "server"] = int(code)
    return codes


def _read(folder: Path, scenario: Scenario) -> Evidence:
    captures = {side: (folder / CAPTURE[side]).read_bytes() for side in NEAR_ENDPOINT}
    logs = [file.read_text(errors="replace") for role in ROLES for file in _key_logs(folder / role)]
    logs += [pcapng.read_key_logs(content) for content in captures.values() if content.startswith(pcapng.MAGIC)]
    sides = {side: parse_datagrams(content) for side, content in captures.items()}
    evidence = make_evidence(sides, _sender, parse_secrets("\n".join(logs)))
    return replace(evidence, sent=before_timeout(evidence.sent, scenario.timeout.value))


def _key_logs(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob(KEYS)) if file.is_file())


def _sender(address: str) -> Role | None:
    if address in _SERVERS:
        return "server"
    parsed = ipaddress.ip_address(address)
    return "client" if any(parsed in network for network in _CLIENT_NETWORKS) else None
