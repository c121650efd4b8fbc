"""The kinds of faults: what is done, to what, when, and how a command that it happens to may end.

What holds after every one of them is in `trial`, and not repeated here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.cli.signals import FAILED, INFRASTRUCTURE, INTERRUPTED, MET, NOTHING
from harness.outcome import EngineName
from tests.chaos import targets
from tests.chaos.damage import (
    damaging,
    emptied,
    fill,
    forget_exports,
    in_cache,
    in_store,
    read_only,
    remove_under_way,
    small_disk,
)
from tests.chaos.scene import Inject, at_moment_of
from tests.chaos.strikes import docker, freeze, freeze_for_good, interrupt, pause, second, strike
from tests.chaos.targets import GUEST, HARNESS, TRANSFER

#: How a command may end that the ground fails under. Whether a 0 is the truth is looked at apart.
GROUND = frozenset({MET, FAILED, INFRASTRUCTURE})
WELL = frozenset({MET})
KILLED = frozenset({-signal.SIGKILL})
#: What is interrupted may have come to its end at that moment.
INTERRUPTS = frozenset({INTERRUPTED, MET})
EITHER = KILLED | GROUND
MB = 1_000_000

#: Of the files that a guest runs from: its kernel, what it starts with, the endpoint's program and what that is linked
#: with, and what the cache says of them.
KERNEL = "**/opt/lab/linux"
INIT = ("**/opt/lab/simulator/world.py", "**/usr/lib/python3*/os.py", "**/usr/bin/python3")
LIBRARIES = ("**/lib/x86_64-linux-gnu/libngtcp2.so.*", "**/lib/x86_64-linux-gnu/libnghttp3.so.*",
             "**/lib/x86_64-linux-gnu/libgnutls.so.*", "**/lib/x86_64-linux-gnu/libev.so.*")  # fmt: skip
PROGRAMS = ("**/usr/bin/gtlsclient", "**/usr/bin/gtlsserver", "**/run_endpoint.sh")
CAPTURES = ("sim/captures*", "sim/counters*", "growth*")


@dataclass(frozen=True)
class Kind:
    """One kind of fault."""

    name: str
    engine: EngineName
    during: Inject | None = None
    """Done while the command is at work."""
    before: tuple[Inject, ...] = ()
    """Done before it is given."""
    verb: str = "run"
    """The command that is disturbed."""
    exit_codes: frozenset[int] = GROUND
    """Exit codes it may end with; negative for a signal."""
    must_complete: bool = False
    """It must come to the end that it has undisturbed."""
    may_refuse: bool = False
    """The next command may refuse, if it says what to remove."""
    exclusive: bool = False
    """Nothing may go on beside it: what it leaves could not be told from what others have."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the command that is disturbed."""
    needs_root: bool = False
    """It takes root to do."""

    def possible(self) -> bool:
        """Whether this user can do it."""
        return not self.needs_root or os.geteuid() == 0


def _of_processes() -> list[Kind]:
    """In virtual time: the harness and its guests."""
    return [
        Kind("kill -9 of the harness", "virtual", strike(HARNESS), exit_codes=KILLED),
        Kind("kill -9 of the harness during a transfer", "virtual", strike(TRANSFER), exit_codes=KILLED),
        Kind("kill -9 of a guest", "virtual", strike(GUEST)),
        Kind("SIGTERM to a guest", "virtual", strike(GUEST, signal.SIGTERM)),
        Kind("kill -9 of a program in a guest", "virtual", strike(targets.INSIDE)),
        Kind("a guest stands still for a while", "virtual", freeze(GUEST, 0.5, 4, group=True), exit_codes=WELL, must_complete=True),
        Kind("a guest's kernel stands still for a while", "virtual", freeze(GUEST, 0.5, 4), exit_codes=WELL, must_complete=True),
        Kind("a program in a guest stands still for a while", "virtual", freeze(targets.INSIDE, 0.5, 4), exit_codes=WELL,
             must_complete=True),
        Kind("a guest stands still for good", "virtual", freeze_for_good(GUEST, group=True),
             settings={"HARNESS_STALL": "1"}),
        Kind("the harness stands still for a while", "virtual", freeze(HARNESS, 0.5, 4), exit_codes=WELL, must_complete=True),
        Kind("Ctrl-C", "virtual", interrupt(HARNESS), exit_codes=INTERRUPTS),
        Kind("Ctrl-C during a transfer", "virtual", interrupt(TRANSFER), exit_codes=INTERRUPTS),
        Kind("Ctrl-C twice", "virtual", interrupt(HARNESS, 2), exit_codes=INTERRUPTS),
        Kind("Ctrl-C twice during a transfer", "virtual", interrupt(TRANSFER, 2), exit_codes=INTERRUPTS),
        Kind("SIGTERM to the harness", "virtual", interrupt(HARNESS, 1, signal.SIGTERM), exit_codes=INTERRUPTS),
        Kind("SIGHUP to the harness", "virtual", interrupt(HARNESS, 1, signal.SIGHUP), exit_codes=INTERRUPTS),
        Kind("Ctrl-C of a report", "virtual", interrupt(HARNESS), verb="report", exit_codes=INTERRUPTS),
        Kind("two harnesses on one store", "virtual", second(HARNESS), exit_codes=WELL, must_complete=True),
        Kind("two harnesses on one store, one killed", "virtual", second(HARNESS, end=signal.SIGKILL), exit_codes=EITHER),
    ]  # fmt: skip


