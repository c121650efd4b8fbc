"""Releases as contestants: what there is, what can be had, and the recipe that each is built from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalogue import Catalogue
from harness.catalogue.releases import (
    is_current,
    nearest,
    newest_of_each_minor,
    read_releases,
    release_of,
    supported_releases,
)
from harness.engine.images import build
from harness.engine.images.build import Images, Variant, folder_hash, fresh_copy, variant_of
from harness.engine.images.cache import Cache
from harness.errors import EngineError, InputError
from harness.scenario.loader import load
from harness.scenario.schema import Implementation, Releases, Version
from tools.releases import (
    locked_beside,
    merge_releases,
    parse_debian_packages,
    with_debian_package,
    without_feature,
)

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = """
schema: 1
name: mine
title: Mine
version: 1.3.0
build: .
colour: "#123456"
versions:
  from: crates
  package: mine
  least: 1.0.0
  adaptations:
    - {before: 1.2.0, patch: before-1.2.0.patch}
    - {before: 1.1.0, patch: before-1.1.0.patch}
parameters:
  congestion_control: {server: {flag: "--cc={value}", values: [reno, bbr], default: reno, since: 1.2.0}}
  initial_rtt: {flag: "--initial-rtt={ms}", default: 333 ms}
"""
RELEASES = """
schema: 1
releases:
  - {version: 0.9.0, date: "2024-01-01"}
  - {version: 1.0.0, date: "2024-02-01"}
  - {version: 1.1.0, date: "2024-03-01"}
  - {version: 1.1.1, date: "2024-04-01", yanked: true}
  - {version: 1.2.0, date: "2024-05-01"}
  - {version: 1.3.0, date: "2024-06-01"}
