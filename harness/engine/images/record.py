"""The record of an image's contents, beside its recipe, and differences between an image and its record.

A record (`components.json`) has no time and no host name. Each component has a line of its own, so that a diff of two
records lists the changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.engine.docker_cli import inspect_image
from harness.engine.images.build import BASE_IMAGE, IMAGE_LABEL, RECORD, Build
from harness.engine.images.components import KINDS, Component, Composition
from harness.errors import InputError
from harness.reading import read_regular

#: Value of a record for a base that mmdebstrap made here, and for a base that is not on this machine.
BOOTSTRAPPED, UNKNOWN = "bootstrapped", "unknown"
_SCHEMA = 1
#: Bytes of a record at most. The largest, of Rust, has 100 kB.
_MOST = 16 << 20


@dataclass(frozen=True)
class ImageRecord:
    """The contents of an image, and its base."""

    base: str
    """Digest of the published image that it starts from (sha256:…), `bootstrapped` or `unknown`."""
    composition: Composition

    def text(self) -> str:
        """The record as its file has it: JSON with a line for each component and each file."""
        composition = self.composition
        head = {
            "schema": _SCHEMA,
            "base": self.base,
            "distribution": composition.distribution,
            "contents": composition.contents,
        }
        components = (
            json.dumps({key: value for key, value in asdict(item).items() if value}) for item in composition.components
        )
        files = (f"{json.dumps(path)}: {json.dumps(digest)}" for path, digest in composition.files.items())
        parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        parts += [f' "components": [{_lines(components)}]', f' "files": {{{_lines(files)}}}']
        return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(items: Iterable[str]) -> str:
    text = ",".join(f"\n  {item}" for item in items)
    return f"{text}\n " if text else ""


def read_record(folder: Path) -> ImageRecord | None:
    """The record in a recipe's folder, or None. InputError where it is malformed."""
    file = folder.resolve() / RECORD
    try:
        return _record_of(json.loads(read_regular(file, _MOST)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        hint = f"delete it, and write it again: harness images {folder.name} --record"
        raise InputError(f"{file} is no record of an image: {error}", hint) from error


def _record_of(content: Any) -> ImageRecord:
    if content["schema"] != _SCHEMA:
        raise ValueError(f"schema {content['schema']}, not {_SCHEMA}")
    components = tuple(sorted(Component(**item) for item in content["components"]))
    files = dict(sorted(content["files"].items()))
    texts = [content["base"], content["contents"], content["distribution"], *files.values()]
    texts += [value for item in components for value in asdict(item).values()]
    if not all(isinstance(text, str) for text in texts) or not all(item.kind in KINDS for item in components):
        raise ValueError("a field has a value that it cannot have")
    return ImageRecord(content["base"], Composition(components, files, content["contents"], content["distribution"]))


def write_record(folder: Path, record: ImageRecord) -> Path:
    """Write the record of an image into its recipe's folder. The file. Raises OSError."""
    file = folder / RECORD
    unfinished = folder / f".{RECORD}.{os.getpid()}"
    unfinished.write_text(record.text())
    unfinished.replace(file)
    return file


def base_of(build: Build) -> str:
    """The base of a built image, in the form of a record. Raises EngineError.

    An image FROM scratch has none of its base's layers: its base is the one that compiled it, which is on this machine.
    """
    if build.upstream:
        return build.upstream.rpartition("@")[2]
    image, base = inspect_image(build.reference), inspect_image(BASE_IMAGE)
    if image is None or base is None:
        return UNKNOWN
    below, layers = base["RootFS"]["Layers"], image["RootFS"]["Layers"]
    if layers[: len(below)] != below and not _is_from_scratch(build):
        return UNKNOWN
    if (base["Config"].get("Labels") or {}).get(IMAGE_LABEL) == "1":
        return BOOTSTRAPPED
    digests = base.get("RepoDigests") or [base["Id"]]
    return str(digests[0]).rpartition("@")[2]


def _is_from_scratch(build: Build) -> bool:
    lines = (build.folder / "Dockerfile").read_text().splitlines()
    return [line for line in lines if line.startswith("FROM ")][-1] == "FROM scratch"


def differences(recorded: ImageRecord, now: ImageRecord) -> list[str]:
    """The differences between an image and its record, each as a sentence; empty where there are none."""
    expected, actual = recorded.composition, now.composition
    lines = [*_components(expected.components, actual.components), *_files(expected.files, actual.files)]
    if recorded.base != now.base and UNKNOWN not in (recorded.base, now.base):
        lines.append(f"the base is another: {recorded.base} → {now.base}")
    if not lines and expected.contents != actual.contents:
        lines.append("other files differ than those of components and programs")
    return lines


def _components(recorded: Iterable[Component], now: Iterable[Component]) -> Iterator[str]:
    expected, actual = _by_name(recorded), _by_name(now)
    for key in sorted(expected.keys() | actual.keys()):
        kind, name, _ = key
        before, after = expected.get(key, {}), actual.get(key, {})
        removed, added = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
        if len(removed) == len(added) == 1:
            yield f"{_named(name, removed[0])} → {added[0] or 'no version'} ({kind})"
        else:
            yield from (f"{_named(name, version)} is missing ({kind})" for version in removed)
            yield from (f"{_named(name, version)} was added ({kind})" for version in added)
        for version in sorted(before.keys() & after.keys()):
            if before[version] != after[version]:
                yield f"{_named(name, version)} has other content than recorded ({kind})"


def _by_name(components: Iterable[Component]) -> dict[tuple[str, str, str], dict[str, list[Component]]]:
    """(kind, name, architecture) → version → components: more than one where the image has several copies."""
    named: dict[tuple[str, str, str], dict[str, list[Component]]] = {}
    for item in components:
        versions = named.setdefault((item.kind, item.name, item.architecture), {})
        versions.setdefault(item.version, []).append(item)
    return named


def _named(name: str, version: str) -> str:
    return f"{name} {version}".rstrip()


def _files(recorded: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for path in sorted(recorded.keys() | now.keys()):
        if path not in now:
            yield f"{path} is missing"
        elif path not in recorded:
            yield f"{path} was added"
        elif recorded[path] != now[path]:
            yield f"{path} has other content"
