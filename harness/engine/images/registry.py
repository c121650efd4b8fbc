"""A registry of images by identity: images are pulled instead of built, and verified against their seals.

The tag of an image built here is the hash of its recipe, which is the same on every machine. So one machine can push an
image for others. It is pushed with two labels. One is its identity. The other is a seal: a digest of its files
(`harness.engine.images.contents`) and of how it starts. An image with other files than those of its seal is refused. A
seal detects changes on the way or by hand. It is no signature: everybody who may write to a registry is trusted.

An image's SBOM (`harness.engine.images.sbom`) is pushed, too, as an image `NAME:TAG-sbom` with only the file
/sbom.cdx.json. The SHA-256 of that file is the value of the image's own label `org.quic-lab.sbom`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.engine.docker_cli import command_error, docker, inspect_image
from harness.engine.images.components import read_composition
from harness.engine.images.contents import exported_contents
from harness.engine.images.sbom import sbom_of
from harness.errors import EngineError

IDENTITY_LABEL, SEAL_LABEL = "org.quic-lab.identity", "org.quic-lab.seal"
SBOM_LABEL = "org.quic-lab.sbom"
#: The SBOM in an image of its own. The image has a command, since `docker create` needs one.
SBOM_FILE = "sbom.cdx.json"
_SBOM_RECIPE = f'FROM scratch\nCOPY {SBOM_FILE} /\nCMD ["/{SBOM_FILE}"]\n'
#: Seconds that a pull or a push may take.
_PATIENCE = 900
#: Keys of an image's configuration that say how it starts.
_START = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir", "ExposedPorts", "Volumes", "StopSignal")
#: Error messages of a registry that does not have an image.
_NOT_THERE = ("not found", "manifest unknown", "repository does not exist")


def seal_of(reference: str) -> str:
    """Digest of an image's files and of how it starts. Takes a few seconds. Raises EngineError."""
    return _seal(reference, exported_contents(reference).digest)


def _seal(reference: str, contents: str) -> str:
    """The seal of an image whose contents have that digest. Raises EngineError."""
    image = inspect_image(reference)
    if image is None:
        raise EngineError(f"there is no image {reference}")
    start = {name: image["Config"].get(name) for name in _START}
    text = json.dumps([contents, start], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Registry:
    """A registry as `docker pull` names it: host, port, and a path where it has one."""

    def __init__(self, place: str) -> None:
        self.address = place.rstrip("/")

    def name(self, reference: str) -> str:
        """Name of an image of the harness in this registry."""
        return f"{self.address}/{reference}"

    def pull(self, reference: str, identity: str) -> bool:
        """Pull an image, and tag it with its own name; False where the registry does not have it.

        EngineError where the registry does not answer, and where the image does not match its labels.
        """
        name = self.name(reference)
        completed = docker("pull", "--quiet", name, check=False, timeout=_PATIENCE)
        if completed.returncode != 0:
            if any(word in completed.stderr for word in _NOT_THERE):
                return False
            raise command_error(f"pulling {name}", completed.stderr)
        try:
            self._require_whole(name, identity)
            docker("tag", name, reference)
        except EngineError:
            # The image must not remain under either name.
            docker("rmi", name, check=False)
            raise
        return True

    def _require_whole(self, name: str, identity: str) -> None:
        labels = _labels(inspect_image(name))
        if labels.get(IDENTITY_LABEL) != identity:
            claimed = labels.get(IDENTITY_LABEL) or "none"
            raise EngineError(
                f"{name} was refused: it says that it is of the recipe {claimed}, not {identity}",
                "build the image here, without --from, and push it again",
            )
        if labels.get(SEAL_LABEL) != seal_of(name):
            raise EngineError(
                f"{name} was refused: its files are not those that it was pushed with",
                "somebody has altered it: build the image here, without --from, and push it again",
            )

    def push(self, reference: str, identity: str) -> str:
        """Push an image's SBOM, then the image with its labels. Returns its name there. Raises EngineError."""
        name = self.name(reference)
        composition = read_composition(reference)
        sbom = sbom_of(reference, composition).encode()
        self._push(f"{name}-sbom", {"Dockerfile": _SBOM_RECIPE.encode(), SBOM_FILE: sbom}, {})
        labels = {
            IDENTITY_LABEL: identity,
            SEAL_LABEL: _seal(reference, composition.contents),
            SBOM_LABEL: hashlib.sha256(sbom).hexdigest(),
        }
        self._push(name, {"Dockerfile": f"FROM {reference}\n".encode()}, labels)
        return name

    def _push(self, name: str, context: Mapping[str, bytes], labels: Mapping[str, str]) -> None:
        """Build an image from a few files, push it, and remove it locally. Raises EngineError."""
        words = [word for label, value in labels.items() for word in ("--label", f"{label}={value}")]
        with tempfile.TemporaryDirectory(prefix="quic-lab-push-") as folder:
            for file, content in context.items():
                Path(folder, file).write_bytes(content)
            docker("buildx", "build", "--load", "--quiet", *words, "--tag", name, folder, timeout=_PATIENCE)
        completed = docker("push", "--quiet", name, check=False, timeout=_PATIENCE)
        with suppress(EngineError, subprocess.SubprocessError):
            docker("rmi", name, check=False)
        if completed.returncode != 0:
            raise command_error(f"pushing {name}", completed.stderr)


def origin_of(reference: str, place: str) -> str:
    """Name, with digest, of an image in the registry that it was pulled from; empty where it was built here."""
    with suppress(EngineError):
        digests = (inspect_image(reference) or {}).get("RepoDigests") or []
        return next((digest for digest in digests if digest.startswith(f"{place}/")), "")
    return ""


def _labels(image: dict[str, Any] | None) -> dict[str, str]:
    return (image or {}).get("Config", {}).get("Labels") or {}
