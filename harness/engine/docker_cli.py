"""The `docker` command line. This module runs it, and turns its failures into errors with a hint."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness.engine.process_owner import lives, owner
from harness.errors import EngineError
from harness.reading import open_regular

#: Label on every container and network of the harness; its value names the owning process.
OWNER_LABEL = "org.quic-lab.owner"
PREFIX = "quic-lab"
#: Commands that never end by themselves. They must end with the harness, also where it was killed, or where a signal
#: came while they were being started.
_ENDLESS_COMMANDS = ("events",)
#: Commands that change which images there are, or what their names mean.
_CHANGING_COMMANDS = ("buildx", "load", "pull", "rmi", "tag")
#: Seconds that a command may take before the daemon is thought unwell.
LONGEST = 120.0

#: The name of an image that is not present, in an error of `docker image inspect`.
_MISSING_IMAGE = re.compile(r"[Nn]o such image: (\S+?):?(?=\s|$)")

_HINTS: tuple[tuple[str, str], ...] = (
    ("Cannot connect to the Docker daemon", "start the Docker daemon ('make setup' does), or check DOCKER_HOST"),
    ("permission denied while trying to connect", "add yourself to the group docker, or run as root"),
    (
        "Pool overlaps",
        "a Docker network already uses 193.167.x.0/24: remove it ('docker network ls', 'docker network rm'); "
        "if it has active endpoints but no container, restart the Docker daemon",
    ),
    ("already in use", "another container or network has that name or address: remove it ('docker ps -a')"),
    ("address already in use", "another program uses that address: see 'docker network ls' and 'ss -lun'"),
    ("no space left on device", "the disk is full: free space ('docker system df', results/)"),
    ("No such image", "build or pull the image ('harness run' does), or check the name in image.yaml"),
    ("pull access denied", "the image is not on this machine and no registry has it: check the name in image.yaml"),
    ("manifest unknown", "the registry has no such tag: check the name in image.yaml"),
)


def _timeout_error(words: Sequence[str], seconds: float) -> EngineError:
    return EngineError(f"'docker {words[0]}' did not end within {seconds:g} s", "is the Docker daemon well?")


def hint_for(text: str) -> str:
    """The hint for an error message of Docker; empty where there is none."""
    return next((hint for words, hint in _HINTS if words.lower() in text.lower()), "")


def docker(
    *words: str, timeout: float = LONGEST, environment: Mapping[str, str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run `docker WORDS`. EngineError, with the last line of its output, when it fails.

    A container of `create` gets the owner's label: if its owner is killed, it can be recognized as an orphan.
    """
    if shutil.which("docker") is None:
        raise EngineError("there is no 'docker' command", "run 'make setup'")
    labels = ("--label", f"{OWNER_LABEL}={owner()}") if words[0] == "create" else ()
    command = ["docker", words[0], *labels, *words[1:]]
    try:
        completed = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise _timeout_error(words, timeout) from error
    finally:
        if words[0] in _CHANGING_COMMANDS:
            forget_images()
    if completed.returncode != 0 and words[:2] != ("image", "inspect"):
        # Perhaps because somebody removed an image.
        forget_images()
    if check and completed.returncode != 0:
        raise command_error(f"docker {' '.join(words[:2])}", completed.stderr)
    return completed


