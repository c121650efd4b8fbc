"""What keeps guests to their folders: how it is asked for, what it is told, and what is said of a guest that left."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from harness.engine.external_failures import starvation
from harness.engine.images.cache import Cache
from harness.engine.virtual import uml_guest as guests
from harness.engine.virtual.engine import FORBIDDEN, VirtualEngine
from harness.engine.virtual.sandbox import BASE, Sandbox, Sandboxes, SharedFolder, is_enabled, sandbox_command
from harness.engine.virtual.uml_guest import Guest, GuestEnd, require_memory
from harness.errors import EngineError
from harness.topology import build_lab
from tests.escapes import ATTEMPTS, ENDED
from tests.examples import ROOT, cell, scenario

DOCS = ROOT / "docs" / "untrusted.md"
#: A sandbox that offers what SANDBOX says, and runs nothing.
STAND_IN = """#!/bin/sh
case "$*" in
  *"--base {base}"*) echo "namespaces: an idmapped mount: Operation not supported"; echo failed >&2; exit 125;;
  *"--base 0"*) echo "landlock: landlock(7): Function not implemented"; exit 0;;
  *) echo "namespaces: a user namespace: Operation not permitted"; exit {otherwise};;
esac
"""


def stand_in(folder: Path, otherwise: int = 0) -> Path:
    program = folder / "sandbox"
    program.write_text(STAND_IN.format(base=BASE, otherwise=otherwise))
    program.chmod(0o755)
    return program


def test_a_host_is_given_the_best_that_it_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"rootfs": SharedFolder(tmp_path), "lab": SharedFolder(tmp_path, writable=True)}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    sandbox = Sandboxes().of(stand_in(tmp_path), tmp_path / "linux", places)
    assert sandbox.options == ("--base", "0") and sandbox.own_memory
    assert sandbox.text == (
        "on; without namespaces: an idmapped mount: Operation not supported; "
        "without landlock: landlock(7): Function not implemented"
    )


def test_a_host_is_tried_once(tmp_path: Path) -> None:
    sandboxes, places = Sandboxes(), {"lab": SharedFolder(tmp_path, writable=True)}
    program = stand_in(tmp_path)
    first = sandboxes.of(program, tmp_path / "linux", places)
    program.unlink()
    assert sandboxes.of(program, tmp_path / "linux", places) is first


def test_a_host_that_offers_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError, match="cannot be confined") as caught:
        Sandboxes().of(stand_in(tmp_path, otherwise=125), tmp_path / "linux", {"lab": SharedFolder(tmp_path)})
    assert "HARNESS_SANDBOX=off" in caught.value.hint
    with pytest.raises(EngineError, match=r"cannot be confined.*nowhere"):
        Sandboxes().of(tmp_path / "nowhere", tmp_path / "linux", {"lab": SharedFolder(tmp_path)})


def test_only_a_word_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for word, on in (("", True), ("on", True), ("off", False)):
        monkeypatch.setenv("HARNESS_SANDBOX", word)
        assert is_enabled() == on
    monkeypatch.setenv("HARNESS_SANDBOX", "no")
    with pytest.raises(EngineError, match="HARNESS_SANDBOX: 'no'"):
        is_enabled()


def test_a_guest_may_write_its_own_folder_alone(tmp_path: Path) -> None:
    places = {"rootfs": SharedFolder(tmp_path / "image"), "lab": SharedFolder(tmp_path / "run", writable=True)}
    words = sandbox_command(Path("/s"), Sandbox(("--base", "7"), ()), ["/k", "mem=1M"], places, 1 << 20, 3, 9)
    assert words[:5] == ["/s", "--folder", f"rootfs={tmp_path / 'image'}", "--writable", f"lab={tmp_path / 'run'}"]
    assert words[-5:] == ["--base", "7", "--", "/k", "mem=1M"]
    assert words[words.index("--core") + 1] == "3" and words[words.index("--report") + 1] == "9"


def test_a_guest_that_fills_memory_or_the_disk_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is a program: here one that writes, or holds, without end."""
    monkeypatch.setenv("HARNESS_SANDBOX", "off")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(guests, "LOOK", 0.05)
    monkeypatch.setattr(guests, "PRIVATE", 64 << 20)
    kernel = tmp_path / "kernel"
    for name, program, words in (
        ("disk", "while :; do echo @0; head -c 1000000 /dev/zero >>lab/full; done", "of the disk"),
        ("memory", f"{sys.executable} -c 'import time; held = bytearray(200 << 20); time.sleep(60)'", "of memory"),
    ):
        lab = tmp_path / name
        lab.mkdir()
        kernel.write_text(f"#!/bin/sh\n{program}\n")
        kernel.chmod(0o755)
        guest = Guest(kernel, tmp_path, 1, 5, 0, core=min(os.sched_getaffinity(0)))
        end = guest.run(["/init"], lab, tmp_path / "console", 60, lambda word: None, disk=4_000_000)
        assert words in end.exceeded, end


