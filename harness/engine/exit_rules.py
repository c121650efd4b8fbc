"""What the end of an endpoint, or of a transfer, means for the cell. Pure but for reading received files.

Both engines use these functions, so that they describe the same observation in the same words.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simulator.lifecycle import Stage

from harness.engine.external_failures import ExternalFailure
from harness.engine.served_files import first_difference
from harness.outcome import Outcome, Transfer
from harness.reading import file_status
from harness.scenario.parameters import Role
from harness.topology import Host, Lab, LabFlow

#: Exit code of the endpoint contract for "not supported".
NOT_SUPPORTED = 127
#: The log limit holds for files of up to so many bytes, and grows with larger ones: traces list every packet.
LOG_STEP = 500_000_000
_WHY = re.compile(r"(?:^|: )unsupported: (.+)")


def exit_outcome(host: Host, flow: LabFlow, exit_code: int) -> Outcome | None:
    """The outcome of an endpoint's end; None for a client that succeeded.

    Not for endpoints that were cut off at a stop: these did not end by themselves.
    """
    reason = f"exit_{exit_code}"
    if exit_code == NOT_SUPPORTED:
        detail = f"{host.role} does not support TESTCASE={host.environment['TESTCASE']}"
        return Outcome(status="unsupported", role=host.role, exit_code=exit_code, reason=reason, detail=detail)
    if host.role == "client" and exit_code == 0:
        if not flow.cut_off:
            return None
        detail = f"{host.name} ended by itself before its stop at {flow.stop:g} s"
        return Outcome(status="crashed", role="client", exit_code=0, reason="ended_early", detail=detail)
    detail = f"the {host.role} ended with exit code {exit_code}"
    return Outcome(status="crashed", role=host.role, exit_code=exit_code, reason=reason, detail=detail)


def timeout_outcome(host: Host, seconds: float, stage: Stage) -> Outcome:
    """The outcome of a transfer that timed out. `stage`: how far it came."""
    details = {
        "silent": f"{host.name} sent nothing, and its time of {seconds:g} s is over",
        "transferring": f"the transfer did not end within {seconds:g} s",
        "leaving": f"the whole file was there within {seconds:g} s, but {host.name} did not end",
    }
    return Outcome(status="timed_out", role=host.role, reason="timed_out", detail=details[stage])


def log_limit(lab: Lab, limit: int) -> int:
    """Bytes that each endpoint of a lab may write to its logs. `limit`: bytes for files of up to LOG_STEP."""
    largest = max((flow.size * (1 if flow.repeat_after is None else 2) for flow in lab.flows), default=0)
    return limit * max(LOG_STEP, largest) // LOG_STEP


def log_overflow_outcome(host: Host) -> Outcome:
    """The outcome where an endpoint wrote more than the log limit."""
    detail = f"{host.name} wrote more than the log limit (HARNESS_LOG_LIMIT)"
    return Outcome(status="log_overflow", role=host.role, reason="log_overflow", detail=detail)


def simulator_outcome(reason: str, message: str, exit_code: int | None = None) -> Outcome:
    """The outcome of a simulator's end: a server did not answer, or the infrastructure failed."""
    if reason == "NotReadyError":
        return Outcome(status="crashed", role="server", reason="no_answer", detail=message)
    code = "infrastructure" if exit_code is None else f"exit_{exit_code}"
    return Outcome(status="infrastructure", role="sim", exit_code=exit_code, reason=code, detail=message)


def proxy_outcome(message: str) -> Outcome:
    """The outcome of a proxy's end: it never ends by itself, so the infrastructure failed."""
    return Outcome(status="infrastructure", role="sim", reason="proxy_ended", detail=message)


def external_outcome(role: Role | Literal["sim"], failure: ExternalFailure) -> Outcome:
    """The outcome of an external failure of an endpoint or the simulator. Nobody in the lab is to blame."""
    return Outcome(status="infrastructure", role=role, reason=failure.reason, detail=failure.detail)


@dataclass(frozen=True)
class FileComparison:
    """Comparison of a received file with the served one."""

    transfer: Transfer
    """The transfer, with received bytes and intactness filled in."""
    differs_at: int | None
    """Offset of the first byte that differs; None where none does, or nothing was received."""
    wrong: str = ""
    """The first thing that is wrong with the files, other than their bytes."""

    @property
    def outcome(self) -> Outcome | None:
        """What is wrong with the file, or None."""
        item = self.transfer
        if item.intact:
            return None
        if self.wrong:
            return Outcome(status="wrong_file", role="client", reason="wrong_files", detail=self.wrong)
        if self.differs_at is not None and item.received == item.size:
            detail = f"the file differs from the served one at byte {self.differs_at}"
            return Outcome(status="wrong_file", role="client", reason="different_bytes", detail=detail)
        if item.cut_off:
            detail = f"{item.received} bytes came, which differ from the served ones at byte {self.differs_at}"
            return Outcome(status="wrong_file", role="client", reason="different_bytes", detail=detail)
        detail = f"the client ended with exit code 0 and {item.received} of {item.size} bytes"
        return Outcome(status="wrong_file", role="client", reason="short_file", detail=detail)


