"""The key of a cell: a hash of its compiled lab, its implementations, and the code and images of its runs. Pure."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pydantic
from pydantic import BaseModel, Field

from harness.derived import DERIVED, once_per_object
from harness.errors import did_you_mean
from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.sweep import dimensions, is_dimension
from harness.scenario.loader import Position, Positions, read_yaml, to_error, validate_data
from harness.scenario.parameters import ROLES
from harness.scenario.schema import NAME_OR_RELEASE, Part, Scenario
from harness.scenario.validation_errors import Mistake
from harness.topology import build_lab, digest_content

# --- The keys of the scenario format that a cell uses. They define the scope of an equivalence. Pure.


#: Keys that change no run: texts for people, criteria for runs, and the choice of cells.
_IGNORED_KEYS = frozenset(
    {
        "schema",
        "name",
        "title",
        "description",
        "references",
        "objectives",
        "milestones",
        "repetitions",
        "clients",
        "servers",
        "vary",
        "combine",
        "study",
    }
)
#: Keys of mappings with names as keys: of paths, or of parameters.
_NAMES = frozenset({"paths"})
_PARAMETERS = frozenset({"parameters", "draw", "checks"})


def scenario_keys(cell: Cell) -> frozenset[str]:
    """The keys that a cell's scenario sets to other values than their defaults, at any depth.

    They include the chosen words of keys with a choice (`red`, `udp`, `nat-address`) and the names of the requested
    parameters (`server.congestion_control`).
    """
    return _keys_of_scenario(cell.scenario).union(cell.parameters)


def scope_words(cell: Cell) -> frozenset[str]:
    """By these an entry of the ledger can leave a cell out: scenario keys, and each implementation as `image NAME`."""
    names = {cell.client.name, cell.server.name, *cell.others}
    return scenario_keys(cell).union(map(_image_word, names))


def _image_word(name: str) -> str:
    """An implementation in a scope. No key of a scenario has a space."""
    return f"image {name}"


@once_per_object
def _keys_of_scenario(scenario: Scenario) -> frozenset[str]:
    return frozenset(_keys(scenario))


def _keys(part: Part) -> Iterator[str]:
    for name, item in type(part).model_fields.items():
        key, value = item.alias or name, getattr(part, name)
        if key in _IGNORED_KEYS or (not item.is_required() and value == item.get_default(call_default_factory=True)):
            continue
        if key in _PARAMETERS:
            yield from value
            if key != "parameters":
                yield key
            continue
        yield key
        if isinstance(value, str) and value in _words(item.annotation):
            yield value
        yield from _nested_keys(value.values() if key in _NAMES else value)


def _nested_keys(value: Any) -> Iterator[str]:
    """The keys of the parts in a value."""
    if isinstance(value, Part):
        yield from _keys(value)
    elif isinstance(value, Mapping):
        yield from (key for item in value.values() for key in _nested_keys(item))
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        yield from (key for item in value for key in _nested_keys(item))


def _words(hint: Any) -> set[str]:
    """The words that a type chooses from."""
    if get_origin(hint) is Literal:
        return {word for word in get_args(hint) if isinstance(word, str)}
    return {word for inner in get_args(hint) for word in _words(inner)}


@functools.cache
def known_keys() -> frozenset[str]:
    """Every key that `scenario_keys` can give, except the names of checks."""
    return frozenset({*_every_key(Scenario, set()), *dimensions()})


def is_key(key: str) -> bool:
    """Whether a scenario can use a key of that name."""
    return key in known_keys() or is_dimension(key)


def _every_key(part: type[Part], visited: set[type[Part]]) -> Iterator[str]:
    visited.add(part)
    for name, item in part.model_fields.items():
        key = item.alias or name
        if key in _IGNORED_KEYS:
            continue
        yield key
        yield from _words(item.annotation)
        for inner in _parts(item.annotation):
            if inner not in visited:
                yield from _every_key(inner, visited)


def _parts(hint: Any) -> Iterator[type[Part]]:
    if isinstance(hint, type) and issubclass(hint, Part):
        yield hint
    for inner in get_args(hint):
        yield from _parts(inner)


# --- The ledger of equivalences: digests of engines, simulators and images that were proven to behave the same.
#
# `results/equivalences.yaml` is written by `harness equivalent` and read by every command that makes a cell's key. An
# entry is a claim; `harness verify` and `harness equivalent --again` hold it against new runs.


Kind = Literal["engine", "simulator", "image"]
#: A kind and a name: ("engine", "virtual"), ("simulator", "sim"), ("image", "quiche").
Component = tuple[Kind, str]
Digest = Annotated[str, Field(pattern=r"^\S{8,200}$")]
#: An entry without its proof, as a store notes it: kind, name, digest, same_as, and the scope's words.
Link = tuple[str, ...]


class Identity(Part):
    """A digest that results are stored under."""

    kind: Kind
    """engine, simulator (with its lab kernel) or image."""
    name: Annotated[str, Field(pattern=NAME_OR_RELEASE)]
    """compose or virtual; sim; or an implementation, or a release of it."""
    digest: Digest
    """Of what it was made from, when it was first."""

    @property
    def component(self) -> Component:
        """The component that it is a version of."""
        return self.kind, self.name


class EquivalenceProof(Part):
    """The runs that an equivalence rests on."""

    cells: Annotated[int, Field(ge=1)]
    """Guard cells that ran with it; of the compose engine golden labs."""
    differing: Literal[0] = 0
    """Of them, those that came out otherwise."""
    commit: str
    """The commit of the proven digest; with + behind it where files were changed."""
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    """The day of the proof."""
    lab_kernel: str = ""
    """SHA-256 of the lab kernel that the guard cells ran on; empty of the compose engine."""


class Equivalence(Identity):
    """A digest that behaves as another one does."""

    same_as: Digest
    """The digest that it behaves as: an identity, or that of another entry."""
    except_: Annotated[tuple[str, ...], Field(alias="except")] = ()
    """Scenario keys: a cell that uses one of them is not covered."""
    without: tuple[Annotated[str, Field(pattern=NAME_OR_RELEASE)], ...] = ()
    """Implementations: a cell that has one of them is not covered."""
    proof: EquivalenceProof
    """What it rests on."""

    @property
    def excluded(self) -> tuple[str, ...]:
        """The words of `scope_words` whose cells are not covered."""
        return (*self.except_, *map(_image_word, self.without))


class Entries(Part):
    """The ledger's file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    """Version of this format."""
    identities: tuple[Identity, ...] = ()
    """What equivalences end at."""
    equivalences: tuple[Equivalence, ...] = ()
    """In the order in which they were proven."""


