"""The log directory of the interop runner, made of stored runs: SERVER_CLIENT/CASE/[REPETITION/] (run.py -l).

The runner's site opens this folder for each result of its result.json. `harness interop judge` reads it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from harness.analysis.interop.registry import FOLDER, MEASUREMENTS
from harness.analysis.interop.runner_logs import OUTPUT, exit_line
from harness.analysis.interop.verdict import run_result
from harness.capture.artefacts import endpoint_path
from harness.capture.datagrams import parse_datagrams
from harness.capture.files import ARCHIVE, CAPTURES, SIMULATOR, find_file, open_file, original_path, read_bytes
from harness.capture.pcap import without_frames
from harness.errors import InputError, disk_error
from harness.evaluation.cell_result import CellResult
from harness.outcome import MeasuredRun, Run
from harness.reading import read_tree
from harness.report.interop import testcase_cells
from harness.scenario.parameters import ROLES, Role
from harness.topology.addresses import is_simulator
from harness.writing import create_file

#: The results that the runner keeps logs of.
_LOGGED = ("succeeded", "failed")


def write_logs(results: Sequence[CellResult], folder: Path) -> list[str]:
    """Write the runner's log directory of cells into a new or empty folder. Gives the runs whose files are not kept.

    Of these there is the text alone that says how they ended. Of a test case with several runs one is written: the
    first that failed, else the first. InputError where the folder has anything in it, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty", "name a new folder for the logs")
        incomplete = []
        for place, run, measured, source in _logged_runs(results):
            target = folder / place
            target.mkdir(parents=True)
            _write_output(target / OUTPUT, run, measured, source)
            if not _write_files(source, target):
                incomplete.append(run.name)
    except OSError as error:
        raise disk_error(error, folder) from error
    return incomplete


def _logged_runs(results: Sequence[CellResult]) -> Iterator[tuple[Path, Run, MeasuredRun | None, Path]]:
    """Folder below the log directory, run, what was measured of it, and its stored folder."""
    for result in testcase_cells(results):
        name = result.cell.scenario.name.removeprefix(FOLDER)
        pair = Path(f"{result.cell.server.name}_{result.cell.client.name}")
        runs = [
            (word, run, measured, source)
            for (run, measured), source in zip(result.runs, result.folders, strict=True)
            if (word := run_result(run, measured).word) in _LOGGED
        ]
        if name not in MEASUREMENTS:
            runs = sorted(runs, key=lambda item: item[0] != "failed")[:1]
        for number, (_, run, measured, source) in enumerate(runs, 1):
            yield pair / name / str(number) if name in MEASUREMENTS else pair / name, run, measured, source


def _write_output(file: Path, run: Run, measured: MeasuredRun | None, source: Path) -> None:
    """What compose prints: a line of an endpoint behind its name, and how each ended."""
    with create_file(file) as out:
        out.write(f"{run.name} of {run.cell.scenario.name}: {run_result(run, measured).sentence}\n".encode())
        for role in ROLES:
            with suppress(FileNotFoundError), open_file(source / f"{role}0.log") as log:
                for line in log:
                    out.write(f"{role}  | ".encode() + line.rstrip(b"\r\n") + b"\n")
        for role in ROLES:
            if (code := _exit_code(run, role)) is not None:
                out.write(f"{exit_line(role, code)}\n".encode())


def _exit_code(run: Run, role: Role) -> int | None:
    if run.outcome.role == role and run.outcome.exit_code is not None:
        return run.outcome.exit_code
    codes = [transfer.exit_code for transfer in run.transfers if transfer.flow == 0] if role == "client" else []
    return max((code for code in codes if code is not None), default=None)


def _write_files(source: Path, target: Path) -> bool:
    """Unpack an endpoint's files and the simulator's, captures without its own datagrams. Gives whether both captures
    are among them.
    """
    places = {SIMULATOR: SIMULATOR} | {str(role): endpoint_path(0, role) for role in ROLES}
    for name, place in places.items():
        if not (source / place).is_dir():
            continue
        (target / name).mkdir()
        tree = read_tree(source / place)
        for folder in tree.folders:
            (target / name / folder).mkdir()
        for file in tree.files:
            unpacked = original_path(target / name / file)
            if file != ARCHIVE and unpacked.name not in CAPTURES.values():
                _unpack(source / place / file, unpacked)
    captures = list(filter(None, (find_file(source / SIMULATOR / name) for name in CAPTURES.values())))
    for capture in captures:
        with create_file(target / SIMULATOR / original_path(capture).name) as out:
            out.write(endpoint_frames(read_bytes(capture)))
    return len(captures) == len(CAPTURES)


def endpoint_frames(capture: bytes) -> bytes:
    """A capture without the datagrams from and to the simulator itself; with what it answers as a router (ICMP).

    Its readiness probe is a QUIC packet of an unknown version. The runner's checks, and other readers, take the first
    packet of a capture for the client's. Raises ValueError where it is no capture.
    """
    own = {
        datagram.number
        for datagram in parse_datagrams(capture)
        if any(is_simulator(address) for address, _ in (datagram.source, datagram.destination))
    }
    return without_frames(capture, own)


def _unpack(source: Path, target: Path) -> None:
    with open_file(source) as content, create_file(target) as out:
        shutil.copyfileobj(content, out)
