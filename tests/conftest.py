"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from harness.cli.signals import SIGNALS

ROOT = Path(__file__).resolve().parent.parent

# Tests that call make or setup do so as a person would. What `make test YES=1` was given is not handed on to them.
for _name in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "YES", "HARNESS_YES"):
    os.environ.pop(_name, None)

# How long an example takes says something of the machine, which may be busy, and nothing of the code.
settings.register_profile("lab", deadline=None)
settings.load_profile("lab")

# Modules and collected tests are some million objects that stay to the end: Python's default is to look through them
# for garbage again and again, which took a tenth of all CPU time.
gc.set_threshold(100_000, 50, 100)


@pytest.fixture
def terminal_signals() -> Iterator[None]:
    """Signals are as in a terminal, also under nohup or in a script's background, and afterwards as they were."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pytest_collection_finish() -> None:
    """Leave what is there by now out of every later search for garbage."""
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where no lab is wanted, the modules of those that are in one are not imported: every one of them is marked."""
    unwanted = config.option.markexpr == "not lab" and collection_path == ROOT / "tests" / "lab"
    return True if unwanted else None


@pytest.fixture(scope="session", autouse=True)
def files_of_ours_are_parsed_once() -> Iterator[None]:
    """Each command has a catalogue of its own, and nearly all of them read every manifest.

    Parsed once are the YAML files of this checkout that stay as they are. Everything behind that is done each time.
    """
    # Here, since the process that only hands out the tests needs none of it.
    from harness.catalogue import Positions, catalogue, read_yaml

    kept: dict[tuple[Path, int, int], tuple[Any, Positions]] = {}

    def read(file: Path) -> tuple[Any, Positions]:
        if not file.is_relative_to(ROOT):
            return read_yaml(file)
        now = file.stat()
        key = file, now.st_mtime_ns, now.st_size
        if key not in kept:
            kept[key] = read_yaml(file)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "read_yaml", read)
        yield