@dataclass(frozen=True)
class Ledger:
    """The digests that are equivalent; none without a file."""

    entries: Entries = field(default_factory=Entries)
    positions: Mapping[Equivalence, Position] = field(default_factory=dict)
    """Where in the file an entry stands."""
    by_digest: Mapping[tuple[Component, str], Equivalence] = field(default_factory=dict)

    def chain(self, component: Component, digest: str, words: Callable[[], frozenset[str]]) -> Iterator[Equivalence]:
        """The entries from a digest to the identity that a cell with it is stored under.

        `words`: the cell's `scope_words`. It is called only where an entry leaves cells out.
        """
        while (entry := self.by_digest.get((component, digest))) is not None:
            if entry.excluded and not words().isdisjoint(entry.excluded):
                return
            yield entry
            digest = entry.same_as

    def identity(self, component: Component, digest: str, words: Callable[[], frozenset[str]]) -> str:
        """The digest that a cell's results are stored under; `digest` itself where no entry covers the cell."""
        for entry in self.chain(component, digest, words):
            digest = entry.same_as
        return digest

    def equivalences_between(self, stored: Cell, today: Mapping[Component, str]) -> list[Equivalence]:
        """The entries that make a stored cell's digests equal to today's; none where the digests differ."""
        entries: list[Equivalence] = []
        for component, digest in components(stored).items():
            digests = digest, today.get(component, digest)
            identities = {self.identity(component, side, lambda: scope_words(stored)) for side in digests}
            if len(identities) > 1:
                return []
            sides = [list(self.chain(component, side, lambda: scope_words(stored))) for side in digests]
            entries += [entry for entry in (*sides[0], *sides[1]) if (entry in sides[0]) != (entry in sides[1])]
        return entries

    def with_entry(self, entry: Equivalence) -> Ledger:
        """The ledger with one more entry, whose final identity is declared. ValueError where that is invalid."""
        end = Identity(kind=entry.kind, name=entry.name, digest=entry.same_as)
        declared = (entry.component, entry.same_as) in self.by_digest or end in self.entries.identities
        entries = Entries(
            identities=(*self.entries.identities, *(() if declared else (end,))),
            equivalences=(*self.entries.equivalences, entry),
        )
        mistake = next(_mistakes(entries), None)
        if mistake is not None:
            raise ValueError(mistake.text)
        return Ledger(entries, self.positions, _by_digest(entries.equivalences))

    @property
    def links(self) -> tuple[Link, ...]:
        """The fields of the ledger that keys depend on: kind, name, digest, equal digest, and scope."""
        return tuple((e.kind, e.name, e.digest, e.same_as, *e.excluded) for e in self.entries.equivalences)

    def affected(self, before: Sequence[Link]) -> set[str]:
        """Digests whose identity may differ from that by the links of an earlier ledger."""
        changed = {link[2] for link in {*self.links} ^ {*before}}
        count = len(changed) - 1
        while count < len(changed):
            count = len(changed)
            changed |= {link[2] for link in (*self.links, *before) if link[3] in changed}
        return changed

    def position_text(self, entry: Equivalence) -> str:
        """The position of an entry in its file, for people; empty where it is in no file yet."""
        return str(self.positions.get(entry, ""))