def _of_disks() -> list[Kind]:
    """In virtual time: disks that are full, or take nothing."""
    return [
        Kind("the store's disk fills up", "virtual", fill("store", GUEST), (small_disk("store", 400 * MB),), needs_root=True),
        Kind("the store's disk fills up at any time", "virtual", fill("store", HARNESS),
             (small_disk("store", 400 * MB),), needs_root=True),
        Kind("the store's disk is full", "virtual", before=(small_disk("store", 400 * MB), fill("store", None)),
             exit_codes=frozenset({INFRASTRUCTURE}), needs_root=True),
        Kind("the store's disk is full for a report", "virtual", verb="report", exit_codes=WELL, must_complete=True, needs_root=True,
             before=(small_disk("store", 400 * MB), fill("store", None))),
        Kind("the cache's disk is full", "virtual", before=(small_disk("cache", 8 * MB), fill("cache", None)),
             exit_codes=frozenset({INFRASTRUCTURE}), needs_root=True),
        Kind("the guests' memory fills up", "virtual", fill("memory", GUEST), (small_disk("memory", 2400 * MB),),
             needs_root=True),
        Kind("a read-only store", "virtual", before=(read_only("store"),), exit_codes=frozenset({INFRASTRUCTURE}), needs_root=True),
        Kind("a report of a read-only store", "virtual", before=(read_only("store"),), verb="report", exit_codes=WELL,
             must_complete=True, needs_root=True),
        Kind("measuring a read-only store", "virtual", before=(read_only("store"),), verb="measure",
             exit_codes=frozenset({INFRASTRUCTURE}), needs_root=True),
        Kind("a read-only cache", "virtual", before=(read_only("cache"),), exit_codes=WELL, must_complete=True, needs_root=True),
        Kind("a read-only cache with nothing in it", "virtual", before=(emptied("cache"), read_only("cache")),
             exit_codes=frozenset({INFRASTRUCTURE}), needs_root=True, exclusive=True),
        Kind("the folder of a run under way is removed", "virtual", remove_under_way(GUEST)),
    ]  # fmt: skip


def _of_files() -> list[Kind]:
    """In virtual time: files that are cut short, emptied or gone."""
    return [
        Kind("a damaged run.json", "virtual", before=(damaging(in_store("run.json")),), may_refuse=True),
        Kind("a damaged run.json in a report", "virtual", before=(damaging(in_store("run.json")),), verb="report",
             exit_codes=GROUND | {NOTHING}, may_refuse=True),
        Kind("a damaged measured.json", "virtual", before=(damaging(in_store("measured.json")),), exit_codes=WELL,
             must_complete=True),
        Kind("a damaged measured.json in a report", "virtual", before=(damaging(in_store("measured.json")),),
             verb="report", exit_codes=WELL, must_complete=True),
        Kind("a damaged artefact", "virtual", before=(damaging(in_store("**/*.*")),), may_refuse=True),
        Kind("measuring from a damaged capture", "virtual", before=tuple(damaging(in_store(capture)) for capture in CAPTURES[:1]),
             verb="measure", exit_codes=GROUND | {NOTHING}, may_refuse=True),
        Kind("measuring from damaged samples", "virtual", before=tuple(damaging(in_store(capture)) for capture in CAPTURES[1:]),
             verb="measure", may_refuse=True),
        Kind("damage while runs go on", "virtual", at_moment_of(HARNESS, damaging(in_store("**/*.*"))), may_refuse=True),
        Kind("a damaged lab kernel", "virtual", before=(damaging(in_cache(KERNEL)),), may_refuse=True),
        Kind("a damaged init", "virtual", before=(damaging(in_cache(*INIT)),), may_refuse=True),
        Kind("a damaged library", "virtual", before=(damaging(in_cache(*LIBRARIES)),), may_refuse=True),
        Kind("a damaged program", "virtual", before=(damaging(in_cache(*PROGRAMS)),), may_refuse=True),
        Kind("a damaged description of an export", "virtual", before=(damaging(in_cache("rootfs/*/*.json")),),
             may_refuse=True, exclusive=True),
        Kind("an export that is gone", "virtual", before=(damaging(in_cache("rootfs/*")),), may_refuse=True, exclusive=True),
        Kind("a damaged list of contents", "virtual", before=(damaging(in_cache("contents/*")),), exit_codes=WELL,
             must_complete=True, exclusive=True),
        Kind("a damaged served file", "virtual", before=(damaging(in_cache("www/*")),), exit_codes=WELL, must_complete=True),
        Kind("a damaged certificate", "virtual", before=(damaging(in_cache("certs*/*")),), exit_codes=WELL, must_complete=True),
        Kind("kill -9 of the harness while it exports", "virtual", strike(HARNESS), (forget_exports,), exit_codes=KILLED,
             exclusive=True),
        Kind("Ctrl-C while it exports", "virtual", interrupt(HARNESS), (forget_exports,), exit_codes=INTERRUPTS, exclusive=True),
    ]  # fmt: skip