def command_error(action: str, stderr: str) -> EngineError:
    """The error for a failed command, from its standard error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    message = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "no message")
    return EngineError(f"{action}: {message}", hint_for(stderr))


#: What Docker said of images that are present; None outside `remembered_images`.
_remembered: dict[str, dict[str, Any]] | None = None


@contextmanager
def remembered_images() -> Iterator[None]:
    """Within the context Docker is asked once for each image that it has, by all threads.

    For runs whose images are named by what they were made from. A tag that is moved meanwhile is not noticed.
    """
    global _remembered  # noqa: PLW0603
    _remembered = {}
    try:
        yield
    finally:
        _remembered = None


def forget_images() -> None:
    """Ask Docker anew: an image was built, pulled or removed."""
    if _remembered is not None:
        _remembered.clear()


def inspect_image(reference: str) -> dict[str, Any] | None:
    """Result of `docker image inspect`; None where the image is not present."""
    remembered = _remembered
    if remembered is not None and reference in remembered:
        return remembered[reference]
    image = _inspect_image(reference)
    if remembered is not None and image is not None:
        remembered[reference] = image
    return image


def _inspect_image(reference: str) -> dict[str, Any] | None:
    completed = docker("image", "inspect", reference, check=False)
    if completed.returncode != 0:
        if "No such image" in completed.stderr or "not found" in completed.stderr.lower():
            return None
        raise command_error("docker image inspect", completed.stderr)
    images: list[dict[str, Any]] = json.loads(completed.stdout)
    return images[0]


def inspect_images(references: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Reference → result of `docker image inspect`, for those that are present. Docker is asked once for all."""
    asked = list(dict.fromkeys(references))
    if not asked:
        return {}
    completed = docker("image", "inspect", *asked, check=False)
    missing = set(_MISSING_IMAGE.findall(completed.stderr))
    images: list[dict[str, Any]] = json.loads(completed.stdout or "[]")
    present = [reference for reference in asked if not missing & {reference, f"{reference}:latest"}]
    # Docker answers in the order of the question, and leaves out what it does not have.
    if len(present) != len(images):
        raise command_error("docker image inspect", completed.stderr)
    return dict(zip(present, images, strict=True))


def image_ids() -> set[str]:
    """The IDs (sha256:…) of all images that Docker has. Raises EngineError."""
    return set(docker("image", "ls", "--all", "--quiet", "--no-trunc").stdout.split())


def json_lines(text: str) -> list[dict[str, Any]]:
    """Objects of a JSON-lines output."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def remove_orphans(needed: Callable[[str], bool] = lives) -> list[str]:
    """Remove containers and networks whose owner is dead, or not `needed`. Returns the names of what was removed."""
    removed: list[str] = []
    listings = (
        (("ps", "--all", "--no-trunc"), _remove_containers, "{{.Names}}"),
        (("network", "ls", "--no-trunc"), remove_networks, "{{.Name}}"),
    )
    for listing, remove, name in listings:
        form = '{{.ID}}\t{{.Label "' + OWNER_LABEL + '"}}\t' + name
        lines = docker(*listing, "--filter", f"label={OWNER_LABEL}", "--format", form).stdout.splitlines()
        names = {identity: name for identity, label, name in (line.split("\t") for line in lines) if not needed(label)}
        remaining = remove(list(names)) if names else set()
        removed.extend(name for identity, name in names.items() if identity not in remaining)
    return removed


def _remove_containers(identities: Sequence[str]) -> set[str]:
    """Remove containers, in any state. Returns the IDs of those that Docker still has."""
    docker("rm", "--force", "--volumes", *identities, check=False)
    return _container_ids() & set(identities)


def remove_networks(identities: Sequence[str]) -> set[str]:
    """Remove networks. Returns the IDs of those that Docker still has.

    When many containers are removed at once, the daemon may keep the endpoint of one of them, and says then that the
    network "has active endpoints". Such an endpoint is disconnected. One that belongs to a container is left alone.
    """
    docker("network", "rm", *identities, check=False)
    remaining = _networks(identities)
    if not remaining:
        return set()
    containers = _container_ids()
    for network in remaining:
        for container, endpoint in network["Containers"].items():
            if container not in containers:
                docker("network", "disconnect", "--force", network["Id"], endpoint["Name"], check=False)
        docker("network", "rm", network["Id"], check=False)
    return {network["Id"] for network in _networks(identities)}


def _container_ids() -> set[str]:
    return set(docker("ps", "--all", "--quiet", "--no-trunc").stdout.split())


def _networks(identities: Sequence[str]) -> list[dict[str, Any]]:
    """Results of `docker network inspect`, for those that are there."""
    networks: list[dict[str, Any]] = json.loads(docker("network", "inspect", *identities, check=False).stdout or "[]")
    return networks


@functools.cache
def parent_death_prefix(signal: str = "KILL") -> tuple[str, ...]:
    """Words before a command that make it end with this process, however that ends; empty where that is impossible.

    `signal`: sent to the command then. On TERM, `docker buildx build` also ends what the daemon runs for it.

    setpriv(1) of util-linux sets PR_SET_PDEATHSIG (prctl(2)); that of BusyBox has no such option. The processes of a
    cluster set it themselves, between fork and exec (harness/execution/cluster/address.py). Here that is impossible,
    since other threads are running.
    """
    words = ("setpriv", "--pdeathsig", signal)
    try:
        completed = subprocess.run([*words, "true"], capture_output=True, check=False)
    except OSError:
        return ()
    return words if completed.returncode == 0 else ()


class DockerProcess(subprocess.Popen[str]):
    """A `docker` command under way. Waiting for its end has a time limit, since a daemon may not answer."""

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        """`options`: those of `subprocess.Popen`."""
        self._words = words
        prefix = parent_death_prefix() if words[0] in _ENDLESS_COMMANDS else ()
        super().__init__([*prefix, "docker", *words], text=True, **options)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Without `timeout` EngineError, and the command is ended, when it takes LONGEST."""
        if timeout is not None:
            return super().wait(timeout)
        try:
            return super().wait(LONGEST)
        except subprocess.TimeoutExpired as error:
            self.kill()
            super().wait()
            raise _timeout_error(self._words, LONGEST) from error