def _by_digest(equivalences: Sequence[Equivalence]) -> dict[tuple[Component, str], Equivalence]:
    return {(entry.component, entry.digest): entry for entry in equivalences}


def components(cell: Cell) -> dict[Component, str]:
    """The components of a cell's runs: component → digest, as its runs record it."""
    images = {cell.client.name: cell.client_image, cell.server.name: cell.server_image}
    images |= {name: endpoint.image for name, endpoint in cell.others.items()}
    digests: dict[Component, str] = {
        ("engine", cell.engine): cell.engine_code,
        ("simulator", "sim"): cell.sim_image.identity,
    }
    return digests | {("image", name): image.identity for name, image in images.items()}


def cell_identities(cell: Cell, ledger: Ledger) -> dict[Component, str]:
    """The components of a cell's runs: component → the identity that its results are stored under."""
    return {
        component: ledger.identity(component, digest, lambda: scope_words(cell))
        for component, digest in components(cell).items()
    }


def read_ledger(file: Path) -> Ledger:
    """The ledger in a file; empty without a file. InputError, with file, line and column, for an invalid one."""
    if not file.exists():
        return Ledger()
    data, positions = read_yaml(file)
    entries = validate_data(data, positions, Entries)
    mistakes = list(_mistakes(entries))
    if mistakes:
        raise to_error(mistakes, positions)
    return Ledger(entries, _places(entries, positions), _by_digest(entries.equivalences))


def _places(entries: Entries, positions: Positions) -> dict[Equivalence, Position]:
    return {entry: positions.find(("equivalences", number))[0] for number, entry in enumerate(entries.equivalences)}


def _mistakes(entries: Entries) -> Iterator[Mistake]:
    """Mistakes of a ledger: two names of one digest, an unknown digest, a circle, an unknown key."""
    declared = {(identity.component, identity.digest) for identity in entries.identities}
    named: set[tuple[Component, str]] = set(declared)
    if len(declared) < len(entries.identities):
        yield Mistake(("identities",), "an identity stands here twice", "leave one of the two out")
    digests = declared | {(entry.component, entry.digest) for entry in entries.equivalences}
    by_digest = _by_digest(entries.equivalences)
    for number, entry in enumerate(entries.equivalences):
        location = ("equivalences", number)
        if (entry.component, entry.digest) in named:
            yield Mistake(
                (*location, "digest"),
                f"{entry.digest} has another name already",
                "an identity has one name: remove one",
            )
        named.add((entry.component, entry.digest))
        if (entry.component, entry.same_as) not in digests:
            yield Mistake(
                (*location, "same_as"),
                f"{entry.same_as} is no digest of {' '.join(entry.component)} that this file knows",
                "'harness equivalent' writes entries; identities are declared above them",
            )
        elif _is_circular(entry, by_digest):
            yield Mistake(
                (*location, "same_as"), "a digest is the same as itself, in a circle", "remove an entry of it"
            )
        for key in entry.except_:
            if not is_key(key):
                yield Mistake((*location, "except"), f"no scenario has a key '{key}'", did_you_mean(key, known_keys()))


