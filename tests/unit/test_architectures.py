"""Other processors than x86-64: what works, what is left out by name, and what is refused at once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from simulator.features import FEATURES

from harness.engine.docker.engine import ComposeEngine
from harness.engine.images.build import Images, why_unavailable
from harness.errors import EngineError
from harness.execution import App, CheckoutPaths, Options
from harness.execution.engines import create_engine
from tests.examples import ROOT


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """A checkout on a machine with an arm64 processor, and without images."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    for module in ("harness.execution.image_inventory", "harness.engine.images.build"):
        monkeypatch.setattr(f"{module}.inspect_image", lambda reference: None)
    return App(CheckoutPaths(ROOT, tmp_path / "store", tmp_path / "state", tmp_path / "cache"))


def test_virtual_time_is_refused_at_once_in_one_sentence(app: App) -> None:
    with pytest.raises(EngineError) as refused:
        create_engine("virtual", app.cache, Options())
    assert refused.value.message == "virtual time needs a processor of the kind x86-64, and this one is aarch64"
    assert refused.value.hint == "use --engine compose, which runs in real time"
    assert isinstance(create_engine("compose", app.cache, Options()), ComposeEngine)


def test_what_cannot_be_built_here_is_left_out_by_name(app: App) -> None:
    implementations = app.catalogue.implementations()
    assert app.inventory.unavailable()["picoquic"] == "it can be built for x86_64 alone, and this machine is aarch64"
    for name in ("ngtcp2", "quiche", "quic-go"):
        assert why_unavailable(implementations[name][0]) is None


def test_the_lab_kernel_is_not_built_and_what_the_host_lacks_is_named(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.engine.images.build.lacks_queues", lambda machine: True)
    images = app.images
    assert images.builds_before_settling() == [images.sim_build("host")]
    images.host_kernel.write(json.dumps(dict.fromkeys(FEATURES) | {"netem": "tc: unknown"}))
    with pytest.raises(
        EngineError, match=r"^the lab kernel is for x86-64 alone, and this machine is aarch64$"
    ) as refused:
        images.make(images.sim_build("auto"), lambda name, seconds: None)
    assert refused.value.hint.startswith("the host's kernel lacks netem (netem: ")


def test_the_lab_kernel_is_built_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("harness.engine.images.build.lacks_queues", lambda machine: True)
    images = Images(ROOT / "images", tmp_path)
    assert images.builds_before_settling() == [images.sim_build("host"), images.sim_build("lab")]


@pytest.mark.parametrize(("machine", "clients"), [("x86_64", "picoquic,ngtcp2"), ("aarch64", "ngtcp2")])
def test_make_run_asks_for_those_who_can_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, clients: str
) -> None:
    (tmp_path / "uname").write_text(f"#!/bin/sh\necho {machine}\n")
    (tmp_path / "uname").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CLIENTS", raising=False)
    printed = subprocess.run(
        ["make", "--no-print-directory", "--eval", "clients: ; @echo $(CLIENTS)", "clients"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert printed.stdout.strip() == f"{clients},quiche,quic-go"
