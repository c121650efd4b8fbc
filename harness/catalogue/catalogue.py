"""Reads the scenarios and implementations below a root folder, each once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pydantic

import harness
from harness.catalogue import limits, support
from harness.catalogue.releases import release_of, supported_releases
from harness.catalogue.support import SupportChecker
from harness.derived import DERIVED, file_stamp, package_files
from harness.errors import InputError, did_you_mean
from harness.formatting import format_value
from harness.netem import find_inexpressible, mobility
from harness.planning import design, sampling
from harness.planning.sweep import Combine, Point, SweepError, expand_points, is_path_name
from harness.scenario.loader import Positions, read_yaml, to_error, validate_data
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ROLES, Parameter, Role
from harness.scenario.schema import RELEASES_FOLDER, Implementation, Release, Scenario
from harness.scenario.validation_errors import Location, Mistake

# --- Mistakes in a manifest's parameters: reserved variables, line ends, defaults out of bounds.


#: Reserved variables of an endpoint: of the interop runner's contract, of our additions to it, and of the shell.
_RESERVED_VARIABLES = frozenset(
    {
        "ROLE",
        "TESTCASE",
        "REQUESTS",
        "PROTOCOLS",
        "DOWNLOAD_DIR",
        "SSLKEYLOGFILE",
        "QLOGDIR",
        "CLIENT_PARAMS",
        "SERVER_PARAMS",
        "PEER",
        "TRAFFIC",
        "SESSION_DIR",
        "MOVES",
        "ADDRESSES",
        "ROUTES",
        "ASKED",
        "DRY_RUN",
        "PATH",
        "HOME",
        "HOSTNAME",
        "PWD",
        "SHELL",
        "USER",
        "IFS",
        "ENV",
        "BASH_ENV",
    }
)
#: Prefix of the variables of the dynamic linker (ld.so(8)), which could make another program run.
_LINKER = "LD_"
#: Line ends and control characters, which words of a command line must not have.
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def _entries_of_flows(written: Sequence[Mapping[str, Any]]) -> list[int]:
    """For each flow of a scenario the index of its entry in the file; an entry with a count stands for several."""
    return [index for index, entry in enumerate(written) for _ in range(entry.get("count", 1))]


def _as_written(mistake: Mistake, entries: Sequence[int]) -> Mistake:
    """A mistake with the index of a flow's entry in the file in place of the flow's own."""
    if len(mistake.location) < 2 or mistake.location[0] != "flows" or not isinstance(mistake.location[1], int):
        return mistake
    return replace(mistake, location=("flows", entries[mistake.location[1]], *mistake.location[2:]))


def manifest_mistakes(implementation: Implementation) -> Iterator[Mistake]:
    """The mistakes in a manifest's parameters and variables."""
    for name in implementation.virtual_environment:
        yield from _reserved_variable(("virtual_environment", name), name, of_key=True)
    for name, text in implementation.virtual_environment.items():
        yield from _one_line(("virtual_environment", name), text)
    for name, settings in implementation.parameters.items():
        distinct: list[Setting] = []
        for role in ROLES:
            setting = settings.of(role)
            if setting is None or setting in distinct:
                # A setting for both roles is checked once.
                continue
            distinct.append(setting)
            yield from _setting(("parameters", name, role), PARAMETERS[name], setting)


def _setting(location: Location, parameter: Parameter, setting: Setting) -> Iterator[Mistake]:
    for key in ("flag", "environment", "sysctl", "asks"):
        yield from _one_line((*location, key), getattr(setting, key))
    words = setting.values.values() if isinstance(setting.values, dict) else setting.values or ()
    for word in words:
        yield from _one_line((*location, "values"), word)
    if setting.environment is not None:
        yield from _reserved_variable((*location, "environment"), setting.environment.partition("=")[0])
    default = None if setting.default is None else parameter.number(parameter.canonical(setting.default))
    for bound, sign, side in ((setting.minimum, 1, "below the minimum"), (setting.maximum, -1, "above the maximum")):
        limit = None if bound is None else parameter.number(parameter.canonical(bound))
        # An image may start from a value that cannot be set (tquic from 1200 B): then a note must say so.
        if default is not None and limit is not None and sign * default < sign * limit and not setting.note.strip():
            text = f"the default {setting.default} is {side} {bound}, and no note says why"
            yield Mistake((*location, "default"), text, "correct one of the two, or add a note")


