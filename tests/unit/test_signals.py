"""What ends a command from outside, before, while and after there is something to tear down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from harness.cli.signals import INTERRUPTED, SIGNALS, install_exit_handlers, raise_on_signal
from harness.errors import InputError
from tests.examples import ROOT

pytestmark = pytest.mark.usefixtures("terminal_signals")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []
    monkeypatch.setattr("harness.cli.signals.os._exit", codes.append)
    return codes


@pytest.mark.parametrize("number", SIGNALS)
def test_only_a_command_at_work_is_ended_in_order(ended: list[int], number: signal.Signals) -> None:
    install_exit_handlers()
    os.kill(os.getpid(), number)
    assert ended == [INTERRUPTED]
    with pytest.raises(KeyboardInterrupt), raise_on_signal():
        os.kill(os.getpid(), number)
    assert ended == [INTERRUPTED]
    os.kill(os.getpid(), number)
    assert ended == [INTERRUPTED] * 2


def test_an_error_that_a_library_makes_of_a_signal_is_a_signal_again() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, raise_on_signal():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            # Not chained, as pydantic's of its compiled part.
            raise RuntimeError("Error building validator: KeyboardInterrupt") from None
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize("error", [InputError("no such case"), OSError("disk full")])
def test_what_ending_a_command_met_is_reported(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, raise_on_signal():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            raise error
    assert raised.value is error


def test_without_a_signal_an_error_stays_one() -> None:
    with pytest.raises(RuntimeError), raise_on_signal():
        raise RuntimeError("a fault")


def test_what_was_ignored_stays_ignored(ended: list[int]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    install_exit_handlers()
    with raise_on_signal():
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
    assert ended == []


def test_the_program_heeds_signals_before_it_loads_anything() -> None:
    """Ctrl-C while modules are loaded showed a traceback."""
    text = (
        "import os, signal, sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from harness.cli import program\n"
        "program()"
    )
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (process.returncode, process.stdout, process.stderr) == (INTERRUPTED, "", "")


def test_a_signal_while_the_interpreter_ends_changes_no_exit_code() -> None:
    """It was killed by the signal: handlers have been given back by then."""
    text = (
        "import os, signal\n"
        "from harness.cli.signals import install_exit_handlers\n"
        "class Last:\n"
        "    def __init__(self): self.kill, self.pid, self.number = os.kill, os.getpid(), signal.SIGINT\n"
        "    def __del__(self): self.kill(self.pid, self.number)\n"
        "last = Last()\n"
        "install_exit_handlers()\n"
        "raise SystemExit(7)\n"
    )
    process = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (7, "")
