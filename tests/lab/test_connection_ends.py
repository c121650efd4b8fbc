"""Connections that end before their files have come: with the word for it, in virtual time, stack by stack."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.conftest import Harness

#: 5 MB take 8 s.
SLOW: dict[str, Any] = {
    "forward": {"rate": "5 Mbit/s", "delay": "25 ms"}, "return": {"rate": "5 Mbit/s", "delay": "25 ms"},
}  # fmt: skip
STACKS = "aioquic,go-x-net,kwik,msquic,ngtcp2,picoquic,quic-go,quiche,quinn,s2n-quic,tquic"


def cell(harness: Harness, case: str, client: str, server: str, *words: str) -> dict[str, Any]:
    (measured_cell,) = harness.cells(
        case, "--clients", client, "--servers", server, "--repeat", "1", "--engine", "virtual", *words
    )
    return measured_cell


@pytest.mark.parametrize("stack", STACKS.split(","))
def test_an_idle_timeout_has_its_own_word(warm: Harness, stack: str) -> None:
    """Dark from 3 s on for 90 s, and nobody waits longer than 5 s."""
    case = warm.scenario(
        "idle", path={**SLOW, "blackhole": {"after": "3 s", "lasts": "90 s"}}, flows=[{"download": "5 MB"}],
        milestones=[], timeout="120 s",
    )  # fmt: skip
    idle_cell = cell(warm, case, stack, stack, "--set", "idle_timeout=5s")
    assert idle_cell["outcomes"] == {"idle_timeout": 1}, idle_cell["sentence"]
    assert (idle_cell["verdict"], idle_cell["reason"]) == ("fail", "idle_timeout_client")
    (unfinished,) = idle_cell["unfinished"]
    assert unfinished["dark"] == [[3, 93]]
    # tquic's client begins anew, again and again, until the path is back.
    assert stack == "tquic" or 2.9 < unfinished["progress"] < 3.2
    ending = next(ending for ending in unfinished["endings"] if ending["witness"] == "client")
    assert ending["at"] is None or 7.5 < ending["at"] < 20


def test_a_delay_of_minutes_is_nobody_s_crash(warm: Harness) -> None:
    """The answer of the simulator's gate is not delayed; what the stacks do about such a round trip is their own."""
    case = warm.scenario(
        "far", path={"forward": {"rate": "1 Mbit/s", "delay": "61 s"}, "return": {"rate": "1 Mbit/s", "delay": "20 ms"}},
        flows=[{"download": "10 kB"}], milestones=[], timeout="2000 s",
    )  # fmt: skip
    delayed = cell(warm, case, "quinn", "quinn", "--set", "idle_timeout=1800s")
    assert "crashed" not in delayed["outcomes"] and "infrastructure" not in delayed["outcomes"], delayed["sentence"]
    assert delayed["link"]["valid"]


def test_datagrams_above_the_mtu_are_told(warm: Harness) -> None:
    case = warm.scenario(
        "mtu", path={**SLOW, "mtu": 1280}, flows=[{"download": "1 MB"}], milestones=[], timeout="20 s"
    )  # fmt: skip
    oversize_cell = cell(warm, case, "quic-go", "quiche")
    (unfinished,) = oversize_cell["unfinished"]
    assert unfinished["server"]["oversize"] > 0 and "exceeded the MTU" in unfinished["sentence"]
