"""What goes wrong in virtual time: one cell's outcome with a reason, nothing else lost, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.engine.kernel import OWN
from harness.engine.process_owner import lives
from harness.engine.virtual.uml_guest import Guest, guests
from tests.examples import ROOT
from tests.lab.conftest import Harness, Manifest, build_image
from tests.lab.test_faults import FAULTS, check_fault, faulty_image
from tests.lab.test_virtual_links import simulator_rootfs
from tests.polling import wait_for

VIRTUAL = ("--engine", "virtual")
NGTCP2 = ("--clients", "ngtcp2", "--servers", "ngtcp2")
SHORT = {"flows": [{"download": "100 kB"}], "milestones": ["100 kB"]}


#: Nobody else is in a guest: who is killed in there was killed by its own hand.
OWN_HAND = ("client-suicide", "crashed", "client", "exit code 137")
IN_GUESTS = [OWN_HAND if fault[0] == OWN_HAND[0] else fault for fault in FAULTS]


def _guests_of(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> list[int]:
    return [guest for guest, label in guests() if label.startswith(f"{process.pid}-")]


def _forsaken() -> list[int]:
    """Guests whose harness has ended."""
    return [guest for guest, label in guests() if not lives(label)]


@pytest.mark.parametrize(("fault", "status", "role", "words"), IN_GUESTS, ids=[item[0] for item in FAULTS])
def test_a_fault_is_one_outcome_and_the_matrix_goes_on(
    warm: Harness, harness: Harness, manifest: Manifest, fault: str, status: str, role: str, words: str
) -> None:
    check_fault(harness, manifest, fault, status, role, words, *VIRTUAL)
    assert _forsaken() == []


def test_a_clock_that_stands_still_names_the_program_that_spins(
    warm: Harness, harness: Harness, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_STALL", "3")
    file = manifest("spins", faulty_image("client-spin"), protocols=["h3"])
    words = ("--clients", "spins,ngtcp2", "--servers", "ngtcp2", "--manifest", str(file), "--repeat", "1")
    spins, sound = harness.cells(harness.scenario("fault", **SHORT), *words, *VIRTUAL)
    assert spins["outcomes"] == {"infrastructure": 1}
    assert "the clock stood still for 3 s" in spins["sentence"]
    assert "client0: /misbehave.sh" in spins["sentence"]
    assert sound["outcomes"] == {"completed": 1}
    assert _forsaken() == []


def test_a_guest_without_memory_ends_with_its_last_words(warm: Harness, harness: Harness, manifest: Manifest) -> None:
    file = manifest("eats", faulty_image("client-eat"), protocols=["h3"])
    words = ("--clients", "eats,ngtcp2", "--servers", "ngtcp2", "--manifest", str(file), "--repeat", "1")
    eats, sound = harness.cells(harness.scenario("fault", **SHORT), *words, *VIRTUAL)
    assert eats["outcomes"] == {"infrastructure": 1}
    assert "into the lab: Out of memory" in eats["sentence"]
    run = json.loads((Path(eats["evidence"][0]) / "run.json").read_text())
    assert "Kernel panic" in run["outcome"]["log_tail"][0]
    assert sound["outcomes"] == {"completed": 1}


def test_a_guest_that_panics_leaves_its_last_words(warm: Harness, tmp_path: Path) -> None:
    """A kernel whose init ends at once."""
    rootfs = simulator_rootfs()
    guest = Guest(rootfs / "opt/lab/linux", rootfs, memory_mib=128, seed=1, start_ns=10**18, core=0)
    console = tmp_path / "console.log"
    end = guest.run(["/bin/false"], tmp_path, console, stall=30, phase=lambda word: None, settings=OWN.settings)
    assert not end.said_over
    assert not end.spun
    assert "Kernel panic - not syncing: Attempted to kill init!" in (tmp_path / "console.log").read_text()


def test_a_guest_that_is_killed_is_run_again_and_loses_nothing_else(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("killed", flows=[{"download": "20 MB"}], milestones=["20 MB"])
    words = harness.command("run", case, *NGTCP2, "--repeat", "2", "--jobs", "1", "--json", *VIRTUAL)
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    wait_for(lambda: _guests_of(process))
    time.sleep(1)
    os.kill(_guests_of(process)[0], signal.SIGKILL)
    text, _ = process.communicate(timeout=300)
    cell = json.loads(text)["cells"][0]
    # It is run again, and the other is not lost.
    assert cell["outcomes"] == {"completed": 2}
    (killed,) = harness.store.glob("runs/*/replaced/*/run.json")
    outcome = json.loads(killed.read_text())["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("infrastructure", "killed")
    assert "give the same command again" in outcome["detail"]
    assert _forsaken() == []


@pytest.mark.alone  # another harness would remove what is left, and say so
def test_kill_9_of_the_harness_leaves_no_guest_after_the_next_command(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("orphan", flows=[{"download": "20 MB"}], milestones=["20 MB"])
    words = harness.command("run", case, *NGTCP2, "--repeat", "2", "--jobs", "2", *VIRTUAL)
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(_guests_of(process)) == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    place = Path(os.environ.get("TMPDIR") or "/dev/shm")
    assert list(place.glob(f"quic-lab.{process.pid}-*"))
    completed = harness.run(harness.scenario("next", **SHORT), *NGTCP2, "--repeat", "1", *VIRTUAL)
    assert f"quic-lab.{process.pid}-" in completed.stderr
    assert _forsaken() == []
    assert not list(place.glob(f"quic-lab.{process.pid}-*"))
    assert not list(harness.store.glob("partial/*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_guests(warm: Harness, harness: Harness, number: signal.Signals) -> None:
    case = harness.scenario("interrupted", flows=[{"download": "20 MB"}], milestones=["20 MB"])
    words = harness.command("run", case, *NGTCP2, "--repeat", "4", "--jobs", "2", *VIRTUAL)
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(_guests_of(process)) == 2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Go on with:\n  harness run" in errors
    assert _forsaken() == []
    assert not list(harness.store.glob("partial/*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_memory_that_may_not_be_executed_is_said_before_the_start(
    warm: Harness, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a guest whose memory is in that folder: one that is confined has a file system of its own."""
    place = tmp_path / "noexec"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(place)], check=True)
    monkeypatch.setenv("TMPDIR", str(place))
    words = (harness.scenario("noexec", **SHORT), *NGTCP2, "--repeat", "1", *VIRTUAL)
    try:
        assert harness.run(*words).returncode == 0
        monkeypatch.setenv("HARNESS_SANDBOX", "off")
        process = harness.run(*words, "--fresh")
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert process.returncode == 3
    assert f"{place} is mounted noexec" in process.stderr
    assert "hint: set TMPDIR" in process.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_fills_up_is_nobody_s_fault(warm: Harness, harness: Harness, manifest: Manifest) -> None:
    file = manifest("flood", faulty_image("client-flood"), protocols=["h3"])
    harness.store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(harness.store)], check=True)
    words = ("--clients", "flood", "--servers", "ngtcp2", "--manifest", str(file), "--repeat", "1")
    try:
        process = harness.run(harness.scenario("full", **SHORT), *words, *VIRTUAL)
    finally:
        subprocess.run(["umount", str(harness.store)], check=True)
    assert process.returncode == 3
    assert "the disk is full" in process.stderr


