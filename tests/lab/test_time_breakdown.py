"""Where the time went, held against the truth: one thing at a time is made worse, and has to be what took longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness.doe.interventions import CAUSES
from tests.lab.conftest import Harness

#: 100 ms and 20 Mbit/s: 250 kB fill the path.
LINKS: dict[str, Any] = {
    "forward": {"rate": "20 Mbit/s", "delay": "50 ms", "queue": "1 BDP"},
    "return": {"rate": "5 Mbit/s", "delay": "50 ms", "queue": "1 BDP"},
}
#: The same with a queue that has room for the whole file.
DEEP: dict[str, Any] = {**LINKS, "forward": {**LINKS["forward"], "queue": "16 BDP"}}
SIZE = "3 MB"
#: Of what a cell takes longer than the one that nothing was done to, what was done has to have so much.
SHARE = 0.8


@dataclass(frozen=True)
class Forced:
    """One thing that is made worse."""

    cause: str
    """Of `harness.doe.interventions.CAUSES`: its states are those that it has to be found in, and its settings are what
    makes it worse, too. Another state that no setting removes stands by its own name.
    """
    server_names: str
    """Implementations that can be told."""
    scenario: dict[str, Any]
    free: str = "free"
    """The scenario of the cells that it is held against."""

    @property
    def states(self) -> tuple[str, ...]:
        """Those that it has to be found in."""
        return CAUSES[self.cause].states if self.cause in CAUSES else (self.cause,)

    @property
    def settings(self) -> set[str]:
        """What of the scenario makes it worse, as a sweep names it; down is the direction to the client."""
        links = self.scenario.get("path", LINKS)
        return {
            *self.scenario.get("parameters", {}),
            *(f"path.{direction}.{name}" for direction, side in (("down", "forward"), ("up", "return"))
              for name, value in links[side].items() if value != LINKS[side].get(name)),
        }  # fmt: skip


FREE: dict[str, dict[str, Any]] = {
    "free": {},
    "deep": {"path": DEEP},
    "nginx": {"parameters": {"server.stream_window": "4 MiB"}},
    "tcp": {"flows": [{"kind": "tcp", "download": SIZE}]},
    "https": {},
}
EVERY = "quiche,ngtcp2,quic-go,picoquic"
CASES = {
    "stream-window": Forced("windows", EVERY, {"parameters": {"client.stream_window": "128 kB"}}),
    "server-buffer": Forced(
        "server_buffer", "nginx", {"parameters": {"server.stream_window": "64 KiB"}}, "nginx"
    ),
    "tcp-send-buffer": Forced(
        "server_buffer", "https", {"parameters": {"server.tcp_wmem_max": "64 KiB"}}, "https"
    ),
    "tcp-receive-buffer": Forced(
        "windows", "https", {"parameters": {"client.tcp_rmem_max": "128 KiB"}}, "https"
    ),
    # Those whose window falls: ngtcp2 and Linux's TCP soon wait longer for what comes late, and tquic fills the queue
    # with what it sends again, until it overflows (docs/because.md).
    "jitter": Forced(
        "jitter", "quiche,quinn,msquic,s2n-quic,picoquic",
        {"path": {**LINKS, "forward": {**LINKS["forward"], "jitter": "5 ms"}}},
    ),
    # Without picoquic: BBR paces by what is acknowledged, with a window that is never full (docs/because.md).
    "return-path": Forced(
        "late_acknowledgements", "quiche,ngtcp2,quic-go,quinn",
        {"path": {**LINKS, "return": {"rate": "50 kbit/s", "delay": "50 ms", "queue": "50 packets"}}},
    ),
    "loss-with-reno": Forced(
        "losses", EVERY,
        {
            "path": {**LINKS, "forward": {**LINKS["forward"], "loss": "1 %"}},
            "parameters": {"server.congestion_control": "reno"},
        },
    ),
    # Behind a queue that never overflows: with another, where slow start ends decides which losses the transfer ends in.
    # Without s2n-quic, whose handshake such a window stretches, too (docs/because.md).
    "initial-window": Forced(
        "initial_window", "quiche,quinn,msquic,tquic", {"path": DEEP, "parameters": {"server.initial_cwnd": 2}}, "deep"
    ),
    "pace": Forced(
        "pacing", "linux",
        {"flows": [{"kind": "tcp", "download": SIZE, "traffic": {"model": "cbr", "rate": "10 Mbit/s"}}]}, "tcp",
    ),
    # It has filled the link when the transfer begins: of two that start at once the transfer, whose window doubles from
    # more packets, overruns the other, and of the tenth of a second that it then takes longer a third is its own losses.
    "rival": Forced(
        "shared", EVERY, {"flows": [{"download": SIZE, "start": "4 s"}, {"kind": "tcp", "stop": "40 s"}]}
    ),
    "blackhole": Forced(
        "probe_timeouts", EVERY, {"path": {**LINKS, "blackhole": {"after": "1 s", "lasts": "2 s"}}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.cause in CAUSES and case.settings])
def test_what_makes_it_worse_is_what_harness_why_removes(name: str) -> None:
    case = CASES[name]
    assert case.settings & set(CAUSES[case.cause].settings), case.settings


class Cells:
    """Cells by scenario and server, each group made once."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._cells: dict[tuple[str, str], dict[str, Any]] = {}

    def cells_of(self, name: str, servers: str, more: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Server → its cell."""
        wanted = servers.split(",")
        missing = [server for server in wanted if (name, server) not in self._cells]
        if missing:
            content = {"path": LINKS, "flows": [{"download": SIZE}], "milestones": [SIZE], "timeout": "120 s", **more}
            case = self._harness.scenario(name, **content)
            client = servers if servers in ("linux", "https") else "quiche"
            words = ("--clients", client, "--servers", ",".join(missing), "--repeat", "1", "--engine", "virtual")
            for cell in self._harness.cells(case, *words):
                assert cell["outcomes"] == {"completed": 1}, (name, cell["server"], cell["sentence"])
                self._cells[name, cell["server"]] = cell
        return {server: self._cells[name, server] for server in wanted}


@pytest.fixture(scope="module")
def worse_cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return Cells(Harness(tmp_path_factory.mktemp("because")))


def _seconds_by_state(cell: dict[str, Any]) -> dict[str, float]:
    """State → seconds of the first transfer, which add up to its completion time."""
    (breakdown,) = cell["because"]
    seconds = {part["state"]: part["seconds"] for part in breakdown["parts"]}
    assert sum(seconds.values()) == pytest.approx(breakdown["seconds"], abs=1e-6)
    completion = next(measurement for name, measurement in cell["measurements"].items() if name.endswith("completion"))
    assert breakdown["seconds"] == pytest.approx(completion["median"], abs=1e-6)
    return seconds


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_worse_is_what_took_longer(warm: Harness, worse_cells: Cells, name: str) -> None:
    case = CASES[name]
    free, forced = (
        worse_cells.cells_of(case.free, case.server_names, FREE[case.free]),
        worse_cells.cells_of(name, case.server_names, case.scenario),
    )
    wrong = {}
    for server, cell in forced.items():
        before, after = _seconds_by_state(free[server]), _seconds_by_state(cell)
        longer = sum(after.values()) - sum(before.values())
        gained = {state: after.get(state, 0.0) - before.get(state, 0.0) for state in {*before, *after}}
        assert longer > 0.05, (server, before, after)
        if sum(gained.get(state, 0.0) for state in case.states) < SHARE * longer:
            wrong[server] = {state: f"{seconds / longer:.0%}" for state, seconds in gained.items()}
    assert not wrong
