"""What is needed from elsewhere: published images and repositories, and whether they can be had here."""

from __future__ import annotations

import urllib.error
import urllib.request
from functools import cache

from harness.engine.docker_cli import inspect_image
from harness.scenario.schema import Implementation

#: Seconds an answer may take.
PATIENCE = 5.0


def missing(implementation: Implementation) -> str | None:
    """Why an implementation that is not on this machine cannot be made here; None where it can be.

    Published images are never pulled unasked, so one that is not present counts as missing; a repository is
    asked for. Raises EngineError when the Docker daemon does not answer.
    """
    if implementation.image is not None:
        return None if inspect_image(implementation.image) else _not_present("its image", implementation.image)
    if implementation.upstream_image is not None and inspect_image(implementation.upstream_image) is None:
        return _not_present("it is built on the image", implementation.upstream_image)
    if implementation.upstream_repository is not None:
        said = _unreachable(implementation.upstream_repository)
        if said:
            return f"it is built from {implementation.upstream_repository}, which does not answer ({said})"
    return None


def _not_present(what: str, image: str) -> str:
    return f"{what} {image} is not on this machine ('docker pull {image}')"


@cache
def _unreachable(repository: str) -> str:
    """Why a Git repository does not answer over HTTP; empty when it does."""
    # What `git clone` asks first (gitprotocol-http, smart clients).
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
