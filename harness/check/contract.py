"""Tests of the endpoint contract for one implementation, in its own labs: exit codes, refusals, logs, certificate."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from harness.analysis.interop.registry import FOLDER, WEBTRANSPORT_FOLDER
from harness.capture import qlog
from harness.capture.artefacts import last_log_lines
from harness.capture.files import find_file, read_bytes
from harness.capture.request_log import REQUESTS, read_requests, request_times
from harness.engine import Engine, EngineResult
from harness.engine.exit_rules import NOT_SUPPORTED
from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell, MeasuredRun, Outcome, Run
from harness.outcome.conformance import Answer, Finding
from harness.scenario.parameters import ROLES, Role, peer_role
from harness.scenario.schema import (
    ONE_SIDED,
    WEBTRANSPORT_TESTCASES,
    Implementation,
    TestcaseName,
    WebTransportTestcaseName,
    asked_of,
)
from harness.topology import Lab, build_lab

#: Labels in the key log of a connection that reached application data (draft-ietf-tls-keylogfile).
SECRETS = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
_CERTIFICATE = re.compile(r"quic-go-endpoint: certificate=([0-9a-f]{64})")
_RESUMED = re.compile(r"(?:quic-go-endpoint|nginx): resumed=(true|false)")


def implementation_name(cell: Cell, role: Role) -> str:
    """The name of the implementation in a role."""
    return cell.implementation(role).name


def log_ends(run: Run, role: Role, folder: Path) -> str:
    """The last lines and the paths of the logs that tell why a run failed, as the end of a sentence.

    The logs are that of the endpoint that the outcome blames, and that of `role`, which is under check. `folder`: that
    of the run. Empty for a run that completed, and for one that failed through neither endpoint.
    """
    outcome = run.outcome
    if outcome.status == "completed" or outcome.role not in ROLES:
        return ""
    lines = last_log_lines(folder, run)
    names = [next((name for name in lines if name.startswith(item)), f"{item}0") for item in (outcome.role, role)]
    parts = []
    for name in dict.fromkeys(names):
        log = find_file(folder / f"{name}.log") or folder / f"{name}.log"
        end = f"ends with “{lines[name][-1]}”" if name in lines else "is empty"
        parts.append(f"the log of {name} {end} ({log})")
    return f"; {'; '.join(parts)}"


def not_tried(cell: Cell, role: Role, question: str, why: str) -> Finding:
    """The finding on a question that no run could answer."""
    peer = implementation_name(cell, peer_role(role))
    return Finding(implementation_name(cell, role), role, question, "not tried", why, peer)


def check_refusals(cell: Cell, role: Role, engine: Engine, files: bool = True, failure: str = "") -> list[Finding]:
    """Request the impossible of the role's endpoint, and check that it refuses. `files`: whether it transfers files.

    `failure`: why a file that is missing would show nothing, since one that is there does not come either.
    """
    questions: Sequence[tuple[str, Callable[[Lab], Lab], Callable[[EngineResult], bool]]] = (
        (
            "unknown TESTCASE gives 127",
            lambda lab: _set_environment(lab, f"{role}0", "TESTCASE", "nonsense"),
            lambda result: result.outcome.role == role and result.outcome.exit_code == NOT_SUPPORTED,
        ),
        (
            "a missing file is no success",
            lambda lab: _set_environment(
                lab, "client0", "REQUESTS", lab.host("client0").environment["REQUESTS"] + ".missing"
            ),
            # The client shows a server's refusal, and must not wait for ever. A client may take an error page for the
            # file and report success: then the comparison with the served file fails.
            lambda result: result.outcome.status in ("crashed", "wrong_file") and result.outcome.role == "client",
        ),
    )
    findings = []
    for index, (question, change, expected) in enumerate(questions if files else questions[:1]):
        if index and failure:
            findings.append(not_tried(cell, role, question, failure))
            continue
        result = _run_lab(change(build_lab(cell, 0)), engine)
        outcome = result.outcome
        holds = expected(result)
        detail = (outcome.detail or outcome.status) + ("" if holds else _last_line(outcome))
        answer: Literal["holds", "does not hold"] = "holds" if holds else "does not hold"
        findings.append(
            Finding(
                implementation_name(cell, role),
                role,
                question,
                answer,
                detail,
                implementation_name(cell, peer_role(role)),
            )
        )
    return findings


def run_with_testcase(cell: Cell, role: Role, testcase: str, engine: Engine) -> Outcome:
    """The outcome of a transfer in which one role gets another test case than its peer."""
    return _run_lab(_set_environment(build_lab(cell, 0), f"{role}0", "TESTCASE", testcase), engine).outcome


def _set_environment(lab: Lab, host: str, variable: str, value: str) -> Lab:
    hosts = tuple(
        lab_host.model_copy(update={"environment": {**lab_host.environment, variable: value}})
        if lab_host.name == host
        else lab_host
        for lab_host in lab.hosts
    )
    return lab.model_copy(update={"hosts": hosts})


def _run_lab(lab: Lab, engine: Engine) -> EngineResult:
    folder = Path(tempfile.mkdtemp(prefix="quic-lab-check-"))
    try:
        return engine.run(lab, folder, lambda phase: None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge_transfer(run: Run, role: Role, protocol: str, folder: Path, transfer: str = "a transfer") -> Finding:
    """Whether a transfer over a protocol completed. `folder`: that of the run; `transfer`: what is asked for."""
    cell = run.cell
    completed = run.outcome.status == "completed"
    failed = f"{run.outcome.status}: {run.outcome.detail}{log_ends(run, role, folder)}"
    detail = "whole file, exit code 0" if completed else failed
    return Finding(
        implementation_name(cell, role),
        role,
        f"{transfer} over {protocol}",
        "holds" if completed else "does not hold",
        detail,
        implementation_name(cell, peer_role(role)),
    )


#: How much sooner a more urgent object is whole where its server honours priorities, s: a quarter of the time that the
#: link takes for one of the objects of the page that is tried.
_SOONER = 0.2


#: How much too early a request may be, s: programs round times to the microsecond.
_SLACK = 1e-4


def judge_schedule(run: Run, protocol: str, folder: Path) -> Finding:
    """Whether a client asked for a page as it was told: each request after those before it, and all of them logged.

    A browser finds in the first bytes of a document what the document names, and asks for it before it has the rest.
    """
    flow = run.cell.scenario.flows[0]
    schedule, wrong = flow.schedule, ""
    log = find_file(folder / "flow0/client" / REQUESTS)
    times = None
    if log is not None:
        frame = read_requests(log)
        times = request_times(frame, len(schedule), frame["asked_ns"][0] if len(frame) else 0)
    if run.outcome.status != "completed":
        wrong = f"{run.outcome.status}: {run.outcome.detail}{log_ends(run, 'client', folder)}"
    elif times is None or np.isnan([times.asked, times.first_byte, times.complete]).any():
        wrong = f"not all of {len(schedule)} requests have their times in /logs/{REQUESTS}"
    else:
        enough = times.first_byte if run.cell.client.browser else times.complete
        for number, request in enumerate(schedule):
            ready = max((enough[before] for before in request.after), default=-math.inf)
            early = ready + request.wait.seconds - times.asked[number]
            if early > _SLACK:
                wrong = f"request {number} was made {early:.3f} s too early"
                break
    return Finding(
        implementation_name(run.cell, "client"),
        "client",
        f"follows SCHEDULE over {protocol}",
        "does not hold" if wrong else "holds",
        wrong or f"{len(schedule)} requests in their order",
        implementation_name(run.cell, "server"),
    )


def judge_priorities(run: Run, measured: MeasuredRun | None, folder: Path) -> Finding:
    """Whether a server sent the more urgent of two objects first, though it was asked for it last."""
    loaded = {} if measured is None else {item.name: item.value for item in measured.measurements}
    patient, urgent = (loaded.get(f"loaded_{name}", math.nan) for name in ("patient", "urgent"))
    honours = urgent + _SOONER < patient
    if run.outcome.status != "completed":
        detail = f"{run.outcome.status}: {run.outcome.detail}{log_ends(run, 'server', folder)}"
    else:
        detail = f"u=1 was whole after {urgent:.2f} s, u=6 after {patient:.2f} s"
    return Finding(
        implementation_name(run.cell, "server"),
        "server",
        "sends the more urgent response first (RFC 9218)",
        "holds" if honours else "does not hold",
        detail,
        implementation_name(run.cell, "client"),
    )


#: The most that a datagram of the path that is tried takes from application to application, ms: its delay, and half of
#: the time to the next one.
_LATEST = 30.0


def judge_datagrams(run: Run, measured: MeasuredRun | None, role: Role, folder: Path) -> Finding:
    """Whether all datagrams of a server came to its client over a path that loses none, and in time."""
    figures = {} if measured is None else {item.name: item.value for item in measured.measurements}
    loss, latest = (figures.get(f"datagram_{name}", math.inf) for name in ("loss", "delay_max"))
    detail = f"{loss:.0%} of them lost, the latest after {latest:.1f} ms"
    if run.outcome.status != "completed":
        detail = f"{run.outcome.status}: {run.outcome.detail}{log_ends(run, role, folder)}"
    return Finding(
        implementation_name(run.cell, role),
        role,
        "logs the datagrams that come" if role == "client" else "sends datagrams in time (RFC 9221)",
        "holds" if loss == 0 and latest <= _LATEST else "does not hold",
        detail,
        implementation_name(run.cell, peer_role(role)),
    )


SESSION_QUESTION = "keeps sessions in SESSION_DIR"
#: The questions of `judge_logs`: the last is for servers alone.
LOG_QUESTIONS = ("TLS keys in SSLKEYLOGFILE", "qlog in QLOGDIR", "shows the certificate it was given")


def judge_logs(run: Run, role: Role, folder: Path, certificate: Path) -> list[Finding]:
    """Findings on the files of a completed run: key log, qlog, and, for a server, the certificate that it presented."""
    cell = run.cell
    subject, peer = implementation_name(cell, role), implementation_name(cell, peer_role(role))
    endpoint_folder = folder / "flow0" / role
    keys = _read_text(endpoint_folder / "keys.log")
    complete = all(word in keys for word in SECRETS)
    findings = [
        Finding(
            subject,
            role,
            LOG_QUESTIONS[0],
            "holds" if complete else "not offered",
            f"{len(keys.splitlines())} secrets" if complete else "it writes none; captures stay encrypted",
            peer,
        )
    ]
    files = qlog.find_traces(endpoint_folder)
    sent = sum(qlog.summarise(file).sent for file in files)
    findings.append(
        Finding(
            subject,
            role,
            LOG_QUESTIONS[1],
            "holds" if files else "not offered",
            f"{len(files)} trace, {sent} packets sent" if files else "it writes none",
            peer,
        )
    )
    if role == "server" and (fingerprint := _CERTIFICATE.search(_read_text(folder / "client0.log"))):
        expected = x509.load_pem_x509_certificate(certificate.read_bytes()).fingerprint(hashes.SHA256()).hex()
        matches = fingerprint[1] == expected
        findings.append(
            Finding(
                subject,
                role,
                LOG_QUESTIONS[2],
                "holds" if matches else "does not hold",
                f"SHA-256 {fingerprint[1][:12]}…" + ("" if matches else f" instead of {expected[:12]}…"),
                peer,
            )
        )
    return findings


def judge_session(run: Run, folder: Path) -> Finding:
    """Whether the client's second process resumed the session of its first, as observed at the server."""
    cell = run.cell
    resumptions = _RESUMED.findall(_read_text(folder / "server0.log"))
    if run.outcome.status != "completed":
        detail = f"{run.outcome.status}: {run.outcome.detail}{log_ends(run, 'client', folder)}"
    elif len(resumptions) < 2:
        detail = f"{cell.server.name} told of {len(resumptions)} connections instead of 2"
    else:
        detail = f"second connection {'resumed' if resumptions[1] == 'true' else 'with a full handshake'}"
    answer: Answer = (
        "holds" if resumptions == ["false", "true"] and run.outcome.status == "completed" else "does not hold"
    )
    return Finding(cell.client.name, "client", SESSION_QUESTION, answer, detail, cell.server.name)


