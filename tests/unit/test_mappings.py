"""What entry scripts make of our parameters, for the images that could not be run here.

The scripts print with DRY_RUN=1 what they would execute. No endpoint is pretended: that a program honours what it is
told is for runs to show.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from harness.planning.endpoint_config import UnsupportedError
from harness.scenario.parameters import ROLES, ParameterValue, Role
from harness.scenario.schema import Flow, Implementation
from harness.topology import build_lab
from harness.units import Duration, Size
from tests.examples import ROOT, catalogue, cell, implementation, scenario

KNOWN = {name: stack for name, (stack, _) in catalogue().implementations().items()}
BASH = shutil.which("bash") or "bash"
#: What the published images' manifests are, besides picoquic-qns: a name and what is known of it.
PUBLISHED = [stack for stack in KNOWN.values() if stack.image is not None]

Lines = list[str]
Entry = Callable[[str, Mapping[str, str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    """Run an image's entry script with DRY_RUN=1, where there is no program but cat."""
    (tmp_path / "cat").symlink_to(shutil.which("cat") or "cat")

    def run(name: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BASH, str(ROOT / "images" / name / "run_endpoint.sh")],
            env={**environment, "DRY_RUN": "1", "PATH": str(tmp_path)},
            cwd=tmp_path,
            text=True,
            capture_output=True,
            check=False,
        )

    return run


def environment(name: str, role: Role, settings: Mapping[str, ParameterValue], **overrides: object) -> dict[str, str]:
    """What the harness gives the image's container in a role, with parameters set in that role."""
    ends = {"client": implementation("other"), "server": implementation("other"), role: KNOWN[name]}
    parameters = {f"{role}.{parameter}": value for parameter, value in settings.items()}
    tested_cell = cell(scenario(objectives=[], **overrides), ends["client"], ends["server"], parameters=parameters)
    return build_lab(tested_cell, 0).host(f"{role}0").environment


def printed(done: subprocess.CompletedProcess[str]) -> Lines:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


# picoquic-qns: one word of the command per line.

STATE = ["-T", "/tmp/picoquic/tickets.bin", "-N", "/tmp/picoquic/tokens.bin"]
LOGS = ["-q", "/logs/qlog/", "-L", "-8"]
ANSWERS = ["-p", "443", "-c", "/certs/cert.pem", "-k", "/certs/priv.key", "-w", "/www"]
ASKS = ["-a", "h3", "-o", "/downloads", "server4", "443", "-:/10MB.bin;"]


def picoquicdemo(options: Sequence[str], end: Sequence[str], state: Sequence[str] = STATE) -> Lines:
    return ["picoquicdemo", "-v", "00000001", *options, *state, *LOGS, *end]


#: Role and parameter → value → words between the version and the tickets. -0 is gso off, which is our default.
PICOQUIC: dict[tuple[Role, str], dict[ParameterValue, Lines]] = {
    ("server", "congestion_control"): {
        word: ["-G", word, "-0"] for word in ("reno", "cubic", "bbr", "bbr1", "dcubic", "fast", "prague", "c4")
    },
    ("server", "max_udp_payload"): {
        "1252 B": ["-m", "1280", "-0"],
        "1400 B": ["-m", "1428", "-0"],
        "1472 B": ["-m", "1500", "-0"],
    },
    ("server", "gso"): {"on": [], "off": ["-0"]},
    ("server", "bdp_seed"): {"jump-start": ["-0"], "bdp-frame": ["-j", "1", "-0"]},
    ("client", "bdp_seed"): {"jump-start": ["-0"], "bdp-frame": ["-j", "1", "-0"]},
}


@pytest.mark.parametrize(
    ("role", "parameter", "value", "options"),
    [(role, name, value, words) for (role, name), values in PICOQUIC.items() for value, words in values.items()],
)
def test_picoquicdemo_is_told(entry: Entry, role: Role, parameter: str, value: ParameterValue, options: Lines) -> None:
    end = ANSWERS if role == "server" else ASKS
    given = environment("picoquic-qns", role, {parameter: value})
    assert printed(entry("picoquic-qns", given)) == picoquicdemo(options, end)


