"""How a check tells from runs whether a parameter took effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.metrics import VERSION
from harness.check import contract
from harness.check import run as session
from harness.check.parameters import TRIALS, claims, values_to_try
from harness.evaluation.cell_result import CellResult
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, MeasuredRun, Measurement, Observation, Outcome, Run, Status, Verdict
from harness.outcome.conformance import Answer, Finding
from harness.report.conformance import findings_document
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role
from harness.scenario.schema import Implementation
from tests.examples import SIM, catalogue, cell, images, implementation
from tests.rendering import printed


def run(*seen: tuple[Role, str, float | str], seconds: float | None = None) -> MeasuredRun:
    observed = [
        Observation(role=role, parameter=name, value=value, unit="", source="a test") for role, name, value in seen
    ]
    measurements = (
        () if seconds is None else (Measurement(name="completion", value=seconds, unit="s", flow=0, transfer="first"),)
    )
    return MeasuredRun(version=VERSION, observed=tuple(observed), measurements=measurements)


def wrong(name: str, role: Role, *tried: tuple[ParameterValue, MeasuredRun]) -> str:
    return TRIALS[name].judge(role, tried)[0]


def test_every_claim_of_the_images_here_can_be_tried() -> None:
    claimed = [
        (item.name, role, name)
        for item, _ in catalogue().implementations().values()
        if not (item.upstream_image or item.upstream_repository)
        for role, name, _ in claims(item)
    ]
    assert len(claimed) > 100
    assert [claim for claim in claimed if claim[-1] not in TRIALS] == []


def test_a_number_is_seen_or_it_is_not() -> None:
    eight, three = run(("client", "connection_window", 8 * 2**20)), run(("client", "connection_window", 4 * 2**20))
    assert wrong("connection_window", "client", ("4 MiB", three), ("8 MiB", eight)) == ""
    assert "8 MiB was not seen" in wrong("connection_window", "client", ("4 MiB", three), ("8 MiB", three))
    assert "not seen anywhere" in wrong("connection_window", "server", ("4 MiB", three))
    assert wrong("ack_ratio", "client", (10, run(("client", "ack_ratio", 9.2)))) == ""
    assert wrong("ack_ratio", "client", (10, run(("client", "ack_ratio", 2.0)))) != ""


def test_one_of_several_places_is_enough() -> None:
    both = run(("server", "initial_cwnd", 12.0), ("server", "initial_cwnd", 40.0))
    assert wrong("initial_cwnd", "server", (40, both)) == ""


def test_the_first_probe_timeout_follows_the_initial_rtt() -> None:
    short, long = run(("client", "first_pto", 0.15)), run(("client", "first_pto", 0.45))
    assert wrong("initial_rtt", "client", ("50 ms", short), ("150 ms", long)) == ""
    assert "does not follow" in wrong("initial_rtt", "client", ("50 ms", short), ("150 ms", short))
    recorded = run(("client", "initial_rtt", 0.05))
    assert wrong("initial_rtt", "client", ("50 ms", recorded)) == ""


@pytest.mark.parametrize(
    ("name", "on", "off", "holds"),
    [
        ("gso", 12.0, 1.0, True),
        ("gso", 1.0, 1.0, False),
        ("zero_rtt", 1.0, 0.0, True),
        ("zero_rtt", 1.0, 1.0, False),
        ("ecn", 0.99, 0.0, True),
        ("pacing", 10.0, 40.0, True),
        ("pacing", 30.0, 40.0, False),
    ],
)
def test_switches(name: str, on: float, off: float, holds: bool) -> None:
    role: Role = "client" if name == "zero_rtt" else "server"
    tried = (("on", run((role, name, on))), ("off", run((role, name, off))))
    assert (wrong(name, "server", *tried) == "") is holds
    if name != "zero_rtt":
        assert wrong(name, "client", *tried) != ""


def test_a_pacer_may_show_in_the_second_round_trip_only() -> None:
    on = run(("server", "pacing", 34.0), ("server", "pacing", 1.0))
    off = run(("server", "pacing", 34.0), ("server", "pacing", 4.0))
    assert wrong("pacing", "server", ("on", on), ("off", off)) == ""
    assert wrong("pacing", "server", ("on", off), ("off", off)) != ""


def test_sizes_are_limits() -> None:
    def sized(size: float) -> MeasuredRun:
        return run(("server", "max_udp_payload", size))

    assert wrong("max_udp_payload", "server", ("1200 B", sized(1200)), ("1300 B", sized(1232))) == ""
    assert "up to 1252" in wrong("max_udp_payload", "server", ("1200 B", sized(1252)))
    assert "same size" in wrong("max_udp_payload", "server", ("1200 B", sized(1200)), ("1300 B", sized(1200)))
    assert wrong("path_mtu_discovery", "server", ("on", sized(1444)), ("off", sized(1200))) == ""
    assert wrong("path_mtu_discovery", "server", ("on", sized(1200)), ("off", sized(1200))) != ""


def test_controllers_are_told_apart_by_their_transfers() -> None:
    reno, cubic = run(("server", "congestion_reaction", 0.5), seconds=20.0), run(seconds=11.0)
    assert wrong("congestion_control", "server", ("reno", reno), ("cubic", cubic)) == ""
    assert wrong("congestion_control", "server", ("reno", reno), ("cubic", run(seconds=20.0005))) == ""
    assert "same transfer" in wrong("congestion_control", "server", ("reno", reno), ("cubic", run(seconds=20.0)))
    assert "did not end" in wrong("congestion_control", "server", ("reno", reno), ("cubic", run()))


JUMP = ("reconnaissance", "unvalidated", "validating", "normal")
STAY = ("reconnaissance", "normal")


def phases(ratio: float, *names: str) -> MeasuredRun:
    """The same with the phases of Careful Resume that its server named."""
    observations: list[tuple[Role, str, float | str]] = (
        [("server", "careful_resume", ", ".join(names))] if names else []
    )
    return run(("server", "bdp_seed", ratio), *observations)


def resumed(ratio: float, *frames: int) -> MeasuredRun:
    """A run whose second connection began with so many times the data of the first."""
    counts: list[tuple[Role, str, float | str]] = [("client", "bdp_frames", count) for count in frames]
    return run(("server", "bdp_seed", ratio), *counts)


@pytest.mark.parametrize(
    ("tried", "holds"),
    [
        ((("jump-start", resumed(14.0)), ("off", resumed(1.0))), True),
        ((("jump-start", resumed(1.1)), ("off", resumed(1.0))), False),
        ((("jump-start", resumed(14.0)), ("off", resumed(13.0))), False),  # off does not turn it off
        ((("jump-start", resumed(14.0)),), True),  # against its own first connection
        ((("jump-start", resumed(2.9)),), False),
        ((("off", resumed(1.2)),), True),
        ((("bdp-frame", resumed(9.0, 1)), ("off", resumed(1.0, 0))), True),
        ((("bdp-frame", resumed(9.0, 0)), ("off", resumed(1.0, 0))), False),  # the jump of another value
        ((("bdp-frame", resumed(9.0)),), True),  # no qlog that could name one
        ((("careful-resume", run()), ("off", resumed(1.0))), False),
        ((("careful-resume", phases(9.0, *JUMP)), ("off", phases(1.0))), True),
        ((("careful-resume", phases(9.0)), ("off", phases(1.0))), False),  # something else made it fast
        ((("careful-resume", phases(9.0, *STAY)), ("off", phases(1.0))), False),
        ((("careful-resume", phases(1.5, *JUMP)), ("off", phases(1.0))), False),
        ((("careful-resume", phases(9.0, *JUMP)), ("off", phases(1.0, *JUMP))), False),
    ],
)
def test_what_is_learnt_shows_in_the_second_connection(
    tried: tuple[tuple[ParameterValue, MeasuredRun], ...], holds: bool
) -> None:
    for role in ROLES:  # the sender is the server, whoever is told
        assert (wrong("bdp_seed", role, *tried) == "") is holds


@pytest.mark.parametrize(
    ("shares", "holds"),
    [((0.06, 0.5, 1.0), True), ((0.5, 0.5, 1.0), False), ((0.06, 0.06, 1.0), False), ((0.06, 0.5, 0.5), False)],
)
def test_the_window_after_a_move_is_the_rule_s(shares: tuple[float, ...], holds: bool) -> None:
    tried = [
        (word, run(("server", "migration_cwnd", share)))
        for word, share in zip(("reset", "adaptive", "keep"), shares, strict=True)
    ]
    assert (wrong("migration_cwnd", "server", *tried) == "") is holds
    assert "nothing seen" in wrong("migration_cwnd", "server", ("keep", run()))


def test_values_are_those_the_image_takes() -> None:
    trial = TRIALS["initial_cwnd"]
    assert values_to_try(Setting(flag="{value}"), "initial_cwnd", trial) == [6, 40]
    assert values_to_try(Setting(flag="{value}", minimum=10), "initial_cwnd", trial) == [40]
    listed = Setting(flag="{value}", values=("reno", "cubic", "bbr"))
    assert values_to_try(listed, "congestion_control", TRIALS["congestion_control"]) == ["reno", "cubic", "bbr"]


def test_claims_are_what_can_be_set_or_asked_for() -> None:
    tested_implementation = implementation(
        parameters={
            "initial_rtt": {"client": {"flag": "--rtt={ms}"}, "server": {"default": "333 ms"}},
            "ack_ratio": {"server": {"asks": "--ask={value}"}},
        }
    )
    assert [(role, name) for role, name, _ in claims(tested_implementation)] == [
        ("client", "initial_rtt"),
        ("server", "ack_ratio"),
    ]


def test_every_parameter_of_the_vocabulary_says_what_shows_it() -> None:
    assert set(TRIALS) == set(PARAMETERS)
    assert all(parameter.evidence for parameter in PARAMETERS.values())


class Matrix:
    """Stands for the app: makes the cells of a request, and runs nothing."""

    def __init__(self, *named: Implementation) -> None:
        """`named`: those that flows name."""
        self._named = {named_implementation.name: named_implementation for named_implementation in named}

    def matrix(self, request: Request, listen: object, *, pull: bool) -> list[Cell]:
        names = {item.name for item in (*request.clients, *request.servers)}
        return build_matrix(request, images(*names), SIM, self._named)


@pytest.mark.parametrize(
    ("roles", "of_client", "expected"),
    [
        (("client", "server"), True, ("mine", "mine", {"client.bdp_seed", "server.bdp_seed"})),
        (("client", "server"), False, ("mine", "mine", {"server.bdp_seed"})),
        (("server",), False, ("quic-go", "mine", {"server.bdp_seed"})),
    ],
)
def test_what_is_remembered_is_tried_with_itself(
    roles: tuple[Role, ...], of_client: bool, expected: tuple[str, str, set[str]]
) -> None:
    how = {"flag": "--seed={value}", "values": ["jump-start", "off"]}
    settings = {"bdp_seed": {"server": how, **({"client": how} if of_client else {})}}
    mine = implementation("mine", roles=roles, parameters=settings)
    known = {scenario.name: scenario for scenario in catalogue().find_scenarios(["check", "interop"])}
    references = [implementation("quic-go", session=True)]
    subject = session._Subject(Matrix(), mine, references, [], known, lambda event: None)  # type: ignore[arg-type]
    tried = [claim for claim in subject.claims if claim.role == "server"]
    (claim,) = tried
    for value, tested_cell in claim.cells:
        asked = {name for name, given in tested_cell.parameters.items() if given == value}
        assert (tested_cell.client.name, tested_cell.server.name, asked) == expected
        assert tested_cell.scenario.name == "check/learnt"
    assert [value for value, _ in claim.cells] == ["jump-start", "off"]


@pytest.mark.parametrize(
    ("role", "name", "direction"),
    [
        ("server", "tcp_wmem_max", "to_client"),
        ("client", "tcp_wmem_max", "to_server"),
        ("client", "tcp_rmem_max", "to_client"),
        ("server", "tcp_rmem_max", "to_server"),
    ],
)
def test_a_kernel_is_tried_with_itself_in_the_direction_that_shows_it(role: Role, name: str, direction: str) -> None:
    mine = implementation("mine", protocols=["tcp", "udp"], parameters={name: {"sysctl": "net.ipv4.setting=1 {bytes}"}})
    known = {scenario.name: scenario for scenario in catalogue().find_scenarios(["check", "interop"])}
    references = [implementation("quic-go", session=True)]
    subject = session._Subject(Matrix(mine), mine, references, [], known, lambda event: None)  # type: ignore[arg-type]
    assert [(role, protocol) for role, protocol, _ in subject.transfers] == [("client", "tcp"), ("server", "tcp")]
    assert subject.resumption_cell is None
    (claim,) = (claim for claim in subject.claims if claim.role == role)
    assert len(claim.cells) == 2
    for value, tested_cell in claim.cells:
        (flow,) = tested_cell.scenario.flows
        assert (flow.kind, flow.direction, flow.parameters) == ("tcp", direction, {f"{role}.{name}": value})
        assert tested_cell.implementation("client", 0).name == tested_cell.implementation("server", 0).name == "mine"


def test_buffers_are_told_by_what_they_hold_back() -> None:
    empty, full = run(("server", "tcp_wmem_max", 0.6)), run(("server", "tcp_wmem_max", 0.02))
    assert wrong("tcp_wmem_max", "server", ("8 MiB", full), ("512 KiB", empty)) == ""
    assert "runs empty for as long" in wrong("tcp_wmem_max", "server", ("8 MiB", empty), ("512 KiB", full))
    assert "nothing seen with 8 MiB" in wrong("tcp_wmem_max", "server", ("8 MiB", run()), ("512 KiB", full))
    small, large = run(("client", "tcp_rmem_max", 3e5)), run(("client", "tcp_rmem_max", 5e6))
    assert wrong("tcp_rmem_max", "client", ("512 KiB", small), ("8 MiB", large)) == ""
    assert "no larger window" in wrong("tcp_rmem_max", "client", ("512 KiB", large), ("8 MiB", large))


@pytest.mark.parametrize(
    ("sessions_resumed", "holds"),
    [(("false", "true"), True), (("false", "false"), False), (("false",), False), ((), False)],
)
def test_a_session_is_kept_when_the_server_saw_it_resumed(
    tmp_path: Path, sessions_resumed: tuple[str, ...], holds: bool
) -> None:
    lines = [f"quic-go-endpoint: resumed={word}\n" for word in sessions_resumed]
    (tmp_path / "server0.log").write_text("".join(lines))
    ended_run = Run(cell=cell(), repetition=0, outcome=Outcome(status="completed"), started_at="2026-01-01T00:00:00Z")
    finding = contract.judge_session(ended_run, tmp_path)
    assert (finding.answer == "holds") is holds
    assert finding.role == "client"


@pytest.mark.parametrize(("status", "answer"), [("crashed", "not tried"), ("completed", "does not hold")])
def test_nothing_that_needs_a_transfer_is_tried_where_none_completes(status: Status, answer: Answer) -> None:
    mine = implementation("mine", parameters={"gso": {"server": {"flag": "--gso={value}", "values": ["on", "off"]}}})
    known = {scenario.name: scenario for scenario in catalogue().find_scenarios(["check", "interop"])}
    references = [implementation("quic-go", session=True)]
    subject = session._Subject(Matrix(), mine, references, [], known, lambda event: None)  # type: ignore[arg-type]

    def result(tested_cell: Cell, status: Status) -> CellResult:
        made_run = Run(
            cell=tested_cell,
            repetition=0,
            outcome=Outcome(status=status, role="client"),
            started_at="2026-01-01T00:00:00Z",
        )
        return CellResult(tested_cell, ((made_run, None),), Verdict(status="error", reason="", sentence=""), (Path(),))

    results = {tested_cell.key: result(tested_cell, "crashed") for tested_cell in subject.cells}
    results |= {tested_cell.key: result(tested_cell, status) for _, _, tested_cell in subject.transfers}
    failures = subject._failures(results)
    assert failures == ({} if status == "completed" else dict.fromkeys(ROLES, "no ordinary transfer completed"))
    (claim,) = subject.claims
    finding = subject._finding(claim, results, failures.get("server", ""))
    assert (finding.question, finding.answer) == ("parameter gso", answer)


def test_findings_are_printed_with_a_word_not_only_a_colour() -> None:
    findings = [
        Finding("mine", "client", "a transfer over h3", "holds", "whole file", "quic-go"),
        Finding("mine", "client", "parameter pacing", "does not hold", "no burst was seen", "quic-go"),
    ]
    text = printed(findings_document(findings, {"h2o": "it is built elsewhere"}), 140)
    assert "✓ holds" in text
    assert "✕ does not hold" in text
    assert "2 questions, 1 do not hold" in text
    assert "h2o: not built here: it is built elsewhere" in text
    assert findings_document(findings, {}).data["findings"][1]["answer"] == "does not hold"
    findings.append(
        Finding("mine", "server", "parameter pacing", "not tried", "no ordinary transfer completed", "quic-go")
    )
    text = printed(findings_document(findings, {}), 140)
    assert "· not tried" in text
    assert "3 questions, 1 do not hold, 1 not tried" in text
    assert "2 questions, none fails, 1 not tried" in printed(findings_document(findings[::2], {}), 140)


def test_a_client_of_webtransport_shows_a_parameter_in_a_session() -> None:
    """The trial's own scenario is a download, for which a client of WebTransport has no protocol."""
    mine = implementation(
        "mine",
        roles=["client"],
        protocols=["webtransport"],
        parameters={
            "max_udp_payload": {"client": {"flag": "--largest={bytes}"}},
            "initial_rtt": {"client": {"flag": "--rtt={ms}"}},
        },
    )
    known = {scenario.name: scenario for scenario in catalogue().find_scenarios(["check", "interop", "webtransport"])}
    references = [implementation("quic-go"), implementation("webtransport-go", protocols=["webtransport"])]
    subject = session._Subject(Matrix(), mine, references, [], known, lambda event: None)  # type: ignore[arg-type]
    by_name = {claim.name: claim for claim in subject.claims}
    assert {cell.scenario.name for _, cell in by_name["max_udp_payload"].cells} == {session.SESSION}
    assert len(by_name["max_udp_payload"].cells) == 2
    # The first probe timeout shows where the path loses packets, which no session of a test case has.
    assert (by_name["initial_rtt"].cells, "WebTransport" in by_name["initial_rtt"].refusal) == ((), True)
