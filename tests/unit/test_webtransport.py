"""WebTransport: what endpoints are told, where the files of a session are, and what a scenario of it must say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.analysis.interop.evidence import Evidence
from harness.analysis.interop.registry import WEBTRANSPORT_CASES, WEBTRANSPORT_FOLDER, declared_checks
from harness.check import contract
from harness.engine.exit_rules import check_transfer
from harness.engine.images.cache import Cache
from harness.engine.served_files import MODIFIED, make_served_files
from harness.execution.runner import remove_partial_downloads
from harness.outcome import Cell, Transfer
from harness.planning.endpoint_config import UnsupportedError, application_protocol
from harness.scenario.parameters import ROLES, Role, peer_role
from harness.scenario.schema import (
    NEGOTIATED_PROTOCOL,
    ONE_SIDED,
    SESSION_PROTOCOLS,
    WEBTRANSPORT_TESTCASES,
    Implementation,
    Scenario,
)
from harness.topology import Lab, build_lab
from tests.examples import ROOT, catalogue, cell, implementation, scenario

FILES = [{"count": 2, "size": "1 KiB"}]
NAMES = ("session/0000-1KiB.bin", "session/0001-1KiB.bin")


def over_webtransport(testcase: str, **overrides: object) -> Scenario:
    flow: dict[str, object] = {"session": True} if testcase == "handshake" else {"files": FILES}
    if testcase.endswith("-send"):
        flow["direction"] = "to_server"
    content = {"protocol": "webtransport", "testcase": testcase, "flows": [flow], "objectives": [], **overrides}
    return scenario(**content)


def session_cell(testcase: str) -> Cell:
    ends = (implementation(name, protocols=["webtransport"]) for name in ("alpha", "beta"))
    return cell(over_webtransport(testcase), *ends)


def session_lab(testcase: str) -> Lab:
    return build_lab(session_cell(testcase), 0)


def environments(testcase: str) -> dict[Role, dict[str, str]]:
    lab = session_lab(testcase)
    return {role: lab.host(f"{role}0").environment for role in ROLES}


def test_every_test_case_of_the_runner_has_a_scenario() -> None:
    assert set(WEBTRANSPORT_CASES) == {"handshake", *WEBTRANSPORT_TESTCASES}
    for name, abbreviation in WEBTRANSPORT_CASES.items():
        loaded = catalogue().scenario(ROOT / f"scenarios/{WEBTRANSPORT_FOLDER}{name}.yaml")
        assert (loaded.protocol, loaded.testcase) == ("webtransport", name)
        assert loaded.title.endswith(f"({abbreviation})")


@pytest.mark.parametrize("testcase", WEBTRANSPORT_TESTCASES)
def test_whoever_receives_files_asks_for_them(testcase: str) -> None:
    told = environments(testcase)
    asking: Role = "server" if testcase.endswith("-send") else "client"
    asked = peer_role(asking)
    assert {role: told[role]["TESTCASE"] for role in ROLES} == {asking: testcase, asked: "transfer"}
    if asking == "client":
        assert told["client"]["REQUESTS"] == " ".join(f"https://server4:443/{name}" for name in NAMES)
        assert told["server"]["REQUESTS"] == ""
        assert told["client"]["DOWNLOAD_DIR"] == "/downloads"
    else:
        assert told["client"]["REQUESTS"] == "https://server4:443/session"
        assert told["server"]["REQUESTS"] == " ".join(NAMES)
        assert told["server"]["DOWNLOAD_DIR"] == "/uploads"
    assert told[asked]["DOWNLOAD_DIR"] == "/logs"


def test_a_session_alone_agrees_on_the_client_s_first_protocol_that_the_server_has() -> None:
    told = environments("handshake")
    assert {role: told[role]["TESTCASE"] for role in ROLES} == dict.fromkeys(ROLES, "handshake")
    assert told["client"]["REQUESTS"] == "https://server4:443/session" and told["server"]["REQUESTS"] == ""
    assert {told[role]["DOWNLOAD_DIR"] for role in ROLES} == {"/logs"}
    offered = {role: told[role]["PROTOCOLS"].split() for role in ROLES}
    shared = [name for name in offered["client"] if name in offered["server"]]
    assert shared[0] == NEGOTIATED_PROTOCOL
    # An end that takes the server's first, or the first of all, is told apart.
    assert len({shared[0], offered["client"][0], next(name for name in offered["server"] if name in shared)}) == 3
    assert all(tuple(offered[role]) == SESSION_PROTOCOLS[role] for role in ROLES)
    lab = session_lab("handshake")
    assert (lab.flows[0].file, lab.flows[0].files, lab.flows[0].size) == ("", (), 0)


def test_other_transfers_are_told_nothing_of_sessions() -> None:
    lab = build_lab(cell(scenario(flows=[{"download": "1 MB"}], objectives=[])), 0)
    for host in lab.hosts:
        assert host.environment["PROTOCOLS"] == "" and "DOWNLOAD_DIR" not in host.environment


def test_who_speaks_no_webtransport_is_named() -> None:
    without = cell(over_webtransport("handshake"), implementation("alpha"))
    with pytest.raises(UnsupportedError, match="alpha does not speak webtransport"):
        application_protocol(without, 0)
    assert not implementation("alpha", protocols=["webtransport"]).speaks_quic, "'all' are those that transfer files"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"testcase": "transfer-datagram-send", "protocol": "auto"}, "write protocol: webtransport"),
        ({"testcase": "transfer", "protocol": "auto", "flows": [{"session": True}]}, "a session is of WebTransport"),
        ({"testcase": "transfer"}, "WebTransport has test cases of its own"),
        ({"testcase": None}, "WebTransport has test cases of its own"),
        ({"testcase": "handshake", "flows": [{"files": FILES}]}, "write session: true"),
        ({"testcase": "transfer-datagram-send"}, "direction: to_server"),
        ({"testcase": "transfer-datagram-receive", "flows": [{"session": True}]}, "write files:"),
        (
            {"testcase": "handshake", "flows": [{"session": True, "direction": "to_server"}]},
            "session transfers nothing",
        ),
        ({"testcase": "handshake", "flows": [{"session": True, "download": "1 MB"}]}, "leave out download"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(overrides: dict[str, object], words: str) -> None:
    content = {"protocol": "webtransport", "flows": [{"files": FILES}], "objectives": [], **overrides}
    with pytest.raises(ValidationError) as caught:
        scenario(**content)
    errors = [str(error.get("ctx", {}).get("error", error)) for error in caught.value.errors()]
    hints = [getattr(error.get("ctx", {}).get("error"), "hint", "") for error in caught.value.errors()]
    assert any(words in text for text in (*errors, *hints)), (errors, hints)


@pytest.fixture
def received(tmp_path: Path) -> tuple[Lab, Path, Path]:
    """A lab of a session, the folder of its run with all files received, and what is served."""
    lab, cache = session_lab("transfer-bidirectional-receive"), Cache(tmp_path / "cache")
    make_served_files(lab, cache)
    folder = tmp_path / "run"
    served = cache.www / lab.flows[0].folder
    for name in NAMES:
        file = folder / "flow0" / "downloads" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((served / name).read_bytes())
    return lab, folder, cache.www


def test_served_files_of_a_session_have_fixed_times_down_to_its_folder(received: tuple[Lab, Path, Path]) -> None:
    lab, _, www = received
    places = [*(www / lab.flows[0].folder).rglob("*")]
    assert {place.relative_to(www / lab.flows[0].folder).as_posix() for place in places} == {"session", *NAMES}
    assert {int(place.stat().st_mtime) for place in places} == {MODIFIED}
    assert {place.stat().st_mode & 0o777 for place in places if place.is_file()} == {0o644}
    assert {place.stat().st_mode & 0o777 for place in places if place.is_dir()} == {0o755}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (None, ""),
        ("missing", f"{NAMES[1]} is missing"),
        ("changed", f"{NAMES[1]} differs from the served one at byte 0"),
        ("further", "more was not asked for"),
        ("beside", "0000-1KiB.bin was not asked for"),
    ],
)
def test_files_of_a_session_are_compared_where_they_belong(
    received: tuple[Lab, Path, Path], spoil: str | None, words: str
) -> None:
    lab, folder, www = received
    downloads = folder / "flow0" / "downloads"
    match spoil:
        case "missing":
            (downloads / NAMES[1]).unlink()
        case "changed":
            content = (downloads / NAMES[1]).read_bytes()
            (downloads / NAMES[1]).write_bytes(bytes([content[0] ^ 1]) + content[1:])
        case "further":
            (downloads / "session" / "more").touch()
        case "beside":
            (downloads / "0000-1KiB.bin").write_bytes(b"x")
    transfer = Transfer(flow=0, index=0, size=2048, started_ns=0, ended_ns=1, exit_code=0)
    comparison = check_transfer(transfer, lab.flows[0], folder, www)
    assert comparison.wrong == words
    assert comparison.transfer.intact is (spoil is None)


def test_a_beginning_of_a_file_of_a_session_is_removed(received: tuple[Lab, Path, Path]) -> None:
    lab, folder, _ = received
    file = folder / "flow0" / "downloads" / NAMES[1]
    file.write_bytes(file.read_bytes()[:500])
    assert remove_partial_downloads(lab, folder) == {
        f"flow0/downloads/{NAMES[0]}": 1024,
        f"flow0/downloads/{NAMES[1]}": 500,
    }


@pytest.mark.parametrize(
    ("negotiated", "result"),
    [
        ({"client": NEGOTIATED_PROTOCOL, "server": NEGOTIATED_PROTOCOL}, ""),
        ({"client": NEGOTIATED_PROTOCOL}, "the server wrote no application protocol down"),
        ({"client": "lab-a", "server": NEGOTIATED_PROTOCOL}, f"the client has 'lab-a', and not {NEGOTIATED_PROTOCOL}"),
        ({"client": NEGOTIATED_PROTOCOL, "server": ""}, f"the server has '', and not {NEGOTIATED_PROTOCOL}"),
    ],
)
def test_both_ends_must_have_the_same_application_protocol(negotiated: dict[Role, str], result: str) -> None:
    evidence = Evidence((), {}, (), True, True, negotiated=negotiated)
    judged = declared_checks()["application_protocol"].judge(evidence, True)
    assert judged.sentence == (result or f"both have {NEGOTIATED_PROTOCOL}")
    assert type(judged).__name__ == ("Failed" if result else "Passed")


def test_over_webtransport_only_one_end_has_a_test_case_of_its_own() -> None:
    assert {ONE_SIDED[name] for name in WEBTRANSPORT_TESTCASES if name.endswith("-receive")} == {"client"}
    assert {ONE_SIDED[name] for name in WEBTRANSPORT_TESTCASES if name.endswith("-send")} == {"server"}


def test_a_check_tries_each_test_case_in_the_roles_that_are_asked_for_it() -> None:
    client_only = implementation("alpha", protocols=["webtransport"], roles=["client"], parameters={})
    peer = implementation("beta", protocols=["webtransport"])
    tried: list[tuple[Role, str, str]] = []

    def planned(role: Role, other: Implementation, name: str) -> Cell:
        tried.append((role, other.name, name))
        return session_cell("handshake")

    trials = list(contract.session_trials(client_only, {"client": peer}, planned))
    asked = ["handshake", *(name for name in WEBTRANSPORT_TESTCASES if name.endswith("-receive"))]
    assert [trial.testcase for trial in trials] == asked
    assert tried == [("client", "beta", f"{WEBTRANSPORT_FOLDER}{name}") for name in asked]
    alone = list(contract.session_trials(client_only, {"client": None}, planned))
    assert all(trial.lacks_peer and not trial.cells for trial in alone)