def _of_containers() -> list[Kind]:
    """In real time: containers, what runs in them, and what holds them."""
    kinds = [
        Kind("kill -9 of the client's program", "compose", strike(targets.CLIENT_PROGRAM)),
        Kind("kill -9 of the server's program", "compose", strike(targets.SERVER_PROGRAM)),
        Kind("kill -9 of the client's container", "compose", strike(targets.CLIENT)),
        Kind("kill -9 of the server's container", "compose", strike(targets.SERVER)),
        Kind("kill -9 of the simulator", "compose", strike(targets.SIM)),
        Kind("kill -9 of the simulator's kernel", "compose", strike(targets.SIM_KERNEL)),
        Kind("the client's program stands still", "compose", freeze(targets.CLIENT_PROGRAM, 1, 4)),
        Kind("the server's program stands still", "compose", freeze(targets.SERVER_PROGRAM, 1, 4)),
        Kind("the simulator stands still", "compose", freeze(targets.SIM, 1, 4)),
        Kind("the simulator's kernel stands still", "compose", freeze(targets.SIM_KERNEL, 1, 4)),
        Kind("kill -9 of 'docker events'", "compose", strike(targets.EVENTS)),
        Kind("'docker events' stands still", "compose", freeze(targets.EVENTS, 1, 4)),
        Kind("kill -9 of 'docker compose up'", "compose", strike(targets.COMPOSE)),
    ]
    for (service, target), shim in zip(SERVICES.items(), targets.SHIMS, strict=True):
        kinds += [
            Kind(f"docker kill {service}", "compose", docker("kill", service, target)),
            Kind(f"docker rm -f {service}", "compose", docker("rm --force", service, target)),
            Kind(f"docker pause {service}", "compose", pause(service, target, 1, 4)),
            Kind(f"kill -9 of the shim of {service}", "compose", strike(shim)),
            Kind(f"the shim of {service} stands still", "compose", freeze(shim, 1, 6)),
        ]
    return kinds


SERVICES = {"client0": targets.CLIENT, "server0": targets.SERVER, "sim": targets.SIM}


def _of_harness() -> list[Kind]:
    """In real time: the harness, its disks and its files."""
    return [
        Kind("kill -9 of the harness", "compose", strike(HARNESS), exit_codes=KILLED),
        Kind("kill -9 of the harness during a transfer", "compose", strike(TRANSFER), exit_codes=KILLED),
        Kind("the harness stands still", "compose", freeze(HARNESS, 0.5, 4)),
        Kind("the harness stands still during a transfer", "compose", freeze(TRANSFER, 0.5, 4)),
        Kind("Ctrl-C", "compose", interrupt(HARNESS), exit_codes=INTERRUPTS),
        Kind("Ctrl-C during a transfer", "compose", interrupt(TRANSFER), exit_codes=INTERRUPTS),
        Kind("Ctrl-C twice", "compose", interrupt(HARNESS, 2), exit_codes=INTERRUPTS),
        Kind("Ctrl-C twice during a transfer", "compose", interrupt(TRANSFER, 2), exit_codes=INTERRUPTS),
        Kind("SIGTERM to the harness", "compose", interrupt(HARNESS, 1, signal.SIGTERM), exit_codes=INTERRUPTS),
        Kind("two harnesses on one store", "compose", second(HARNESS), exit_codes=WELL, must_complete=True),
        Kind("two harnesses on one store, one killed", "compose", second(HARNESS, end=signal.SIGKILL), exit_codes=EITHER),
        Kind("the store's disk fills up", "compose", fill("store", targets.CLIENT), (small_disk("store", 400 * MB),)),
        Kind("the store's disk is full", "compose", before=(small_disk("store", 400 * MB), fill("store", None)),
             exit_codes=frozenset({INFRASTRUCTURE})),
        Kind("a read-only store", "compose", before=(read_only("store"),), exit_codes=frozenset({INFRASTRUCTURE})),
        Kind("a damaged served file", "compose", before=(damaging(in_cache("www/*")),), exit_codes=WELL, must_complete=True),
        Kind("a damaged certificate", "compose", before=(damaging(in_cache("certs/*")),), exit_codes=WELL, must_complete=True),
        Kind("a damaged run.json", "compose", before=(damaging(in_store("run.json")),), may_refuse=True),
        Kind("the folder of a run under way is removed", "compose", remove_under_way(targets.CLIENT)),
    ]  # fmt: skip


def _alone(kind: Kind) -> Kind:
    """Real time has the machine to itself, and its processes and mounts are root's."""
    return replace(kind, exclusive=True, needs_root=True)


KINDS: tuple[Kind, ...] = (
    *_of_processes(), *_of_disks(), *_of_files(), *map(_alone, (*_of_containers(), *_of_harness())),
)  # fmt: skip
