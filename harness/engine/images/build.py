"""Images: identities of build contexts, building and pulling.

A built image's identity is the hash of its folder and of the images below. So it is known before the build, it is equal
on every machine, and an unchanged image is not built again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO

from harness.derived import DERIVED
from harness.engine import code_digest
from harness.engine.build_queue import LANES
from harness.engine.code_digest import effective_content
from harness.engine.confinement import isolated_options
from harness.engine.docker_cli import (
    PREFIX,
    command_error,
    docker,
    forget_images,
    hint_for,
    inspect_image,
    inspect_images,
    parent_death_prefix,
    remove_orphans,
    tail,
)
from harness.engine.images.cache import Cache
from harness.engine.images.host_kernel import COMMON_FEATURES, HostKernel, HostKernelRecord, lacks_queues, this_machine
from harness.engine.images.registry import Registry
from harness.errors import EngineError, HarnessError
from harness.outcome import Image
from harness.scenario.schema import RELEASES_FILE, RELEASES_FOLDER, Implementation, Version
from harness.writing import replace_file

# --- Build contexts: their identity, and a copy to build from.


#: The record of what is in an image, beside its recipe (`harness.engine.images.record`).
RECORD = "components.json"
#: Of a recipe's folder what does not influence its image: the manifest, the record, and what releases have otherwise.
_IGNORED = ("image.yaml", RECORD, RELEASES_FILE, RELEASES_FOLDER)


@dataclass(frozen=True)
class Variant:
    """What the recipe of a release has otherwise than the recipe of the current one."""

    folder: Path
    """Files that stand in place of the recipe's own, or beside them."""
    patches: tuple[Path, ...] = ()
    """Unified diffs of the recipe's other files, in the order in which they apply."""


def folder_hash(folder: Path, variant: Variant | None = None) -> str:
    """Hash of the names, modes and contents of all files of a build context that influence the image.

    The manifest is left out, since a colour or a note does not change the image. So are the record of the image's
    contents, what other releases have, and comments and docstrings of Python (`harness.engine.code_digest`).
    """
    context = sorted(_context_files(folder, variant).items())
    patches = () if variant is None else variant.patches

    def derive() -> str:
        digest = hashlib.blake2b(digest_size=16)
        for name, file in context:
            executable = os.access(file, os.X_OK)
            content = hashlib.blake2b(effective_content(file.name, file.read_bytes()), digest_size=16).digest()
            digest.update(f"{name}\0{int(executable)}\0".encode() + content)
        for patch in patches:
            digest.update(b"patch\0" + hashlib.blake2b(patch.read_bytes(), digest_size=16).digest())
        return digest.hexdigest()

    of_variant = "" if variant is None else f" {variant.folder} {' '.join(map(str, patches))}"
    files = [Path(code_digest.__file__), *(file for _, file in context), *patches]
    return str(DERIVED.get(f"context {folder}{of_variant}", files, derive))


def _context_files(folder: Path, variant: Variant | None) -> dict[Path, Path]:
    """Name below the build context → file that it is copied from."""
    own = {path.relative_to(folder): path for path in folder.rglob("*")}
    files = {name: path for name, path in own.items() if name.parts[0] not in _IGNORED}
    if variant is not None:
        files |= {path.relative_to(variant.folder): path for path in variant.folder.rglob("*")}
    return {name: path for name, path in files.items() if path.is_file() and "__pycache__" not in name.parts}


