"""What paths need of a kernel, what the host's kernel has of it, and what would bring it the rest."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from simulator import __main__ as simulator_main
from simulator.features import FEATURES, SEED_RELEASE, needed_features
from simulator.plan import Plan
from simulator.shell import CommandError

from harness.engine.docker.networks import kind_of
from harness.engine.images.build import Images
from harness.engine.images.host_kernel import (
    COMMON_FEATURES,
    HostKernel,
    HostKernelRecord,
    MachineFiles,
    lab_features,
    lacks_queues,
    parse_features,
    remedy,
)
from harness.engine.run_dir import unrepeatable
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Image
from harness.topology import build_lab
from tests.examples import ROOT, catalogue, cell, implementation, labs, link, path, scenario

RELEASE = "6.12.1-test"
NETEM = "CONFIG_NET_SCH_NETEM"
SEED_IGNORED = "netem takes 'seed' and ignores it"


def _machine(root: Path, options: str | None = "", distribution: str = "") -> MachineFiles:
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "os-release").write_text(distribution)
    if options is not None:
        (root / "boot").mkdir()
        (root / "boot" / f"config-{RELEASE}").write_text(options)
    return MachineFiles(RELEASE, root)


def _answer(**missing: str) -> str:
    return json.dumps(dict.fromkeys(FEATURES) | {name.replace("_", " "): why for name, why in missing.items()})


# --- what a path needs


@pytest.mark.parametrize(
    ("definition", "features"),
    [
        ({}, "ifb ingress u32 mirred tbf netem"),
        ({"forward": link(loss="1 %")}, "ifb ingress u32 mirred tbf netem netem-seed"),
        ({"forward": link(drop={"packets": [2]})}, "ifb ingress u32 mirred tbf netem nft"),
        (
            {"forward": link("2.64 Mbit/s", queue="130 packets", service={"process": "poisson"})},
            "ifb ingress u32 mirred netem netem-slot netem-seed",
        ),
    ],
)  # fmt: skip
def test_a_path_needs_what_its_commands_use(definition: dict[str, Any], features: str) -> None:
    lab = build_lab(cell(scenario(path=path(**definition))), 0)
    needed = {name.replace(" ", "-") for name in lab_features(lab)} - {"prio"}
    assert needed >= set(features.split())
    assert ("netem-seed" in needed, "nft" in needed) == ("netem-seed" in features, "nft" in features)


def test_a_client_that_moves_behind_a_nat_needs_rules_translation_and_tracked_connections() -> None:
    (lab,) = labs(catalogue().find_scenarios(["interop/rebind-port"])[0])
    assert {"nft", "nft nat", "conntrack"} <= set(lab_features(lab))


def test_every_queueing_discipline_of_every_scenario_is_a_feature() -> None:
    every = [lab for file in catalogue().scenario_files() for lab in labs(catalogue().scenario(file))]
    commands = [command for lab in every for simulator in lab.simulators for command in simulator.program.setup]
    words = [
        [word for word in command[5:] if word.isidentifier()]
        for command in commands
        if command[1:3] == ("qdisc", "add")
    ]
    kinds = {next(word for word in rest if word not in ("root", "parent", "handle")) for rest in words}
    assert kinds <= FEATURES.keys()
    assert {"netem", "tbf", "red", "ingress"} <= kinds


# --- what a kernel has


def test_what_the_simulator_prints_is_read_and_nothing_else() -> None:
    assert parse_features(_answer(netem="no")).missing == {"netem": "no"}
    for text in ("complete", "[]", '{"netem": null}'):
        with pytest.raises(ValueError):
            parse_features(text)


def test_a_kernel_lacks_for_a_path_only_what_the_path_needs() -> None:
    kernel = HostKernel({"nft nat": "not supported", "red": "unknown"})
    assert kernel.lacking(("netem", "tbf")) == []
    assert kernel.lacking(("netem", "red", "nft nat")) == ["red", "nft nat"]


@pytest.mark.parametrize(
    ("option", "distribution", "text"),
    [
        (f"{NETEM}=m", "ID=ubuntu\nID_LIKE=debian", f"the package linux-modules-extra-{RELEASE} brings it"),
        (f"{NETEM}=m", 'ID="rocky"\nID_LIKE="rhel centos fedora"', "the package kernel-modules-extra brings it"),
        (f"{NETEM}=m", "ID=arch", "gone since an upgrade: restart the machine"),
        (f"{NETEM}=m", "ID=debian", "the package linux-image-amd64 brings it (the 'cloud' kernels leave it out)"),
        (f"{NETEM}=m", "ID=alpine", f"it is a module of this kernel ({NETEM}) that is not installed"),
        (f"# {NETEM} is not set", "ID=debian", f"this kernel was built without {NETEM}, and no package brings it"),
        (f"{NETEM}=y", "ID=debian", "it is built into this kernel, which does not let a container use it"),
        (None, "ID=debian", f"it needs {NETEM}"),
    ],
)
def test_one_line_names_the_feature_and_what_brings_it(
    tmp_path: Path, option: str | None, distribution: str, text: str
) -> None:
    machine = _machine(tmp_path, option, distribution)
    assert remedy("netem", machine).endswith(text)
    kernel = HostKernel({"netem": "tc: unknown", "netem slot": "tc: unknown", "red": "tc: unknown"})
    assert kernel.explain(("ifb",), machine) == ""
    line = kernel.explain(("netem", "netem slot"), machine)
    assert line.startswith("the host's kernel lacks netem, netem slot (netem: ")
    assert line.count(text) == 1


@pytest.mark.parametrize(
    ("options", "lacks"),
    [
        ("CONFIG_NET_SCH_NETEM=m\nCONFIG_NET_SCH_RED=y\n", False),
        ("CONFIG_NET_SCH_NETEM=m\n# CONFIG_NET_SCH_RED is not set\n", True),
        ("", True),
    ],
)
def test_a_configuration_that_leaves_out_a_queue_is_noticed(tmp_path: Path, options: str, lacks: bool) -> None:
    machine = _machine(tmp_path / "plain", options)
    assert lacks_queues(machine) is lacks
    packed = _machine(tmp_path / "packed", None)
    # It is not known, and so it is asked.
    assert lacks_queues(packed) is False
    (packed.root / "proc").mkdir()
    (packed.root / "proc" / "config.gz").write_bytes(gzip.compress(options.encode()))
    assert lacks_queues(packed) is lacks


def test_the_answer_is_kept_until_kernel_modules_or_simulator_change(tmp_path: Path) -> None:
    machine = _machine(tmp_path / "root")
    record = HostKernelRecord(tmp_path / "state", "a" * 32, lambda: machine)
    assert record.read() is None
    record.write(_answer(netem="no"))
    assert record.read() == HostKernel({"netem": "no"})
    assert HostKernelRecord(tmp_path / "state", "b" * 32, lambda: machine).read() is None
    assert HostKernelRecord(tmp_path / "state", "a" * 32, lambda: MachineFiles("6.13", machine.root)).read() is None

    # A package with more modules was installed.
    modules = machine.root / "lib" / "modules" / RELEASE / "modules.dep"
    modules.parent.mkdir(parents=True)
    modules.write_text("kernel/net/sched/sch_netem.ko:\n")
    assert record.read() is None
    record.write(_answer())
    assert record.read() == HostKernel({})
    assert len(list((tmp_path / "state").iterdir())) == 1
    os.utime(modules, ns=(0, 0))
    assert record.read() is None


@pytest.mark.parametrize(
    ("kernel", "missing", "target"),
    [
        ("auto", None, "lab"),
        ("auto", {}, "host"),
        ("auto", {"nft": "no"}, "host"),
        ("auto", {"netem": "no"}, "lab"),
        ("host", {"netem": "no"}, "host"),
        ("lab", {}, "lab"),
    ],
)
def test_the_lab_kernel_steps_in_for_what_the_host_lacks(
    tmp_path: Path, kernel: str, missing: dict[str, str] | None, target: str
) -> None:
    images = Images(ROOT / "images", tmp_path)
    if missing is not None:
        images.host_kernel.write(_answer(**missing))
    assert images.sim_build(kernel, ("netem", "tbf")).target == target
    # Without a cell, a host must have everything.
    assert images.sim_build(kernel).target == ("lab" if missing and kernel == "auto" else target)


def test_labs_share_simulators_only_where_the_same_kernel_runs_them() -> None:
    def kind(kernel: str, **forward: Any) -> str:
        definition = scenario(path=path(forward=link(**forward)))
        return kind_of(build_lab(cell(definition).model_copy(update={"sim_kernel": kernel}), 0), Path("/runs"))

    assert kind("auto") != kind("auto", loss="1 %") != kind("auto", drop={"packets": [2]})
    assert kind("lab") == kind("lab", loss="1 %") == kind("lab", drop={"packets": [2]})


def test_published_images_run_on_the_lab_kernel_unless_the_user_says_otherwise() -> None:
    image = Image(reference="image", identity="identity")
    built, published = implementation("built", image=None, build="."), implementation("published")

    def kernel(*names: str, requested: str = "auto") -> str:
        players = {"built": built, "published": published}
        request = Request([scenario()], [players[names[0]]], [players[names[1]]], sim_kernel=requested)  # type: ignore[arg-type]
        return build_matrix(request, dict.fromkeys(players, image), image)[0].sim_kernel

    assert kernel("built", "built") == "auto"
    assert kernel("built", "published") == kernel("published", "built") == "lab"
    assert kernel("published", "published", requested="host") == "host"


# --- what the simulator makes of it


def _plan(kernel: str, setup: Sequence[Sequence[str]]) -> Plan:
    return Plan(
        kernel=kernel, addresses={}, neighbours=[], setup=[list(command) for command in setup], changes=[],
        wait_for=[], wait_seconds=1, port=443, sample_seconds=1, memory_mib=64,
    )  # fmt: skip


@pytest.fixture
def choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Choose the kernel of a path with a seeded loss, on a host that lacks features, in an image with a lab kernel."""
    (tmp_path / "linux").touch()
    (tmp_path / "linux.version").write_text("7.2.12\n")
    loss = ("tc", "qdisc", "add", "dev", "left", "root", "netem", "loss", "random", "1%", "seed", "1")

    def kernel(requested: str, *, lab: bool = True, **missing: str) -> dict[str, Any]:
        lacking = {name.replace("_", " "): why for name, why in missing.items()}
        monkeypatch.setattr(simulator_main, "LAB_KERNEL", tmp_path / ("linux" if lab else "none"))
        monkeypatch.setattr(
            simulator_main, "missing_features", lambda names: {name: lacking[name] for name in names if name in lacking}
        )
        return simulator_main.choose_kernel(_plan(requested, [loss]))

    return kernel


