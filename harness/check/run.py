"""Checks of implementations, in virtual time: the contract and its test cases, then every claimed parameter.

All transfers are ordinary cells in a store of their own. So a second check of unchanged images runs nothing, and the
runs behind every finding can be inspected.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.interop.registry import WEBTRANSPORT_CASES, WEBTRANSPORT_FOLDER
from harness.check import contract
from harness.check.parameters import TRIALS, ValueRun, claims, values_to_try
from harness.engine.certificates import virtual_certificates
from harness.engine.images.rootfs_export import RootFs
from harness.engine.virtual.engine import VirtualEngine
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.execution import App, Options
from harness.execution.events import Listener
from harness.execution.matrix import Request
from harness.outcome import Cell, proven_outcome
from harness.outcome.conformance import Answer, Finding
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ParameterValue, Role, peer_role
from harness.scenario.schema import TESTCASES, Flow, Implementation, Scenario

# --- Whether an implementation behaves the same on every processor, in virtual time.
#
# With AVX-512, Go's garbage collector scans the heap in another order (since 1.26: internal/runtime/gc of Go's source).
# So it frees memory and starts work at other times, and the packets sent in between differ. `GODEBUG`
# (cpu.avx512vl=off) prevents this. The harness cannot hide the processor from a program where the host does not support
# CPUID faulting, so the manifest has to set the variable.


#: Start of a program's build information. If bit 1 of byte 15 is set, byte 32 has the length of the Go version, and the
#: version follows (debug/buildinfo of Go's source).
_BUILDINFO_MAGIC, _FLAGS, _INLINE, _VERSION = b"\xff Go buildinf:", 15, 2, 32
#: The first version whose garbage collector uses AVX-512, and the options of GODEBUG that prevent it: the collector
#: needs all of these features.
_SINCE_VERSION = (1, 26)
_GODEBUG_OPTIONS = ("cpu.all", "cpu.avx512vl", "cpu.avx512bw", "cpu.avx512dq")
_NUMBER = re.compile(r"go(\d+)\.(\d+)")
QUESTION = "Go's garbage collector does the same on every processor"


def processor_findings(implementation: Implementation, root: RootFs) -> Iterator[Finding]:
    """A finding where an image has programs that such a version of Go built. Raises OSError."""
    affected = {
        path: version
        for path, version in go_programs(Path(root.rootfs)).items()
        if _parse_version(version) >= _SINCE_VERSION
    }
    if not affected:
        return
    environment = dict(word.split("=", 1) for word in root.environment if "=" in word)
    hidden = _hides_avx512(environment | implementation.virtual_environment)
    programs = ", ".join(f"{path} ({version})" for path, version in affected.items())
    hint = "AVX-512 is hidden" if hidden else "write virtual_environment: {GODEBUG: cpu.avx512vl=off} in its manifest"
    yield Finding(
        implementation.name,
        implementation.roles[0],
        QUESTION,
        "holds" if hidden else "does not hold",
        f"{programs}: {hint}",
    )


def go_programs(root: Path) -> dict[str, str]:
    """Path of each Go program below a root folder, as seen from that root → the version of Go that built it."""
    versions = {}
    for folder, _, names in os.walk(root):
        for file in (Path(folder, name) for name in sorted(names)):
            if not file.is_symlink() and file.is_file() and os.access(file, os.X_OK) and (version := go_version(file)):
                versions[f"/{file.relative_to(root)}"] = version
    return dict(sorted(versions.items()))


def go_version(program: Path) -> str:
    """The version of Go that built a program; empty for any other file. Raises OSError."""
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            offset = content.find(_BUILDINFO_MAGIC)
            while offset >= 0:
                header = content[offset : offset + _VERSION + 1]
                if len(header) > _VERSION and header[_FLAGS] & _INLINE:
                    start = offset + len(header)
                    version = content[start : start + header[_VERSION]].decode(errors="replace")
                    if _NUMBER.search(version):
                        return version
                offset = content.find(_BUILDINFO_MAGIC, offset + 1)
    return ""


def _parse_version(version: str) -> tuple[int, int]:
    match = _NUMBER.search(version)
    assert match is not None
    return int(match[1]), int(match[2])


def _hides_avx512(environment: Mapping[str, str]) -> bool:
    """Whether GODEBUG prevents the garbage collector from using AVX-512."""
    settings = dict(word.split("=", 1) for word in environment.get("GODEBUG", "").split(",") if "=" in word)
    return any(settings.get(name) == "off" for name in _GODEBUG_OPTIONS)


# --- run


#: Peers for checks, in order of preference: they are known to work, and their qlog shows what a peer sent. The last two
#: are for HTTPS over TCP and for WebTransport.
REFERENCES = ("quic-go", "ngtcp2", "https", "webtransport-go")
#: The implementation whose server reports which connections were resumed; for HTTPS over TCP it is the image itself.
WITNESS = "quic-go"
#: The scenarios of plain transfers, of two connections by two processes of a client, of uploads, pages, pages for
#: browsers, and datagrams.
TRANSFER, RESUMED, UPLOAD, PAGE = "check/short", "check/resumed", "check/upload", "check/page"
DOCUMENT, DATAGRAMS = "check/document", "check/datagrams"
#: The scenario that stands for a transfer over WebTransport.
SESSION = f"{WEBTRANSPORT_FOLDER}transfer-bidirectional-receive"
_NO_PEER = "no implementation here can be the other end"


def _transfer_over(protocol: str) -> str:
    """The scenario of a plain transfer by an application protocol."""
    return SESSION if protocol == "webtransport" else TRANSFER


@dataclass(frozen=True)
class _Claim:
    """One parameter in one role, and the cells that test it."""

    role: Role
    name: str
    setting: Setting
    cells: tuple[tuple[ParameterValue, Cell], ...]
    refusal: str = ""


class _Subject:
    """One implementation under check."""

    def __init__(
        self,
        app: App,
        implementation: Implementation,
        references: Sequence[Implementation],
        fallbacks: Sequence[Implementation],
        scenarios: Mapping[str, Scenario],
        listen: Listener,
    ) -> None:
        self._app = app
        self._scenarios = scenarios
        self._references = references
        self._listen = listen
        self.implementation = implementation
        self.transfers = list(self._transfers())
        self.uploads = list(self._uploads())
        self.pages = list(self._pages())
        self.datagrams = list(self._datagrams())
        self.resumption_cell = self._resumed()
        self.cases = (
            list(contract.trials(implementation, references, fallbacks, self._case))
            if implementation.speaks_quic
            else []
        )
        if "webtransport" in implementation.protocols:
            peers = {role: self._peer(role, "webtransport") for role in implementation.roles}
            self.cases += contract.session_trials(implementation, peers, self._case)
        self.claims = [self._claim(role, name, setting) for role, name, setting in claims(implementation)]

    @property
    def cells(self) -> list[Cell]:
        """Every cell that the check needs."""
        transfers = [cell for _, _, cell in (*self.transfers, *self.uploads, *self.pages, *self.datagrams)] + (
            [self.resumption_cell] if self.resumption_cell else []
        )
        cases = [cell for item in self.cases for cell in item.cells]
        return transfers + cases + [cell for item in self.claims for _, cell in item.cells]

    def _cells(
        self,
        role: Role,
        peer: Implementation,
        scenario: str,
        protocol: str = "auto",
        sender: Role = "server",
        **fields: object,
    ) -> list[Cell]:
        """Cells of a scenario against a peer. `sender`: the role that sends the data; with TCP either role can."""
        definition = self._scenarios[scenario]
        if _is_tcp(self.implementation):
            direction = "to_client" if sender == "server" else "to_server"
            ends = {"client": self.implementation.name, "server": self.implementation.name}
            flow = Flow(kind="tcp", download=definition.flows[0].download, direction=direction, **ends)
            definition = definition.model_copy(update={"flows": (flow,)})
        elif protocol != "auto":
            definition = definition.model_copy(update={"protocol": protocol})
        client, server = (self.implementation, peer) if role == "client" else (peer, self.implementation)
        request = Request([definition], [client], [server], engine="virtual", sim_kernel="lab", **fields)  # type: ignore[arg-type]
        return self._app.matrix(request, self._listen, pull=True)

    def _transfers(self) -> Iterator[tuple[Role, str, Cell]]:
        for role in self.implementation.roles:
            for protocol in self.implementation.protocols:
                peer = self._peer(role, protocol)
                if peer is not None:
                    yield role, protocol, self._cells(role, peer, _transfer_over(protocol), protocol)[0]

    def _uploads(self) -> Iterator[tuple[Role, str, Cell]]:
        """The uploads that it claims, each with a reference that claims them, else with itself."""
        for role in self.implementation.roles:
            for protocol in self.implementation.uploads:
                able = (item for item in (*self._references, self.implementation) if protocol in item.uploads)
                peer = next((item for item in able if peer_role(role) in item.roles), None)
                if peer is not None:
                    yield role, protocol, self._cells(role, peer, UPLOAD, protocol)[0]

    def _pages(self) -> Iterator[tuple[Role, str, Cell]]:
        """The pages that its client follows the schedule of, and the one whose priorities its server honours."""
        if "client" in self.implementation.roles:
            for protocol in self.implementation.schedules:
                peer = self._peer("client", protocol)
                if peer is not None:
                    page = DOCUMENT if self.implementation.browser else PAGE
                    yield "client", protocol, self._cells("client", peer, page, protocol)[0]
        if self.implementation.priorities:
            able = (item for item in self._references if "h3" in item.schedules and "client" in item.roles)
            peer = next(able, None)
            if peer is not None:
                yield "server", "h3", self._cells("server", peer, PAGE, "h3")[0]

    def _datagrams(self) -> Iterator[tuple[Role, str, Cell]]:
        """Its datagrams in each role, with a reference that has them, else with itself."""
        able = [item for item in (*self._references, self.implementation) if item.datagrams]
        for role in self.implementation.roles if self.implementation.datagrams else ():
            yield role, "hq-interop", self._cells(role, able[0], DATAGRAMS)[0]

    def _resumed(self) -> Cell | None:
        """The transfer that shows session resumption; None unless the client claims to keep sessions."""
        name = self.implementation.name if self.implementation.protocols == ("h2",) else WITNESS
        witness = next((item for item in (self.implementation, *self._references) if item.name == name), None)
        if not self.implementation.session or "client" not in self.implementation.roles or witness is None:
            return None
        return self._cells("client", witness, RESUMED)[0]

    def _case(self, role: Role, peer: Implementation, scenario: str) -> Cell:
        return self._cells(role, peer, scenario)[0]

    def _peer(self, role: Role, protocol: str, preferred: str = "") -> Implementation | None:
        """The reference to check a role against: the preferred one, else another implementation than this one.

        None where no reference can be the peer. The peer of TCP and of HTTPS over TCP is the image itself, where it
        plays both roles: for TCP both ends are the same kernel.
        """
        if protocol in ("h2", "tcp") and peer_role(role) in self.implementation.roles:
            return self.implementation
        if _is_tcp(self.implementation):
            return None
        candidates = [item for item in self._references if protocol in item.protocols and peer_role(role) in item.roles]
        candidates.sort(key=lambda item: (item.name == self.implementation.name, item.name != preferred))
        return candidates[0] if candidates else None

    def _claim(self, role: Role, name: str, setting: Setting) -> _Claim:
        trial = TRIALS.get(name)
        if trial is None:
            return _Claim(role, name, setting, (), "no trial shows this parameter's effect")
        acting_role = role if setting.settable else peer_role(role)
        dimension = f"{acting_role}.{name}"
        peer: Implementation | None
        if not setting.settable:
            # The endpoint asks its peer for the value. Only the image itself certainly understands the request.
            peer = (
                self.implementation
                if acting_role in self.implementation.roles and "ack_frequency" in self.implementation.extensions
                else None
            )
        elif trial.with_itself and peer_role(role) in self.implementation.roles:
            peer = self.implementation
            peer_setting = self.implementation.setting(peer_role(role), name)
            dimension = name if peer_setting is not None and peer_setting.settable else dimension
        else:
            peer = self._peer(role, self.implementation.protocols[0], trial.peer)
        if peer is None:
            return _Claim(role, name, setting, (), _NO_PEER)
        parameters = {
            f"{role}.{parameter}": value
            for parameter, value in trial.other_parameters.items()
            if role == "server"
            and (known := self.implementation.setting(role, parameter)) is not None
            and known.settable
        }
        trial_values = values_to_try(setting, name, trial)
        if not trial_values:
            return _Claim(role, name, setting, ())
        sender: Role = "server"
        if _is_tcp(self.implementation):
            # A parameter of the whole cell is meant for its QUIC flows, so this sets the flow's own parameter.
            parameters, dimension = {}, f"flow0.{dimension}"
            sender = role if PARAMETERS[name].acts == "sender" else peer_role(role)
        protocol = self.implementation.protocols[0]
        if protocol == "webtransport" and trial.scenario != TRANSFER:
            return _Claim(role, name, setting, (), "no session of WebTransport shows this parameter's effect")
        scenario = _transfer_over(protocol) if trial.scenario == TRANSFER else trial.scenario
        cells = self._cells(role, peer, scenario, sender=sender, parameters=parameters, vary={dimension: trial_values})
        return _Claim(role, name, setting, tuple(zip(trial_values, cells, strict=True)))

    # --- answers

    def findings(self, results: dict[str, CellResult], engine: VirtualEngine, listen: Listener) -> Iterator[Finding]:
        """The findings, once every cell has run."""
        checked_roles: set[Role] = set()
        for role, protocol, cell in self.transfers:
            run, _ = results[cell.key].runs[-1]
            folder = results[cell.key].folders[-1]
            yield contract.judge_transfer(run, role, protocol, folder)
            if role not in checked_roles:
                checked_roles.add(role)
                serves = not _is_tcp(self.implementation)
                failure = "" if run.outcome.status == "completed" else f"the transfer over {protocol} did not complete"
                yield from contract.check_refusals(
                    self._app.inventory.build_images_of(cell, listen), role, engine, files=serves, failure=failure
                )
                if failure and serves:
                    for question in contract.LOG_QUESTIONS[: 3 if role == "server" else 2]:
                        yield contract.not_tried(cell, role, question, failure)
                elif serves:
                    certificate = virtual_certificates(self._app.paths.cache) / "cert.pem"
                    yield from contract.judge_logs(run, role, folder, certificate)
        yield from self._claimed_findings(results)
        for role, _, cell in self.transfers[:1]:
            image = cell.image(role).reference
            with self._app.root_file_systems.use([image]) as exported:
                yield from processor_findings(self.implementation, exported.roots[image])
        yield from self._case_findings(results, engine, listen)
        failures = self._failures(results)
        if self.resumption_cell is not None and (failure := failures.get("client", "")):
            yield contract.not_tried(self.resumption_cell, "client", contract.SESSION_QUESTION, failure)
        elif self.resumption_cell is not None:
            key = self.resumption_cell.key
            yield contract.judge_session(results[key].runs[-1][0], results[key].folders[-1])
        for claim in self.claims:
            yield self._finding(claim, results, failures.get(claim.role, ""))

    def _claimed_findings(self, results: dict[str, CellResult]) -> Iterator[Finding]:
        """The findings on the uploads, the schedules and the priorities that it claims."""
        for role, protocol, cell in self.uploads:
            run, folder = results[cell.key].runs[-1][0], results[cell.key].folders[-1]
            yield contract.judge_transfer(run, role, protocol, folder, "an upload")
        for role, protocol, cell in self.pages:
            (run, measured), folder = results[cell.key].runs[-1], results[cell.key].folders[-1]
            if role == "client":
                yield contract.judge_schedule(run, protocol, folder)
            else:
                yield contract.judge_priorities(run, measured, folder)
        for role, _, cell in self.datagrams:
            (run, measured), folder = results[cell.key].runs[-1], results[cell.key].folders[-1]
            yield contract.judge_datagrams(run, measured, role, folder)

    def _failures(self, results: dict[str, CellResult]) -> dict[Role, str]:
        """Each role of which no ordinary transfer completed → why nothing that needs one is tried."""
        able = {role for role, _, cell in self.transfers if results[cell.key].runs[-1][0].outcome.status == "completed"}
        return {role: "no ordinary transfer completed" for role, _, _ in self.transfers if role not in able}

    def _case_findings(
        self, results: dict[str, CellResult], engine: VirtualEngine, listen: Listener
    ) -> Iterator[Finding]:
        ordinary = {role: cell for role, _, cell in reversed(self.transfers)}
        for trial in self.cases:
            yield from (contract.judge_testcase(trial, results[cell.key]) for cell in trial.cells)
            if trial.lacks_peer and trial.role in ordinary:
                yield contract.finding_without_peer(trial, ordinary[trial.role])
            elif not trial.cells and trial.role in ordinary:
                yield contract.check_refusal(
                    trial, self._app.inventory.build_images_of(ordinary[trial.role], listen), engine
                )

    def _finding(self, claim: _Claim, results: dict[str, CellResult], failure: str = "") -> Finding:
        """The finding on a claim. `failure`: why it cannot be tried, where the same transfer fails without it."""
        question = f"parameter {claim.name}" + ("" if claim.setting.settable else ", asked of its peer")
        if not claim.cells:
            reason = claim.refusal or "the image takes none of the values that are tried"
            untried: Answer = "not tried" if claim.refusal == _NO_PEER else "does not hold"
            return Finding(self.implementation.name, claim.role, question, untried, reason)
        if failure:
            return contract.not_tried(claim.cells[0][1], claim.role, question, failure)
        peer = contract.implementation_name(claim.cells[0][1], peer_role(claim.role))
        runs: list[ValueRun] = []
        for value, cell in claim.cells:
            run, measured = results[cell.key].runs[-1]
            outcome = proven_outcome(run, measured)
            if outcome.status != "completed" or measured is None:
                ends = contract.log_ends(run, claim.role, results[cell.key].folders[-1])
                detail = f"{value}: {outcome.status}: {outcome.detail}{ends}"
                return Finding(self.implementation.name, claim.role, question, "does not hold", detail, peer)
            runs.append((value, measured))
        acting_role = claim.role if claim.setting.settable else peer_role(claim.role)
        wrong, shown = TRIALS[claim.name].judge(acting_role, runs)
        answer = "does not hold" if wrong else "holds"
        return Finding(self.implementation.name, claim.role, question, answer, wrong or shown, peer)  # type: ignore[arg-type]


def _is_tcp(implementation: Implementation) -> bool:
    """Whether an implementation is a TCP traffic generator, not a QUIC endpoint."""
    return "tcp" in implementation.protocols


def check(app: App, chosen: Iterable[Implementation], options: Options, listen: Listener) -> Iterator[Finding]:
    """Check implementations; yields the findings of one after the other. Raises HarnessError."""
    implementations = {item.name: item for item, _ in app.catalogue.implementations().values()}
    references = [implementations[name] for name in REFERENCES if name in implementations]
    if not references:
        raise InputError(f"a check needs one of {', '.join(REFERENCES)} at the other end", "see images/")
    # The implementation with the shortest build time comes first.
    candidates = (
        item for item in implementations.values() if item.build is not None and item.tested and item.speaks_quic
    )
    fallbacks = sorted(candidates, key=lambda item: (item.build_time.seconds, item.name))
    names = {
        TRANSFER,
        RESUMED,
        UPLOAD,
        PAGE,
        DOCUMENT,
        DATAGRAMS,
        *(trial.scenario for trial in TRIALS.values()),
        *map(contract.scenario_of, TESTCASES),
        *(f"{WEBTRANSPORT_FOLDER}{name}" for name in WEBTRANSPORT_CASES),
    }
    scenarios = {scenario.name: scenario for scenario in app.catalogue.find_scenarios(sorted(names))}
    subjects = [_Subject(app, implementation, references, fallbacks, scenarios, listen) for implementation in chosen]
    cells = {cell.key: cell for subject in subjects for cell in subject.cells}
    results = {item.cell.key: item for item in app.run_cells(list(cells.values()), 1, options, listen)}
    engine = VirtualEngine(app.cache, [0], options.log_limit, options.stall, kernel=options.kernel)
    for subject in subjects:
        yield from subject.findings(results, engine, listen)
