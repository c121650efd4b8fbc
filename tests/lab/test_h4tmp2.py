"""The interop runner's test cases in virtual time, and the faults of their paths as the lab's kernel makes them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from harness.analysis.interop.registry import CASES, FOLDER
from harness.capture.artefacts import Artefacts
from harness.capture.datagrams import read_datagrams
from harness.capture.files import CAPTURES
from harness.capture.matching import match
from harness.netem import fault_share
from harness.outcome import Run
from tests.lab.conftest import Harness

@pytest.mark.parametrize("engine", ["virtual", "compose"])
def test_captures_have_no_datagram_of_the_simulators_own(harness: Harness, engine: str) -> None:
    """Its readiness probe would be a QUIC packet of an unknown version, to the runner's checks and to any reader."""
    name = f"{FOLDER}handshake"
    harness.cells(name, "--clients", "picoquic", "--servers", "quinn", "--engine", engine, "--repeat", "1",
                  "--artefacts", "all")  # fmt: skip
    (file,) = harness.store.glob("runs/*/0/run.json")
    artefacts = Artefacts(file.parent, Run.model_validate_json(file.read_bytes()))
    for side in CAPTURES:
        capture = artefacts.path(f"sim/{CAPTURES[side]}")
        assert capture is not None
        datagrams = read_datagrams(capture)
        assert {datagram.source[0] for datagram in datagrams} == {"193.167.0.100", "193.167.100.100"}
        versions = {
            int.from_bytes(datagram.payload[1:5], "big") for datagram in datagrams if datagram.payload[0] >= 0x80
        }
        assert versions == {1}
