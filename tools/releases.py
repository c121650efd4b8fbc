"""`python -m tools.releases NAME`: what the registry of an implementation has, and recipes for its releases.

$ .venv/bin/python -m tools.releases quiche                    # releases.yaml: every version, with its date
$ .venv/bin/python -m tools.releases quiche --add 0.24.4       # releases/0.24.4/: the recipe's pins for that release

A recipe for a release has the versions of the current one in all else, as far as the release takes them: so what
differs between two releases is the release. No file names a registry: cargo, Go and pip know theirs.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from harness.catalogue.releases import is_current, read_releases
from harness.cli.entry import create_program, run_program
from harness.cli.environment import open_app
from harness.cli.workspace import ROOT
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
    follow: Annotated[
        list[str] | None,
        typer.Option(help="crate=version: of one that follows, where its own requirements allow what does not build."),
    ] = None,
) -> None:
    """Write releases.yaml of implementations, and recipes for some of their releases."""
    app = open_app()
    for name in names:
        implementation, folder = app.catalogue.implementations().find(name)
        if implementation.versions is None:
            raise InputError(f"{folder / 'image.yaml'} has no 'versions'", "say where its releases come from")
        if not add:
            file = folder / RELEASES_FILE
            known = read_releases(implementation, folder) if file.exists() else ()
            notes = {release.version: release.note for release in known}
            published = _published(app.images, implementation.versions)
            if implementation.versions.from_ == "debian":
                # Where it was packaged once, its image may be here still.
                published = merge_releases([*known, *published])
            _write_releases(file, published, notes)
        for version in add or ():
            _add(
                app.images,
                implementation,
                folder,
                Version(version),
                _follower_versions(implementation.versions, follow or ()),
            )


def _follower_versions(versions: Versions, words: Iterable[str]) -> dict[str, str]:
    """Versions of crates that follow, as `crate=version`. InputError for any other."""
    follower_versions: dict[str, str] = {}
    for word in words:
        name, _, version = word.partition("=")
        if versions.from_ != "crates" or name not in versions.follow or not version:
            raise InputError(f"'{word}' is no version of a crate that follows {versions.package}", "crate=1.2.3")
        follower_versions[name] = version
    return follower_versions


# --- what there is


def _published(images: Images, versions: Versions) -> list[Release]:
    """Every release of a package that its registry has, sorted, without those that are before a release."""
    ask = {"crates": _crates, "go": _modules, "pypi": _python_packages, "debian": _debian_packages}[versions.from_]
    return merge_releases(item for item in ask(images, versions.package) if not item.version.is_prerelease)


def _crates(images: Images, package: str) -> Iterable[Release]:
    for data in _crate_index(images, package):
        yield Release(version=Version(data["vers"]), date=_day(data["pubtime"]), yanked=data.get("yanked", False))


def _crate_index(images: Images, package: str) -> Iterable[dict[str, Any]]:
    """What the index that cargo keeps says of a crate's releases: JSON texts with zeros between them."""
    script = f"""
        mkdir -p /q/src; cd /q; touch src/lib.rs
        printf '%s\\n' '[package]' 'name = "q"' 'version = "0.0.0"' '[dependencies]' '{package} = "*"' >Cargo.toml
        cargo generate-lockfile --quiet
        cat $(find /root/.cargo/registry/index -path '*/.cache/*/{package}')"""
    for entry in _run(images.rust, images, script).split(b"\0"):
        if entry.startswith(b"{"):
            yield json.loads(entry)


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


#: Prints a line VERSION|SUITE|DAY for each version of a package that Debian has in the suite of the images and in later
#: ones, the steadiest suite first. The day is that of the upstream version's first entry in the package's changelog.
_DEBIAN_SCRIPT = """
    . /etc/os-release
    apt-get -qq update
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $VERSION_CODENAME" | head -n 1)
    for suite in $VERSION_CODENAME-backports testing unstable experimental; do
      echo "deb [check-valid-until=no] $mirror $suite main"
    done >/etc/apt/sources.list.d/later.list
    apt-get -qq update
    testing=$(apt-get indextargets --format '$(CODENAME)' 'Suite: testing' | head -n 1)
    cd /tmp
    apt-cache madison PACKAGE | while IFS='| ' read -r _ version _ place _; do
      suite=${place%/main}
      [ "$suite" != testing ] || suite=$testing
      apt-get -qq download "PACKAGE=$version" 2>/dev/null
      dpkg-deb --fsys-tarfile PACKAGE_*.deb | tar -xO ./usr/share/doc/PACKAGE/changelog.Debian.gz | gunzip >changelog
      rm PACKAGE_*.deb
      day=$(awk -v upstream="${version%-*}" '
        /^PACKAGE / { same = index($2, "(" upstream "-") == 1 }
        same && /^ -- / { sub(".*>  ", ""); day = $0 }
        END { print day }' changelog)
      echo "$version|$suite|$(date --utc --date "$day" +%F)"
    done"""


