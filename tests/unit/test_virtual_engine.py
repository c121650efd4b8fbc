"""The pure parts of the virtual engine: what a guest is given, and what its diaries mean."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulator.container import Image, account, reason
from simulator.ports import mac
from simulator.shell import CommandError
from simulator.world import flows, masks, random_drawn, set_kernel

from harness.engine import EngineResult, Progress
from harness.engine.docker import supervisor
from harness.engine.images.cache import Cache
from harness.engine.images.rootfs_export import LockedRoots, RootFs
from harness.engine.kernel import Entry, LabKernel
from harness.engine.run_dir import cpu_of, kernel_of, random_bytes
from harness.engine.virtual import uml_guest as guests
from harness.engine.virtual.engine import UNPROTECTED, VirtualEngine, console_tail, outcome_of, transfers_of
from harness.engine.virtual.guest_config import guest_memory_mib, sample_ns, used_memory_mib, world_document
from harness.engine.virtual.uml_guest import Guest, GuestEnd, _StallDetector, ram_folder
from harness.errors import EngineError
from harness.outcome import Outcome
from harness.topology import Lab, build_lab
from tests.clocks import FakeClock
from tests.examples import cell, scenario
from tests.polling import wait_for


def rootfs(user: str = "") -> RootFs:
    return RootFs("alpha:1", "sha256:1", "sha256:1", "/exported/alpha", ["/run"], ["A=b"], "/", user, 15)


def lab() -> Lab:
    return build_lab(cell(scenario(flows=[{"download": "1 MB", "repeat_after": "5 s"}, {"download": "2 MB"}])), 0)


def images(of: Lab, user: str = "") -> dict[str, RootFs]:
    return {host.name: rootfs(user) for host in of.hosts}


def event(kind: str, host: str, **overrides: Any) -> dict[str, Any]:
    return {"event": kind, "t_ns": 1, "host": host, "index": 0, **overrides}


def test_the_guest_is_given_what_compose_gives_its_containers() -> None:
    built_lab = lab()
    world = world_document(built_lab, images(built_lab), 1000)
    assert world["folders"] == {"www": f"{guests.GUEST_DIR}/www", "certs": f"{guests.GUEST_DIR}/certs"}
    # What the guest reads is the same wherever images are kept.
    assert "/exported" not in json.dumps(world)
    assert [host["name"] for host in world["hosts"]] == [host.name for host in built_lab.hosts]
    for given, host in zip(world["hosts"], built_lab.hosts, strict=True):
        assert given["environment"] == host.environment
        assert given["addresses"] == [f"{host.ipv4}/24", f"{host.ipv6}/64"]
        assert given["hosts"] == {name: list(addresses) for name, addresses in host.hosts.items()}
    client = world["hosts"][0]
    assert (client["repeat_after"], client["file"]) == (5.0, "1MB.bin")
    # Whatever is in the file reaches a constructor of the guest's by name.
    assert Image(**client["image"]).command == ["/run"]


def test_both_engines_give_clients_the_same_times() -> None:
    late = {"stop": "4 s", "start": "1 s"}
    tested_scenario = scenario(
        flows=[{"download": "1 MB", "repeat_after": "5 s"}, {"stop": "3 s"}, late], objectives=[]
    )
    built_lab = build_lab(cell(tested_scenario), 0)
    built_lab = built_lab.model_copy(
        update={"flows": (*built_lab.flows[:2], built_lab.flows[2].model_copy(update={"kind": "tcp"}))}
    )
    world = world_document(built_lab, images(built_lab), 1000)
    given = flows(world["hosts"], world["client_end"])
    assert given == supervisor.lifecycle_flows(built_lab)
    assert [(flow.start, flow.stop, flow.repeat_after, flow.time_limit, flow.patience) for flow in given] == [
        (0, None, 5, 120, 5),
        (0, 3, None, 3 + 10, 5),
        # A generator ends by itself; it has a while for the last of its data.
        (1, None, None, 3 + 10, 5),
    ]


def test_an_endpoint_that_is_not_root_writes_to_memory_that_is_there() -> None:
    built_lab = lab()
    assert all(host["as_root"] for host in world_document(built_lab, images(built_lab), 1)["hosts"])
    assert not any(host["as_root"] for host in world_document(built_lab, images(built_lab, "app"), 1)["hosts"])
    more = guest_memory_mib(built_lab, images(built_lab, "1000:1000")) - guest_memory_mib(
        built_lab, images(built_lab, "0:0")
    )
    # Two hosts a flow; 1 MB twice and 2 MB once, and as much again of logs.
    assert more == 2 * 2 * (2_000_000 + 2_000_000) // 2**20


def test_a_guest_of_many_endpoints_has_memory_for_them_and_needs_what_it_uses() -> None:
    def sizes(count: int) -> tuple[int, int]:
        many = build_lab(cell(scenario(flows=[{"download": "1 MB", "count": count}], objectives=[])), 0)
        memory = guest_memory_mib(many, images(many))
        return memory, used_memory_mib(many, memory)

    (single, used_by_one), (fifty, _), (hundred, _), (most, used_by_most) = map(sizes, (1, 50, 100, 500))
    # Up to fifty flows a guest has what it always had: its size is part of what its random numbers start from.
    assert fifty - single == 98 * 160 and hundred - fifty == 100 * 32
    assert used_by_one < single and used_by_most < 6 << 10 < most < 48 << 10


def test_kernels_are_set_as_asked_and_have_memory_for_it(tmp_path: Path) -> None:
    built_lab = lab()
    asked = {"net.ipv4.tcp_wmem": "4096 16384 33554432"}
    first, *others = built_lab.hosts
    larger = built_lab.model_copy(update={"hosts": (first.model_copy(update={"sysctls": asked}), *others)})
    hosts = world_document(larger, images(built_lab), 1)["hosts"]
    assert hosts[0]["sysctls"] == asked and not any("sysctls" in host for host in hosts[1:])
    # The kernel lets TCP have a sixteenth of its memory before it saves.
    assert guest_memory_mib(larger, images(built_lab)) - guest_memory_mib(built_lab, images(built_lab)) == 16 * 32
    (tmp_path / "net/ipv4").mkdir(parents=True)
    file = tmp_path / "net/ipv4/tcp_wmem"
    file.touch()
    set_kernel(asked, tmp_path)
    assert file.read_text() == "4096 16384 33554432"
    with pytest.raises(CommandError, match=r"sysctl net\.ipv4\.none=1: No such file"):
        set_kernel({"net.ipv4.none": "1"}, tmp_path / "none")
    (tmp_path / "net/ipv4/kept").symlink_to("/dev/null")
    with pytest.raises(CommandError, match=r"net\.ipv4\.kept=5: the kernel made nothing of it"):
        set_kernel({"net.ipv4.kept": "5"}, tmp_path)


@pytest.mark.parametrize(
    ("events", "simulator", "status", "reason", "blamed"),
    [
        ([event("ended", "client0", exit_code=0)], [], "completed", "", ""),
        ([event("ended", "client1", exit_code=7)], [], "crashed", "exit_7", "client1"),
        ([event("ended", "server0", exit_code=0)], [], "crashed", "exit_0", "server0"),
        ([event("ended", "client0", exit_code=127)], [], "unsupported", "exit_127", "client0"),
        ([event("timed_out", "client0", stage="transferring")], [], "timed_out", "timed_out", "client0"),
        ([event("overflowed", "server1")], [], "log_overflow", "log_overflow", "server1"),
        ([event("unable", "client0", message="is not in the image")], [], "infrastructure", "unable", "client0"),
        ([], [{"event": "failed", "reason": "NotReadyError", "message": "no answer"}], "crashed", "no_answer", "server0"),
        ([], [{"event": "failed", "reason": "CommandError", "message": "tc"}], "infrastructure", "infrastructure", ""),
    ],
)  # fmt: skip
def test_diaries_become_outcomes(
    events: list[dict[str, Any]], simulator: list[dict[str, Any]], status: str, reason: str, blamed: str
) -> None:
    outcome, who = outcome_of(lab(), events, simulator)
    assert (outcome.status, outcome.reason, who) == (status, reason, blamed)


@pytest.mark.parametrize(("rate", "period"), [("250 Mbit/s", 2.0), ("10 Mbit/s", 4.8448), ("1 Mbit/s", 10.0)])
def test_file_sizes_are_sampled_as_fast_as_frames_come(rate: str, period: float) -> None:
    link = {"rate": rate, "delay": "20 ms", "queue": "1 BDP"}
    built_lab = build_lab(cell(scenario(path={"forward": link, "return": link})), 0)
    assert sample_ns(built_lab) == period * 1e6


def test_transfers_are_those_that_ended() -> None:
    events = [
        {**event("started", "server0"), "t_ns": 5},
        {**event("started", "client0"), "t_ns": 10},
        {**event("started", "client1"), "t_ns": 11},
        {**event("ended", "client0", exit_code=0), "t_ns": 20},
        {**event("started", "client0"), "t_ns": 30, "index": 1},
        {**event("timed_out", "client0"), "t_ns": 40, "index": 1},
    ]
    transfers = transfers_of(lab(), events)
    assert [(item.flow, item.index, item.started_ns, item.ended_ns, item.exit_code) for item in transfers] == [
        (0, 0, 10, 20, 0),
        (0, 1, 30, 40, None),
    ]


def test_of_a_panic_the_first_lines_are_shown(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    console = tmp_path / "sim" / "console.log"
    trace = [f"frame {number}" for number in range(40)]
    console.write_text("\n".join(["hello", "Kernel panic - not syncing: Out of memory", *trace]))
    assert console_tail(tmp_path)[:2] == ("Kernel panic - not syncing: Out of memory", "frame 0")
    console.write_text("\n".join(trace))
    assert console_tail(tmp_path)[-1] == "frame 39"


def test_memory_is_looked_for_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert ram_folder(1) == tmp_path
    with pytest.raises(EngineError, match=r"needs .* MiB at least"):
        ram_folder(1 << 60)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(EngineError, match="nowhere"):
        ram_folder(1)


def test_no_folder_of_this_machine_is_on_the_guest_s_command_line() -> None:
    """The kernel mixes its command line into its random numbers."""
    guest = Guest(Path("/a/kernel"), Path("/b/rootfs"), 128, 1, 0, core=0)
    kernel, *words = guest.command(["/bin/init", guests.LAB])
    assert kernel == "/a/kernel"
    assert not [word for word in words if "/a/" in word or "/b/" in word]


def test_users_of_images(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n")
    (tmp_path / "group").write_text("root:x:0:\nstaff:x:50:\n")
    assert account("", tmp_path) == (0, 0, "/root")
    assert account("app", tmp_path) == (1000, 1001, "/home/app")
    assert account("1000", tmp_path) == (1000, 1001, "/home/app")
    assert account("app:staff", tmp_path) == (1000, 50, "/home/app")
    assert account("77:88", tmp_path) == (77, 88, "/")
    with pytest.raises(Exception, match="no user nobody"):
        account("nobody", tmp_path)


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (None, FileNotFoundError(), "is not in the image"),
        (b"#!/opt/perl6 -w\n", FileNotFoundError(), "needs /opt/perl6, which the image has not"),
        (b"\x7fELF....\0/lib/ld-musl-x86_64.so.1\0", FileNotFoundError(), "needs /lib/ld-musl-x86_64.so.1"),
        (b"\x7fELF", OSError(8, "Exec format error"), "neither a program for this machine nor a script"),
        (b"", PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_why_a_command_does_not_start(tmp_path: Path, content: bytes | None, error: OSError, words: str) -> None:
    program = tmp_path / "start"
    if content is not None:
        program.write_bytes(content)
    image = Image("alpha:1", "/", [str(program)], [], "/", "", 15)
    assert words in reason(image, error)
    assert "alpha:1" in reason(image, error)


def test_mac_addresses_are_those_docker_derives() -> None:
    assert mac(["fd00::1/64", "193.167.0.100/24"]) == "02:42:c1:a7:00:64"


def test_a_guest_is_found_by_who_started_it() -> None:
    """This process has no owner's name in its environment."""
    assert os.getpid() not in [process for process, _ in guests.guests()]


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock by which guests are watched."""
    clock = FakeClock()
    monkeypatch.setattr(guests, "time", SimpleNamespace(monotonic=clock))
    return clock


def _await_states(guest: subprocess.Popen[bytes], states: str) -> None:
    """Wait until a guest's processes are in these states (proc_pid_stat(5))."""
    wait_for(lambda: sorted(process.state for process in guests._group_stats(guest.pid).values()) == sorted(states))


