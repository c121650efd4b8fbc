"""`python -m tools.calibration`: what computing costs on the machine of stored runs in real time.

$ .venv/bin/python -m tools.calibration --store results/reference

Each pair of the store's real-time runs says how much CPU time its client and its server took (the metrics cpu_client
and cpu_server). The same cell is run in virtual time, with a trace of its system calls, which says how many calls,
datagrams and bytes those were. Non-negative least squares (Lawson and Hanson, *Solving Least Squares Problems*, chapter
23) of the relative errors give the cost of each, as a scenario has it below `cpu`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.optimize import nnls
from typer.main import get_command

from harness.analysis.metrics import measure
from harness.capture.syscalls import Records, read_calls
from harness.cli.consoles import console, print_text
from harness.cli.entry import create_program, run_program
from harness.cli.environment import lab_kernel, log_limit, open_app, stall
from harness.cli.options import Clients, Servers, StoredScenarios, StoreFolder
from harness.cli.stored import stored_cells
from harness.evaluation.cell_result import CellResult
from harness.execution import App, Options
from harness.execution.matrix import Request
from harness.outcome import MeasuredRun
from harness.report.compare import cpu_of
from harness.report.progress import ProgressPrinter
from harness.repro.divergence import TRACE, traced_run
from harness.scenario.parameters import ROLES, Role

program = create_program("calibration")


@dataclass(frozen=True)
class Load:
    """What an endpoint did in virtual time, and the CPU time that it took in real time."""

    pair: str
    role: Role
    calls: int
    datagrams: int
    """Sent and received."""
    size: int
    """Bytes on the wire, sent and received."""
    seconds: float
    """CPU time in real time, s: the median of the pair's runs."""

    def price(self, costs: Sequence[float]) -> float:
        """CPU time by costs per call, datagram and byte, s."""
        return float(np.dot((self.calls, self.datagrams, self.size), costs))


def fit_costs(loads: Sequence[Load]) -> tuple[float, float, float]:
    """Seconds per call, per datagram and per byte that explain the loads best by relative error, none below zero."""
    rows = np.array([(load.calls, load.datagrams, load.size) for load in loads], dtype=float)
    seconds = np.array([load.seconds for load in loads])
    costs, _ = nnls(rows / seconds[:, None], np.ones(len(loads)))
    return float(costs[0]), float(costs[1]), float(costs[2])


def _count_calls(trace: Records, role: Role) -> int:
    """System calls of an endpoint. What has a number below zero is none (`harness.capture.syscalls.RECORD`)."""
    return int(np.count_nonzero((trace["host"] == f"{role}0".encode()) & (trace["number"] >= 0)))


def _loads(
    app: App, real: CellResult, costs: Mapping[str, str], folder: Path, progress: ProgressPrinter
) -> Iterator[Load]:
    """The load of each endpoint of a stored cell, by a run of it in virtual time in which computing has `costs`."""
    cell = real.cell
    pair = f"{cell.client.name}→{cell.server.name}"
    parameters = dict(cell.parameters) | {f"cpu.{name}": cost for name, cost in costs.items()}
    request = Request(
        [app.catalogue.find_scenarios([cell.scenario.name])[0]],
        [app.inventory.implementation(cell.client.name)],
        [app.inventory.implementation(cell.server.name)],
        engine="virtual",
        repetitions=1,
        parameters=parameters,
    )
    (wanted,) = app.matrix(request, progress, pull=True)
    options = Options(log_limit=log_limit(), stall=stall(), kernel=lab_kernel())
    run, stored = traced_run(app, app.inventory.build_images_of(wanted, progress), folder, options, progress)
    measured, trace = measure(stored, run), read_calls(folder / TRACE)
    used = cpu_of(real, "completion")
    packets, wire = (_both_ways(measured, metric) for metric in ("packets", "wire"))
    for role in ROLES:
        yield Load(pair, role, _count_calls(trace, role), int(packets), int(wire), used[role].seconds)


def _both_ways(measured: MeasuredRun, metric: str) -> float:
    """A metric of either direction, together."""
    return sum(measured.value(f"{metric}_to_{role}", 0, "first") or 0 for role in ROLES)


@program.command()
def calibrate(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    per_call: Annotated[str, typer.Option(help="Cost of a call in the runs that count calls.")] = "5 us",
    per_datagram: Annotated[str, typer.Option(help="Cost of a datagram in those runs.")] = "5 us",
    per_byte: Annotated[str, typer.Option(help="Cost of a byte in those runs.")] = "1 ns",
) -> None:
    """Fit what a call, a datagram and a byte cost to the CPU time of stored runs in real time."""
    app = open_app(store)
    costs = {"per_call": per_call, "per_datagram": per_datagram, "per_byte": per_byte}
    cells = [
        result
        for result in stored_cells(app, scenarios, clients, servers)
        if result.cell.engine == "compose" and len(result.cell.scenario.flows) == 1 and cpu_of(result, "completion")
    ]
    with tempfile.TemporaryDirectory(prefix="quic-lab-calibration-") as scratch, ProgressPrinter(console()) as progress:
        loads = [
            load
            for number, result in enumerate(cells)
            for load in _loads(app, result, costs, Path(scratch) / str(number), progress)
        ]
    fitted = fit_costs(loads)
    for load in loads:
        work = f"{load.calls:8} calls {load.datagrams:8} datagrams {load.size / 1e6:7.1f} MB"
        seconds = f"{load.seconds:.2f} s measured, {load.price(fitted):.2f} s by the costs"
        print_text(f"{load.pair:24} {load.role:6} {work}: {seconds}")
    call, datagram, byte = fitted
    print_text(f"per_call: {call * 1e6:.2f} us, per_datagram: {datagram * 1e6:.2f} us, per_byte: {byte * 1e9:.3f} ns")


if __name__ == "__main__":
    run_program(get_command(program), "calibration")
