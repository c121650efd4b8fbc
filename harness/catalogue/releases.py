"""The releases of an implementation as contestants of their own: `quiche@0.24.4`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.errors import InputError
from harness.scenario.loader import load
from harness.scenario.manifest_parameters import RoleSettings
from harness.scenario.parameters import ROLES
from harness.scenario.schema import RELEASES_FILE, RELEASES_FOLDER, Implementation, Release, Releases, Version

#: How many releases a hint names.
_NEAREST = 4


def read_releases(implementation: Implementation, folder: Path) -> tuple[Release, ...]:
    """All releases that the registry has, oldest first. `folder`: the manifest's. InputError where none are known."""
    file = folder / RELEASES_FILE
    if implementation.versions is None:
        raise InputError(
            f"{implementation.name} has no releases here: its manifest does not say where they come from",
            f"'versions' in {folder / 'image.yaml'} says so, where a registry has them",
        )
    if not file.is_file():
        raise InputError(f"there is no {file}", f"'python -m tools.releases {implementation.name}' asks the registry")
    return load(file, Releases).releases


def supported_releases(implementation: Implementation, folder: Path) -> list[Release]:
    """The releases that can be built, oldest first: neither yanked, nor older than the endpoint supports."""
    releases = read_releases(implementation, folder)
    return [release for release in releases if why_absent(implementation, folder, release) is None]


def why_absent(implementation: Implementation, folder: Path, release: Release) -> str | None:
    """Why there is no image of a published release, in words that follow its name; None where there can be one."""
    versions = implementation.versions
    assert versions is not None
    if release.yanked:
        return "was yanked: its authors took it back"
    if release.version < versions.least:
        return f"is not supported by this endpoint, whose oldest release is {versions.least}"
    if not (is_current(implementation, release.version) or (folder / RELEASES_FOLDER / str(release.version)).is_dir()):
        return f"has no recipe yet ('python -m tools.releases {implementation.name} --add {release.version}' makes it)"
    return None


def is_current(implementation: Implementation, version: Version) -> bool:
    """Whether a version is the one that the recipe itself has."""
    own = implementation.versions.current if implementation.versions is not None else None
    return str(version) == str(own or implementation.version)


def release_of(implementation: Implementation, folder: Path, version_text: str) -> Implementation:
    """An implementation at one of its releases. InputError, with the nearest releases, where there is no such image."""
    name = f"{implementation.name}@{version_text}"
    releases = read_releases(implementation, folder)
    try:
        version = Version(version_text)
    except ValueError as error:
        raise InputError(f"{name}: {error}", f"for example {implementation.name}@{releases[-1].version}") from error
    # By the letter: 0.58 is no other word for 0.58.0, which the folder of its pins is called by.
    published = next((release for release in releases if str(release.version) == version_text), None)
    problem = f"nobody published {name}"
    if published is not None:
        why = why_absent(implementation, folder, published)
        problem = f"{name} {why}" if why is not None else ""
    if published is None or problem:
        usable = [item.version for item in releases if why_absent(implementation, folder, item) is None]
        raise InputError(problem, f"the nearest that can be built: {', '.join(map(str, nearest(version, usable)))}")
    title = implementation.title or implementation.name
    assert implementation.versions is not None
    if implementation.versions.current is not None:
        # The number is another's than the manifest's own.
        title += f", {implementation.versions.package}"
    return implementation.model_copy(
        update={
            "name": name,
            "title": f"{title} {published.version}",
            "version": str(published.version),
            "parameters": dict(_honoured(implementation, published.version)),
        }
    )


def _honoured(implementation: Implementation, version: Version) -> Iterator[tuple[str, RoleSettings]]:
    """The parameters as a release has them: one that came later cannot be set."""
    for name, settings in implementation.parameters.items():
        held: dict[str, object] = {
            role: setting if setting is None or not setting.since or version >= Version(setting.since) else None
            for role in ROLES
            for setting in [settings.of(role)]
        }
        yield name, settings.model_copy(update=held)


def nearest(version: Version, versions: Sequence[Version]) -> list[Version]:
    """Those next to a version in the order of releases, half of them on each side where there are so many."""
    before = [item for item in versions if item < version]
    after = [item for item in versions if item >= version]
    half = _NEAREST // 2
    first = max(len(before) - max(half, _NEAREST - len(after)), 0)
    return [*before[first:], *after][:_NEAREST]


def newest_of_each_minor(releases: Iterable[Release]) -> list[Release]:
    """Of the releases that share a major and minor number the newest, oldest first."""
    by_minor = {release.version.minor: release for release in releases}
    return list(by_minor.values())
