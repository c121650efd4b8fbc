"""HTTPS over TCP, a download and once more in a resumed session, with both engines."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.lab.conftest import Harness

PAIR = ("--clients", "https", "--servers", "https", "--repeat", "1")
_RESUMED = re.compile(r"nginx: resumed=(true|false)")


def _resumed(harness: Harness) -> list[str]:
    (log,) = harness.store.glob("runs/*/0/server0.log")
    return _RESUMED.findall(log.read_text())


def _check(cell: dict[str, Any]) -> None:
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    value = {name: measurement["median"] for name, measurement in cell["measurements"].items()}
    # A round trip of 40 ms for the connection, one for TLS, one for the request, and 1 MB at 20 Mbit/s.
    assert 0.08 <= value["handshake"] < 0.12
    for name in ("completion", "repeat_completion"):
        assert 0.52 < value[name] < 2
    assert value["milestone_1MB"] == value["completion"]
    assert 1 < value["ack_ratio"] < 50 and value["packets_to_client"] > 1e6 / 1448


@pytest.mark.parametrize("version", [4, 6])
def test_a_repeated_download_in_virtual_time(warm: Harness, harness: Harness, version: int) -> None:
    flows = [{"download": "1 MB", "repeat_after": "1 s"}]
    case = harness.scenario("https", flows=flows, ip_version=version)
    _check(harness.cell(case, *PAIR, "--engine", "virtual"))
    assert _resumed(harness) == ["false", "true"]


@pytest.mark.alone
def test_a_repeated_download_in_containers(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("https", flows=[{"download": "1 MB", "repeat_after": "1 s"}])
    _check(harness.cell(case, *PAIR))
    assert _resumed(harness)[-2:] == ["false", "true"]


def test_a_partner_of_quic_is_unsupported(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(
        harness.scenario("mixed"), "--clients", "https", "--servers", "quic-go", "--repeat", "1", "--engine", "virtual"
    )
    assert cell["outcomes"] == {"unsupported": 1}
    assert "https and quic-go share no application protocol" in cell["sentence"]
