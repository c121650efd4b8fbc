"""Faults that are done to processes: killed, stopped, interrupted, joined by another harness."""

from __future__ import annotations

import signal
import subprocess
import time

from tests.chaos import machine
from tests.chaos.scene import Inject, MissedError, Scene, Target


def strike(target: Target, number: signal.Signals = signal.SIGKILL) -> Inject:
    """A signal at a random moment of a target's life."""

    def inject(scene: Scene) -> None:
        scene.send(target.at_moment(scene), number, target.name)

    return inject


def freeze(target: Target, low: float, high: float, *, group: bool = False) -> Inject:
    """A target stands still for some seconds at a random moment of its life; `group`: with its process group."""

    def inject(scene: Scene) -> None:
        pid = target.at_moment(scene)
        scene.send(pid, signal.SIGSTOP, target.name, group=group)
        pause = scene.random.uniform(low, high)
        time.sleep(pause)
        try:
            scene.send(pid, signal.SIGCONT, target.name, group=group)
        except MissedError:
            # It was ended meanwhile.
            scene.note(f"gone after {pause:.1f} s")

    return inject


def freeze_for_good(target: Target, *, group: bool = False) -> Inject:
    """A target stands still and does not go on by itself."""

    def inject(scene: Scene) -> None:
        scene.send(target.at_moment(scene), signal.SIGSTOP, target.name, group=group)

    return inject


def interrupt(target: Target, times: int = 1, number: signal.Signals = signal.SIGINT) -> Inject:
    """Ctrl-C, or its like, at a random moment, as a terminal sends it: to all in the foreground; again soon after."""

    def inject(scene: Scene) -> None:
        pid = target.at_moment(scene)
        for time_left in reversed(range(times)):
            scene.send(pid, number, target.name, group=True)
            if time_left:
                time.sleep(scene.random.choice((0.002, 0.05, 0.3, 1.0)) * scene.random.random())
                if scene.command.has_ended():
                    return

    return inject


def docker(words: str, service: str, target: Target) -> Inject:
    """A Docker command of somebody's on a container, at a random moment of its life."""

    def inject(scene: Scene) -> None:
        target.at_moment(scene)
        identity = machine.container_ids(scene.command.pid).get(service)
        if identity is None:
            raise MissedError(f"the container of {service} had gone")
        process = subprocess.run(["docker", *words.split(), identity], capture_output=True, text=True, check=False)
        if process.returncode != 0:
            raise MissedError(f"docker {words}: {process.stderr.strip()}")
        scene.note(f"docker {words} {service}")

    return inject


def pause(service: str, target: Target, low: float, high: float) -> Inject:
    """A container is paused for some seconds."""

    def inject(scene: Scene) -> None:
        docker("pause", service, target)(scene)
        identity = machine.container_ids(scene.command.pid).get(service, "")
        time.sleep(scene.random.uniform(low, high))
        subprocess.run(["docker", "unpause", identity], capture_output=True, check=False)
        scene.note("docker unpause")

    return inject


def second(target: Target, *, end: signal.Signals | None = None) -> Inject:
    """Another harness is given the same command on the same store; one of the two may be killed at some moment."""

    def inject(scene: Scene) -> None:
        scene.sleep_part(target.lifetime(scene))
        scene.commands.append(scene.stage.start("second"))
        scene.note("a second harness on the same store")
        if end is not None:
            strike(target, end)(scene)

    return inject