@contextmanager
def fresh_copy(folder: Path, variant: Variant | None = None) -> Iterator[Path]:
    """A copy of a build context, with the present as modification time of all files. EngineError for a wrong patch.

    Cargo, make and the like compare times. Objects in a build cache (`RUN --mount=type=cache`) may be newer than a
    checkout's files, and may come from another branch or checkout. Such tools would take them for up to date.
    """
    with tempfile.TemporaryDirectory(prefix="quic-lab-context-") as scratch:
        context = Path(scratch) / folder.name
        # `shutil.copy` keeps modes, and no times. A folder of that name deeper down belongs to the context: the
        # harness's own image has the recipes of all releases.
        shutil.copytree(
            folder,
            context,
            symlinks=True,
            copy_function=shutil.copy,
            ignore=lambda place, _: [RELEASES_FOLDER] if Path(place) == folder else [],
        )
        if variant is not None:
            # As the tool does that makes the pins: a patch is of the recipe, and the pins have it in them.
            for patch in variant.patches:
                apply_patch(patch, context)
            shutil.copytree(variant.folder, context, copy_function=shutil.copy, dirs_exist_ok=True)
        yield context


def apply_patch(patch: Path, folder: Path) -> None:
    """Apply a unified diff below a folder. EngineError where it does not fit to the letter."""
    # Git takes a folder that is in no repository, and no checkout is to be touched by mistake.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", "--whitespace=nowarn", str(patch.resolve())]
    completed = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        reason = (completed.stderr.strip().splitlines() or ["no message"])[0]
        raise EngineError(f"{patch} does not apply: {reason}", "renew it: the source that it is of has changed")


def variant_of(implementation: Implementation, manifest_folder: Path) -> Variant | None:
    """What the recipe has otherwise for the release that a name asks for; None for the current one."""
    folder = manifest_folder / RELEASES_FOLDER / implementation.release
    if not implementation.release or implementation.versions is None or not folder.is_dir():
        return None
    version = Version(implementation.release)
    adaptations = (item for item in implementation.versions.adaptations if version < item.before)
    return Variant(folder, tuple(manifest_folder / RELEASES_FOLDER / item.patch for item in adaptations))


# --- build


BASE_IMAGE = "debian:trixie-slim"
#: Processors that the lab kernel can be built for (images/lab-kernel), as `uname -m` names them.
LAB_KERNEL_ARCHITECTURES = ("x86_64",)
#: Label on every image built here.
IMAGE_LABEL = "org.quic-lab.image"
#: Label on the image of a release, NAME@VERSION. The cache's limit bounds these images (`Images.bound_releases`).
_RELEASE_LABEL = "org.quic-lab.release"
#: Build arguments that limit the number of parallel compilers: of Cargo, and of the Go command and compiler.
_JOBS = ("CARGO_BUILD_JOBS", "GOMAXPROCS")
#: Seconds a build may take to end what the daemon runs for it.
CANCEL_SECONDS = 10.0
_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

#: Below the state's folder: label of a build → seconds that the last one took here.
_BUILD_TIMES = "build-times.json"

#: Called before an image is made: its name, and the seconds it is expected to take.
Announce = Callable[[str, float], None]


@dataclass(frozen=True)
class Build:
    """One image that is built here, and what it is built on."""

    name: str
    folder: Path
    seconds: float
    target: str = ""
    bases: dict[str, Build] = field(default_factory=dict)
    """Build argument → the image it names."""
    variant: Variant | None = None
    """What the recipe has otherwise for a release; None for the current one."""
    release: str = ""
    """The release that was asked for; empty for the current one."""
    upstream: str = ""
    """Identity of the published image that it starts from; empty where there is none, or it is not on this machine."""

    @property
    def label(self) -> str:
        """Its name for people and files, with the release that was asked for and the stage."""
        return self.name + (f"@{self.release}" if self.release else "") + (f"-{self.target}" if self.target else "")

    @property
    def arguments(self) -> set[str]:
        """Build arguments that its Dockerfile names."""
        return set(re.findall(r"^ARG (\w+)", (self.folder / "Dockerfile").read_text(), re.MULTILINE))

    @cached_property
    def identity(self) -> str:
        """Hash of the folder and, through `bases`, of all images below, at the time of the first access."""
        digest = hashlib.blake2b(f"{folder_hash(self.folder, self.variant)}\0{self.target}".encode(), digest_size=16)
        if self.upstream:
            digest.update(f"\0upstream={self.upstream}".encode())
        for argument, build in sorted(self.bases.items()):
            digest.update(f"\0{argument}={build.identity}".encode())
        return digest.hexdigest()

    @property
    def reference(self) -> str:
        """Tag of the image."""
        stage = f"-{self.target}" if self.target else ""
        return f"{PREFIX}/{self.name}:{self.identity[:12]}{stage}"

    def missing(self) -> list[Build]:
        """The build and those below it, as far as they are not there yet, in the order of building."""
        if inspect_image(self.reference) is not None:
            return []
        below = [build for item in self.bases.values() for build in item.missing()]
        return [*_unique(below), self]