def _built(tag: str, dockerfile: str, folder: Path, *more: str) -> str:
    folder.mkdir()
    (folder / "Dockerfile").write_text(dockerfile)
    (folder / "start").write_text("#!/opt/there-is-no-such/interpreter\n")
    (folder / "start").chmod(0o755)
    return build_image(tag, folder, *more)


def test_an_image_for_another_machine_is_said_so_by_name(
    warm: Harness, harness: Harness, manifest: Manifest, tmp_path: Path
) -> None:
    text = 'FROM scratch\nCOPY start /start\nENTRYPOINT ["/start"]\n'
    tag = _built("quic-lab-test/arm:1", text, tmp_path / "context", "--platform", "linux/arm64")
    file = manifest("arm", tag)
    words = ("--clients", "arm", "--servers", "quic-go", "--manifest", str(file), "--repeat", "1")
    process = harness.run(harness.scenario("arm", **SHORT), *words, *VIRTUAL)
    assert process.returncode == 3
    assert f"the image {tag} is for arm64, and this machine is amd64" in process.stderr


def test_an_entry_point_that_needs_what_is_not_there_is_said_so_by_name(
    warm: Harness, harness: Harness, manifest: Manifest, tmp_path: Path
) -> None:
    text = 'FROM scratch\nCOPY start /start\nENTRYPOINT ["/start"]\n'
    tag = _built("quic-lab-test/lacks:1", text, tmp_path / "context")
    file = manifest("lacks", tag)
    words = ("--clients", "lacks", "--servers", "quic-go", "--manifest", str(file), "--repeat", "1")
    cell = harness.cell(harness.scenario("lacks", **SHORT), *words, *VIRTUAL)
    assert cell["outcomes"] == {"infrastructure": 1}
    assert f"{tag}: /start needs /opt/there-is-no-such/interpreter, which the image has not" in cell["sentence"]