def _is_circular(entry: Equivalence, by_digest: Mapping[tuple[Component, str], Equivalence]) -> bool:
    visited = {entry.digest}
    following: Equivalence | None = entry
    while following is not None:
        if following.same_as in visited:
            return True
        visited.add(following.same_as)
        following = by_digest.get((entry.component, following.same_as))
    return False


_HEAD = """\
# Which digests of engines, of the simulator and of images were proven to behave the same, so that results that are
# stored under one of them are results of the others. 'harness equivalent' writes this file; results/README.md says how.
"""


def write_ledger(file: Path, ledger: Ledger) -> None:
    """Write a ledger, in place of an existing one. OSError."""
    lines = [_HEAD + "schema: 1", "identities:"]
    lines += [f"  - {_flow(identity)}" for identity in ledger.entries.identities]
    lines += ["equivalences:"]
    for entry in ledger.entries.equivalences:
        lines += [f"  - kind: {entry.kind}", f"    name: {entry.name}", f"    digest: {_text(entry.digest)}"]
        lines += [f"    same_as: {_text(entry.same_as)}"]
        lines += [f"    except: [{', '.join(map(_text, entry.except_))}]"] if entry.except_ else []
        lines += [f"    without: [{', '.join(map(_text, entry.without))}]"] if entry.without else []
        lines += [f"    proof: {_flow(entry.proof)}"]
    unfinished = file.with_suffix(".new")
    unfinished.write_text("\n".join(lines) + "\n")
    unfinished.replace(file)


def _flow(part: Part) -> str:
    values = part.model_dump(mode="json", by_alias=True)
    return "{" + ", ".join(f"{key}: {_text(value)}" for key, value in values.items()) + "}"


def _text(value: object) -> str:
    """A value as YAML: texts in quotes, since a digest may look like a number."""
    return f'"{value}"' if isinstance(value, str) else str(value)


def today_iso() -> str:
    """Today's date, in the form of a proof."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


# --- cell key


def cell_key(cell: Cell, ledger: Ledger) -> str:
    """16 hexadecimal digits of BLAKE2b over the inputs of a cell's runs.

    These are its compiled lab, its implementations, the identities of the images, of the simulator and of the engine,
    and the requested parameters, which a run must show. Titles, objectives and other texts are left out.
    """
    identities = cell_identities(cell, ledger)
    players = [cell.implementation(role, flow).name for role in ROLES for flow in range(len(cell.scenario.flows))]
    return content_digest(
        {
            "lab": cell.compiled,
            "players": [[name, identities["image", name]] for name in players],
            "sim": identities["simulator", "sim"],
            "engine": [cell.engine, identities["engine", cell.engine]],
            "asked": cell.parameters,
        }
    )


def lab_digest(cell: Cell) -> str:
    """Digest of a cell's compiled lab: path program, hosts, flows, each endpoint's configuration, seed.

    There is no lab where an implementation does not support the request. The digest is then that of the request and
    of the reason.

    A campaign has ten thousand cells, and a lab takes up to 10 ms to compile. So digests are kept by the parts of the
    cell, until the code of a lab changes (`harness.derived`).
    """
    table = DERIVED.table("labs", _lab_code(), f"{pydantic.VERSION} {sys.version}")
    return _derive_lab_digest(cell) if table is None else table.get(_lab_inputs(cell), lambda: _derive_lab_digest(cell))


#: What of this package a lab's digest is derived with: packages, and modules beside this one.
_LAB_PACKAGES = ("netem", "outcome", "planning", "reading", "scenario", "topology")
_LAB_MODULES = ("errors.py", "formatting.py", "units.py", "store/identity.py")


def _lab_code() -> Iterator[Path]:
    package = Path(__file__).parents[1]
    for name in _LAB_PACKAGES:
        yield from sorted(path for path in (package / name).rglob("*") if path.suffix in (".py", ".yaml"))
    yield from (package / name for name in _LAB_MODULES)


def _lab_inputs(cell: Cell) -> str:
    """Digest of all parts of a cell that its lab follows from; images are none of them."""
    players = {name: _model_digest(item.implementation) for name, item in sorted(cell.others.items())}
    models = [_model_digest(item) for item in (cell.scenario, cell.client, cell.server)]
    parts = [models, players, cell.engine, cell.sim_kernel, cell.parameters, cell.seed, cell.host_cpu]
    return content_digest({"parts": parts})


@once_per_object
def _model_digest(model: BaseModel) -> str:
    """Digest of a frozen model's content. Cells share their scenarios and implementations."""
    return hashlib.blake2b(model.model_dump_json(by_alias=True).encode(), digest_size=16).hexdigest()


