"""Cells of two stores that are the same to a person, and in what their bits differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.engine.images.contents import Contents
from harness.evaluation.cell_result import CellResult, point_of
from harness.outcome import Cell, Run
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Implementation
from harness.store.build_diff import Change, changes, other_bits
from harness.store.identity import Ledger

#: Digest of an image's contents → the contents, as a store knows them.
Known = Callable[[str], Contents | None]
#: Of a manifest: what is said of an implementation, and makes no other run.
_WORDS = {"title", "project", "licence", "version", "build_time", "tested", "colour", "marker", "notes"}
#: Packages and programs that a cause names at most.
_NAMED = 4


@dataclass(frozen=True)
class Pair:
    """A cell in the baseline and now; one of them may be missing, not both."""

    base: CellResult | None
    now: CellResult | None

    @property
    def cell(self) -> Cell:
        """The one of now, where there is one."""
        found = self.now or self.base
        assert found is not None
        return found.cell

    @property
    def name(self) -> str:
        """For people: the scenario, the pair, and what was asked."""
        found = self.now or self.base
        assert found is not None
        return f"{found.cell.scenario.name} {found.name}"

    @property
    def same_bits(self) -> bool:
        """Whether both have the same key: all that their runs depend on is the same."""
        return self.base is not None and self.now is not None and self.base.cell.key == self.now.cell.key


def pairs(base: Sequence[CellResult], now: Sequence[CellResult]) -> list[Pair]:
    """Each cell that is in either, once; those of now first, in their order."""
    older = {point_of(result.cell): result for result in base}
    found = [Pair(older.pop(point_of(result.cell), None), result) for result in now]
    return [*found, *(Pair(result, None) for result in older.values())]


def causes(pair: Pair, known: tuple[Known, Known], ledger: Ledger) -> list[str]:
    """In what the bits of a pair differ, in words, as far as the stores know; `known`: of the baseline, and of now."""
    if pair.base is None or pair.now is None:
        return []
    one, other = pair.base, pair.now
    found = list(other_bits(one.cell, other.cell, ledger))
    # What endpoints are told is in the lab: that a manifest says it is nearer to whoever changed it.
    found += _manifests(one.cell, other.cell)
    if one.runs and other.runs:
        found += _contents(one.runs[0][0], other.runs[0][0], known)
        found += _around(one.runs[0][0], other.runs[0][0])
    versions = [{each.version for _, each in result.runs if each is not None} for result in (one, other)]
    if versions[0] != versions[1]:
        found.append("the measuring code")
    return found


def _manifests(one: Cell, other: Cell) -> list[str]:
    found = []
    for name, sides in _contestants(one, other).items():
        before, after = (side.model_dump(mode="json", exclude=_WORDS) for side in sides)
        keys = [key for key in after if before.get(key) != after[key]]
        if "parameters" in keys:
            both = before["parameters"], after["parameters"]
            names = sorted(key for key in {**both[0], **both[1]} if both[0].get(key) != both[1].get(key))
            keys = [*(key for key in keys if key != "parameters"), *names]
        if keys:
            found.append(f"the manifest of {name} ({', '.join(keys)})")
    return found


def _contestants(one: Cell, other: Cell) -> dict[str, tuple[Implementation, Implementation]]:
    before, after = (
        {each.name: each for role in ROLES for flow in range(len(cell.scenario.flows))
         for each in [cell.implementation(role, flow)]}
        for cell in (one, other)
    )  # fmt: skip
    return {name: (before[name], after[name]) for name in before if name in after}


def _contents(one: Run, other: Run, known: tuple[Known, Known]) -> list[str]:
    found, beside = changes(one, other, known)
    said = [_said(change) for change in found[:_NAMED]]
    if len(found) > _NAMED:
        said.append(f"{len(found) - _NAMED} more packages and programs")
    return [*said, *(f"files of {image}" for image in beside)]


def _said(change: Change) -> str:
    before, after = (version or "none" for version in change.versions)
    # Programs have digests for versions: that they differ is all there is to say.
    told = f" {before} → {after}" if max(len(before), len(after)) < 32 else ""
    return f"{change.name}{told} in {change.image}"


def _around(one: Run, other: Run) -> list[str]:
    """What the two machines and harnesses differ in, which no key has."""
    found = []
    if one.commit != other.commit:
        found.append(f"the harness ({one.commit[:8] or 'unknown'} → {other.commit[:8] or 'unknown'})")
    if one.cell.engine != "virtual" and one.host.get("cpu") != other.host.get("cpu"):
        found.append(f"the processor ({one.host.get('cpu')} → {other.host.get('cpu')})")
    return found