def _read_text(file: Path) -> str:
    try:
        return read_bytes(file).decode(errors="replace")
    except OSError:
        return ""


# --- The interop runner's test cases for one implementation: those that it accepts work, and those that it refuses end
# with exit code 127.
#
# The manifest lists the test cases that an image refuses (`refuses`). A test case that it accepts runs against each
# reference that accepts it in the other role. Where no reference does, it runs against the image itself, or else
# against the first other implementation that accepts it. A test case that it refuses is set for it alone: its peer does
# an ordinary transfer.


#: TESTCASE → the scenario in which it is tested, where the names differ.
_SCENARIO_NAMES = {"multiconnect": "handshakeloss"}
#: The only implementation that can be the peer, for test cases in which a peer in an ordinary transfer has to do more.
#: Of the clients here only picoquic's migrates to a server's preferred address (RFC 9000 §9.6: a client SHOULD).
_ONLY_PEER: dict[TestcaseName, str] = {"connectionmigration": "picoquic"}


def scenario_of(testcase: TestcaseName) -> str:
    """The scenario in which a test case is tested."""
    return f"{FOLDER}{_SCENARIO_NAMES.get(testcase, testcase)}"


@dataclass(frozen=True)
class TestcaseTrial:
    """A test case in a role, and the cells that test it; no cells where the manifest says that it is refused."""

    role: Role
    testcase: TestcaseName | WebTransportTestcaseName
    cells: tuple[Cell, ...]
    refusal: str = ""
    """The manifest's reason for the refusal; empty where it is accepted."""
    lacks_peer: bool = False
    """Whether the image accepts it, and no implementation here can be the peer."""


