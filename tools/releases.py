"""`python -m tools.releases NAME`: what the registry of an implementation has, and recipes for its releases.

$ .venv/bin/python -m tools.releases quiche                    # releases.yaml: every version, with its date
$ .venv/bin/python -m tools.releases quiche --add 0.24.4       # releases/0.24.4/: the recipe's pins for that release

A recipe for a release has the versions of the current one in all else, as far as the release takes them: so what
differs between two releases is the release. No file names a registry: cargo, Go and pip know theirs.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from harness.catalogue.releases import is_current, read_releases
from harness.cli.entry import create_program, run_program
from harness.cli.environment import ROOT, open_app
from harness.engine.images.build import Build, Images, apply_patch
from harness.errors import EngineError, InputError
from harness.scenario.schema import RELEASES_FILE, RELEASES_FOLDER, Implementation, Release, Version, Versions

program = create_program("releases")

#: Where a registry's certificate comes from if a proxy signs it anew.
_CA = "/etc/ssl/certs/ca-certificates.crt"


@program.command()
def releases(
    names: Annotated[list[str], typer.Argument(help="Implementations.")],
    add: Annotated[list[str] | None, typer.Option(help="A version to make a recipe for.")] = None,
) -> None:
    """Write releases.yaml of implementations, and recipes for some of their releases."""
    app = open_app()
    for name in names:
        implementation, folder = app.catalogue.implementations().find(name)
        if implementation.versions is None:
            raise InputError(f"{folder / 'image.yaml'} has no 'versions'", "say where its releases come from")
        if not add:
            _write_releases(folder / RELEASES_FILE, _published(app.images, implementation.versions))
        for version in add or ():
            _add(app.images, implementation, folder, Version(version))


# --- what there is


def _published(images: Images, versions: Versions) -> list[Release]:
    """Every release of a package that its registry has, sorted, without those that are before a release."""
    ask = {"crates": _crates, "go": _modules, "pypi": _python_packages}[versions.from_]
    releases = {item.version: item for item in ask(images, versions.package) if not item.version.is_prerelease}
    return [releases[version] for version in sorted(releases)]


def _crates(images: Images, package: str) -> Iterable[Release]:
    """By the index that cargo keeps of a crate: JSON texts with zeros between them."""
    script = f"""
        mkdir -p /q/src; cd /q; touch src/lib.rs
        printf '%s\\n' '[package]' 'name = "q"' 'version = "0.0.0"' '[dependencies]' '{package} = "*"' >Cargo.toml
        cargo generate-lockfile --quiet
        cat $(find /root/.cargo/registry/index -path '*/.cache/*/{package}')"""
    for entry in _run(images.rust, images, script).split(b"\0"):
        if entry.startswith(b"{"):
            data = json.loads(entry)
            yield Release(version=Version(data["vers"]), date=_day(data["pubtime"]), yanked=data.get("yanked", False))


def _modules(images: Images, package: str) -> Iterable[Release]:
    """By the Go command; a version that its authors retract is yanked."""
    script = f"""
        mkdir /q; cd /q; go mod init q 2>/dev/null
        for version in $(go list -m -retracted -versions {package} | cut -d ' ' -f 2-); do
          go list -m -retracted -json {package}@$version
          echo ,
        done"""
    text = _run(images.go, images, script).decode()
    for data in json.loads(f"[{text.strip().rstrip(',')}]"):
        yield Release(
            version=Version(data["Version"].removeprefix("v")), date=_day(data["Time"]), yanked="Retracted" in data
        )


def _python_packages(images: Images, package: str) -> Iterable[Release]:
    """By the index that pip asks (PEP 691, PEP 700)."""
    index = subprocess.run(
        ["python3", "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    url = f"{os.environ.get('PIP_INDEX_URL', index).rstrip('/')}/{package}/"
    request = urllib.request.Request(url, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        files: list[dict[str, Any]] = json.load(answer)["files"]
    for file in files:
        # Of a wheel or a source archive: NAME-VERSION and what follows.
        if match := re.match(rf"{re.escape(package)}-([0-9][^-]*?)(-|\.tar\.gz$)", file["filename"]):
            yield Release(
                version=Version(match[1]), date=_day(file["upload-time"]), yanked=bool(file.get("yanked", False))
            )


def _day(moment: str) -> datetime.date:
    return datetime.date.fromisoformat(moment[:10])


def _write_releases(file: Path, releases: Sequence[Release]) -> None:
    lines = ["# Written by `python -m tools.releases`.", "schema: 1", "releases:"]
    for release in releases:
        yanked = ", yanked: true" if release.yanked else ""
        lines.append(f'  - {{version: "{release.version}", date: "{release.date}"{yanked}}}')
    file.write_text("\n".join(lines) + "\n")
    print(f"{file}: {len(releases)} releases")


# --- recipes


def _add(images: Images, implementation: Implementation, folder: Path, version: Version) -> None:
    """Make the recipe for a release: the files that hold its pins."""
    versions = implementation.versions
    assert versions is not None
    if all(release.version != version for release in read_releases(implementation, folder)):
        raise InputError(f"nobody published {implementation.name} {version}", f"{folder / RELEASES_FILE} has them all")
    if is_current(implementation, version):
        raise InputError(f"{version} is what the recipe of {implementation.name} has itself", "leave it out")
    pin = {"crates": _pin_crate, "go": _pin_module, "pypi": _pin_python_package}[versions.from_]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "recipe"
        shutil.copytree(folder, work, ignore=shutil.ignore_patterns(RELEASES_FOLDER))
        for adaptation in versions.adaptations:
            if version < adaptation.before:
                apply_patch(folder / RELEASES_FOLDER / adaptation.patch, work)
        changed = pin(images, versions, work, version)
        destination = folder / RELEASES_FOLDER / str(version)
        destination.mkdir(parents=True, exist_ok=True)
        for name in changed:
            shutil.copyfile(work / name, destination / name)
    print(f"{destination}: {', '.join(changed)}")


def _pin_crate(images: Images, versions: Versions, work: Path, version: Version) -> list[str]:
    manifest = work / "Cargo.toml"
    text = _replaced_pin(manifest.read_text(), versions.package, f"={version}")
    for name in versions.follow:
        # Which release of it fits follows from the package's; the lock has it.
        text = _replaced_pin(text, name, _compatible(text, name))
    manifest.write_text(text)
    # As much of the lock as possible stays.
    script = (
        "cd /work; sh /rust/lock.sh write; cargo update --quiet --workspace; "
        "grep -v '^source = ' Cargo.lock >crates.lock"
    )
    _run(images.rust, images, script, work)
    return ["Cargo.toml", "crates.lock"]


def _replaced_pin(text: str, name: str, requirement: str) -> str:
    """The text of a Cargo.toml with another requirement for a crate. InputError where it has none."""
    pattern = rf'(?m)^({re.escape(name)} = (?:\{{ version = )?)"[^"]+"'
    replaced, count = re.subn(pattern, rf'\g<1>"{requirement}"', text)
    if count != 1:
        raise InputError(f"Cargo.toml does not pin {name} once", "name the crate as it does")
    return replaced


def _compatible(text: str, name: str) -> str:
    """The requirement for every release of a crate that is compatible with the pinned one (Semantic Versioning)."""
    match = re.search(rf'(?m)^{re.escape(name)} = (?:\{{ version = )?"=?(\d+\.\d+)', text)
    if match is None:
        raise InputError(f"Cargo.toml does not pin {name}", "name the crate as it does")
    return match[1]


def _pin_module(images: Images, versions: Versions, work: Path, version: Version) -> list[str]:
    dropped = "".join(f" -droprequire={name}" for name in versions.follow)
    script = f"cd /work; go mod edit{dropped} -require={versions.package}@v{version}; go mod tidy"
    _run(images.go, images, script, work)
    if f"{versions.package} v{version}\n" not in (work / "go.mod").read_text():
        # Tidying takes a newer release where the source imports what the asked one lacks.
        raise EngineError(
            f"the endpoint's source needs packages that {version} lacks", "adapt it to that release first"
        )
    return ["go.mod", "go.sum"]


def _pin_python_package(images: Images, versions: Versions, work: Path, version: Version) -> list[str]:
    uv = ROOT / ".state" / "uv" / "bin" / "uv"
    if not uv.exists():
        raise InputError(f"there is no {uv}", "'make locks' installs it")
    file = work / "requirements.txt"
    pins = re.findall(r"(?m)^([A-Za-z0-9_.-]+)==([^\s\\]+)", file.read_text())
    lines = (f"{name}=={version if name == versions.package else pinned}\n" for name, pinned in pins)
    (work / "pins.txt").write_text("".join(lines))
    words = ["pip", "compile", "--quiet", "--no-config", "--generate-hashes", "--no-deps", "--no-header"]
    words += ["--no-annotate", "--python-version", "3.13", str(work / "pins.txt"), "--output-file", str(file)]
    file.unlink()
    _check(
        subprocess.run([str(uv), *words], env={**os.environ, "UV_SYSTEM_CERTS": "1"}, capture_output=True, check=False)
    )
    return ["requirements.txt"]


def _run(base: Build, images: Images, script: str, work: Path | None = None) -> bytes:
    """Output of a script in an image with a toolchain. EngineError where it fails."""
    images.make(base, lambda name, seconds: print(f"building {name}, about {seconds:.0f} s"))
    words = ["docker", "run", "--rm", "--network", "host"]
    if Path(_CA).exists():
        for variable in ("CARGO_HTTP_CAINFO", "SSL_CERT_FILE"):
            words += ["--env", f"{variable}=/run/ca.crt"]
        words += ["--volume", f"{_CA}:/run/ca.crt:ro"]
    if work is not None:
        words += ["--volume", f"{work}:/work"]
    command = [*words, base.reference, "sh", "-euc", script]
    return _check(subprocess.run(command, capture_output=True, check=False))


def _check(completed: subprocess.CompletedProcess[bytes]) -> bytes:
    if completed.returncode != 0:
        lines = completed.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise EngineError("\n  ".join(lines[-8:]))
    return completed.stdout


if __name__ == "__main__":
    run_program(lambda: get_command(program), "python -m tools.releases")
