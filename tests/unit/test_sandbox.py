"""What keeps guests to their folders: how it is asked for, what it is told, and what is said of a guest that left."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.engines import guest as guests
from harness.engines.guest import Guest, require_memory
from harness.engines.sandbox import BASE, Place, Sandbox, Sandboxes, sandbox_command, wanted
from harness.errors import EngineError
from tests.escapes import ATTEMPTS, ENDED

DOCS = Path(__file__).parents[2] / "docs" / "untrusted.md"
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
    places = {"rootfs": Place(tmp_path), "lab": Place(tmp_path, writable=True)}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    sandbox = Sandboxes().of(stand_in(tmp_path), tmp_path / "linux", places)
    assert sandbox.options == ("--base", "0") and sandbox.own_memory
    assert sandbox.text == (
        "on; without namespaces: an idmapped mount: Operation not supported; "
        "without landlock: landlock(7): Function not implemented"
    )


def test_a_host_is_tried_once(tmp_path: Path) -> None:
    sandboxes, places = Sandboxes(), {"lab": Place(tmp_path, writable=True)}
    program = stand_in(tmp_path)
    first = sandboxes.of(program, tmp_path / "linux", places)
    program.unlink()
    assert sandboxes.of(program, tmp_path / "linux", places) is first


def test_a_host_that_offers_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError, match="cannot be confined") as caught:
        Sandboxes().of(stand_in(tmp_path, otherwise=125), tmp_path / "linux", {"lab": Place(tmp_path)})
    assert "HARNESS_SANDBOX=off" in caught.value.hint
    with pytest.raises(EngineError, match=r"cannot be confined.*nowhere"):
        Sandboxes().of(tmp_path / "nowhere", tmp_path / "linux", {"lab": Place(tmp_path)})


def test_only_a_word_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for word, on in (("", True), ("on", True), ("off", False)):
        monkeypatch.setenv("HARNESS_SANDBOX", word)
        assert wanted() == on
    monkeypatch.setenv("HARNESS_SANDBOX", "no")
    with pytest.raises(EngineError, match="HARNESS_SANDBOX: 'no'"):
        wanted()


def test_a_guest_may_write_its_own_folder_alone(tmp_path: Path) -> None:
    places = {"rootfs": Place(tmp_path / "image"), "lab": Place(tmp_path / "run", writable=True)}
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


def test_memory_of_the_machine_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    require_memory(1)
    with pytest.raises(EngineError, match="of memory left") as caught:
        require_memory(1 << 60)
    assert "--jobs" in caught.value.hint


def test_the_docs_have_a_row_for_each_attempt_to_escape() -> None:
    rows = {cells[1].strip(): cells for line in DOCS.read_text().splitlines() if len(cells := line.split("|")) == 5}
    for attempt in ATTEMPTS:
        assert attempt.does in rows, attempt.does
        _, _, inside, outside, _ = (cell.strip() for cell in rows[attempt.does])
        assert outside == "ended"
        assert ("ended" in inside) == (attempt.result == ENDED), attempt.does