"""
FIRST_PATCH = """--- a/src/main.rs
+++ b/src/main.rs
@@ -1 +1 @@
-main of 1.3
+main of 1.1
"""
SECOND_PATCH = FIRST_PATCH.replace("main of 1.1", "main of 1.0").replace("main of 1.3", "main of 1.1")


def folder_of(root: Path) -> Path:
    """The folder of the implementation."""
    return root / "images" / "mine"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = folder_of(tmp_path)
    for name, text in {
        "image.yaml": MANIFEST,
        "releases.yaml": RELEASES,
        "Dockerfile": "FROM scratch\n",
        "Cargo.toml": 'mine = "=1.3.0"\n',
        "src/main.rs": "main of 1.3\n",
        "releases/before-1.2.0.patch": FIRST_PATCH,
        "releases/before-1.1.0.patch": SECOND_PATCH,
        "releases/1.0.0/Cargo.toml": 'mine = "=1.0.0"\n',
        "releases/1.1.0/Cargo.toml": 'mine = "=1.1.0"\n',
        "releases/1.2.0/Cargo.toml": 'mine = "=1.2.0"\n',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return tmp_path


Named = Callable[[str], tuple[Implementation, Path]]


@pytest.fixture
def named(root: Path) -> Named:
    return Catalogue(root).implementations().__getitem__


def test_a_release_is_an_implementation_of_its_own(named: Named) -> None:
    release, _ = named("mine@1.0.0")
    assert (release.name, release.base_name, release.release, release.version) == (
        "mine@1.0.0",
        "mine",
        "1.0.0",
        "1.0.0",
    )
    assert release.title == "Mine 1.0.0"


def test_all_releases_of_an_implementation_have_one_word(root: Path) -> None:
    catalogue = Catalogue(root)
    names = [item.name for item in catalogue.find_implementations("mine@all,mine", "server")]
    assert names == ["mine@1.0.0", "mine@1.1.0", "mine@1.2.0", "mine@1.3.0", "mine"]
    assert [str(release.version) for release in catalogue.releases("mine")] == ["1.0.0", "1.1.0", "1.2.0", "1.3.0"]
    assert catalogue.releases("nobody") == []
    with pytest.raises(InputError, match="no implementation 'nobody@all'"):
        catalogue.find_implementations("nobody@all", "server")
    with pytest.raises(InputError, match=r"'mine@1\.1\.0' is named twice"):
        catalogue.find_implementations("mine@1.1.0,mine@all", "server")


def test_the_title_of_a_release_says_what_its_number_is_of(root: Path) -> None:
    file = folder_of(root) / "image.yaml"
    file.write_text(MANIFEST.replace("package: mine", "package: mine-proto\n  current: 1.2.0"))
    implementations = Catalogue(root).implementations()
    assert implementations["mine"][0].title == "Mine"
    assert implementations["mine@1.0.0"][0].title == "Mine, mine-proto 1.0.0"
    assert implementations["mine@1.2.0"][0].title == "Mine, mine-proto 1.2.0"


def test_releases_are_not_among_all(root: Path) -> None:
    catalogue = Catalogue(root)
    assert list(catalogue.implementations()) == ["mine"]
    assert [item.name for item in catalogue.find_implementations("all", "server")] == ["mine"]
    assert [item.name for item in catalogue.find_implementations("mine@1.2.0,mine", "server")] == ["mine@1.2.0", "mine"]


@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("mine@7.0.0", "nobody published mine@7.0.0", "1.0.0, 1.1.0, 1.2.0, 1.3.0"),
        ("mine@1.2", "nobody published mine@1.2", "1.2.0"),
        ("mine@0.9.0", "not supported by this endpoint, whose oldest release is 1.0.0", "1.0.0, 1.1.0, 1.2.0, 1.3.0"),
        ("mine@1.1.1", "was yanked", "1.0.0, 1.1.0, 1.2.0, 1.3.0"),
        ("mine@new", "'new' is no version", "mine@1.3.0"),
        ("mine@", "'' is no version", "mine@1.3.0"),
    ],
)
def test_a_release_that_cannot_be_had(root: Path, name: str, reason: str, hint: str) -> None:
    with pytest.raises(InputError) as raised:
        Catalogue(root).find_implementations(name, "client")
    assert reason in raised.value.message and hint in raised.value.hint


def test_a_scenario_that_names_such_a_release_has_its_place(root: Path) -> None:
    file = root / "scenarios" / "one.yaml"
    file.parent.mkdir()
    file.write_text(
        "schema: 1\ntitle: x\npath: {forward: {rate: 10 Mbit/s, delay: 9 ms}, return: {rate: 10 Mbit/s, delay: 9 ms}}\n"
        "flows:\n  - {download: 1 MB, server: mine@0.9.0}\n"
    )
    with pytest.raises(InputError, match=re.escape("one.yaml:5:")) as raised:
        Catalogue(root).scenario(file)
    assert "whose oldest release is 1.0.0" in raised.value.message and "1.1.0" in raised.value.hint


def test_a_release_without_a_recipe_says_how_to_make_it(root: Path, named: Named) -> None:
    shutil.rmtree(folder_of(root) / "releases" / "1.2.0")
    with pytest.raises(InputError, match=r"no recipe yet \('python -m tools.releases mine --add 1.2.0'"):
        named("mine@1.2.0")


def test_a_parameter_that_came_later_cannot_be_set_before(named: Named) -> None:
    assert named("mine@1.1.0")[0].setting("server", "congestion_control") is None
    assert named("mine@1.2.0")[0].setting("server", "congestion_control") is not None
    assert named("mine@1.0.0")[0].setting("server", "initial_rtt") is not None


def test_the_context_of_a_release_has_its_pins_and_every_adaptation_for_it(named: Named) -> None:
    for version, main in (("1.2.0", "main of 1.3"), ("1.1.0", "main of 1.1"), ("1.0.0", "main of 1.0")):
        implementation, folder = named(f"mine@{version}")
        with fresh_copy(folder, variant_of(implementation, folder)) as context:
            assert (context / "Cargo.toml").read_text() == f'mine = "={version}"\n'
            assert (context / "src/main.rs").read_text() == f"{main}\n"
            assert not (context / "releases").exists()


def test_a_patch_of_a_file_that_holds_pins_is_of_the_recipe(root: Path, named: Named) -> None:
    """The pins of the release, which were made after the patch, stand in place of what it leads to."""
    patch = folder_of(root) / "releases" / "before-1.2.0.patch"
    pins = '--- a/Cargo.toml\n+++ b/Cargo.toml\n@@ -1 +1,2 @@\n mine = "=1.3.0"\n+more = "1"\n'
    patch.write_text(FIRST_PATCH + pins)
    implementation, folder = named("mine@1.1.0")
    with fresh_copy(folder, variant_of(implementation, folder)) as context:
        assert (context / "Cargo.toml").read_text() == 'mine = "=1.1.0"\n'
        assert (context / "src/main.rs").read_text() == "main of 1.1\n"


def test_a_patch_that_does_not_apply_is_an_error(named: Named) -> None:
    implementation, folder = named("mine@1.0.0")
    (folder / "src/main.rs").write_text("main of 1.4\n")
    with (
        pytest.raises(EngineError, match=r"before-1.2.0.patch does not apply"),
        fresh_copy(folder, variant_of(implementation, folder)),
    ):
        pass


def test_the_image_of_a_release_has_a_name_by_its_content(root: Path, named: Named) -> None:
    images = Images(root / "images", root / "state")
    builds = {name: images.build_of(*named(name)) for name in ("mine", "mine@1.3.0", "mine@1.2.0", "mine@1.0.0")}
    identities = {name: build.identity for name, build in builds.items() if build is not None}
    assert identities["mine"] == identities["mine@1.3.0"]
    assert len({identities["mine"], identities["mine@1.2.0"], identities["mine@1.0.0"]}) == 3
    # A patch counts where it applies, and nowhere else.
    patch = folder_of(root) / "releases" / "before-1.1.0.patch"
    patch.write_text(SECOND_PATCH.replace("main of 1.0", "main of 0.9"))
    again = Images(root / "images", root / "state")
    changed = {name: build.identity for name in builds if (build := again.build_of(*named(name))) is not None}
    assert {name for name in builds if changed[name] != identities[name]} == {"mine@1.0.0"}


def test_what_releases_have_is_no_part_of_the_current_image(root: Path) -> None:
    folder = folder_of(root)
    before = folder_hash(folder)
    (folder / "releases/1.2.0/Cargo.toml").write_text("other\n")
    (folder / "releases.yaml").write_text("other\n")
    assert folder_hash(folder) == before
    assert folder_hash(folder, Variant(folder / "releases/1.2.0")) != before
    with fresh_copy(folder) as context:
        assert not (context / "releases").exists()


def test_a_folder_named_releases_deeper_down_is_part_of_the_image(root: Path) -> None:
    """The harness's own image has the recipes of others below its checkout."""
    folder = folder_of(root)
    before = folder_hash(folder)
    deeper = folder / "checkout" / "releases" / "1.2.0.patch"
    deeper.parent.mkdir(parents=True)
    deeper.write_text("a patch\n")
    assert folder_hash(folder) != before
    with fresh_copy(folder) as context:
        assert (context / "checkout/releases/1.2.0.patch").read_text() == "a patch\n"
        assert folder_hash(context) == folder_hash(folder)