def test_picoquicdemo_unasked(entry: Entry) -> None:
    assert printed(entry("picoquic-qns", environment("picoquic-qns", "server", {}))) == picoquicdemo(["-0"], ANSWERS)
    assert printed(entry("picoquic-qns", environment("picoquic-qns", "client", {}))) == picoquicdemo(["-0"], ASKS)


def test_picoquicdemo_is_told_several_things(entry: Entry) -> None:
    wanted = {"congestion_control": "cubic", "max_udp_payload": "1350 B", "gso": "on", "bdp_seed": "bdp-frame"}
    words = printed(entry("picoquic-qns", environment("picoquic-qns", "server", wanted)))
    # In the order of their names, as the harness passes them.
    assert words == picoquicdemo(["-j", "1", "-G", "cubic", "-m", "1378"], ANSWERS)


def test_picoquicdemo_asks_for_files(entry: Entry) -> None:
    given = environment("picoquic-qns", "client", {}, protocol="hq-interop", ip_version=6)
    end = ["-a", "hq-interop", "-o", "/downloads", "server6", "443", "-:/10MB.bin;"]
    assert printed(entry("picoquic-qns", given)) == picoquicdemo(["-0"], end)
    given["REQUESTS"] = "https://server4:4433/1.bin https://server4:4433/two.bin"
    assert printed(entry("picoquic-qns", given))[-3:] == ["server4", "4433", "-:/1.bin;-:/two.bin;"]
    given["REQUESTS"] = "https://server4/one.bin"
    assert printed(entry("picoquic-qns", given))[-3:] == ["server4", "443", "-:/one.bin;"]


def test_picoquicdemo_keeps_sessions_and_logs_where_it_is_told(entry: Entry) -> None:
    repeats = Flow(download=Size.parse("10 MB"), repeat_after=Duration.parse("10 s"))
    given = environment("picoquic-qns", "client", {}, flows=[repeats])
    session = ["-T", "/session/tickets.bin", "-N", "/session/tokens.bin"]
    assert printed(entry("picoquic-qns", given)) == picoquicdemo(["-0"], ASKS, session)
    quiet = {name: text for name, text in given.items() if name not in ("QLOGDIR", "SSLKEYLOGFILE")}
    assert printed(entry("picoquic-qns", quiet)) == ["picoquicdemo", "-v", "00000001", "-0", *session, *ASKS]


# h2o: its command, then the configuration. BaseLoader leaves ON and OFF what they are.

Configuration = dict[str, object]


def h2o(lines: Lines) -> Configuration:
    assert lines[:3] == ["h2o", "--conf", "/tmp/h2o.conf"]
    content = yaml.load("\n".join(lines[3:]), yaml.BaseLoader)
    assert isinstance(content, dict)
    return content


def configured(
    listen: Mapping[str, object] | None = None,
    quic: Mapping[str, object] | None = None,
    top: Mapping[str, object] | None = None,
) -> Configuration:
    """The whole configuration, with what was added to it where."""
    return {
        "user": "root",
        "num-threads": "1",
        "http3-graceful-shutdown-timeout": "1",
        **(top or {}),
        "listen": {
            "port": "443",
            "ssl": {
                "certificate-file": "/certs/cert.pem",
                "key-file": "/certs/priv.key",
                "neverbleed": "OFF",
                "ocsp-update-interval": "0",
            },
            **(listen or {}),
            **({"quic": quic} if quic else {"type": "quic"}),
        },
        "hosts": {"default": {"paths": {"/": {"file.dir": "/www"}}}},
    }