def _derive_lab_digest(cell: Cell) -> str:
    draw = cell.scenario.model_dump(mode="json", include={"draw"}) | _drawn_changes(cell.scenario)
    try:
        # Drawn values differ between repetitions, so their distributions are added.
        content = digest_content(build_lab(cell, 0)) | draw
    except UnsupportedError as error:
        request = _without_later_keys(
            cell.scenario.model_dump(
                mode="json", by_alias=True, include={"path_", "paths", "flows", "ip_version", "protocol", "testcase"}
            )
        )
        refusal = [cell.client.name, cell.server.name, error.role, error.reason, error.detail]
        content = {"unsupported": refusal, "asked": request, "parameters": cell.parameters} | draw
    return content_digest(drop_empty(content))


#: Keys of a flow, and of a link, that came after cells without a lab had been stored: key → what it is by default.
_LATER_OF_FLOWS: Mapping[str, object] = {"count": 1, "every": "0 ns"}
_LATER_OF_LINKS: Mapping[str, object] = {"duplicate": "0 %"}


def _without_later_keys(request: dict[str, Any]) -> dict[str, Any]:
    """A request without the later keys that say what was the only possibility before (`drop_empty` has the others)."""
    flows = [_without(flow, _LATER_OF_FLOWS) for flow in request["flows"]]
    return {**{key: _of_links(value) for key, value in request.items()}, "flows": flows}


def _of_links(content: Any) -> Any:
    if isinstance(content, list):
        return [_of_links(item) for item in content]
    if isinstance(content, dict):
        return {key: _of_links(value) for key, value in _without(content, _LATER_OF_LINKS).items()}
    return content


def _without(content: Mapping[str, Any], later: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in later or value != later[key]}


def _drawn_changes(scenario: Scenario) -> dict[str, Any]:
    """What the paths' changes are drawn from; empty where nothing is drawn."""
    drawn = {name: path for name, path in scenario.every_path.items() if path.draws}
    keys: Any = {"changes": True, "blackhole": True, "forward": {"blackhole"}, "return_": {"blackhole"}}
    contents = {name: path.model_dump(mode="json", by_alias=True, include=keys) for name, path in drawn.items()}
    return {"drawn_changes": contents} if contents else {}


_PLAIN = frozenset({str, int, float, bool, type(None)})


def drop_empty(content: Any) -> Any:
    """A document without empty values: null, false, an empty text, list or mapping.

    A key that is added to the format later is empty in the cells that were stored before, so that it changes none of
    their digests.
    """
    # Most of a document are texts and numbers, and to ask what they are would take longer than all the rest.
    if content.__class__ in _PLAIN:
        return content
    if isinstance(content, Mapping):
        filled = {key: drop_empty(value) for key, value in content.items()}
        return {key: value for key, value in filled.items() if value not in (None, "", [], {}) and value is not False}
    return [drop_empty(item) for item in content] if isinstance(content, list | tuple) else content


def content_digest(content: Mapping[str, object]) -> str:
    """A digest of a document, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def with_key(cell: Cell, ledger: Ledger | None = None) -> Cell:
    """A cell with the digest of its lab, and its key. Without a ledger every digest is an identity of its own."""
    cell = cell.model_copy(update={"compiled": lab_digest(cell)})
    return cell.model_copy(update={"key": cell_key(cell, ledger or Ledger())})