def trials(
    implementation: Implementation,
    references: Sequence[Implementation],
    fallbacks: Sequence[Implementation],
    cell: Callable[[Role, Implementation, str], Cell],
) -> Iterator[TestcaseTrial]:
    """Every test case in every role. `cell`: creates the cell for a role, a peer and a scenario."""
    for role in implementation.roles:
        for testcase in asked_of(role):
            why_not = implementation.refusal(role, testcase)
            peers = [] if why_not else _peers(implementation, role, testcase, references, fallbacks)
            cells = tuple(cell(role, peer, scenario_of(testcase)) for peer in peers)
            yield TestcaseTrial(role, testcase, cells, why_not, lacks_peer=not why_not and not cells)


def session_trials(
    implementation: Implementation,
    peers: Mapping[Role, Implementation | None],
    cell: Callable[[Role, Implementation, str], Cell],
) -> Iterator[TestcaseTrial]:
    """Every test case over WebTransport in every role. `peers`: who is at the other end of a role."""
    for role in implementation.roles:
        other = peers[role]
        names: tuple[TestcaseName | WebTransportTestcaseName, ...] = ("handshake", *WEBTRANSPORT_TESTCASES)
        for testcase in names:
            if ONE_SIDED.get(testcase, role) == role:
                cells = () if other is None else (cell(role, other, f"{WEBTRANSPORT_FOLDER}{testcase}"),)
                yield TestcaseTrial(role, testcase, cells, lacks_peer=other is None)


