"""Images: what a build context is called, whether it is there, building and pulling it.

A built image's identity is the hash of its folder and of what it is built on, so it is known before the
build, equal on every machine, and an unchanged image costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.engines.docker import OWNER_LABEL, PREFIX, docker, failure, hint_for, inspect_image, tail
from harness.errors import EngineError
from harness.model import Implementation
from harness.outcome import Image

BASE_IMAGE = "debian:trixie-slim"
#: Label on every image built here.
IMAGE_LABEL = "org.quic-lab.image"
_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

#: Called before an image is made: its name, and the seconds it is expected to take.
Announce = Callable[[str, float], None]


def folder_hash(folder: Path) -> str:
    """Hash of the names, modes and contents of all files of a build context.

    The manifest is left out: a colour or a note makes no other image.
    """
    digest = hashlib.blake2b(digest_size=16)
    files = (path for path in folder.rglob("*") if path.is_file() and path != folder / "image.yaml")
    for file in sorted(path for path in files if "__pycache__" not in path.parts):
        executable = os.access(file, os.X_OK)
        content = hashlib.blake2b(file.read_bytes(), digest_size=16).digest()
        digest.update(f"{file.relative_to(folder)}\0{int(executable)}\0".encode() + content)
    return digest.hexdigest()


@dataclass(frozen=True)
class Build:
    """One image that is built here, and what it is built on."""

    name: str
    folder: Path
    seconds: float
    target: str = ""
    on: dict[str, Build] = field(default_factory=dict)
    """Build argument → the image it names."""
    upstream: str = ""
    """Identity of the published image that it starts from, where it does and that is on this machine."""

    @property
    def identity(self) -> str:
        """Hash of the folder and, through `on`, of everything below."""
        digest = hashlib.blake2b(f"{folder_hash(self.folder)}\0{self.target}".encode(), digest_size=16)
        if self.upstream:
            digest.update(f"\0upstream={self.upstream}".encode())
        for argument, build in sorted(self.on.items()):
            digest.update(f"\0{argument}={build.identity}".encode())
        return digest.hexdigest()

    @property
    def reference(self) -> str:
        """Tag of the image."""
        stage = f"-{self.target}" if self.target else ""
        return f"{PREFIX}/{self.name}:{self.identity[:12]}{stage}"

    def missing(self) -> list[Build]:
        """What of the build and those below it is not there yet, in the order they must be made."""
        if inspect_image(self.reference) is not None:
            return []
        below = [build for item in self.on.values() for build in item.missing()]
        return [*_unique(below), self]


def _unique(builds: list[Build]) -> list[Build]:
    seen: dict[str, Build] = {}
    for build in builds:
        seen.setdefault(build.reference, build)
    return list(seen.values())


class Images:
    """The images of one repository checkout."""

    def __init__(self, images: Path, state: Path, ca_bundle: Path | None = None) -> None:
        self._folder = images
        self._state = state
        self._ca = ca_bundle or next((Path(name) for name in _CA_BUNDLES if Path(name).exists()), None)
        self.endpoint = Build("endpoint", images / "endpoint", 20)
        self.rust = Build("rust", images / "rust", 60)
        self.go = Build("go", images / "go", 30)
        self.lab_kernel = Build("lab-kernel", images / "lab-kernel", 240)
        self._sim_host = Build("sim", images / "sim", 20, target="host")
        self._sim_lab = Build("sim", images / "sim", 5, target="lab", on={"LAB_KERNEL": self.lab_kernel})
        self.probe = Build("probe", images / "probe", 15, on={"ENDPOINT": self.endpoint})

    def of(self, implementation: Implementation, manifest_folder: Path) -> Build | None:
        """How an implementation's image is built, or None when it is a published one."""
        if implementation.build is None:
            return None
        folder = (manifest_folder / implementation.build).resolve()
        if not (folder / "Dockerfile").exists():
            raise EngineError(f"{folder} has no Dockerfile", f"see 'build' in {manifest_folder / 'image.yaml'}")
        shared = {"ENDPOINT": self.endpoint, "RUST": self.rust, "GO": self.go}
        named = set(re.findall(r"^ARG (\w+)", (folder / "Dockerfile").read_text(), re.MULTILINE))
        on = {argument: build for argument, build in shared.items() if argument in named}
        return Build(
            implementation.name, folder, implementation.build_time.seconds, on=on,
            upstream=self._identity_of(implementation.upstream_image),
        )  # fmt: skip

    def _identity_of(self, published: str | None) -> str:
        """Of a published image that a build starts from, as far as it is here: a tag may move."""
        if published is None:
            return ""
        with suppress(EngineError):
            image = self.published(published)
            return "" if image is None else image.identity
        return ""

    def published(self, reference: str) -> Image | None:
        """A published image that is present, or None."""
        found = inspect_image(reference)
        if found is None:
            return None
        digests = found.get("RepoDigests") or []
        return Image(reference=reference, identity=digests[0] if digests else found["Id"], id=found["Id"])

    def image_of(self, implementation: Implementation, manifest_folder: Path) -> Image | None:
        """The image of an implementation for a cell's key; None for a published one that is not present."""
        build = self.of(implementation, manifest_folder)
        if build is None:
            assert implementation.image is not None
            return self.published(implementation.image)
        return Image(reference=build.reference, identity=build.identity)

    def sim(self, kernel: str) -> Image:
        """The simulator for a kernel: host, lab, or auto, which is settled by a probe when it is built."""
        identity = hashlib.blake2b(
            f"{folder_hash(self._folder / 'sim')}{self.lab_kernel.identity}".encode(), digest_size=16
        ).hexdigest()
        return Image(reference=self.sim_build(kernel).reference, identity=identity)

    def sim_build(self, kernel: str) -> Build:
        """The build of the simulator that a kernel choice needs on this machine, as far as is known."""
        if kernel == "host" or (kernel == "auto" and self._host_kernel() == "complete"):
            return self._sim_host
        return self._sim_lab

    def _probe_file(self) -> Path:
        return self._state / f"host-kernel-{os.uname().release}-{self._sim_host.identity[:12]}"

    def _host_kernel(self) -> str | None:
        try:
            return self._probe_file().read_text().strip()
        except OSError:
            return None

    def settle_sim(self, announce: Announce) -> None:
        """Ask the host kernel, once, whether it has the queues, so that the lab kernel is built only if needed."""
        if self._host_kernel() is None:
            self.make(self._sim_host, announce)
            done = docker(
                "run", "--rm", "--cap-add", "NET_ADMIN", "--network", "none", "--entrypoint", "python3",
                self._sim_host.reference, "-m", "simulator.probe", check=False,
            )  # fmt: skip
            if done.returncode not in (0, 1):
                raise failure("probing the host kernel", done.stderr)
            self._state.mkdir(parents=True, exist_ok=True)
            self._probe_file().write_text(done.stdout)

    def make(self, build: Build, announce: Announce) -> None:
        """Build an image and what it is built on, as far as they are not there. Raises EngineError."""
        for item in build.missing():
            announce(item.name, item.seconds)
            self._run_build(item)

    def _run_build(self, build: Build) -> None:
        log = self._state / "builds" / f"{build.name}{'-' + build.target if build.target else ''}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = ["docker", "buildx", "build", "--load", "--progress", "plain", "--label", f"{IMAGE_LABEL}=1",
                   "--build-arg", f"BASE={BASE_IMAGE}", "--tag", build.reference]  # fmt: skip
        for argument, below in build.on.items():
            command += ["--build-arg", f"{argument}={below.reference}"]
        if build.target:
            command += ["--target", build.target]
        if self._ca is not None:
            # Companies and CI put proxies with their own authority before the registries.
            command += ["--secret", f"id=ca,src={self._ca}"]
        with log.open("w") as out:
            code = subprocess.run(
                [*command, str(build.folder)], stdout=out, stderr=subprocess.STDOUT, check=False
            ).returncode
        if code != 0:
            text = log.read_text(errors="replace")
            raise EngineError(
                f"the image {build.name} could not be built; the end of {log}:\n  " + "\n  ".join(tail(log)),
                hint_for(text) or f"read {log}; 'docker buildx build {build.folder}' repeats it",
            )

    def pull(self, reference: str, announce: Announce) -> Image:
        """Pull a published image that is not present. Raises EngineError."""
        announce(reference, 30)
        done = docker("pull", "--quiet", reference, check=False, timeout=900)
        image = self.published(reference) if done.returncode == 0 else None
        if image is None:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise EngineError(
                f"the image {reference} is not on this machine and could not be pulled: {said}",
                "check the name in image.yaml, or bring the image here with 'docker load' or 'docker tag'",
            )
        return image


def ours(image: str) -> bool:
    """Whether a labelled image was made by the project: what others build on our base inherits its label."""
    return image == BASE_IMAGE or image.startswith((f"{PREFIX}/", f"{PREFIX}-test/"))


def remove_everything() -> list[str]:
    """Remove all containers, networks and images of the project from Docker. Names of what was removed."""
    removed: list[str] = []
    for kind, listing, removal, form in (
        (
            "container",
            ("ps", "--all", "--filter", f"label={OWNER_LABEL}"),
            ("rm", "--force", "--volumes"),
            "{{.Names}}",
        ),
        ("network", ("network", "ls", "--filter", f"label={OWNER_LABEL}"), ("network", "rm"), "{{.Name}}"),
        ("image", ("images", "--filter", f"label={IMAGE_LABEL}"), ("rmi", "--force"), "{{.Repository}}:{{.Tag}}"),
    ):
        names = [name for name in docker(*listing, "--format", form).stdout.split() if kind != "image" or ours(name)]
        if names:
            docker(*removal, *names, check=False)
            removed.extend(f"{kind} {name}" for name in names)
    return removed