H2O: dict[tuple[Role, str], dict[ParameterValue, Configuration]] = {
    ("server", "congestion_control"): {
        "reno": configured({"cc": "Reno"}),
        "cubic": configured({"cc": "Cubic"}),
        "pico": configured({"cc": "Pico"}),
    },
    ("server", "initial_cwnd"): {value: configured({"initcwnd": str(value)}) for value in (1, 10, 100)},
    ("server", "max_udp_payload"): {
        f"{value} B": configured(quic={"max-udp-payload-size": str(value)}) for value in (1280, 1350, 1472)
    },
    ("server", "pacing"): {"on": configured(quic={"pacing": "ON"}), "off": configured(quic={"pacing": "OFF"})},
    ("server", "gso"): {
        "on": configured(top={"http3-gso": "ON"}),
        "off": configured(top={"http3-gso": "OFF"}),
    },
    ("server", "bdp_seed"): {
        "off": configured(),
        "jump-start": configured(quic={"jumpstart-max": "65535", "pacing": "ON"}),
    },
    ("server", "ecn"): {"on": configured(quic={"ecn": "ON"}), "off": configured(quic={"ecn": "OFF"})},
}


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [(name, value, content) for (_, name), values in H2O.items() for value, content in values.items()],
)
def test_h2o_is_told(entry: Entry, parameter: str, value: ParameterValue, expected: Configuration) -> None:
    assert h2o(printed(entry("h2o", environment("h2o", "server", {parameter: value})))) == expected


def test_h2o_unasked(entry: Entry) -> None:
    assert h2o(printed(entry("h2o", environment("h2o", "server", {})))) == configured()


def test_h2o_is_told_everything_at_once(entry: Entry) -> None:
    wanted: dict[str, ParameterValue] = {
        "congestion_control": "pico", "initial_cwnd": 32, "max_udp_payload": "1400 B",
        "pacing": "on", "gso": "off", "bdp_seed": "jump-start", "ecn": "off",
    }  # fmt: skip
    assert h2o(printed(entry("h2o", environment("h2o", "server", wanted)))) == configured(
        {"cc": "Pico", "initcwnd": "32"},
        {"ecn": "OFF", "max-udp-payload-size": "1400", "jumpstart-max": "65535", "pacing": "ON"},
        {"http3-gso": "OFF"},
    )


# Both.