def test_the_simulator_takes_the_host_for_what_it_can(choose: Callable[..., dict[str, Any]]) -> None:
    assert choose("auto")["kernel"] == choose("auto", nft="no")["kernel"] == choose("host")["kernel"] == "host"
    assert choose("lab") == {"kernel": "lab", "release": "7.2.12", "host_lacks": None}
    assert choose("auto", netem="tc: unknown")["host_lacks"] == "no netem (tc: unknown)"


def test_a_seed_that_is_ignored_takes_the_lab_kernel_or_the_run_says_so(choose: Callable[..., dict[str, Any]]) -> None:
    assert choose("auto", netem_seed=SEED_IGNORED)["kernel"] == "lab"
    forced = choose("host", netem_seed=SEED_IGNORED)
    assert forced["kernel"] == "host"
    (warning,) = unrepeatable([{"event": "start"}, {"event": "kernel", **forced}])
    assert warning == f"another run loses other packets: {SEED_IGNORED}; --sim-kernel lab repeats them"
    assert unrepeatable([{"event": "kernel", **choose("host")}]) == unrepeatable([]) == ()


def test_a_kernel_that_cannot_is_refused(choose: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(CommandError, match=r"host kernel cannot run the path program: no netem \(tc: unknown\); "):
        choose("host", netem="tc: unknown", netem_seed=SEED_IGNORED)
    with pytest.raises(CommandError, match=r"this image has no lab kernel, and .* no netem seed "):
        choose("auto", lab=False, netem_seed=SEED_IGNORED)


def test_the_lab_kernels_own_discipline_is_not_looked_for() -> None:
    assert needed_features([["tc", "qdisc", "add", "dev", "x", "root", "serial", "rate", "1mbit"]]) == ("serial",)
    assert set(needed_features([["tc", "qdisc", "add", *FEATURES]])) >= {"netem", "tbf"}
    assert set(COMMON_FEATURES) < set(FEATURES)
    assert not {"dualpi2", "serial"} & set(COMMON_FEATURES)
    assert SEED_RELEASE == "6.6"
