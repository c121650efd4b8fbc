"""picoquic's image: what stops its build, what it refuses, and the first pair that meets the satellite objectives."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.environment import open_app
from harness.engine.images.build import Build, Images
from harness.errors import EngineError
from tests.examples import ROOT
from tests.lab.conftest import Harness

WHEEL, HEADER = "requirements.txt", "src/picoquic.h"


@pytest.fixture
def changed(warm: Harness, tmp_path: Path) -> Callable[[str, str, str], str]:
    """Build the image with a text of one of its files replaced, and return what the build ends with."""
    images = Images(ROOT / "images", tmp_path / "state")
    real = images.build_of(*open_app().catalogue.implementations()["picoquic"])
    assert real is not None

    def build(file: str, text: str, replacement: str) -> str:
        folder = tmp_path / "picoquic"
        shutil.copytree(real.folder, folder)
        content = (folder / file).read_text()
        assert content.count(text) == 1
        (folder / file).write_text(content.replace(text, replacement))
        with pytest.raises(EngineError) as failed:
            images.make(Build("picoquic", folder, real.seconds, bases=real.bases), lambda name, seconds: None)
        assert "the image picoquic could not be built" in failed.value.message
        return failed.value.message

    return build


def test_another_wheel_stops_the_build(changed: Callable[[str, str, str], str]) -> None:
    text = changed(WHEEL, "sha256:28ce7140", "sha256:28ce7141")
    assert "28ce7141" in text, "what was expected"
    assert "28ce7140" in text, "what came"


def test_another_layout_stops_the_build(changed: Callable[[str, str, str], str]) -> None:
    text = changed(HEADER, "unused_before_rtt[184]", "unused_before_rtt[176]")
    assert "src/picoquic.h is not the picoquic of the wheel" in text
    assert "st_picoquic_path_t.cwin: 8 bytes at bit 8064 here, 8 bytes at bit 8128 there" in text


def picoquic(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program of the image alone."""
    build = open_app().images.build_of(*open_app().catalogue.implementations()["picoquic"])
    assert build is not None
    asked = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
    return subprocess.run(
        ["docker", "run", "--rm", "--network", "none", *asked, "--entrypoint", "picoquic-endpoint", build.reference, *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_processor_without_avx2_is_not_supported(warm: Harness) -> None:
    process = picoquic("client", "https://server4/1", GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2")
    assert process.returncode == 127
    assert "unsupported: this build of picoquic needs an x86-64-v3 processor" in process.stderr


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        # picoquic itself takes BBR for a name it does not know.
        (("--congestion-control=vegas", "https://server4/1"), "no such congestion control: vegas"),
        (("--initial-cwnd=1.5", "https://server4/1"), "--initial-cwnd=1.5: not a suitable number"),
        (("--pacing=off", "https://server4/1"), "unknown option: --pacing=off"),
        (("http://server4/1",), "not a usable URL: http://server4/1"),
        ((), "no URL"),
    ],
)
def test_what_it_does_not_know_it_refuses(warm: Harness, words: tuple[str, ...], refusal: str) -> None:
    process = picoquic("client", *words)
    assert (process.returncode, process.stderr) == (1, f"picoquic-endpoint: {refusal}\n")


def test_it_meets_the_objectives_of_the_medium_case(warm: Harness, harness: Harness) -> None:
    """The finding of N. Kuhn's slides: picoquic with picoquic does (2, 10 and 100 MB within 3, 5 and 20 s)."""
    words = ("--clients", "picoquic", "--servers", "picoquic", "--repeat", "1", "--engine", "virtual")
    cell = harness.cell("satellite/medium", *words)
    assert cell["verdict"] == "pass", cell["sentence"]
    # It starts from what the first connection learnt.
    times = {name: item["median"] for name, item in cell["measurements"].items()}
    assert times["repeat_milestone_100MB"] < times["milestone_100MB"]