def test_the_images_of_releases_go_when_the_cache_is_full(
    root: Path, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that this process has asked for stay, and those that a run uses."""
    images = Images(root / "images", root / "state")
    needed = images.build_of(*named("mine@1.0.0"))
    assert needed is not None
    sizes = {
        needed.reference: 300,
        "quic-lab/old:1": 300,
        "quic-lab/new:1": 300,
        "quic-lab/used:1": 300,
        "quic-lab/running:1": 300,
    }
    ids = {name: f"sha256:{str(number) * 64}" for number, name in enumerate(sizes)}
    kept = [*sizes]
    docker_calls: list[tuple[str, ...]] = []

    def docker(*words: str, check: bool = True) -> SimpleNamespace:
        docker_calls.append(words)
        if words[0] == "rmi" and "running" not in words[-1]:
            kept.remove(words[-1])
        listed = [*kept, "<none>:<none>", "theirs/on-ours:1"]
        return SimpleNamespace(stdout="\n".join(listed), returncode=int("running" in words[-1]))

    inspected = {name: {"Id": ids[name], "Size": (100 + size) * 10**6} for name, size in sizes.items()}
    inspected[images.endpoint.reference] = {"Id": "sha256:base", "Size": 100 * 10**6}
    monkeypatch.setattr(build, "docker", docker)
    # Of nothing else may be asked: Docker calls <none>:<none> an invalid name.
    monkeypatch.setattr(build, "inspect_image", inspected.__getitem__)
    limit = Cache(root / "cache", 950 * 10**6)
    for age, name in enumerate(("quic-lab/new:1", "quic-lab/used:1", "quic-lab/old:1")):
        export = limit.roots / ids[name].removeprefix("sha256:")[:24]
        export.mkdir(parents=True)
        (export / "export.json").write_text("{}")
        with limit.use(f"rootfs/{export.name}"):
            pass
        os.utime(limit.folder / "uses" / f"rootfs-{export.name}", (1000 - age, 1000 - age))
    with limit.use(f"rootfs/{ids['quic-lab/used:1'].removeprefix('sha256:')[:24]}"):
        assert images.bound_releases(limit) == ["image quic-lab/old:1", "image quic-lab/new:1"]
    assert kept == [needed.reference, "quic-lab/used:1", "quic-lab/running:1"]
    assert {words[:2] for words in docker_calls} == {("images", "--filter"), ("rmi", "--force")}
    assert len([*limit.roots.iterdir()]) == 1, "an export goes with its image"
    assert images.bound_releases(limit) == []


LINE = 'mine = { version = "1", default-features = false, features = ["bloom", "qlog"] }'


@pytest.mark.parametrize(("feature", "left"), [("bloom", '["qlog"]'), ("qlog", '["bloom"]')])
def test_a_feature_that_a_release_lacks_is_left_out(feature: str, left: str) -> None:
    text = f'other = "1"\n{LINE}\nmine-proto = {{ version = "1", features = ["bloom"] }}\n'
    assert without_feature(text, "mine", feature) == text.replace('["bloom", "qlog"]', left)


@pytest.mark.parametrize(("name", "feature"), [("mine", "bbr"), ("mine", "1"), ("yours", "bloom")])
def test_a_feature_that_nobody_asks_for_cannot_be_left_out(name: str, feature: str) -> None:
    with pytest.raises(InputError, match=f"does not ask {name} for {feature}"):
        without_feature(LINE, name, feature)


def _pins(manifest: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What a Cargo.toml says besides its dependencies, and each of these."""
    content = tomllib.loads(manifest.read_text())
    pins = content.pop("dependencies")
    return content, {name: {"version": pin} if isinstance(pin, str) else pin for name, pin in pins.items()}


@pytest.mark.parametrize(
    "manifest", sorted(ROOT.glob("images/*/releases/*/Cargo.toml")), ids=lambda file: "@".join(file.parts[-4:-1:2])
)
def test_the_recipe_of_a_release_is_the_current_one_but_for_versions(manifest: Path) -> None:
    """A recipe that was made before the current one changed may not build: its lock fits another Cargo.toml."""
    rest, pins = _pins(manifest)
    current_rest, current_pins = _pins(manifest.parents[2] / "Cargo.toml")
    assert (rest, pins.keys()) == (current_rest, current_pins.keys())
    for name, pin in pins.items():
        current = current_pins[name]
        if "version" not in pin:
            # What is the lab's own is the same for all.
            assert pin == current, name
            continue
        # A release may lack a feature that a later one has.
        assert set(pin.pop("features", [])) <= set(current.pop("features", [])), name
        assert pin | {"version": ""} == current | {"version": ""}, name


LOCK = """
[[package]]
name = "mine"
version = "1.2.0"
dependencies = [
 "codec 0.2.0",
]

[[package]]
name = "around"
version = "3.0.0"
dependencies = [
 "codec 0.3.0",
]

[[package]]
name = "codec"
version = "0.2.0"

[[package]]
name = "codec"
version = "0.3.0"
"""


def test_the_version_that_follows_is_the_only_one_or_that_of_the_package() -> None:
    assert locked_beside(LOCK, "mine", "codec") == "0.2.0"
    assert locked_beside(LOCK, "mine", "around") == "3.0.0"
    with pytest.raises(InputError, match="no version of codec follows from that of yours"):
        locked_beside(LOCK, "yours", "codec")


MADISON = """1:3.4.7+dfsg-1|experimental|2026-10-14
3.2.26-1|forky|2026-10-12
3.2.26-1|unstable|2026-10-12
3.0.11-1+deb13u5|trixie-security|2025-06-03
3.0.11-1+deb13u4|trixie|2025-06-03
2.9.0-2~bpo13+1|trixie-backports|2024-01-01
"""
RECIPE = """ARG ENDPOINT=base
FROM scratch AS build
FROM ${ENDPOINT}
ARG PROXY_VERSION=3.0.11
RUN apt-get install "proxy=${PROXY_VERSION}-*"
"""


def test_a_version_of_debian_is_the_upstream_one_in_the_steadiest_suite() -> None:
    packages = parse_debian_packages(MADISON)
    assert [(str(item.version), item.suite, str(item.date)) for item in packages] == [
        ("3.4.7", "experimental", "2026-10-14"),
        ("3.2.26", "forky", "2026-10-12"),
        ("3.0.11", "trixie-security", "2025-06-03"),
        ("2.9.0", "trixie-backports", "2024-01-01"),
    ]


@pytest.mark.parametrize(("index", "sources"), [(0, "unstable experimental"), (1, "$DEBIAN_SUITE")])
def test_a_recipe_of_a_later_suite_has_its_packages(index: int, sources: str) -> None:
    package = parse_debian_packages(MADISON)[index]
    text = with_debian_package(RECIPE, "proxy", package)
    base, suite, version = (
        text.index(line)
        for line in (
            "FROM ${ENDPOINT}\n",
            f"ARG DEBIAN_SUITE={package.suite}\n",
            f"ARG PROXY_VERSION={package.version}\n",
        )
    )
    assert base < suite < version
    assert f"for suite in {sources}; do" in text


@pytest.mark.parametrize(
    "text", [RECIPE.replace("ARG PROXY", "ARG OTHER"), RECIPE.replace("FROM ${ENDPOINT}", "FROM x")]
)
def test_a_recipe_that_names_no_version_or_base_takes_no_package_of_debian(text: str) -> None:
    with pytest.raises(InputError, match="no default for PROXY_VERSION, or no line"):
        with_debian_package(text, "proxy", parse_debian_packages(MADISON)[0])


def test_a_release_that_debian_dropped_stays_known(root: Path) -> None:
    known = load(folder_of(root) / "releases.yaml", Releases).releases
    later = known[-1].model_copy(update={"note": "again"})
    merged = merge_releases([*known[:-1], later, known[1]])
    assert merged == [*known[:-1], later]


numbers = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))


