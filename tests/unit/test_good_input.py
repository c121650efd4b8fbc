"""What is accepted can run, and is the same when it has been written down again; whatever else is written is refused."""

from __future__ import annotations

import copy
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import InputError
from harness.execution.matrix import Request, build_matrix, named_implementations, swept_points
from harness.netem import Server, compile_path
from harness.outcome import Image
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.sampling import with_plain_changes
from harness.report.explanation import scenario_text
from harness.scenario.parameters import PARAMETERS, ROLES
from harness.scenario.schema import MAXIMUM_REPETITIONS, MTU, Implementation, Scenario
from harness.topology import build_lab, sim_plan
from tests.bad_files import MANIFEST, RAW, SCENARIO
from tests.examples import SIM, catalogue

FILES = count()
#: CPU seconds that a file may take to be read, planned and compiled.
PATIENCE = 6.0


def _known() -> dict[str, Implementation]:
    return {name: implementation for name, (implementation, _) in catalogue().implementations().items()}


def _runs(scenario: Scenario) -> None:
    """Plan a scenario, compile its paths and build its labs, as `run` would."""
    implementations = _known()
    images = {name: Image(reference=f"{name}:1", identity=name) for name in implementations}
    request = Request([scenario], [implementations["ngtcp2"]], [implementations["quiche"]], repetitions=1)
    swept = swept_points(request)
    stacks = {name: implementations[name] for name in named_implementations(swept)}
    for server in get_args(Server):
        for point in swept:
            compile_path(with_plain_changes(point.scenario, 1).path, server)
    for cell in build_matrix(request, images, SIM, stacks)[:2]:
        try:
            lab = build_lab(cell, 0)
            assert [sim_plan(lab, simulator) for simulator in lab.simulators]
        except UnsupportedError:
            continue
    assert scenario_text(scenario, "virtual")


# --- valid in, valid out


def _rate(draw: st.DrawFn) -> str:
    return f"{draw(st.integers(100, 1_000_000))} kbit/s"


@st.composite
def losses(draw: st.DrawFn) -> object:
    share = st.integers(0, 1000).map(lambda tenths: f"{tenths / 10:g} %")
    pair = {"good_to_bad": share, "bad_to_good": share}
    return draw(share | st.fixed_dictionaries(pair, optional={"loss_in_bad": share, "loss_in_good": share}))


@st.composite
def queues(draw: st.DrawFn) -> object:
    """A queue as people write it: its size, or its keys."""
    packets, size = draw(st.integers(2, 2000)), draw(st.integers(20, 500))
    red = {
        "discipline": "red", "limit": f"{size} kB", "min": f"{size * 300} B", "max": f"{size * 800} B",
        "probability": f"{draw(st.integers(1, 99))} %", "average_packet": draw(st.sampled_from(["500 B", "1500 B"])),
        **draw(st.sampled_from([{"wq": 0.002}, {"wq": 0.01}, {"wq": 0.3}])), "ecn": draw(st.booleans()),
    }  # fmt: skip
    written: list[object] = [f"{packets} packets", f"{size} kB", "1 BDP", "RED 100 kB", {"size": f"{size} kB"}, red]
    return draw(st.sampled_from(written))


@st.composite
def links(draw: st.DrawFn, *, served: bool) -> dict[str, object]:
    """One direction as people write it."""
    delay = draw(st.integers(200, 700))
    content: dict[str, object] = {"rate": _rate(draw), "delay": f"{delay} ms"}
    if draw(st.booleans()):
        content["jitter"] = f"{draw(st.integers(0, 100))} ms"
    if draw(st.booleans()):
        content["loss"] = draw(losses())
    if served:
        content["service"] = {"process": "poisson"} | draw(
            st.sampled_from([{}, {"cold_start": "5 s", "period": "60 s"}])
        )
        content["queue"] = f"{draw(st.integers(2, 200))} packets"
        return content
    if draw(st.booleans()):
        content["queue"] = draw(queues())
    if draw(st.booleans()):
        content["burst"] = f"{draw(st.integers(MTU + 14, 10**6))} B"
    return content


_VALUES: dict[str, list[object]] = {
    "server.congestion_control": ["reno", "cubic"], "server.initial_cwnd": [10, 32], "initial_rtt": ["100 ms", "1 s"],
    "client.max_ack_delay": ["25 ms"], "path.down.loss": ["0 %", "1 %"], "path.return.rate": ["10 Mbit/s", "3 Mbit/s"],
    "server.pacing": [True], "flow0.access_delay": ["5 ms", "10 ms"], "path.down.queue": ["100 kB", "RED 100 kB"],
}  # fmt: skip


