"""A check of implementations: the contract first, with its test cases, then every parameter claimed, in virtual time.

All transfers are ordinary cells in a store of their own, so that a second check of unchanged images costs
nothing, and any line of it can be looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.check import contract, cpu, testcases
from harness.check.parameters import TRIALS, Tried, claims, values
from harness.engine.certificates import virtual_certificates
from harness.engine.virtual.engine import VirtualEngine
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.execution import App, Options
from harness.execution.events import Listener
from harness.execution.matrix import Request
from harness.outcome import Cell, proven_outcome
from harness.outcome.conformance import Finding
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ParameterValue, Role, other
from harness.scenario.schema import TESTCASES, Flow, Implementation, Scenario

#: What others are checked against, in order of preference: known to work, and their qlog tells what a peer sent.
REFERENCES = ("quic-go", "ngtcp2")
#: The one that tells, as a server, which connections were resumed; of HTTPS over TCP it is the image itself.
WITNESS = "quic-go"
#: The path of plain transfers, and of two connections by two processes of a client.
TRANSFER, RESUMED = "check/short", "check/resumed"


@dataclass(frozen=True)
class _Claim:
    """One parameter in one role, and the cells in which it is tried."""

    role: Role
    name: str
    setting: Setting
    cells: tuple[tuple[ParameterValue, Cell], ...]
    why_not: str = ""


class _Subject:
    """One implementation under check."""

    def __init__(
        self,
        app: App,
        one: Implementation,
        references: Sequence[Implementation],
        others: Sequence[Implementation],
        scenarios: Mapping[str, Scenario],
        listen: Listener,
    ) -> None:
        self._app = app
        self._scenarios = scenarios
        self._references = references
        self._listen = listen
        self.one = one
        self.transfers = list(self._transfers())
        self.resumed = self._resumed()
        self.cases = list(testcases.trials(one, references, others, self._case)) if one.speaks_quic else []
        self.claims = [self._claim(role, name, setting) for role, name, setting in claims(one)]

    @property
    def cells(self) -> list[Cell]:
        """Every cell that the check needs."""
        transfers = [cell for _, _, cell in self.transfers] + ([self.resumed] if self.resumed else [])
        cases = [cell for item in self.cases for cell in item.cells]
        return transfers + cases + [cell for item in self.claims for _, cell in item.cells]

    def _cells(
        self,
        role: Role,
        peer: Implementation,
        scenario: str,
        protocol: str = "auto",
        sender: Role = "server",
        **more: object,
    ) -> list[Cell]:
        """`sender`: who has the data, which of TCP either end may."""
        wanted = self._scenarios[scenario]
        if _is_tcp(self.one):
            direction = "to_client" if sender == "server" else "to_server"
            ends = {"client": self.one.name, "server": self.one.name}
            flow = Flow(kind="tcp", download=wanted.flows[0].download, direction=direction, **ends)
            wanted = wanted.model_copy(update={"flows": (flow,)})
        else:
            wanted = wanted.model_copy(update={"protocol": protocol})
        client, server = (self.one, peer) if role == "client" else (peer, self.one)
        request = Request([wanted], [client], [server], engine="virtual", sim_kernel="lab", **more)  # type: ignore[arg-type]
        return self._app.matrix(request, self._listen, pull=True)

    def _transfers(self) -> Iterator[tuple[Role, str, Cell]]:
        for role in self.one.roles:
            for protocol in self.one.protocols:
                peer = self._peer(role, protocol)
                if peer is not None:
                    yield role, protocol, self._cells(role, peer, TRANSFER, protocol)[0]

    def _resumed(self) -> Cell | None:
        """Where the client claims to keep sessions, the transfer that shows it."""
        named = self.one.name if self.one.protocols == ("h2",) else WITNESS
        witness = next((item for item in (self.one, *self._references) if item.name == named), None)
        if not self.one.session or "client" not in self.one.roles or witness is None:
            return None
        return self._cells("client", witness, RESUMED)[0]

    def _case(self, role: Role, peer: Implementation, scenario: str) -> Cell:
        return self._cells(role, peer, scenario)[0]

    def _peer(self, role: Role, protocol: str, wanted: str = "") -> Implementation | None:
        """The reference to check a role against: the one that is wanted, or else another implementation, if it can.

        TCP's other end is the same kernel, and that of HTTPS over it the same image.
        """
        if _is_tcp(self.one) or protocol == "h2":
            return self.one if protocol in ("h2", "tcp") and other(role) in self.one.roles else None
        able = [item for item in self._references if protocol in item.protocols and other(role) in item.roles]
        able.sort(key=lambda item: (item.name == self.one.name, item.name != wanted))
        return able[0] if able else None

    def _claim(self, role: Role, name: str, setting: Setting) -> _Claim:
        trial = TRIALS.get(name)
        if trial is None:
            return _Claim(role, name, setting, (), "no trial shows this parameter's effect")
        acting = role if setting.settable else other(role)
        told = f"{acting}.{name}"
        peer: Implementation | None
        if not setting.settable:
            # It asks its peer: the peer that certainly understands is itself.
            peer = self.one if acting in self.one.roles and "ack_frequency" in self.one.extensions else None
        elif trial.with_itself and other(role) in self.one.roles:
            peer = self.one
            theirs = self.one.setting(other(role), name)
            told = name if theirs is not None and theirs.settable else told
        else:
            peer = self._peer(role, self.one.protocols[0], trial.peer)
        if peer is None:
            return _Claim(role, name, setting, (), "no implementation here can be the other end")
        able = {
            f"{role}.{beside}": value
            for beside, value in trial.beside.items()
            if role == "server" and (known := self.one.setting(role, beside)) is not None and known.settable
        }
        wanted = values(setting, name, trial)
        if not wanted:
            return _Claim(role, name, setting, ())
        sender: Role = "server"
        if _is_tcp(self.one):
            # What is asked of the whole cell is asked of its flows over QUIC.
            able, told = {}, f"flow0.{told}"
            sender = role if PARAMETERS[name].acts == "sender" else other(role)
        cells = self._cells(role, peer, trial.scenario, sender=sender, parameters=able, vary={told: wanted})
        return _Claim(role, name, setting, tuple(zip(wanted, cells, strict=True)))

    # --- answers

    def findings(self, results: dict[str, CellResult], engine: VirtualEngine, listen: Listener) -> Iterator[Finding]:
        """The answers, once every cell has run."""
        seen: set[Role] = set()
        for role, protocol, cell in self.transfers:
            run, _ = results[cell.key].runs[-1]
            yield contract.transfer(run, role, protocol)
            if role not in seen:
                seen.add(role)
                serves = not _is_tcp(self.one)
                yield from contract.refusals(self._app.inventory.made(cell, listen), role, engine, files=serves)
                if run.outcome.status == "completed" and serves:
                    folder = results[cell.key].folders[-1]
                    given = virtual_certificates(self._app.places.cache) / "cert.pem"
                    yield from contract.logs(run, role, folder, given)
        for role, _, cell in self.transfers[:1]:
            image = cell.image(role).reference
            with self._app.exported.use([image]) as exported:
                yield from cpu.findings(self.one, exported.roots[image])
        yield from self._of_cases(results, engine, listen)
        if self.resumed is not None:
            key = self.resumed.key
            yield contract.session(results[key].runs[-1][0], results[key].folders[-1])
        for claim in self.claims:
            yield self._answer(claim, results)

    def _of_cases(self, results: dict[str, CellResult], engine: VirtualEngine, listen: Listener) -> Iterator[Finding]:
        plain = {role: cell for role, _, cell in reversed(self.transfers)}
        for trial in self.cases:
            yield from (testcases.works(trial, results[cell.key]) for cell in trial.cells)
            if trial.alone and trial.role in plain:
                yield testcases.untried(trial, plain[trial.role])
            elif not trial.cells and trial.role in plain:
                yield testcases.refused(trial, self._app.inventory.made(plain[trial.role], listen), engine)

    def _answer(self, claim: _Claim, results: dict[str, CellResult]) -> Finding:
        question = f"parameter {claim.name}" + ("" if claim.setting.settable else ", asked of its peer")
        if not claim.cells:
            why = claim.why_not or "the image takes none of the values that are tried"
            return Finding(self.one.name, claim.role, question, "does not hold", why)
        against = contract.name_of(claim.cells[0][1], other(claim.role))
        tried: list[Tried] = []
        for value, cell in claim.cells:
            run, measured = results[cell.key].runs[-1]
            outcome = proven_outcome(run, measured)
            if outcome.status != "completed" or measured is None:
                said = f"{value}: {outcome.status}: {outcome.detail}"
                return Finding(self.one.name, claim.role, question, "does not hold", said, against)
            tried.append((value, measured))
        acting = claim.role if claim.setting.settable else other(claim.role)
        wrong, shown = TRIALS[claim.name].tell(acting, tried)
        answer = "does not hold" if wrong else "holds"
        return Finding(self.one.name, claim.role, question, answer, wrong or shown, against)  # type: ignore[arg-type]


def _is_tcp(one: Implementation) -> bool:
    """Whether it is a generator of TCP, and no endpoint of QUIC."""
    return "tcp" in one.protocols


def check(app: App, chosen: Iterable[Implementation], options: Options, listen: Listener) -> Iterator[Finding]:
    """Check implementations, one after the other's findings as they come. Raises HarnessError."""
    known = {item.name: item for item, _ in app.catalogue.implementations().values()}
    references = [known[name] for name in REFERENCES if name in known]
    if not references:
        raise InputError(f"a check needs one of {', '.join(REFERENCES)} at the other end", "see images/")
    # Who is built soonest comes first.
    built = (item for item in known.values() if item.build is not None and item.tested and item.speaks_quic)
    others = sorted(built, key=lambda item: (item.build_time.seconds, item.name))
    names = {TRANSFER, RESUMED, *(trial.scenario for trial in TRIALS.values()), *map(testcases.scenario_of, TESTCASES)}
    scenarios = {scenario.name: scenario for scenario in app.catalogue.find_scenarios(sorted(names))}
    subjects = [_Subject(app, one, references, others, scenarios, listen) for one in chosen]
    cells = {cell.key: cell for subject in subjects for cell in subject.cells}
    results = {item.cell.key: item for item in app.run_cells(list(cells.values()), 1, options, listen)}
    engine = VirtualEngine(app.cache, [0], options.log_limit, options.stall, kernel=options.kernel)
    for subject in subjects:
        yield from subject.findings(results, engine, listen)
