"""One transfer per implementation and role, in virtual time: C, C++, Rust on tokio and without, Go, Java, Python."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from harness.check import run
from harness.cli.environment import open_app
from harness.outcome.conformance import Finding
from tests.examples import catalogue
from tests.lab.conftest import Harness, local_image

#: At the other end: it speaks both protocols, as client and as server.
REFERENCE = "quic-go"
ROLES = [
    (name, role)
    for name, (implementation, _) in catalogue().implementations().items()
    if implementation.build is not None and implementation.speaks_quic
    for role in implementation.roles
]


@pytest.fixture(scope="module")
def transfers(warm: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """(implementation, role) → the cell in which it played that role against the reference."""
    harness = Harness(tmp_path_factory.mktemp("implementations"))
    case = harness.scenario("transfer")
    as_clients = harness.cells(case, "--clients", "all", "--servers", REFERENCE, "--repeat", "1", "--engine", "virtual")
    as_servers = harness.cells(case, "--clients", REFERENCE, "--servers", "all", "--repeat", "1", "--engine", "virtual")
    return {
        **{(cell["client"], "client"): cell for cell in as_clients},
        **{(cell["server"], "server"): cell for cell in as_servers},
    }


@pytest.mark.parametrize(("name", "role"), ROLES, ids=[f"{name}-{role}" for name, role in ROLES])
def test_a_transfer(transfers: dict[tuple[str, str], dict[str, Any]], name: str, role: str) -> None:
    if (why := open_app().inventory.unavailable().get(name)) is not None:
        # Left out by name, never faked.
        assert (name, role) not in transfers
        pytest.skip(f"{name} is not built here: {why}")
    cell = transfers[name, role]
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    # 40 ms for the handshake, 40 for the request, 1 MB at 20 Mbit/s: nothing can be faster.
    assert 0.48 < cell["measurements"]["completion"]["median"] < 5


def test_programs_of_go_do_the_same_on_every_processor(warm: Harness) -> None:
    app = open_app()
    absent, findings = app.inventory.unavailable(), list[Finding]()
    for name, (implementation, _) in catalogue().implementations().items():
        if name not in absent and implementation.build is not None:
            findings += run.processor_findings(implementation, app.root_file_systems.of(local_image(name)))
    assert {item.implementation for item in findings} >= {"quic-go", "go-x-net"}
    assert [item.seen for item in findings if item.failed] == []


def test_a_check_finds_what_a_manifest_claims_in_vain(harness: Harness, warm: Harness) -> None:
    """The image of ngtcp2 with a manifest that claims a flag that does nothing."""
    folder = harness.folder / "vain"
    shutil.copytree(catalogue().root / "images" / "ngtcp2", folder)
    (folder / "image.yaml").write_text(
        "schema: 1\nname: vain\nbuild: .\nprotocols: [h3]\nroles: [server]\nparameters:\n"
        "  connection_window: {flag: '--max-data={bytes}'}\n"
        "  ack_ratio: {flag: '--ack-thresh={value}'}\n"
    )
    process = harness.check("vain", "--manifest", str(folder / "image.yaml"))
    assert process.returncode == 1, process.stderr
    answers = {item["question"]: item["answer"] for item in json.loads(process.stdout)["findings"]}
    assert answers["parameter connection_window"] == "holds"
    assert answers["parameter ack_ratio"] == "does not hold", "a server in a download acknowledges next to nothing"
    assert answers["unknown TESTCASE gives 127"] == "holds"
    assert answers["shows the certificate it was given"] == "holds"


def test_a_sweep_carries_its_parameters(harness: Harness, warm: Harness) -> None:
    cells = harness.cells(
        harness.scenario("sweep", vary={"client.ack_ratio": [2, 8]}), "--clients", "ngtcp2,quiche", "--servers", "ngtcp2",
        "--vary", "path.down.delay=10ms,30ms", "--repeat", "1", "--engine", "virtual",
    )  # fmt: skip
    by_parameters = {
        (item["client"], item["parameters"]["client.ack_ratio"], item["parameters"]["path.down.delay"]): item
        for item in cells
    }
    assert len(by_parameters) == 8
    for (client, ratio, delay), cell in by_parameters.items():
        if client == "quiche":
            assert cell["verdict"] == "unsupported"
            assert "quiche cannot set ack_ratio as a client" in cell["sentence"]
            continue
        assert cell["link"]["to_client"]["min_delay_ms"] == pytest.approx(float(delay.split()[0]), abs=0.001)
        observed = next(
            item for item in cell["observed"] if (item["role"], item["parameter"]) == ("client", "ack_ratio")
        )
        assert observed["value"] == pytest.approx(ratio, rel=0.4)