@pytest.mark.parametrize(
    ("program", "stands_still"), [("while True: pass", True), ("import time; print(flush=True); time.sleep(60)", False)]
)
def test_a_guest_that_waits_for_its_turn_does_not_stand_still(
    wall: FakeClock, program: str, stands_still: bool
) -> None:
    """What counts is the guest's own CPU time: on a busy machine it may take far longer by the wall's clock."""
    guest = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
    try:
        stillness = _StallDetector(guest.pid, stall=0.4)
        wall.now = 0.2
        if stands_still:
            wait_for(stillness.too_long)
        else:
            assert guest.stdout is not None and guest.stdout.readline()
            _await_states(guest, "S")
        for wall.now in (1.5, 3.9):
            assert stillness.too_long() is stands_still
        wall.now = 4.0
        assert stillness.too_long(), "after ten times as long, whatever it does"
        stillness.moved()
        assert not stillness.too_long()
    finally:
        guest.kill()
        guest.communicate()


@pytest.mark.parametrize(
    ("program", "states", "asleep"),
    [
        # A child that ended, which nobody reaps.
        ("import os, time\nif os.fork():\n    time.sleep(60)", "SZ", True),
        ("import os, time\nif os.fork():\n    time.sleep(60)\nwhile os.getppid() != 1:\n    pass", "SR", False),
        ("import time\ntime.sleep(60)", "T", False),
    ],
    ids=["sleeps", "computes", "stopped"],
)
def test_a_guest_that_sleeps_for_good_is_told_from_one_that_is_held_up(
    monkeypatch: pytest.MonkeyPatch, wall: FakeClock, program: str, states: str, asleep: bool
) -> None:
    monkeypatch.setattr(guests, "ASLEEP", 0.3)
    guest = subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=True)
    try:
        if states == "T":
            guest.send_signal(signal.SIGSTOP)
        _await_states(guest, states)
        stillness = _StallDetector(guest.pid, stall=2)
        wall.now = 1.0
        assert not stillness.too_long() and not stillness.asleep(), "sleep counts from the first look on"
        for wall.now in (1.4, 1.8):
            assert not stillness.too_long()
            assert stillness.asleep() is asleep
        stillness.moved()
        assert not stillness.asleep()
    finally:
        os.killpg(guest.pid, signal.SIGKILL)
        guest.wait()