def start_docker(words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start `docker WORDS` in a session of its own, so that Ctrl-C reaches only the harness; see `Started`."""
    return DockerProcess(words, start_new_session=True, **options)


def tail(path: Path, lines: int = 12) -> tuple[str, ...]:
    """The last lines of a log file, for people."""
    try:
        with open_regular(path.parent.resolve() / path.name) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 16384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    return tuple(line for line in text.splitlines() if line.strip())[-lines:]


def daemon_versions() -> dict[str, str]:
    """Versions of the engine and of Compose. EngineError when the daemon does not answer."""
    version = docker("version", "--format", "{{.Server.Version}}").stdout.strip()
    compose = docker("compose", "version", "--short").stdout.strip()
    return {"docker": version, "compose": compose}


def container_id(mounts: str) -> str:
    """The ID of a process's container, from its /proc/self/mountinfo; empty where that has none."""
    # Docker mounts this file from the container's folder.
    match = re.search(r"/containers/([0-9a-f]{64})/hostname /etc/hostname ", mounts)
    return match[1] if match else ""


def require_visible(folders: Sequence[Path]) -> None:
    """EngineError where this is a container, and others cannot have its folders by the same paths. OSError."""
    if not os.environ.get("HARNESS_CONTAINER"):
        return
    own = container_id(Path("/proc/self/mountinfo").read_text()) or os.uname().nodename
    image = docker("inspect", "--type", "container", "--format", "{{.Image}}", own).stdout.strip()
    mounts, tests = list[str](), list[str]()
    with ExitStack() as stack:
        for folder in dict.fromkeys(folder.resolve() for folder in folders):
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(tempfile.NamedTemporaryFile(prefix=".quic-lab.", dir=folder))
            # Unlike --volume this makes no folder on the daemon's machine.
            mounts += ["--mount", f"type=bind,source={folder},target={folder},readonly"]
            tests += ["-a", "-e", file.name]
        words = ("--rm", "--network", "none", *mounts, "--entrypoint", "test", image, *tests[1:])
        if docker("run", *words, check=False).returncode != 0:
            raise EngineError(
                f"the Docker daemon does not see {', '.join(map(str, folders))} of this container by these paths",
                'start it with -v "$PWD:$PWD" -w "$PWD" -v /tmp:/tmp as well, or use --engine virtual',
            )