def _unique(builds: list[Build]) -> list[Build]:
    by_reference: dict[str, Build] = {}
    for build in builds:
        by_reference.setdefault(build.reference, build)
    return list(by_reference.values())


class Images:
    """The images of one repository checkout."""

    def __init__(
        self, images: Path, state: Path, ca_bundle: Path | None = None, registry: Registry | None = None
    ) -> None:
        """`registry`: images are pulled from it, where it has them, instead of built."""
        self._registry = registry
        self._folder = images
        self._state = state
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        """Builds under way."""
        self._cancelled = False
        self._ca = ca_bundle or next((Path(name) for name in _CA_BUNDLES if Path(name).exists()), None)
        self.endpoint = Build("endpoint", images / "endpoint", 20)
        self.rust = Build("rust", images / "rust", 60)
        self.go = Build("go", images / "go", 30)
        self.lab_kernel = Build("lab-kernel", images / "lab-kernel", 310)
        self._sim_host = Build("sim", images / "sim", 20, target="host")
        self._sim_lab = Build("sim", images / "sim", 5, target="lab", bases={"LAB_KERNEL": self.lab_kernel})
        self.probe = Build("probe", images / "probe", 15, bases={"ENDPOINT": self.endpoint})
        self.ns3 = Build("ns3", images / "ns3", 40)
        """An independent reference for links (tools.bench.ns3)."""
        self._builds: dict[tuple[str, Path, str], Build] = {}
        """Builds that were requested before: every cell requests those of its implementations."""
        self._inspected: dict[str, dict[str, Any] | None] = {}
        """What Docker said of images that it was asked about together (`inspect_together`)."""

    @property
    def support_builds(self) -> dict[str, Build]:
        """The images that are built here and belong to no implementation: name → build. The simulator is the one
        without a kernel of its own.
        """
        builds = (self.endpoint, self.rust, self.go, self._sim_host, self.lab_kernel, self.probe, self.ns3)
        return {build.name: build for build in builds}

    def build_of(self, implementation: Implementation, manifest_folder: Path) -> Build | None:
        """The build of an implementation's image, or None when it is a published image."""
        if implementation.build is None:
            return None
        folder = (manifest_folder / implementation.build).resolve()
        if not (folder / "Dockerfile").exists():
            raise EngineError(f"{folder} has no Dockerfile", f"see 'build' in {manifest_folder / 'image.yaml'}")
        upstream = self._identity_of(implementation.upstream_image)
        key = (implementation.name, folder, upstream)
        if key not in self._builds:
            variant = variant_of(implementation, manifest_folder)
            self._builds[key] = self._build_of(implementation, folder, variant, upstream)
        return self._builds[key]

    def _build_of(self, implementation: Implementation, folder: Path, variant: Variant | None, upstream: str) -> Build:
        seconds = implementation.build_time.seconds
        build = Build(
            implementation.base_name,
            folder,
            seconds,
            variant=variant,
            release=implementation.release,
            upstream=upstream,
        )
        shared = {"ENDPOINT": self.endpoint, "RUST": self.rust, "GO": self.go}
        named = build.arguments
        return replace(build, bases={argument: below for argument, below in shared.items() if argument in named})

    def _identity_of(self, published: str | None) -> str:
        """Identity of a published image that a build starts from, since a tag may move; empty where it is not here."""
        if published is None:
            return ""
        with suppress(EngineError):
            image = self.published(published)
            return "" if image is None else image.identity
        return ""

    def inspect_together(self, implementations: Sequence[tuple[Implementation, Path]]) -> None:
        """Ask Docker at once for the images of implementations (with the folders of their manifests).

        `published` and `is_present` then answer from that. Until then each question is a command of its own (25 ms).
        """
        named = [name for item, _ in implementations for name in (item.image, item.upstream_image) if name is not None]
        self._inspect(named)
        # The name of an image that is built here depends on the one that it is built on.
        builds = [build for item, folder in implementations if (build := self.build_of(item, folder)) is not None]
        self._inspect([build.reference for build in builds])

    def _inspect(self, references: Sequence[str]) -> None:
        # An image that is here stays here; others may have come since the last question.
        unknown = [reference for reference in references if self._inspected.get(reference) is None]
        present = inspect_images(unknown)
        self._inspected |= {reference: present.get(reference) for reference in unknown}

    def is_present(self, reference: str) -> bool:
        """Whether Docker has an image. EngineError."""
        return self._ask(reference) is not None

    def _ask(self, reference: str) -> dict[str, Any] | None:
        return self._inspected[reference] if reference in self._inspected else inspect_image(reference)

    def published(self, reference: str) -> Image | None:
        """A published image that is present, or None."""
        if (inspected := self._ask(reference)) is None:
            return None
        digests = inspected.get("RepoDigests") or []
        return Image(reference=reference, identity=digests[0] if digests else inspected["Id"], id=inspected["Id"])

    def image_of(self, implementation: Implementation, manifest_folder: Path) -> Image | None:
        """The image of an implementation for a cell's key; None for a published one that is not present."""
        build = self.build_of(implementation, manifest_folder)
        if build is None:
            assert implementation.image is not None
            return self.published(implementation.image)
        return Image(reference=build.reference, identity=build.identity)

    def sim(self, kernel: str, features: Sequence[str] = COMMON_FEATURES) -> Image:
        """The simulator for a kernel: host, lab, or auto. `features`: those that a cell's paths need of a kernel.

        What the host's kernel has decides about auto, once it was asked.
        """
        return Image(reference=self.sim_build(kernel, features).reference, identity=self._sim_identity)

    @cached_property
    def _sim_identity(self) -> str:
        """Identity of simulator and lab kernel together: so it is known before the kernel is chosen."""
        text = f"{folder_hash(self._folder / 'sim')}{self.lab_kernel.identity}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def sim_build(self, kernel: str, features: Sequence[str] = COMMON_FEATURES) -> Build:
        """The build of the simulator that a kernel choice needs on this machine, as far as is known.

        The lab kernel steps in for auto where the host's kernel was not asked yet, or lacks one of `features`.
        """
        if kernel == "host":
            return self._sim_host
        host = self.host_kernel.read() if kernel == "auto" else None
        return self._sim_lab if host is None or host.lacking(features) else self._sim_host

    @cached_property
    def host_kernel(self) -> HostKernelRecord:
        """What is known of the host's kernel."""
        return HostKernelRecord(self._state, self._sim_host.identity)

    @property
    def sim_settled(self) -> bool:
        """Whether it is known which simulator 'auto' means on this machine."""
        return self.host_kernel.read() is not None

    def builds_before_settling(self) -> list[Build]:
        """Builds that are needed to decide which simulator 'auto' means: the one that asks the host's kernel.

        Where the kernel's configuration leaves out a queue, the answer is known. Then the lab kernel, which takes
        longest of all, is built at once.
        """
        at_once = lacks_queues(this_machine()) and platform.machine() in LAB_KERNEL_ARCHITECTURES
        return [self._sim_host, self._sim_lab] if at_once else [self._sim_host]

    def settle_sim(self, announce: Announce) -> None:
        """Ask the host's kernel for the features of path programs, so that the lab kernel is built only if needed."""
        if self.host_kernel.read() is not None:
            return
        self.make(self._sim_host, announce)
        words = [*isolated_options("NET_ADMIN"), "--entrypoint", "python3", self._sim_host.reference]
        completed = docker("run", *words, "-m", "simulator.features", check=False)
        if completed.returncode != 0:
            raise command_error("asking the host's kernel for its features", completed.stderr)
        self.host_kernel.write(completed.stdout)

    def make(self, build: Build, announce: Announce, jobs: int | None = None) -> bool:
        """Build an image and the images below it, as far as they are not there. Raises EngineError.

        `jobs`: number of parallel compilers; one per core without. Returns whether anything was missing.
        """
        if build.target == "lab" and platform.machine() not in LAB_KERNEL_ARCHITECTURES:
            lacking = self.host_kernel.read() or HostKernel({})
            raise EngineError(
                f"the lab kernel is for x86-64 alone, and this machine is {platform.machine()}",
                lacking.explain(COMMON_FEATURES, this_machine()) or "use --engine compose with --sim-kernel host",
            )
        missing = build.missing()
        if missing and self._pull_build(build):
            return True
        for item in missing:
            if item is build or not self._pull_build(item):
                announce(item.label if item.release else item.name, self.build_seconds(item))
                started = time.monotonic()
                self._run_build(item, jobs)
                self._remember(item, time.monotonic() - started)
        return bool(missing)

    def build_seconds(self, build: Build) -> float:
        """Seconds that a build is expected to take: what the last one of its recipe took here, else its manifest's."""
        return self._build_times().get(build.label, build.seconds)

    def _build_times(self) -> dict[str, float]:
        with suppress(OSError, ValueError):
            times = json.loads((self._state / _BUILD_TIMES).read_text())
            if isinstance(times, dict):
                return {name: float(value) for name, value in times.items() if isinstance(value, int | float)}
        return {}

    def _remember(self, build: Build, seconds: float) -> None:
        """Keep what a build took, for the next estimate. A disk that refuses costs only that."""
        with self._lock, suppress(OSError):
            times = {**self._build_times(), build.label: round(seconds, 1)}
            replace_file(self._state / _BUILD_TIMES, json.dumps(times, indent=1).encode())

    def bound_releases(self, cache: Cache) -> list[str]:
        """Remove images of releases, the least recently used first, until the cache and they are within its limit.

        Those that this process has asked for stay, and so do those that a run uses. Returns their names. EngineError.
        """
        listing = docker("images", "--filter", f"label={_RELEASE_LABEL}", "--format", "{{.Repository}}:{{.Tag}}")
        asked = {build.reference for build in self._builds.values()}
        # An image whose name a later build took has none, and images that others build on ours inherit the label.
        names = filter(is_ours, listing.stdout.split())
        images = {name: image for name in names if (image := inspect_image(name)) is not None}
        base = inspect_image(self.endpoint.reference)
        shared = 0 if base is None else int(base["Size"])
        excess = sum(cache.sizes().values()) - cache.limit
        excess += sum(max(0, int(image["Size"]) - shared) for image in images.values())
        removed = []
        for name, image in sorted(images.items(), key=lambda item: (cache.last_use(item[1]["Id"]), item[0])):
            if excess <= 0:
                break
            # Docker refuses to remove the image of a running container.
            if (
                name not in asked
                and cache.remove_exports(image["Id"])
                and docker("rmi", "--force", name, check=False).returncode == 0
            ):
                removed.append(f"image {name}")
                excess -= max(0, int(image["Size"]) - shared)
        return removed

    def _pull_build(self, build: Build) -> bool:
        """Pull an image from the registry. Whether it has it. EngineError where it has another one of that name."""
        return self._registry is not None and self._registry.pull(build.reference, build.identity)

    def _run_build(self, build: Build, jobs: int | None) -> None:
        log = self._state / "builds" / f"{build.label}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            "docker",
            "buildx",
            "build",
            "--load",
            "--progress",
            "plain",
            "--label",
            f"{IMAGE_LABEL}=1",
            "--build-arg",
            f"BASE={BASE_IMAGE}",
            "--tag",
            build.reference,
        ]
        if build.variant is not None:
            command += ["--label", f"{_RELEASE_LABEL}={build.label}"]
        for argument, below in build.bases.items():
            command += ["--build-arg", f"{argument}={below.reference}"]
        if jobs is not None:
            # A build is in a control group beside the containers'. No scheduling class in it would yield to them.
            for argument in sorted(build.arguments & set(_JOBS)):
                command += ["--build-arg", f"{argument}={jobs}"]
        if build.target:
            command += ["--target", build.target]
        if self._ca is not None:
            # Companies and CI have proxies with certificates of their own in front of the registries.
            command += ["--secret", f"id=ca,src={self._ca}"]
        # The context of a release exists nowhere else: where the build fails it stays, so that it can be repeated.
        kept = log.with_suffix(".context")
        shutil.rmtree(kept, ignore_errors=True)
        with log.open("wb") as out, fresh_copy(build.folder, build.variant) as context:
            code = self._wait_for([*command, str(context)], out)
            if code != 0 and build.variant is not None and not self._cancelled:
                shutil.copytree(context, kept, symlinks=True)
        forget_images()
        if self._cancelled:
            raise EngineError(f"the build of the image {build.label} was ended")
        if code != 0:
            text = log.read_text(errors="replace")
            raise EngineError(
                f"the image {build.label} could not be built; the end of {log}:\n  " + "\n  ".join(tail(log)),
                f"{hint_for(text) or f'read {log}'}; this command repeats the build:\n"
                + shlex.join([*command, str((kept if build.variant is not None else build.folder).resolve())]),
            )

    def _wait_for(self, command: list[str], out: BinaryIO) -> int:
        """Run a build to its end. Returns its exit code. It has a session of its own: on Ctrl-C the harness ends it."""
        with self._lock:
            if self._cancelled:
                return -1
            # The build ends with the harness. Else it would go on for minutes, and use the cores.
            process = subprocess.Popen(
                [*parent_death_prefix("TERM"), *command], stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._processes.add(process)
        try:
            return process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            with self._lock:
                self._processes.discard(process)

    def cancel(self) -> None:
        """End the builds of other threads, and start no more. Their `make` raises."""
        with self._lock:
            self._cancelled = True
            processes = list(self._processes)
        for process in processes:
            _end(process)

    def pull(self, reference: str, announce: Announce) -> Image:
        """Pull a published image that is not present. Raises EngineError."""
        announce(reference, 30)
        completed = docker("pull", "--quiet", reference, check=False, timeout=900)
        self._inspected.pop(reference, None)
        if (image := self.published(reference) if completed.returncode == 0 else None) is None:
            message = (completed.stderr.strip().splitlines() or ["no message"])[-1]
            raise EngineError(
                f"the image {reference} is not on this machine and could not be pulled: {message}",
                "check the name in image.yaml, or bring the image here with 'docker load' or 'docker tag'",
            )
        return image


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a `docker buildx build`. On SIGTERM it also ends what the daemon runs for it."""
    process.terminate()
    try:
        process.wait(CANCEL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def is_ours(image: str) -> bool:
    """Whether an image with our label is ours: images that others build on our base inherit the label."""
    return image == BASE_IMAGE or image.startswith((f"{PREFIX}/", f"{PREFIX}-test/"))


def remove_everything() -> list[str]:
    """Remove all containers, networks and images of the project from Docker. Returns the names of what was removed."""
    removed = remove_orphans(lambda owner: False)
    if images := _our_images():
        docker("rmi", "--force", *images, check=False)
        remaining = _our_images()
        removed.extend(f"image {name}" for name in images if name not in remaining)
    return removed


def _our_images() -> list[str]:
    listing = docker("images", "--filter", f"label={IMAGE_LABEL}", "--format", "{{.Repository}}:{{.Tag}}")
    return [name for name in listing.stdout.split() if is_ours(name)]


# --- Result of building an image.


@dataclass(frozen=True)
class ImageBuild:
    """One image after a build."""

    reference: str
    size: int
    """Bytes, all layers together."""
    seconds: float
    was_present: bool
    """Nothing had to be built."""
    error: HarnessError | None = None
    """Why there is none."""


# --- Building many images at once.


def build_in_parallel(
    images: Images, simulator: Build | None, implementations: Mapping[str, Build], announce: Announce
) -> dict[str, ImageBuild]:
    """Build all of these and the images below them. Name → result: images below come first, then by name.

    `simulator`: is built together with them; None for none.
    """
    # First the images below, one at a time. Then the longest builds first, so that no core is idle at the end.
    shared = {below.reference: below for build in implementations.values() for below in build.bases.values()}
    shared_results = {build.name: _build_image(images, build, announce) for build in shared.values()}
    builds = {**({} if simulator is None else {"sim": simulator}), **implementations}
    order = sorted(builds, key=lambda name: -sum(build.seconds for build in _with_below(builds[name])))
    with ThreadPoolExecutor(LANES, thread_name_prefix="build") as pool:
        try:
            results = dict(
                zip(order, pool.map(lambda name: _build_image(images, builds[name], announce), order), strict=True)
            )
        except BaseException:
            images.cancel()
            raise
    return shared_results | dict(sorted(results.items()))


def _build_image(images: Images, build: Build, announce: Announce) -> ImageBuild:
    began, was_there = time.monotonic(), inspect_image(build.reference) is not None
    try:
        images.make(build, announce)
    except EngineError as error:
        return ImageBuild(build.reference, 0, time.monotonic() - began, was_there, error)
    size = (inspect_image(build.reference) or {}).get("Size", 0)
    return ImageBuild(build.reference, size, time.monotonic() - began, was_there)


def _with_below(build: Build) -> list[Build]:
    return [build, *(below for item in build.bases.values() for below in _with_below(item))]


# --- Availability of published images and repositories.


#: Seconds an answer may take.
PATIENCE = 5.0


def why_unavailable(
    implementation: Implementation, is_present: Callable[[str], bool] | None = None, *, contact: bool = True
) -> str | None:
    """Why an implementation that is not on this machine cannot be built here; None where it can be.

    Published images are never pulled without a request, so an absent one counts as missing. `is_present` says whether
    Docker has an image; Docker is asked without. With `contact` the repository that it is built from is asked whether
    it answers. Raises EngineError when the Docker daemon does not answer.
    """
    is_present = is_present or _is_present
    if implementation.architectures and (machine := platform.machine()) not in implementation.architectures:
        return f"it can be built for {' and '.join(implementation.architectures)} alone, and this machine is {machine}"
    if implementation.image is not None:
        return None if is_present(implementation.image) else _absent_image("its image", implementation.image)
    if implementation.upstream_image is not None and not is_present(implementation.upstream_image):
        return _absent_image("it is built on the image", implementation.upstream_image)
    if contact and implementation.upstream_repository is not None:
        why = _unreachable(implementation.upstream_repository)
        if why:
            return f"it is built from {implementation.upstream_repository}, which does not answer ({why})"
    return None


def _is_present(reference: str) -> bool:
    return inspect_image(reference) is not None


def _absent_image(phrase: str, image: str) -> str:
    return f"{phrase} {image} is not on this machine ('docker pull {image}')"


@cache
def _unreachable(repository: str) -> str:
    """Why a Git repository does not answer over HTTP; empty when it does."""
    # With TLS it takes 60 ms to import, and few commands ask.
    import urllib.error
    import urllib.request

    # The first request of `git clone` (gitprotocol-http, smart clients).
    url = f"{repository.removesuffix('/')}/info/refs?service=git-upload-pack"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE):
            return ""
    except urllib.error.HTTPError as error:
        return f"HTTP status {error.code}"
    except urllib.error.URLError as error:
        return str(error.reason)
    except OSError as error:
        return str(error) or type(error).__name__