@dataclass(frozen=True)
class DebianPackage:
    """A version of a package as a suite of Debian has it."""

    version: Version
    """Of what is packaged, without Debian's revision."""
    suite: str
    """Where it is: a codename, which a mirror keeps, but for unstable and experimental."""
    date: datetime.date
    """Day on which Debian packaged this version first."""


def parse_debian_packages(lines: str) -> list[DebianPackage]:
    """The packages that lines VERSION|SUITE|DAY name; of each upstream version that of the first suite."""
    packages: dict[Version, DebianPackage] = {}
    for line in lines.splitlines():
        debian_version, suite, day = line.split("|")
        # An epoch before it; behind it what was left out of the source, a backport, and Debian's revision.
        version = Version(re.sub(r"^\d+:|[+~-].*$", "", debian_version))
        packages.setdefault(version, DebianPackage(version, suite, _day(day)))
    return list(packages.values())


@functools.cache
def _debian(images: Images, package: str) -> list[DebianPackage]:
    """Asked once a command: apt fetches the indexes of every suite, and each version of the package."""
    return parse_debian_packages(_run(images.endpoint, images, _DEBIAN_SCRIPT.replace("PACKAGE", package)).decode())


def _debian_packages(images: Images, package: str) -> Iterable[Release]:
    """By apt. Debian keeps a version only as long as one of its suites has it."""
    return [Release(version=item.version, date=item.date) for item in _debian(images, package)]


def merge_releases(releases_of_all: Iterable[Release]) -> list[Release]:
    """The releases, sorted, each once. What the last says of a version counts."""
    releases = {item.version: item for item in releases_of_all}
    return [releases[version] for version in sorted(releases)]


def _day(moment: str) -> datetime.date:
    return datetime.date.fromisoformat(moment[:10])


def _write_releases(file: Path, releases: Sequence[Release], notes: Mapping[Version, str]) -> None:
    """Write the file. `notes`: those that it has, which are by hand."""
    lines = ["# Written by `python -m tools.releases`.", "schema: 1", "releases:"]
    for release in releases:
        yanked = ", yanked: true" if release.yanked else ""
        note = f", note: {json.dumps(notes[release.version])}" if notes.get(release.version) else ""
        lines.append(f'  - {{version: "{release.version}", date: "{release.date}"{yanked}{note}}}')
    file.write_text("\n".join(lines) + "\n")
    print(f"{file}: {len(releases)} releases")


# --- recipes


def _add(
    images: Images, implementation: Implementation, folder: Path, version: Version, follower_versions: Mapping[str, str]
) -> None:
    """Make the recipe for a release: the files that hold its pins. `follower_versions`: those of crates that follow."""
    versions = implementation.versions
    assert versions is not None
    if all(release.version != version for release in read_releases(implementation, folder)):
        raise InputError(f"nobody published {implementation.name} {version}", f"{folder / RELEASES_FILE} has them all")
    if is_current(implementation, version):
        raise InputError(f"{version} is what the recipe of {implementation.name} has itself", "leave it out")
    pins: dict[str, Callable[[Images, Versions, Path, Version], list[str]]] = {
        "crates": functools.partial(_pin_crate, follower_versions=follower_versions),
        "go": _pin_module,
        "pypi": _pin_python_package,
        "debian": _pin_debian_package,
    }
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "recipe"
        shutil.copytree(folder, work, ignore=shutil.ignore_patterns(RELEASES_FOLDER))
        for adaptation in versions.adaptations:
            if version < adaptation.before:
                apply_patch(folder / RELEASES_FOLDER / adaptation.patch, work)
        changed = pins[versions.from_](images, versions, work, version)
        destination = folder / RELEASES_FOLDER / str(version)
        destination.mkdir(parents=True, exist_ok=True)
        for name in changed:
            shutil.copyfile(work / name, destination / name)
    print(f"{destination}: {', '.join(changed)}")


def _pin_crate(
    images: Images, versions: Versions, work: Path, version: Version, follower_versions: Mapping[str, str]
) -> list[str]:
    manifest = work / "Cargo.toml"
    if not manifest.exists():
        return _pin_programs_of_crate(images, versions.package, work / "Dockerfile", version)
    text = _replaced_pin(manifest.read_text(), versions.package, f"={version}")
    for name in versions.follow:
        text = _replaced_pin(
            text, name, f"={follower_versions[name]}" if name in follower_versions else _any_release(text, name)
        )
    text, left_out = _with_features_that_are_there(images, work, text)
    if left_out:
        print("left out of features: " + ", ".join(f"{name}'s {feature}" for name, feature in left_out))
    # Which release of the others fits follows from the package's; the lock has it.
    lock = (work / "crates.lock").read_text()
    for name in versions.follow:
        text = _replaced_pin(text, name, f"={locked_beside(lock, versions.package, name)}")
    if error := _lock_error(images, work, text):
        raise error
    return ["Cargo.toml", "crates.lock"]