def received_file(folder: Path, flow: int, index: int) -> Path:
    """Where a flow's file is moved to, in the run's folder, once its client has ended."""
    return folder / f"flow{flow}" / f"transfer{index}"


def check_transfer(transfer: Transfer, flow: LabFlow, folder: Path, www: Path) -> FileComparison:
    """Compare the file that a transfer left in the run's folder with the served one, and remove it.

    The file of a transfer that was cut off need only be a beginning of the served one; it may be missing. For a
    transfer that timed out, only the bytes up to its time limit count: it went on until it was stopped.
    """
    if flow.files:
        return _check_files(transfer, flow, folder, www)
    if not flow.file:
        return FileComparison(transfer.model_copy(update={"intact": True}), None)
    file = received_file(folder, flow.flow, transfer.index)
    status = file_status(file)
    if status is None:
        return FileComparison(transfer.model_copy(update={"intact": transfer.cut_off}), None)
    if not stat.S_ISREG(status.st_mode):
        return FileComparison(transfer, None, f"{flow.file} is no file but {_kind(status)}")
    received = status.st_size
    difference = first_difference(file, www / flow.file, part=transfer.cut_off)
    file.unlink()
    if transfer.exit_code is None and not transfer.cut_off:
        received = min(received, transfer.received)
    intact = difference is None and (transfer.cut_off or received >= transfer.size)
    return FileComparison(transfer.model_copy(update={"received": received, "intact": intact}), difference)


def _check_files(transfer: Transfer, flow: LabFlow, folder: Path, www: Path) -> FileComparison:
    """Compare several files with the served ones, and remove them. A file that was not requested is wrong.

    The result names the first wrong file. Received bytes are those of all files.
    """
    downloads = folder / f"flow{flow.flow}" / "downloads"
    # A session's files are in a folder below.
    places = {downloads, *(downloads / Path(file.name).parent for file in flow.files)}
    downloaded = {
        file.relative_to(downloads).as_posix(): file
        for place in places
        if place.is_dir() and not place.is_symlink()
        for file in place.iterdir()
        if file not in places
    }
    wrong = ""
    received = 0
    for served in flow.files:
        file = downloaded.pop(served.name, None)
        if file is None:
            wrong = wrong or f"{served.name} is missing"
            continue
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode):
            wrong = wrong or f"{served.name} is no file but {_kind(status)}"
            continue
        received += status.st_size
        if (differs := first_difference(file, www / flow.folder / served.name)) is not None:
            wrong = wrong or f"{served.name} differs from the served one at byte {differs}"
        file.unlink()
    for file in downloaded.values():
        wrong = wrong or f"{file.name} was not asked for"
        if file.is_symlink() or not file.is_dir():
            file.unlink()
    return FileComparison(transfer.model_copy(update={"received": received, "intact": not wrong}), None, wrong)


def _kind(status: os.stat_result) -> str:
    """What there is in place of a regular file, as part of a sentence."""
    kinds = ((stat.S_ISLNK, "a link, which is not followed"), (stat.S_ISDIR, "a folder"))
    return next((words for is_kind, words in kinds if is_kind(status.st_mode)), "a pipe, a socket or a device")


def with_log_tail(outcome: Outcome, words: tuple[str, ...]) -> Outcome:
    """The outcome with the last lines of the blamed host's log.

    An endpoint that refuses a test case may give another reason, in a line of its own: "NAME: unsupported: WHY".
    """
    explanation = next((found[1] for line in words if (found := _WHY.search(line))), None)
    if outcome.status != "unsupported" or explanation is None:
        return outcome.model_copy(update={"log_tail": words})
    return outcome.model_copy(update={"log_tail": words, "detail": f"{outcome.role}: {explanation}"})


def conclude(outcome: Outcome, checks: list[FileComparison]) -> Outcome:
    """The outcome with the received files taken into account."""
    if outcome.status != "completed":
        return outcome
    return next((wrong for item in checks if (wrong := item.outcome) is not None), outcome)