def _reserved_variable(location: Location, name: str, *, of_key: bool = False) -> Iterator[Mistake]:
    if name in _RESERVED_VARIABLES or name.startswith(_LINKER):
        text = f"{name} is what every endpoint has, and would be another"
        yield Mistake(location, text, "let the image read a variable of its own", of_key)


def _one_line(location: Location, text: str | None) -> Iterator[Mistake]:
    if text is not None and (control := _CONTROL.search(text)):
        text = f"{format_value(text)} has the character U+{ord(control[0]):04X}, and is a word of one line"
        yield Mistake(location, text, "write it on one line, without tabs")


# --- catalogue


SCENARIOS, IMAGES = "scenarios", "images"
MANIFEST = "image.yaml"


@dataclass(frozen=True)
class ListedScenario:
    """What a list says of a scenario."""

    name: str
    title: str
    repetitions: int


@dataclass(frozen=True)
class _ReadScenario:
    """A scenario by its schema, its file's positions and data, and the files that it names."""

    scenario: Scenario
    positions: Positions
    data: Mapping[str, Any]
    named_files: tuple[Path, ...]


@cache
def _schema_version() -> str | None:
    """Changes with the code that a scenario's validity depends on, and with its profiles."""
    package = Path(harness.__file__).parent
    code = [path for path in (package / "scenario").rglob("*") if path.suffix in (".py", ".yaml")]
    return file_stamp(sorted([*code, package / "units.py", package / "errors.py", Path(pydantic.__file__)]))


def _read_manifest(file: Path) -> Implementation:
    """A manifest by its schema, parsed again where it or the code that reads it has changed. Raises InputError."""

    def derive() -> str:
        data, positions = read_yaml(file)
        return validate_data(data, positions, Implementation).model_dump_json(by_alias=True)

    kept = DERIVED.get(f"manifest {file.resolve()}", [file], derive, _schema_version())
    try:
        return Implementation.model_validate_json(kept)
    except (ValueError, TypeError):
        # Somebody else wrote it.
        return Implementation.model_validate_json(derive())


def _unchecked(scenario: Scenario) -> Iterable[Mistake]:
    return ()


class Contestants(Mapping[str, tuple[Implementation, Path]]):
    """Name → (implementation, folder of its manifest). Iterating gives the manifests'; any release can be looked up.

    Looking up a release that cannot be had raises InputError, which names the nearest ones; it is not contained.
    """

    def __init__(self, manifests: Mapping[str, tuple[Implementation, Path]], stand_ins: Mapping[str, str]) -> None:
        """`stand_ins`: name of an implementation or of a release → image that replaces its own."""
        self._by_name = {
            name: (_with_image(implementation, stand_ins.get(name)), folder)
            for name, (implementation, folder) in manifests.items()
        }
        self._manifests = manifests
        self._stand_ins = stand_ins
        self._releases: dict[str, tuple[Implementation, Path]] = {}

    def __getitem__(self, name: str) -> tuple[Implementation, Path]:
        base_name, at, version = name.partition("@")
        if not at or base_name not in self._manifests:
            return self._by_name[name]
        if name not in self._releases:
            implementation, folder = self._manifests[base_name]
            release = release_of(implementation, folder, version)
            self._releases[name] = _with_image(release, self._stand_ins.get(name)), folder
        return self._releases[name]

    def find(self, name: str, context: str = "", role: str = "") -> tuple[Implementation, Path]:
        """The same for a name that a person wrote: InputError where nobody has it, with the most similar names.

        `context` stands before the message, `role` behind it.
        """
        try:
            return self[name]
        except KeyError:
            raise InputError(f"{context}no implementation '{name}'{role}", did_you_mean(name, self)) from None

    def expand(self, word: str) -> list[str]:
        """The names that a word stands for: NAME@all for all releases that can be built, oldest first. InputError."""
        base_name, _, version = word.partition("@")
        if version != "all" or base_name not in self._manifests:
            return [word]
        releases = supported_releases(*self._manifests[base_name])
        return [f"{base_name}@{release.version}" for release in releases]

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self[name] is not None
        except (KeyError, InputError):
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _with_image(implementation: Implementation, image: str | None) -> Implementation:
    """An implementation with another image in place of its own, where there is one."""
    if image is None:
        return implementation
    no_source = {"build": None, "upstream_image": None, "upstream_repository": None}
    return implementation.model_copy(update={**no_source, "image": image})