_OF_TCP = frozenset({"server.congestion_control", "server.initial_cwnd"})


@st.composite
def flows(draw: st.DrawFn) -> dict[str, object]:
    """A flow as people write it."""
    kind, start = draw(st.sampled_from(["quic", "quic", "tcp", "udp"])), draw(st.integers(0, 20))
    content: dict[str, object] = {"kind": kind, "start": f"{start} s"}
    if kind == "quic" and draw(st.booleans()):
        content["download"] = f"{draw(st.integers(1, 200))} MB"
        content |= draw(st.sampled_from([{}, {"repeat_after": "1 s"}]))
    else:
        content["stop"] = f"{start + draw(st.integers(1, 60))} s"
    if kind == "udp":
        content["traffic"] = draw(
            st.sampled_from(
                [
                    {"model": "poisson", "rate": "1 Mbit/s", "packet": "512 B"},
                    {"model": "cbr", "rate": "200 kbit/s"},
                    {"model": "uniform", "packet": ["100 B", "1 kB"], "gap": ["1 ms", "20 ms"]},
                ]
            )
        )
    return content | draw(st.sampled_from([{}, {"client": "ngtcp2"} if kind == "quic" else {}]))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A scenario as people write it, of any shape."""
    served = draw(st.booleans())
    path: dict[str, Any] = {"forward": draw(links(served=served)), "return": draw(links(served=False))}
    path["terminal"] = draw(st.sampled_from(ROLES))
    if not served and draw(st.booleans()):
        change = {"rate": _rate(draw), "loss": draw(losses()), "delay": "500 ms"}
        path["changes"] = [{"at": "5 s", "forward": change}, {"at": "6500 ms", "return": {"delay": "1 s"}}]
    content: dict[str, Any] = {
        "schema": 1, "title": draw(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=9)),
        "path": path, "flows": draw(st.lists(flows(), min_size=1, max_size=3)),
        "ip_version": draw(st.sampled_from([4, 6])), "timeout": "120 s",
        "repetitions": draw(st.integers(1, MAXIMUM_REPETITIONS)),
    }  # fmt: skip
    if all("download" in flow for flow in content["flows"]) and len(content["flows"]) == 1:
        bound = draw(st.sampled_from([{"at_most": "9 s"}, {"at_most": "1500 ms"}, {"at_least": "1 s"}]))
        content["objectives"] = [{"metric": "completion", **bound}]
    names = draw(st.sets(st.sampled_from(sorted(_VALUES)), max_size=2))
    if served or "burst" in path["forward"] or "burst" in path["return"]:
        names = {name for name in names if not name.startswith("path.")}
    # Of what nobody in a scenario has it is no sweep: TCP has a window and an algorithm, and UDP nothing.
    kinds = {flow["kind"] for flow in content["flows"]}
    taken = _VALUES.keys() if "quic" in kinds else _OF_TCP if "tcp" in kinds else frozenset[str]()
    names = {name for name in names if name in taken or name.startswith(("path.", "flow0."))}
    if names:
        content["vary"] = {name: _VALUES[name] for name in sorted(names)}
    return content


@given(documents())
@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
def test_what_is_valid_stays_so_when_it_is_written_again(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    file = tmp_path_factory.getbasetemp() / "written.yaml"
    scenario = _read(file, yaml.safe_dump(document, allow_unicode=True, sort_keys=False))
    assert Scenario.model_validate_json(scenario.model_dump_json(by_alias=True)) == scenario
    content = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert _read(file, yaml.safe_dump(content, allow_unicode=True)) == scenario
    _runs(scenario)


def _read(file: Path, text: str) -> Scenario:
    own = file.with_name(f"{next(FILES)}-{file.name}")
    own.write_text(text)
    try:
        scenario = catalogue().scenario(own)
    finally:
        own.unlink()
    return scenario.model_copy(update={"name": "case"})


# --- every shipped file, damaged

ODD = (
    "", "~", "-1", "0", "1e9", "[]", "{}", "true", "1", "0 s", "1000 h", "0 bit/s", "1 GB", "1 B", "100 %", "-5 %",
    "[/nope]", "&a", "*a", "!!x y", "nan", '"', "'", "5 packets", "RED 1 BDP", "9999999999", "\t", "\0", "\ud7ff", ": ",
    "- ", "# ", "bbr", "quiche", "server", "red", "poisson", "1 BDP", "0 packets", "12:30:45", "0x10", "on",
)  # fmt: skip
#: Damaged copies of each file.
COPIES = 4


def _damaged(text: str, chance: random.Random) -> str:
    """A text with one thing wrong with it, perhaps."""
    lines = text.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    words = list(re.finditer(r"[\w./%&*-]+", text))
    ways: list[Callable[[], str]] = [
        lambda: "".join(lines[:at] + lines[at + 1 :]),
        lambda: "".join([*lines[: at + 1], lines[at], *lines[at + 1 :]]),
        lambda: "".join([*lines[:at], " " + lines[at], *lines[at + 1 :]]),
        lambda: "".join([*lines[:at], chance.choice(lines), *lines[at + 1 :]]),
        lambda: text[: chance.randrange(len(text))],
        lambda: _spliced(text, chance.choice(words), chance.choice(ODD)),
        lambda: _spliced(text, chance.choice(words), chance.choice(words)[0]),
        lambda: _spliced(text, chance.choice(words), chance.choice(words)[0] * 3),
        lambda: re.sub(r"\d+", lambda match: match[0] + "0" * chance.choice((0, 1, 6)), text),
    ]
    return chance.choice(ways)()


def _spliced(text: str, place: re.Match[str], new: str) -> str:
    return text[: place.start()] + new + text[place.end() :]


def _shipped() -> Iterator[Path]:
    yield from catalogue().scenario_files()
    yield from catalogue().implementation_files()


@pytest.mark.parametrize("half", [0, 1])
def test_a_damaged_file_is_refused_or_runs(tmp_path: Path, half: int) -> None:
    (tmp_path / "Dockerfile").touch()
    refused = accepted = 0
    for number, file in enumerate(_shipped()):
        if number % 2 != half:
            continue
        chance, text = random.Random(number), file.read_text()
        for _ in range(COPIES):
            copy = tmp_path / (file.name if file.name == "image.yaml" else f"{next(FILES)}.yaml")
            copy.write_text(_damaged(text, chance), errors="surrogatepass")
            begun = time.process_time()
            if _accepts(copy):
                accepted += 1
            else:
                refused += 1
            assert time.process_time() - begun < PATIENCE, copy.read_text()
    assert refused > accepted / 4
    assert accepted


def _accepts(file: Path) -> bool:
    """Whether a file is taken; if so, it runs, and if not, it is said where and why."""
    try:
        if file.name == "image.yaml":
            catalogue()._manifests.pop(file, None)
            _fill_defaults(catalogue().manifest(file))
        else:
            _runs(catalogue().scenario(file))
    except InputError as error:
        lines = error.message.splitlines()
        assert all(re.match(rf"{re.escape(str(file))}:\d+:\d+: ", line) for line in lines), error.message
        assert error.hint
        assert not [words for words in RAW if words in error.message], error.message
        return False
    return True


# --- every value of a file, replaced by another kind of thing

WRONG_VALUES: list[object] = [
    None, [], {}, 5, -1, 1.5, True, "x", "", [[]], {"a": 1}, [1, 2], "1 s", "1 Mbit/s", "10 MB", "5 %", 10**17,
]  # fmt: skip


def _places(content: object, at: tuple[int | str, ...] = ()) -> Iterator[tuple[int | str, ...]]:
    """Of every value of a document."""
    if at:
        yield at
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, value in inner:
        yield from _places(value, (*at, name))


@pytest.mark.parametrize(("name", "good"), [("case.yaml", SCENARIO), ("image.yaml", MANIFEST)])
def test_another_kind_of_thing_is_refused_in_words_or_runs(tmp_path: Path, name: str, good: str) -> None:
    chance, content = random.Random(1), yaml.load(good, yaml.BaseLoader)
    for place in _places(content):
        for wrong_value in chance.sample(WRONG_VALUES, 3):
            changed = copy.deepcopy(content)
            inside: Any = changed
            for part in place[:-1]:
                inside = inside[part]
            inside[place[-1]] = wrong_value
            file = tmp_path / (name if name == "image.yaml" else f"{next(FILES)}.yaml")
            file.write_text(json.dumps(changed))
            _accepts(file)


def _fill_defaults(tested_implementation: Implementation) -> None:
    """Fill every text of a manifest with its own default, as a run would."""
    for name, parameter in PARAMETERS.items():
        for role in ROLES:
            setting = tested_implementation.setting(role, name)
            if setting is None or setting.default is None or setting.values is not None:
                continue
            for text in (setting.flag, setting.environment, setting.asks):
                if text is not None and setting.minimum is None and setting.maximum is None:
                    assert setting.fill(text, parameter, parameter.canonical(setting.default))