@given(st.sets(numbers, min_size=1, max_size=20), numbers)
def test_the_nearest_releases_are_next_to_it(published: set[tuple[int, int, int]], asked: tuple[int, int, int]) -> None:
    versions = [Version(".".join(map(str, item))) for item in sorted(published)]
    neighbours = nearest(Version(".".join(map(str, asked))), versions)
    first = versions.index(neighbours[0])
    assert neighbours == versions[first : first + len(neighbours)] and len(neighbours) == min(4, len(versions))
    after = sum(item < asked for item in published)
    assert not published or first <= after <= first + len(neighbours)


@given(st.lists(numbers, min_size=2, max_size=2, unique=True))
def test_versions_have_the_order_of_their_numbers(pair: list[tuple[int, int, int]]) -> None:
    first, second = (Version(".".join(map(str, item))) for item in pair)
    assert (first < second) == (pair[0] < pair[1])


def shipped() -> list[tuple[Implementation, Path]]:
    entries = Catalogue(ROOT).implementations().values()
    return [(item, folder) for item, folder in entries if item.versions is not None]


@pytest.mark.parametrize(("implementation", "folder"), shipped(), ids=lambda item: getattr(item, "name", ""))
def test_shipped_releases(implementation: Implementation, folder: Path) -> None:
    """Every release with a recipe is published and supported, has every patch that is for it, and its own pins."""
    releases = read_releases(implementation, folder)
    assert any(is_current(implementation, release.version) for release in releases)
    supported = {str(release.version) for release in supported_releases(implementation, folder)}
    recipes = [path for path in sorted((folder / "releases").glob("*")) if path.is_dir()]
    assert {path.name for path in recipes} <= supported
    for recipe in recipes:
        release = release_of(implementation, folder, recipe.name)
        assert implementation.versions is not None
        package = re.escape(implementation.versions.package)
        with fresh_copy(folder, variant_of(release, folder)) as context:
            pins = "".join(path.read_text() for name in ("Cargo.toml", "go.mod", "requirements.txt", "Dockerfile")
                           if (path := context / name).exists())  # fmt: skip
        # In a Dockerfile, a build argument has the version.
        assert re.search(rf"(?i)(^ARG {package}_VERSION=|{package}\W.*){re.escape(recipe.name)}\b", pins, re.MULTILINE)