class _WithoutFolders(Mapping[str, Implementation]):
    """The same without the folders."""

    def __init__(self, contestants: Contestants) -> None:
        self._contestants = contestants

    def __getitem__(self, name: str) -> Implementation:
        return self._contestants[name][0]

    def __contains__(self, name: object) -> bool:
        return name in self._contestants

    def __iter__(self) -> Iterator[str]:
        return iter(self._contestants)

    def __len__(self) -> int:
        return len(self._contestants)


@dataclass(frozen=True)
class Catalogue:
    """The scenarios and implementations below a root folder, and those of a workspace beside them."""

    root: Path
    manifests: tuple[Path, ...] = ()
    """Additional image.yaml files outside the root folder."""
    mistakes: Callable[[Scenario], Iterable[Mistake]] = _unchecked
    """Checks of a scenario that need the metrics (`harness.analysis.objectives`)."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """Name of an implementation, or of a release → image that replaces its own; the rest of the manifest applies."""
    workspace: Path | None = None
    """Another folder with scenarios/ and images/ of its own."""

    @property
    def _roots(self) -> list[Path]:
        return [self.root, *([self.workspace] if self.workspace is not None else [])]

    def scenario_files(self) -> list[Path]:
        """All scenario files, sorted by path; those of the workspace follow."""
        return [file for root in self._roots for file in sorted((root / SCENARIOS).rglob("*.yaml"))]

    def scenario_name(self, file: Path) -> str:
        """Name of a scenario: the path of its file below scenarios/ without the suffix."""
        resolved = file.resolve()
        base = next((folder for folder in self._bases if resolved.is_relative_to(folder)), resolved.parent)
        return str(resolved.relative_to(base).with_suffix(""))

    @cached_property
    def _files_by_name(self) -> dict[str, Path]:
        """The scenarios below the root and of the workspace, looked for once. InputError for two of one name."""
        files: dict[str, Path] = {}
        for file in self.scenario_files():
            name = self.scenario_name(file)
            if files.setdefault(name, file) != file:
                raise InputError(
                    f"{file}: the name '{name}' is that of {files[name]}", "rename your file, or its folder"
                )
        return files

    def require_own_names(self) -> None:
        """InputError where two scenarios have the same name: one of the root folder, and one of the workspace."""
        _ = self._files_by_name

    def outside_file(self, name: str) -> str:
        """The file that this process read a scenario from, where its name alone finds none; else empty."""
        file = next((file for file, (scenario, _) in self._scenarios.items() if scenario.name == name), None)
        if file is None or any(file.resolve().is_relative_to(folder) for folder in self._bases):
            return ""
        return str(file)

    def manifests_of(self, names: Collection[str]) -> list[Path]:
        """The manifests outside images/ that these implementations come from."""
        return [file for file in self.manifests if self.manifest(file).name in names]

    @cached_property
    def _bases(self) -> list[Path]:
        return [(root / SCENARIOS).resolve() for root in self._roots]

    def scenario(self, file: Path) -> Scenario:
        """Load a scenario file, once. Raises InputError, also for unknown implementations."""
        if file not in self._scenarios:
            self._scenarios[file] = self._load_scenario(file)
        return self._scenarios[file][0]

    @cached_property
    def _scenarios(self) -> dict[Path, tuple[Scenario, Positions]]:
        return {}

    def listed_scenario(self, file: Path) -> ListedScenario:
        """A scenario file for a list: as its schema has it, and whether a lab can run it is not checked.

        It is read again only where it has changed, or a file that it names, or the code that reads it.
        """
        read = cache(lambda: self._read_scenario(file))

        def derive() -> list[str | int]:
            scenario = read().scenario
            return [scenario.name, scenario.title, scenario.repetitions]

        name, version = f"{file.resolve()} {self.scenario_name(file)}", _schema_version()
        named = DERIVED.get(f"named by {name}", [file], lambda: [str(path) for path in read().named_files], version)
        return ListedScenario(*DERIVED.get(f"listed {name}", [file, *map(Path, named)], derive, version))

    def _read_scenario(self, file: Path) -> _ReadScenario:
        data, positions = read_yaml(file)
        named_files: list[Path] = []
        scenario = validate_data(data, positions, Scenario, {"name": self.scenario_name(file)}, named_files)
        return _ReadScenario(scenario, positions, data, tuple(dict.fromkeys(named_files)))

    def _load_scenario(self, file: Path) -> tuple[Scenario, Positions]:
        read = self._read_scenario(file)
        scenario, positions = read.scenario, read.positions

        def check() -> bool:
            # The same mistake of flows that one entry stands for is one.
            entries = _entries_of_flows(read.data["flows"])
            problems = dict.fromkeys(_as_written(mistake, entries) for mistake in self._scenario_mistakes(scenario))
            if problems:
                raise to_error(problems, positions)
            return True

        name = f"checked {file.resolve()} {self.scenario_name(file)}"
        DERIVED.get(name, [file, *read.named_files], check, self._support_version)
        return scenario, positions

    @cached_property
    def _support_version(self) -> str | None:
        """Changes with all code, and with what any implementation supports; None where that cannot be told."""
        manifests = self.implementation_files()
        releases = [path for file in manifests for path in sorted(file.parent.glob(f"{RELEASES_FOLDER}*"))]
        return file_stamp(
            [*package_files(), *manifests, *releases, Path(pydantic.__file__)], repr(sorted(self.stand_ins.items()))
        )

    def _scenario_mistakes(self, scenario: Scenario) -> Iterator[Mistake]:
        """The mistakes of a scenario that its schema does not find."""
        for name, path in scenario.every_path.items():
            if (mistake := find_inexpressible(path, scenario.horizon)) is not None:
                yield Mistake((*limits.path_location(scenario, name), *mistake.location), mistake.text, mistake.hint)
                return
        yield from limits.mistakes(scenario)
        yield from mobility.find_mistakes(scenario)
        yield from sampling.range_mistakes(scenario)
        yield from self._support.mistakes(scenario)
        yield from support.seed_mistakes(scenario, self._support.implementations)
        yield from self._sweep_mistakes(scenario)
        yield from self._study_mistakes(scenario)
        yield from self.mistakes(scenario)

    def _sweep_mistakes(self, scenario: Scenario) -> Iterator[Mistake]:
        try:
            swept = expand_points(scenario, {}, {})
        except SweepError as error:
            values = scenario.vary.get(error.dimension, ())
            indices = [index for index, value in enumerate(values) if value is error.value]
            location: Location = ("vary", error.dimension, *indices[:1]) if error.dimension else ("vary",)
            yield Mistake(location, error.reason, error.hint, of_key=not indices)
            return
        if not any(limits.mistakes(scenario)):
            yield from _impossible_points(swept)
        yield from support.split_mistakes(scenario, (point.scenario for point in swept), self._support.implementations)
        for name, words in scenario.vary.items():
            yield from self._support.values(("vary", name), name, words, scenario)

    def _study_mistakes(self, scenario: Scenario) -> Iterator[Mistake]:
        problems = list(design.study_mistakes(scenario))
        yield from problems
        if scenario.study is None or problems:
            return
        for name, words in scenario.study.factors.items():
            yield from self._support.values(("study", "factors", name), name, words, scenario)
        for label, settings in scenario.study.profiles.items():
            yield from self._support.settings(("study", "profiles", label), settings, scenario)

    def require_honoured(
        self,
        scenarios: Iterable[Scenario],
        fixed: Mapping[str, object],
        vary: Mapping[str, Sequence[object]],
        combine: Combine | None,
    ) -> None:
        """InputError for requested values beyond those of the scenarios that are impossible or that nobody supports."""
        for scenario in scenarios:
            for sweep_mistake in _impossible_points(expand_points(scenario, fixed, vary, combine)):
                raise InputError(f"{scenario.name}: {sweep_mistake.text}", sweep_mistake.hint)
            for name, words in {**{name: [value] for name, value in fixed.items()}, **vary}.items():
                if is_path_name(name):
                    continue
                for mistake in self._support.values((), name, words, scenario):
                    raise InputError(f"{name}: {mistake.text}", mistake.hint)

    def require_settable(
        self, option: str, assignments: Mapping[str, Sequence[object]], players: Mapping[Role, Sequence[Implementation]]
    ) -> None:
        """InputError for a parameter of both roles that all requested implementations of one role cannot be told.

        `assignments`: name → values, as given to `option`. Every cell would be unsupported.
        """
        for name, words in assignments.items():
            if name in PARAMETERS and (hint := self._support.unsettable(name, words, players)):
                values = ",".join(map(str, words))
                raise InputError(f"{option} {name}={values}: not both the client and the server can be told", hint)

    def require_split(self, swept: Iterable[Point], players: Callable[[Scenario], support.Players]) -> None:
        """InputError, with its position, for a proxy that splits TCP if no requested implementation uses TCP.

        `players`: the implementations of the roles that a scenario's flows leave open. Those that the scenario names
        itself are not checked here.
        """
        by_name: dict[str, list[Scenario]] = {}
        for point in swept:
            if any(point.scenario.proxies):
                by_name.setdefault(point.scenario.name, []).append(point.scenario)
        positions = {scenario.name: positions for scenario, positions in self._scenarios.values()}
        for name, scenarios in by_name.items():
            implementations, contestants = self._support.implementations, players(scenarios[0])
            if support.are_named_by_scenario(scenarios[0], contestants) or any(
                support.is_split(scenario, contestants, implementations) for scenario in scenarios
            ):
                continue
            mistake = support.unsplit_mistake(scenarios[0], contestants, implementations)
            if name not in positions:  # a scenario of no file
                raise InputError(mistake.text, mistake.hint)
            raise to_error([mistake], positions[name])

    @cached_property
    def _support(self) -> SupportChecker:
        """The names and values that implementations support, read once for the checks of all scenarios."""
        return SupportChecker(_WithoutFolders(self.implementations()))

    def find_scenarios(self, words: Iterable[str], instead: Iterable[str] = ()) -> list[Scenario]:
        """Scenarios by file, folder or name (`satellite/medium`, `satellite`), in the given order.

        InputError for an unknown word, with the most similar name. `instead`: other words that are valid there, for
        that hint.
        """
        scenarios: dict[str, Scenario] = {}
        for word in words:
            for file in self._files_of(word, self._files_by_name, instead):
                scenario = self.scenario(file)
                if scenarios.setdefault(scenario.name, scenario) != scenario:
                    raise InputError(
                        f"{file}: another scenario is named '{scenario.name}', too", "rename one of the two"
                    )
        return list(scenarios.values())

    def _files_of(self, word: str, files_by_name: Mapping[str, Path], instead: Iterable[str]) -> list[Path]:
        path = Path(word)
        name = word.strip("/").removeprefix(SCENARIOS + "/").removesuffix(".yaml")
        if word in ("all", SCENARIOS, SCENARIOS + "/"):
            return list(files_by_name.values())
        if path.name and _exists(path) and path.is_file():
            return [path]
        if name in files_by_name:
            return [files_by_name[name]]
        endings = [file for full_name, file in files_by_name.items() if full_name.rpartition("/")[2] == name]
        if len(endings) == 1:
            return endings
        inside = [file for full_name, file in files_by_name.items() if full_name.startswith(name + "/")]
        if inside:
            return inside
        if word and _exists(path) and path.is_dir() and (files := sorted(path.rglob("*.yaml"))):
            return files
        folders = {full_name.rpartition("/")[0] for full_name in files_by_name}
        raise InputError(
            f"no scenario {format_value(word)}", did_you_mean(name, {*files_by_name, *folders, *instead} - {""})
        )

    def implementation_files(self) -> list[Path]:
        """All image.yaml files, sorted by path; those of the workspace and of `manifests` follow."""
        own = [file for root in self._roots for file in sorted((root / IMAGES).glob(f"*/{MANIFEST}"))]
        return [*own, *self.manifests]

    def implementations(self) -> Contestants:
        """Name → (implementation, folder of its manifest), read once. InputError if two have the same name.

        Iterating gives those of the manifests; their releases, NAME@VERSION, can be looked up as well.
        """
        return self._implementations

    @cached_property
    def _implementations(self) -> Contestants:
        by_name: dict[str, tuple[Implementation, Path]] = {}
        for file in dict.fromkeys(self.implementation_files()):
            implementation = self.manifest(file)
            if implementation.name in by_name:
                raise InputError(
                    f"{read_yaml(file)[1].find(('name',))[0]}: the name '{implementation.name}' is taken by "
                    f"{by_name[implementation.name][1] / MANIFEST}",
                    "give each implementation a name of its own",
                )
            by_name[implementation.name] = (implementation, file.resolve().parent)
        contestants = Contestants(by_name, self.stand_ins)
        for name, image in self.stand_ins.items():
            contestants.find(name, f"--image {name}={image}: ")
        return contestants

    def manifest(self, file: Path) -> Implementation:
        """Load an image.yaml, once. Raises InputError."""
        if file not in self._manifests:
            implementation = _read_manifest(file)
            if problems := list(_wrong_manifest(implementation, file.resolve().parent)):
                raise to_error(problems, read_yaml(file)[1])
            self._manifests[file] = implementation
        return self._manifests[file]

    @cached_property
    def _manifests(self) -> dict[Path, Implementation]:
        return {}

    def releases(self, name: str) -> list[Release]:
        """The releases of an implementation that can be built, oldest first; none of one that is not known."""
        implementation, folder = self.implementations().get(name, (None, None))
        if implementation is None or folder is None or implementation.versions is None:
            return []
        return supported_releases(implementation, folder)

    def find_implementations(
        self, words: str, role: Role, absent: Container[str] = (), scenarios: Collection[Scenario] = ()
    ) -> list[Implementation]:
        """Implementations by comma-separated names, or 'all' that speak QUIC, can play the role and are not `absent`.

        NAME@all names every release of an implementation that can be built, oldest first.

        Implementations without QUIC must be named, here or by one of the `scenarios`: in a matrix with all others they
        would have no peer but themselves.
        """
        contestants = self.implementations()
        if words == "all":
            listed = {
                name for scenario in scenarios for name in (scenario.clients if role == "client" else scenario.servers)
            }
            candidates = (
                item
                for item, _ in contestants.values()
                if (item.speaks_quic or item.name in listed) and role in item.roles
            )
            return [item for item in candidates if item.name not in absent]
        selected: dict[str, Implementation] = {}
        written = [word.strip() for word in words.split(",") if word.strip()]
        for name in (name for word in written for name in contestants.expand(word)):
            implementation, _ = contestants.find(name, role=f" for the {role}s")
            if name in selected:
                raise InputError(f"'{name}' is named twice for the {role}s", "leave one of the two out")
            selected[name] = implementation
        if not selected:
            raise InputError(f"no {role} was named", "name implementations, separated by commas, or 'all'")
        return list(selected.values())


def _impossible_points(swept: Iterable[Point]) -> Iterator[Mistake]:
    """The first point of a sweep that no lab can run, although the scenario itself could be run."""
    for point in swept:
        for mistake in limits.mistakes(point.scenario):
            fixed = point.scenario.parameters
            settings = ", ".join(
                f"{name} {value}" for name, value in point.parameters.items() if fixed.get(name) != value
            )
            yield Mistake(("vary",), f"with {settings}: {mistake.text}", mistake.hint)
            return


def _exists(path: Path) -> bool:
    """Whether a path exists; False for one that is too long or invalid."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _wrong_manifest(implementation: Implementation, folder: Path) -> Iterator[Mistake]:
    """The mistakes of a manifest that its schema does not find; `folder`: that of the manifest."""
    for name in ("title", "licence", "version", "project"):
        yield from limits.one_line((name,), getattr(implementation, name))
        yield from limits.not_blank((name,), getattr(implementation, name), "leave it out, or fill it in")
    for index, refusal in enumerate(implementation.refuses):
        yield from limits.not_blank(("refuses", index, "why"), refusal.why, "say what it lacks")
    if implementation.release:
        yield Mistake(("name",), f"'{implementation.name}' names a release", f"write {implementation.base_name}")
    yield from manifest_mistakes(implementation)
    yield from _wrong_versions(implementation, folder)
    for name in ("roles", "protocols", "moves"):
        entries = getattr(implementation, name)
        for index, entry in enumerate(entries):
            if entry in entries[:index]:
                yield Mistake((name, index), f"'{entry}' is given twice", "leave one of the two out")
    if implementation.build is not None and not (folder / implementation.build / "Dockerfile").is_file():
        build_folders = sorted(str(file.parent.relative_to(folder)) for file in folder.glob("*/Dockerfile"))
        build_folders += ["."] if (folder / "Dockerfile").is_file() else []
        text = f"there is no Dockerfile in '{implementation.build}'"
        yield Mistake(
            ("build",),
            text,
            did_you_mean(implementation.build, build_folders) if build_folders else "write one beside this file",
        )


def _wrong_versions(implementation: Implementation, folder: Path) -> Iterator[Mistake]:
    """The mistakes of what a manifest says about its releases; `folder`: that of the manifest."""
    versions = implementation.versions
    if versions is None:
        return
    if implementation.build is None:
        yield Mistake(("versions",), "a published image has no releases: they are built", "leave it out", of_key=True)
    for index, adaptation in enumerate(versions.adaptations):
        if not (folder / RELEASES_FOLDER / adaptation.patch).is_file():
            at = ("versions", "adaptations", index, "patch")
            yield Mistake(at, f"there is no {RELEASES_FOLDER}/{adaptation.patch}", "write it there")