EXPECTED: dict[str, dict[tuple[Role, str], list[ParameterValue]]] = {
    "picoquic-qns": {what: list(values) for what, values in PICOQUIC.items()},
    "h2o": {what: list(values) for what, values in H2O.items()},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_nothing_is_claimed_that_is_not_tried_here(name: str) -> None:
    settings = {
        (role, parameter): setting
        for parameter in KNOWN[name].parameters
        for role in ROLES
        if (setting := KNOWN[name].setting(role, parameter)) is not None and setting.settable
    }
    assert settings.keys() == EXPECTED[name].keys()
    for what, setting in settings.items():
        tried = EXPECTED[name][what]
        if setting.values is not None:
            assert set(setting.values) == set(tried), what
        else:
            assert {setting.minimum, setting.maximum} - {None} <= set(tried), what


@pytest.mark.parametrize(
    ("name", "role", "parameter", "value", "words"),
    [
        ("picoquic-qns", "server", "congestion_control", "vegas", "does not know congestion_control vegas"),
        ("picoquic-qns", "client", "congestion_control", "cubic", "cannot set congestion_control as a client"),
        ("picoquic-qns", "server", "max_udp_payload", "1251 B", "from 1252 B"),
        ("picoquic-qns", "server", "max_udp_payload", "1473 B", "up to 1472 B"),
        ("picoquic-qns", "server", "bdp_seed", "off", "known: jump-start, bdp-frame"),
        ("picoquic-qns", "client", "bdp_seed", "careful-resume", "known: jump-start, bdp-frame"),
        ("picoquic-qns", "client", "gso", "on", "cannot set gso as a client; it is off"),
        ("picoquic-qns", "server", "initial_cwnd", 32, "cannot set initial_cwnd as a server; it is 10"),
        ("h2o", "server", "congestion_control", "bbr", "known: reno, cubic, pico"),
        ("h2o", "server", "max_udp_payload", "1279 B", "from 1280 B"),
        ("h2o", "server", "max_udp_payload", "1473 B", "up to 1472 B"),
        ("h2o", "server", "bdp_seed", "bdp-frame", "known: off, jump-start"),
        ("h2o", "server", "connection_window", "16 MiB", "cannot set connection_window"),
        ("h2o", "client", "ecn", "on", "h2o has no client"),
    ],
)
def test_the_harness_passes_on_nothing_else(
    name: str, role: Role, parameter: str, value: ParameterValue, words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        environment(name, role, {parameter: value})


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("testcase", ["nonsense", "", "retry"])
def test_unknown_test_cases_are_refused(entry: Entry, name: str, role: Role, testcase: str) -> None:
    process = entry(name, {"ROLE": role, "TESTCASE": testcase, "REQUESTS": "https://server4:443/one.bin"})
    assert (process.returncode, process.stdout) == (127, "")
    assert "unsupported test case" in process.stderr


@pytest.mark.parametrize(
    ("name", "given", "code", "words"),
    [
        ("picoquic-qns", {"ROLE": "proxy"}, 1, "ROLE"),
        ("picoquic-qns", {"ROLE": "client"}, 1, "REQUESTS"),
        ("picoquic-qns", {"ROLE": "server", "SERVER_PARAMS": "--pacing=off"}, 1, "unknown option: --pacing=off"),
        ("picoquic-qns", {"ROLE": "server", "SERVER_PARAMS": "--gso"}, 1, "unknown option: --gso"),
        ("picoquic-qns", {"ROLE": "server", "SERVER_PARAMS": "--gso=maybe"}, 1, "--gso=maybe"),
        ("picoquic-qns", {"ROLE": "server", "SERVER_PARAMS": "--congestion-control=vegas"}, 1, "vegas"),
        ("picoquic-qns", {"ROLE": "server", "SERVER_PARAMS": "--max-udp-payload=1.4k"}, 1, "1.4k"),
        ("picoquic-qns", {"ROLE": "server", "SERVER_PARAMS": "--bdp-seed=off"}, 1, "--bdp-seed=off"),
        ("h2o", {"ROLE": "client"}, 127, "server"),
        ("h2o", {"ROLE": "server", "TESTCASE": "transfer"}, 127, "transfer"),
        ("h2o", {"ROLE": "server", "SERVER_PARAMS": "--initial-rtt=100"}, 1, "--initial-rtt=100"),
        ("h2o", {"ROLE": "server", "SERVER_PARAMS": "--congestion-control=bbr"}, 1, "--congestion-control=bbr"),
        ("h2o", {"ROLE": "server", "SERVER_PARAMS": "--initial-cwnd=many"}, 1, "many"),
        ("h2o", {"ROLE": "server", "SERVER_PARAMS": "--max-udp-payload="}, 1, "not a number"),
        ("h2o", {"ROLE": "server", "SERVER_PARAMS": "--pacing=yes"}, 1, "--pacing=yes"),
        ("h2o", {"ROLE": "server", "SERVER_PARAMS": "--bdp-seed=jump-start --pacing=off"}, 1, "needs pacing"),
        ("h2o", {"ROLE": "server", "SERVER_PARAMS": "--pacing=off --bdp-seed=jump-start"}, 1, "needs pacing"),
    ],
)
def test_scripts_ignore_nothing(entry: Entry, name: str, given: dict[str, str], code: int, words: str) -> None:
    process = entry(name, {"TESTCASE": "http3", **given})
    assert (process.returncode, process.stdout) == (code, "")
    assert words in process.stderr


# Published images.


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda published: published.name)
def test_published_images_claim_nothing(published: Implementation) -> None:
    assert [file.name for file in (ROOT / "images" / published.name).iterdir()] == ["image.yaml"]
    assert not published.parameters
    assert not published.session
    assert published.notes


def test_published_images_stand_beside_our_own_builds() -> None:
    assert len(PUBLISHED) >= 16
    assert len({stack.image for stack in PUBLISHED}) == len(PUBLISHED)
    for name in (stack.name for stack in PUBLISHED if stack.name.endswith("-qns")):
        assert name.removesuffix("-qns") not in {stack.name for stack in PUBLISHED}


def test_what_is_fetched_from_outside_is_said() -> None:
    """A FROM of a published image and a cloned repository are in the manifest, where the harness looks first."""
    picoquic, folder = catalogue().implementations()["picoquic-qns"]
    assert picoquic.upstream_image is not None
    assert f"={picoquic.upstream_image}\n" in (folder / "Dockerfile").read_text()
    upstream, folder = catalogue().implementations()["h2o"]
    assert upstream.upstream_repository is not None
    assert f" {upstream.upstream_repository} " in (folder / "Dockerfile").read_text()