def test_a_guest_that_slept_for_good_is_the_ground_s_fault(tmp_path: Path) -> None:
    engine, end = VirtualEngine(Cache(tmp_path), []), GuestEnd(said_over=False, clock=1.25, phases={}, asleep=True)
    outcome, blamed = engine._outcome(lab(), tmp_path, end, [], kills=0)
    assert (outcome.status, outcome.role, outcome.reason, blamed) == ("infrastructure", "sim", "killed", "")
    assert outcome.detail is not None
    assert "1.2 s into the lab" in outcome.detail
    assert "give the same command again" in outcome.detail


KERNEL_ENDED = "the lab kernel ended 1.2 s into the lab: "
OVERWRITTEN = f"{KERNEL_ENDED}client0: wild wrote into the kernel's memory"
IN_PROCESS = f"inproc: {UNPROTECTED}, huge pages"


@pytest.mark.parametrize(
    ("detail", "reason", "entered", "entries"),
    [
        (OVERWRITTEN, "kernel_ended", IN_PROCESS, [None, "host"]),
        (f"{KERNEL_ENDED}Kernel mode fault at addr 0x8", "kernel_ended", IN_PROCESS, [None, "host"]),
        (f"{KERNEL_ENDED}Kernel mode fault at addr 0x8", "kernel_ended", "inproc, huge pages", [None]),
        (f"{KERNEL_ENDED}Out of memory: system-wide", "kernel_ended", IN_PROCESS, [None]),
        ("the clock stood still for 60 s of CPU time", "clock_stood_still", IN_PROCESS, [None]),
        (KERNEL_ENDED, "kernel_ended", "host: there is no syscall user dispatch, small pages", [None]),
    ],
)
def test_a_kernel_that_a_program_may_have_overwritten_runs_again_beside_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detail: str, reason: str, entered: str, entries: list[Entry | None]
) -> None:
    asked: list[Entry | None] = []

    def run(engine: VirtualEngine, lab: Lab, folder: Path, progress: Progress, roots: object, kernel: LabKernel) -> Any:
        asked.append(kernel.entry)
        assert not list(folder.iterdir()), "what the run before has left is gone"
        (folder / "console.log").touch()
        if kernel.entry == "host":
            return EngineResult(Outcome(status="completed"), warnings=("slow",), entered="host: , huge pages")
        return EngineResult(Outcome(status="infrastructure", reason=reason, detail=detail), entered=entered)

    monkeypatch.setattr(VirtualEngine, "_run", run)
    monkeypatch.setattr(VirtualEngine, "_prepared", lambda *_: LockedRoots({}, ()))
    folder = tmp_path / "run"
    folder.mkdir()
    result = VirtualEngine(Cache(tmp_path / "cache"), []).run(lab(), folder, lambda phase: None)
    assert asked == entries
    if len(entries) == 1:
        assert (result.outcome.reason, result.warnings) == (reason, ())
    else:
        assert result.outcome.status == "completed"
        assert result.warnings == (
            "slow",
            f"{detail}: without protection keys of the processor a program can overwrite that kernel, so the run was "
            "made again with programs in other processes",
        )


