"""Proxies that split TCP, and who is asked for: where nobody is TCP a request is refused, at the proxy's place."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness.catalogue import Catalogue
from harness.errors import InputError
from harness.execution.matrix import Request, matrix_players, swept_points
from harness.scenario.parameters import ROLES, Role
from tests.bad_segments import DOWNLOADS, SEQUENCE
from tests.examples import ROOT

#: A QUIC stack, and one over TCP beside it.
LISTED = DOWNLOADS + "clients: [picoquic, https]\nservers: [picoquic, https]\n"


def _asked(file: Path, text: str, clients: str, servers: str = "") -> list[tuple[str, str]]:
    """The pairs of a request over a scenario. InputError where they leave nothing to split."""
    file.write_text(text)
    catalogue = Catalogue(ROOT)
    (scenario,) = catalogue.find_scenarios([str(file)])
    words: dict[Role, str] = {"client": clients, "server": servers or clients}
    chosen = {role: catalogue.find_implementations(words[role], role, (), [scenario]) for role in ROLES}
    everybody = frozenset(role for role in ROLES if words[role] == "all")
    request = Request([scenario], chosen["client"], chosen["server"], default_roles=everybody)
    catalogue.require_split(
        swept_points(request),
        lambda tested_scenario: {role: matrix_players(request, role, tested_scenario) for role in ROLES},
    )
    names = ([implementation.name for implementation in matrix_players(request, role, scenario)] for role in ROLES)
    client, server = names
    return list(itertools.product(client, server))


@pytest.mark.parametrize("clients", ["https", "https,picoquic"])
def test_who_speaks_https_over_tcp_is_split_and_quic_passes_beside_it(tmp_path: Path, clients: str) -> None:
    assert ("https", "https") in _asked(tmp_path / "a.yaml", DOWNLOADS, clients)


@pytest.mark.parametrize(("clients", "servers"), [("picoquic", "ngtcp2"), ("https", "ngtcp2"), ("all", "all")])
def test_without_anybody_over_tcp_the_request_is_refused_at_the_proxy(
    tmp_path: Path, clients: str, servers: str
) -> None:
    with pytest.raises(InputError) as caught:
        _asked(tmp_path / "a.yaml", DOWNLOADS, clients, servers)
    assert caught.value.message.startswith(f"{tmp_path}/a.yaml:7:12: a proxy that splits TCP, and nobody asked for")
    assert len(caught.value.message.splitlines()) == 1
    assert "HTTPS over TCP beside them or alone, go-https, h2o-https, https;" in caught.value.hint


def test_who_the_file_lists_beside_tcp_may_come_alone(tmp_path: Path) -> None:
    """As the line that makes one of its runs again has it. Anybody else has no business there."""
    assert _asked(tmp_path / "a.yaml", LISTED, "picoquic") == [("picoquic", "picoquic")]
    with pytest.raises(InputError, match=r"nobody asked for is TCP \(ngtcp2 → ngtcp2\)"):
        _asked(tmp_path / "b.yaml", LISTED, "ngtcp2")


def test_all_are_those_whom_a_scenario_lists_whatever_they_speak(tmp_path: Path) -> None:
    names = ("https", "picoquic")
    assert _asked(tmp_path / "a.yaml", LISTED, "all") == [(client, server) for client in names for server in names]


def test_a_generator_s_tcp_is_enough(tmp_path: Path) -> None:
    assert _asked(tmp_path / "a.yaml", SEQUENCE, "picoquic") == [("picoquic", "picoquic")]


def test_who_one_scenario_lists_is_not_in_all_of_another(tmp_path: Path) -> None:
    files = (tmp_path / "listed.yaml", tmp_path / "open.yaml")
    files[0].write_text(LISTED)
    files[1].write_text(DOWNLOADS.replace("  - proxy: tcp-split\n    tcp_wmem_max: 33 MB\n    initial_cwnd: 100\n", "")
                        .replace("  path.proxy.initial_rwnd: [10, 100]\n", ""))  # fmt: skip
    catalogue = Catalogue(ROOT)
    scenarios = catalogue.find_scenarios([str(file) for file in files])
    everybody = catalogue.find_implementations("all", "client", (), scenarios)
    assert "https" in [implementation.name for implementation in everybody]
    request = Request(scenarios, everybody, everybody, default_roles=frozenset(ROLES))
    assert "https" not in [implementation.name for implementation in matrix_players(request, "client", scenarios[1])]
