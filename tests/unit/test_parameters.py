"""The vocabulary of parameters, and what a manifest may say of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.catalogue import Catalogue
from harness.errors import InputError, UnfitError
from harness.planning.endpoint_config import refusal_reason
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, canonical_value, parse_parameter_name
from harness.scenario.schema import Flow
from harness.topology import build_lab
from harness.units import Size
from tests.examples import catalogue, cell, implementation


def test_names() -> None:
    assert parse_parameter_name("server.congestion_control") == ("server", "congestion_control")
    for wrong in ("server", "router.initial_rtt", "client.rtt"):
        with pytest.raises(ValueError, match="not a parameter"):
            parse_parameter_name(wrong)
    with pytest.raises(UnfitError) as caught:
        parse_parameter_name("client.inital_rtt")
    assert "did you mean 'client.initial_rtt'" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value", "canonical"),
    [
        ("client.initial_rtt", "100ms", "100 ms"),
        ("client.initial_rtt", "0.1 s", "100 ms"),
        ("server.initial_cwnd", "32", 32),
        ("server.max_udp_payload", "1.2 kB", "1200 B"),
        ("server.max_udp_payload", "1200 B", "1200 B"),
        ("server.pacing", False, "off"),
        ("server.congestion_control", "bbr", "bbr"),
    ],
)
def test_one_value_has_one_form(name: str, value: object, canonical: object) -> None:
    assert canonical_value(name, value) == canonical
    assert canonical_value(name, canonical) == canonical


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("client.initial_rtt", "100", "no unit"),
        ("server.initial_cwnd", "ten", "a whole number"),
        ("server.initial_cwnd", "-3", "a whole number"),
        ("server.pacing", "yes", "neither on nor off"),
        ("server.congestion_control", "a b; rm", "a word"),
    ],
)
def test_a_value_says_how_it_is_written(name: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        canonical_value(name, value)


@given(ms=st.integers(1, 10_000_000))
def test_durations_reach_the_command_line_in_full(ms: int) -> None:
    setting = Setting(flag="{ms} {s}")
    milliseconds, seconds = setting.fill("{ms} {s}", PARAMETERS["initial_rtt"], f"{ms} us").split()
    assert float(milliseconds) == pytest.approx(ms / 1000, rel=1e-5)
    assert float(seconds) == pytest.approx(ms / 1e6, rel=1e-5)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"rtt": {"flag": "{ms}"}}, "'rtt' is not a parameter"),
        ({"initial_rtt": {"client": {"flag": "{milliseconds}"}}}, "not a placeholder"),
        ({"initial_rtt": {"flag": "--rtt={bytes}"}}, "which does not fill"),
        ({"initial_rtt": {"flag": "--rtt={ms}", "default": "100"}}, "client default of initial_rtt"),
        ({"initial_rtt": {"flag": "--rtt={ms}", "minimum": "1 packet"}}, "client minimum of initial_rtt"),
        ({"pacing": {"flag": "--pacing={value}", "values": ["on", "maybe"]}}, "neither on nor off"),
        ({"gso": {"environment": "no assignment"}}, "not an assignment"),
        ({"initial_rtt": {"flags": "--rtt={ms}"}}, "Extra inputs"),
    ],
)
def test_what_a_manifest_cannot_say(parameters: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        implementation(parameters=parameters)


def test_a_role_that_is_not_played_has_no_parameters() -> None:
    with pytest.raises(ValidationError, match="has a server, but roles names none"):
        implementation(roles=("client",), parameters={"pacing": {"server": {"default": "on"}}})
    shared = implementation(roles=("client",), parameters={"pacing": {"default": True}})
    assert shared.setting("client", "pacing") == Setting(default="on")
    assert shared.setting("server", "pacing") is None


def test_a_manifest_survives_its_own_json() -> None:
    stack = implementation(parameters={"pacing": {"flag": "--pacing={value}", "values": [True, False]}})
    assert type(stack).model_validate_json(stack.model_dump_json(by_alias=True)) == stack


def test_an_environment_variable_reaches_the_endpoint() -> None:
    server = implementation(
        "beta", parameters={"gso": {"environment": "NO_GSO={value}", "values": {"on": "false", "off": "true"}}}
    )
    with_gso_off = cell(server=server, parameters={"server.gso": "off"})
    host = build_lab(with_gso_off, 0).host("server0")
    assert host.environment["NO_GSO"] == "true"
    assert host.environment["SERVER_PARAMS"] == ""
    assert cell(server=server).key != with_gso_off.key


def test_a_peer_asks_where_the_role_itself_cannot() -> None:
    asking = implementation("beta", parameters={"ack_ratio": {"asks": "--ask-ack-ratio={value}"}})
    willing = implementation("alpha", extensions=("ack_frequency",), parameters={})
    lab = build_lab(cell(client=willing, server=asking, parameters={"client.ack_ratio": 10}), 0)
    assert lab.host("server0").environment["SERVER_PARAMS"] == "--ask-ack-ratio=10"
    assert lab.host("client0").environment["CLIENT_PARAMS"] == ""
    with pytest.raises(Exception, match="does not let beta ask for it"):
        build_lab(cell(client=implementation("alpha"), server=asking, parameters={"client.ack_ratio": 10}), 0)


def test_bad_manifests_give_the_place(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bad")
    head = "schema: 1\nname: bad\nimage: example/bad:1\n"
    cases = {
        "parameters:\n  inital_rtt: {flag: '--rtt={ms}'}\n": (r"5:3", "did you mean 'initial_rtt'"),
        "parameters:\n  initial_rtt:\n    client: {flag: '--rtt={ms}', default: 100}\n": (r"5:3|6:5", "no unit"),
        "roles: [client]\nparameters:\n  pacing:\n    server: {default: on}\n": (r"", "roles names none"),
    }
    for index, (text, (place, words)) in enumerate(cases.items()):
        file = folder / f"{index}.yaml"
        file.write_text(head + text)
        with pytest.raises(InputError) as caught:
            Catalogue(folder, (file,)).implementations()
        assert words in caught.value.message + caught.value.hint
        assert str(file) in caught.value.message
        if place:
            assert any(f"{file}:{line}" in caught.value.message for line in place.split("|")), caught.value.message


#: What can be told its idle timeout. Who is not here is refused by name: nothing in Caddy or curl sets it, and TCP has
#: no such timeout.
IDLE = {
    "aioquic": "IDLE_TIMEOUT=1.5", "bun": "--idle-timeout=1.5", "dquic": "--idle-timeout=1500",
    "go-x-net": "--idle-timeout=1500ms",
    "haproxy": "--idle-timeout=1500",
    "firefox": "--network.http.http3.idle_timeout=1.5", "kwik": "--idle-timeout=1500", "msquic": "--idle-timeout=1500",
    "nginx": "--idle-timeout=1500", "ngtcp2": "--timeout=1500ms", "noq": "--idle-timeout=1500",
    "picoquic": "IDLE_TIMEOUT=1500", "qh3": "--idle-timeout=1500", "quic-go": "--idle-timeout=1500ms",
    "quiche": "--idle-timeout=1500", "quinn": "--idle-timeout=1500", "s2n-quic": "--idle-timeout=1500",
    "tquic": "--idle-timeout=1500",
}  # fmt: skip


def test_every_stack_that_is_settable_takes_an_idle_timeout() -> None:
    implementations = [stack for stack, _ in catalogue().implementations().values()]
    stacks = {stack.name: stack for stack in implementations if stack.build is not None and stack.transfers_files}
    for name, stack in stacks.items():
        for role in stack.roles:
            setting = stack.setting(role, "idle_timeout")
            if name not in IDLE:
                assert setting is None or not setting.settable
                continue
            assert setting is not None and (text := setting.flag or setting.environment) is not None
            assert setting.fill(text, PARAMETERS["idle_timeout"], "1500 ms") == IDLE[name]
            assert setting.default is not None
    assert stacks.keys() >= IDLE.keys()


def test_who_cannot_be_told_its_idle_timeout_is_unsupported_by_name() -> None:
    implementations = {name: stack for name, (stack, _) in catalogue().implementations().items()}

    def reason_for(client: str, server: str, name: str, value: str) -> str:
        return refusal_reason(
            Flow(download=Size.parse("1 MB")), implementations[client], implementations[server], name, {name: value}
        )

    assert (
        reason_for("curl", "quic-go", "client.idle_timeout", "5 s")
        == "curl cannot set idle_timeout as a client; it is 30 s"
    )
    assert reason_for("curl", "quic-go", "client.idle_timeout", "30 s") == ""
    assert "https cannot set idle_timeout" in reason_for("https", "https", "server.idle_timeout", "5 s")


def test_a_long_duration_is_written_plainly() -> None:
    setting = Setting(flag="--t={ms}ms --s={s}")
    filled = setting.fill(setting.flag or "", PARAMETERS["idle_timeout"], "1234567.5 ms")
    assert filled == "--t=1234567.5ms --s=1234.5675"
    assert setting.fill("{ms}", PARAMETERS["idle_timeout"], "8 h") == "28800000"