def _lock_error(images: Images, work: Path, text: str) -> EngineError | None:
    """Write Cargo.toml and the lock for it, of which as much as possible stays. Why that fails, or None."""
    (work / "Cargo.toml").write_text(text)
    script = (
        "cd /work; sh /rust/lock.sh write; cargo update --quiet --workspace; "
        "grep -v '^source = ' Cargo.lock >crates.lock"
    )
    try:
        _run(images.rust, images, script, work)
    except EngineError as error:
        return error
    return None


def _with_features_that_are_there(images: Images, work: Path, text: str) -> tuple[str, list[tuple[str, str]]]:
    """The text of a Cargo.toml, locked, without features that no release of a crate has that fits, and these."""

    def without(features: Sequence[tuple[str, str]]) -> str:
        return functools.reduce(lambda left, feature: without_feature(left, *feature), features, text)

    left_out: list[tuple[str, str]] = []
    while error := _lock_error(images, work, without(left_out)):
        if (lacking := _LACKING.search(str(error))) is None:
            raise error
        left_out.append((lacking[1], lacking[2]))
    # Cargo names any of the features that cannot be had together. One that was left out early may be had after all.
    for feature in left_out[:-1]:
        remaining = [item for item in left_out if item != feature]
        if _lock_error(images, work, without(remaining)) is None:
            left_out = remaining
    if left_out and (error := _lock_error(images, work, without(left_out))):
        raise error
    return without(left_out), left_out


#: What cargo says of a feature that no release of a crate has that fits: the crate, and the feature.
_LACKING = re.compile(r"depends on `([^`]+)` with feature `([^`]+)` but")


def without_feature(text: str, name: str, feature: str) -> str:
    """The text of a Cargo.toml without one feature of a crate. InputError where it does not ask for it there."""
    pattern = rf"(?m)^({re.escape(name)} = .*features = \[)([^\]]*)(\].*)$"
    match = re.search(pattern, text)
    features = re.findall(r'"([^"]+)"', match[2]) if match else []
    if match is None or feature not in features:
        raise InputError(f"Cargo.toml does not ask {name} for {feature}", "name the crate and its features in one line")
    listed = ", ".join(f'"{item}"' for item in features if item != feature)
    return f"{text[: match.start()]}{match[1]}{listed}{match[3]}{text[match.end() :]}"


def _pin_programs_of_crate(images: Images, package: str, dockerfile: Path, version: Version) -> list[str]:
    """Of a recipe that builds a crate's own programs, with the crate's own lock: its version and checksum."""
    checksum = next(data["cksum"] for data in _crate_index(images, package) if data["vers"] == str(version))
    text = dockerfile.read_text()
    for suffix, value in (("VERSION", version), ("SHA256", checksum)):
        argument = f"{package.upper().replace('-', '_')}_{suffix}"
        text, count = re.subn(rf"(?m)^ARG {argument}=.*$", f"ARG {argument}={value}", text)
        if count != 1:
            raise InputError(f"{dockerfile.name} has no default for {argument}", "pin the crate there")
    dockerfile.write_text(text)
    return [dockerfile.name]


def _replaced_pin(text: str, name: str, requirement: str) -> str:
    """The text of a Cargo.toml with another requirement for a crate. InputError where it has none."""
    pattern = rf'(?m)^({re.escape(name)} = (?:\{{ version = )?)"[^"]+"'
    replaced, count = re.subn(pattern, rf'\g<1>"{requirement}"', text)
    if count != 1:
        raise InputError(f"Cargo.toml does not pin {name} once", "name the crate as it does")
    return replaced


def _any_release(text: str, name: str) -> str:
    """The requirement for every release of a crate that has the major version of the pinned one.

    Not Semantic Versioning's: crates that count 0.90, 0.91 beside each release of the package follow it all the same.
    """
    match = re.search(rf'(?m)^{re.escape(name)} = (?:\{{ version = )?"=?(\d+)', text)
    if match is None:
        raise InputError(f"Cargo.toml does not pin {name}", "name the crate as it does")
    return match[1]