def test_a_guest_is_ended_before_the_machine_has_no_memory_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HARNESS_SANDBOX", "off")
    monkeypatch.setattr(guests, "LOOK", 0.1)
    monkeypatch.setattr(guests, "free_memory", lambda: 1 << 20)
    kernel = tmp_path / "kernel"
    kernel.write_text("#!/bin/sh\nwhile :; do echo @0; sleep 0.05; done\n")
    kernel.chmod(0o755)
    guest = Guest(kernel, tmp_path, 1, 5, 0, core=min(os.sched_getaffinity(0)))
    end = guest.run(["/init"], tmp_path, tmp_path / "console", 60, lambda word: None)
    assert end.starved and not end.exceeded and not end.said_over
    assert "hardly any memory left" in starvation("the lab kernel").detail


def test_the_kernel_is_told_from_its_sandbox_and_its_programs() -> None:
    def process(name: str, parent: int) -> guests._ProcessStat:
        return guests._ProcessStat(name, "R", parent, 1, 0)

    confined = {
        1: process("sandbox", 0), 2: process("sandbox", 1), 3: process("linux", 2), 4: process("uml-userspace", 3),
    }  # fmt: skip
    assert guests._kernel(1, confined) == 3
    assert (
        guests._kernel(3, {number: confined_process for number, confined_process in confined.items() if number > 2})
        == 3
    )


def test_memory_of_the_machine_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    require_memory(1)
    with pytest.raises(EngineError, match="of memory left") as caught:
        require_memory(1 << 60)
    assert "--jobs" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "role", "status"), [("client0", "client", "crashed"), ("(none)", "sim", "infrastructure")]
)  # fmt: skip
def test_a_run_names_the_program_that_left_its_guest(tmp_path: Path, name: str, role: str, status: str) -> None:
    """From the last words of a kernel whose program the filter of system calls ended."""
    lab = build_lab(cell(scenario()), 0)
    console = tmp_path / "sim" / "console.log"
    console.parent.mkdir()
    console.write_text(f"Kernel panic - not syncing: lost the process of the host behind {name}: evil: {FORBIDDEN}\n")
    end = GuestEnd(said_over=False, clock=1.5, phases={})
    outcome, _ = VirtualEngine(Cache(tmp_path), [])._outcome(lab, tmp_path, end, [], 0)
    assert (outcome.status, outcome.role, outcome.reason) == (status, role, "left_guest")
    assert f"evil in {name}" in outcome.detail


def test_every_promise_has_its_test() -> None:
    """Of the table in SECURITY.md."""
    places = re.findall(r"`(tests/\S+?\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text())
    assert len(places) > 15
    for file, name in places:
        assert not name or re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), (file, name)


def test_the_docs_have_a_row_for_each_attempt_to_escape() -> None:
    rows = {cells[1].strip(): cells for line in DOCS.read_text().splitlines() if len(cells := line.split("|")) == 5}
    for attempt in ATTEMPTS:
        assert attempt.does in rows, attempt.does
        _, _, inside, outside, _ = (cell.strip() for cell in rows[attempt.does])
        assert outside == "ended"
        assert ("ended" in inside) == (attempt.result == ENDED), attempt.does