def test_what_differs_between_processors_is_masked() -> None:
    plain = Image("alpha:1", "/", ["/run"], ["A=b"], "/", "", 15)
    own = Image("alpha:1", "/", ["/run"], ["OPENSSL_ia32cap=0"], "/", "", 15)
    assert masks(plain) == {
        "OPENSSL_ia32cap": "~0x4000000000000000:~0x40000",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL",
    }
    assert masks(own).keys() == {"GLIBC_TUNABLES"}


def test_what_endpoints_drew_is_read_from_the_kernel_and_kept(tmp_path: Path) -> None:
    text = f"(none) 16 {'0' * 64}\nclient0 4711 {'a' * 64}\n 8 {'b' * 64}\n"
    drawn = random_drawn(text)
    assert drawn["client0"] == {"bytes": 4711, "digest": "a" * 64}
    assert random_bytes(tmp_path) == {}
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "random.json").write_text(json.dumps(drawn))
    assert random_bytes(tmp_path)["client0"].bytes == 4711
    assert set(random_bytes(tmp_path)) == {"(none)", "client0", ""}


def test_whose_processor_a_run_had_is_in_its_diary() -> None:
    kernel = {"event": "kernel", "kernel": "lab", "release": "7.2.12"}
    assert cpu_of([{"event": "start"}, {**kernel, "cpu": "lab"}]) == "lab"
    assert cpu_of([kernel]) is None
    assert kernel_of([kernel]) == "lab 7.2.12"


def test_the_kernel_s_own_settings_and_the_folders_reach_a_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest's kernel is a program: here one that says what it was given."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HARNESS_SANDBOX", "off")
    kernel = tmp_path / "kernel"
    kernel.write_text('#!/bin/sh\necho "$LAB_CPU $LAB_SEED $(umask) $(cat www/file)"\n')
    kernel.chmod(0o755)
    www = tmp_path / "cache"
    www.mkdir()
    (www / "file").write_text("served")
    guest = Guest(kernel, tmp_path, 1, 5, 0, core=min(os.sched_getaffinity(0)))
    console = tmp_path / "console"
    guest.run(["/init"], tmp_path, console, 60, lambda word: None, folders={"www": www}, settings={"LAB_CPU": "host"})
    assert console.read_text().split() == ["host", "5", "0000", "served"]