def _peers(
    implementation: Implementation,
    role: Role,
    testcase: TestcaseName,
    references: Sequence[Implementation],
    fallbacks: Sequence[Implementation],
) -> list[Implementation]:
    """Peers for a test case: the references that accept it, else the implementation itself, else one of `fallbacks`."""
    peer_testcase: TestcaseName = (
        testcase if ONE_SIDED.get(testcase, peer_role(role)) == peer_role(role) else "transfer"
    )
    able_peer = _ONLY_PEER.get(testcase)

    def able(candidates: Sequence[Implementation]) -> list[Implementation]:
        return [
            item
            for item in candidates
            if able_peer in (None, item.name) and not item.refusal(peer_role(role), peer_testcase)
        ]

    return (
        able([item for item in references if item.name != implementation.name])
        or able([implementation])
        or able(fallbacks)[:1]
    )


def judge_testcase(trial: TestcaseTrial, result: CellResult) -> Finding:
    """The finding from a cell of a test case that the manifest does not refuse."""
    verdict, cell = result.verdict, result.cell
    if verdict.status == "unsupported":
        if verdict.reason == f"unsupported_{peer_role(trial.role)}":
            return _finding(trial, cell, "not tried", f"the other end refuses it: {verdict.sentence}")
        # The manifest of a published image need not list all of its refusals.
        undeclared = verdict.reason == f"unsupported_{trial.role}" and cell.implementation(trial.role).build is not None
        detail = "refused(127), and the manifest does not say so" if undeclared else "refused(127)"
        return _finding(trial, cell, "does not hold" if undeclared else "not offered", f"{detail}: {verdict.sentence}")
    if verdict.status == "inconclusive":
        return _finding(trial, cell, "not offered", f"cannot be told: {verdict.sentence}")
    if verdict.status == "pass":
        return _finding(trial, cell, "holds", f"works: {verdict.sentence}")
    logs = (log_ends(run, trial.role, at) for (run, _), at in zip(result.runs, result.folders, strict=False))
    ends = next(filter(None, logs), "")
    sentence = verdict.sentence.removesuffix(".") if ends else verdict.sentence
    return _finding(trial, cell, "does not hold", f"fails: {sentence}{ends}")


def finding_without_peer(trial: TestcaseTrial, cell: Cell) -> Finding:
    """The finding for a test case that is accepted, but has no possible peer here."""
    return _finding(trial, cell, "not tried", "no implementation here can be the other end")


def check_refusal(trial: TestcaseTrial, cell: Cell, engine: Engine) -> Finding:
    """Whether a test case that the manifest refuses exits with 127. `cell`: an ordinary transfer of the role."""
    outcome = run_with_testcase(cell, trial.role, trial.testcase, engine)
    correct = outcome.role == trial.role and outcome.exit_code == NOT_SUPPORTED
    seen = f"{outcome.detail or outcome.status}{_last_line(outcome)}"
    detail = f"refused(127): {trial.refusal}" if correct else f"not refused: {seen}"
    return _finding(trial, cell, "not offered" if correct else "does not hold", detail)


def _last_line(outcome: Outcome) -> str:
    """The last line of the log of whoever failed, as the end of a sentence. Its run left no folder."""
    return f": “{outcome.log_tail[-1].strip()}”" if outcome.log_tail else ""


def _finding(trial: TestcaseTrial, cell: Cell, answer: Answer, detail: str) -> Finding:
    subject, peer = (implementation_name(cell, role) for role in (trial.role, peer_role(trial.role)))
    return Finding(subject, trial.role, f"TESTCASE {trial.testcase}", answer, detail, peer)