def test_the_newest_of_each_minor(root: Path) -> None:
    releases = load(folder_of(root) / "releases.yaml", Releases).releases
    assert [str(release.version) for release in newest_of_each_minor(releases)] == [
        "0.9.0",
        "1.0.0",
        "1.1.1",
        "1.2.0",
        "1.3.0",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RELEASES.replace("0.9.0", "1.9.0"), "1.0.0 stands behind 1.9.0"),
        (RELEASES.replace("0.9.0", "nine"), "releases.0.version: 'nine' is no version"),
        (RELEASES.replace("2024-01-01", "soon"), "releases.0.date"),
    ],
)
def test_a_wrong_file_of_releases(root: Path, text: str, message: str) -> None:
    (folder_of(root) / "releases.yaml").write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        Catalogue(root).find_implementations("mine@1.0.0", "client")


@pytest.mark.parametrize("name", ["mine", "mine@1.0.0"])
def test_the_printed_command_repeats_a_build_that_failed(
    name: str, root: Path, named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is printed, by a shell, in another folder: with arguments, secrets, and the context of the release."""
    program, note = tmp_path / "bin" / "docker", tmp_path / "note"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/bash\nfor folder; do :; done\n"
        f'{{ printf "%s\\n" "${{@:1:$#-1}}"; cat "$folder/Cargo.toml" "$folder/src/main.rs"; }} >> {note}\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    (ca := tmp_path / "our own 'CA'.pem").write_text("")
    (folder_of(root) / "Dockerfile").write_text("ARG ENDPOINT\nARG CARGO_BUILD_JOBS\nFROM ${ENDPOINT}\n")
    images = Images(root / "images", root / "state of mine", ca)
    build_of = images.build_of(*named(name))
    assert build_of is not None
    with pytest.raises(EngineError, match="could not be built") as raised:
        images._run_build(build_of, 1)
    first = note.read_text()
    assert f"id=ca,src={ca}\n" in first
    assert f"ENDPOINT={images.endpoint.reference}\n" in first and "CARGO_BUILD_JOBS=1\n" in first
    assert first.endswith("main of 1.0\n") == (name == "mine@1.0.0")
    command = raised.value.hint.splitlines()[-1]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=False)
    assert note.read_text() == first * 2