def locked_beside(lock: str, package: str, name: str) -> str:
    """The version of a crate in a lock: where it has several, that which the package itself depends on."""
    locked = re.findall(rf'(?m)^name = "{re.escape(name)}"\nversion = "([^"]+)"', lock)
    if len(locked) != 1:
        entry = re.search(rf'(?ms)^name = "{re.escape(package)}"\n.*?(?=^\[\[|\Z)', lock)
        locked = re.findall(rf'(?m)^ "{re.escape(name)} ([^" ]+)', entry[0] if entry else "")
    if len(locked) != 1:
        raise InputError(f"no version of {name} follows from that of {package}", f"'--follow {name}=VERSION' tells it")
    return str(locked[0])


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
    pins = dict(re.findall(r"(?m)^([A-Za-z0-9_.-]+)==([^\s\\]+)", file.read_text()))
    pins[versions.package] = str(version)
    # Where the release excludes a version that the recipe has, the newest that it takes: uv keeps what its output had.
    # Which wheels there are counts, too, since the build has no compiler.
    (work / "names.txt").write_text("".join(f"{name}\n" for name in pins if name != versions.package))
    (work / "asked.txt").write_text(f"{versions.package}=={version}\n")
    kept = "".join(f"{name}=={pinned}\n" for name, pinned in pins.items() if name not in versions.follow)
    (work / "pins.txt").write_text(kept)
    _compile(uv, work, "pins.txt", "asked.txt", "names.txt", "--only-binary", ":all:")
    compiled = dict(re.findall(r"(?m)^([A-Za-z0-9_.-]+)==(\S+)$", (work / "pins.txt").read_text()))
    # The recipe says which packages there are: one that is not among them is not needed by what the image runs.
    (work / "pins.txt").write_text("".join(f"{name}=={compiled[name]}\n" for name in pins))
    file.unlink()
    _compile(uv, work, "requirements.txt", "pins.txt", "--generate-hashes", "--no-deps")
    return ["requirements.txt"]


#: What a recipe has before the packages of a suite that is not the images' own. The version is pinned, so an old index
#: of packages does no harm.
_SUITE_LINES = """
# Debian has this version in a later suite, and drops it there with the next one: then this recipe builds no longer.
ARG DEBIAN_SUITE={suite}
RUN set -eu; \\
    apt-get update; \\
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | head -n 1); \\
    for suite in {sources}; do echo "deb [check-valid-until=no] $mirror $suite main"; done \\
      >/etc/apt/sources.list.d/later.list; \\
    echo "APT::Default-Release \\"$DEBIAN_SUITE\\";" >/etc/apt/apt.conf.d/50later
"""


def _pin_debian_package(images: Images, versions: Versions, work: Path, version: Version) -> list[str]:
    package = next((item for item in _debian(images, versions.package) if item.version == version), None)
    if package is None:
        raise InputError(
            f"Debian has {versions.package} {version} no longer", "see what it has: the same without --add"
        )
    dockerfile = work / "Dockerfile"
    dockerfile.write_text(with_debian_package(dockerfile.read_text(), versions.package, package))
    return [dockerfile.name]


def with_debian_package(text: str, name: str, package: DebianPackage) -> str:
    """The text of a Dockerfile with another version of a package, and the suite that has it.

    InputError where the text does not pin the package, or does not start from the base of the endpoints.
    """
    argument = f"{name.upper().replace('-', '_')}_VERSION"
    text, pinned = re.subn(rf"(?m)^ARG {argument}=.*$", f"ARG {argument}={package.version}", text)
    base = re.search(r"(?m)^FROM \$\{ENDPOINT\}\n", text)
    if pinned != 1 or base is None:
        raise InputError(
            f"the Dockerfile has no default for {argument}, or no line 'FROM ${{ENDPOINT}}'", "give it both"
        )
    # What an experimental package depends on is in unstable.
    sources = "unstable experimental" if package.suite == "experimental" else "$DEBIAN_SUITE"
    block = _SUITE_LINES.format(suite=package.suite, sources=sources)
    return text[: base.end()] + block.lstrip() + text[base.end() :]


def _compile(uv: Path, work: Path, output: str, *words: str) -> None:
    """Have uv write the versions that files and options (`words`) ask for: those of the output before, if it can."""
    command = [str(uv), "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    command += ["--python-version", "3.13", "--output-file", output, *words]
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1"}
    _check(subprocess.run(command, cwd=work, env=environment, capture_output=True, check=False))


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
    command = [*words, "--entrypoint", "sh", base.reference, "-euc", script]
    return _check(subprocess.run(command, capture_output=True, check=False))


def _check(completed: subprocess.CompletedProcess[bytes]) -> bytes:
    if completed.returncode != 0:
        lines = completed.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise EngineError("\n  ".join(lines[-20:]))
    return completed.stdout


if __name__ == "__main__":
    run_program(lambda: get_command(program), "python -m tools.releases")
