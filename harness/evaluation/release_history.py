"""How the releases of one implementation did in a scenario, and where the behaviour changed. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.evaluation.cell_result import CellResult, state_changes
from harness.evaluation.ranking import headline_metrics
from harness.outcome import Better, State
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import Role
from harness.scenario.schema import Implementation, Release, Scenario

#: A change of a figure from this share on is named.
NAMED_SHARE = 0.005


@dataclass(frozen=True)
class ReleaseResult:
    """One release in one scenario."""

    name: str
    """NAME@VERSION."""
    release: Release
    result: CellResult | None
    problem: str = ""
    """Why there is no run of it; empty where there is one."""

    @property
    def captures(self) -> list[tuple[int, Mapping[str, str]]]:
        """Of each run its repetition, and the digests of its captures by side."""
        runs = self.result.runs if self.result is not None else ()
        return [(run.repetition, run.captures) for run, _ in runs if run.captures]

    def median(self, metric: MetricName) -> float | None:
        """The median of a metric over the runs; infinite where transfers did not reach it, None where it is unknown."""
        span = self.result.interval(*metric) if self.result is not None else None
        return None if span is None else span.median


@dataclass(frozen=True)
class ReleaseChange:
    """What is otherwise than in the release before."""

    before: ReleaseResult
    after: ReleaseResult
    identical: bool
    """Every packet of every run is the same, at the same time."""
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Metric, for people → median before and after, where they differ enough."""
    parts: Mapping[State, float] = field(default_factory=dict)
    """State of the first transfer → seconds more than before, the largest first, where that is enough."""
    endings: tuple[Mapping[str, int], Mapping[str, int]] | None = None
    """Status → number of runs, before and after, where they differ: a run that crashed may have no figures."""


@dataclass(frozen=True)
class ScenarioHistory:
    """The releases in one scenario, oldest first."""

    scenario: Scenario
    results: tuple[ReleaseResult, ...]
    peer: str = ""
    """The implementation at the other end; empty where a release is both ends."""
    role: Role = "server"
    """The end at which the releases are."""

    @property
    def title(self) -> str:
        """The scenario, and who is at the other end, for people."""
        return f"{self.scenario.name}{self.beside}"

    @property
    def beside(self) -> str:
        """Who is at the other end, for people; empty where a release is both ends."""
        return self.peer and f", with {self.peer} as the {'client' if self.role == 'server' else 'server'}"

    @property
    def has_runs(self) -> bool:
        """Whether any release has runs."""
        return any(item.result is not None for item in self.results)

    @cached_property
    def metrics(self) -> list[MetricName]:
        """The milestones of the scenario, or its headline where it has none."""
        milestones = [MetricName(f"milestone_{size.label()}", 0, "first") for size in self.scenario.milestones_within()]
        return milestones if milestones and len(self.scenario.flows) == 1 else list(headline_metrics(self.scenario))

    @cached_property
    def changes(self) -> dict[str, ReleaseChange]:
        """Name of a release → what is otherwise than in the one before that has runs."""
        changes, before = dict[str, ReleaseChange](), None
        for after in self.results:
            if after.result is None:
                continue
            if before is not None:
                changes[after.name] = change_between(before, after, self.metrics)
            before = after
        return changes


def scenario_history(
    name: str,
    scenario: Scenario,
    releases: Iterable[Release],
    results: Iterable[CellResult],
    role: Role = "server",
    explain: Callable[[str], str] = lambda name: "was not run",
    peer: str = "",
) -> ScenarioHistory:
    """The releases of an implementation in a scenario, each with its cell among `results`.

    `role`: the one that tells the cells of releases apart. `explain`: from NAME@VERSION to why it has no runs.
    `peer`: the implementation at the other end; empty where each release is both.
    """
    cells = {
        result.cell.implementation(role).name: result
        for result in results
        if result.cell.scenario.name == scenario.name and result.runs
    }
    by_release = []
    for release in releases:
        release_name = f"{name}@{release.version}"
        result = cells.get(release_name)
        by_release.append(
            ReleaseResult(release_name, release, result, "" if result is not None else explain(release_name))
        )
    return ScenarioHistory(scenario, tuple(by_release), peer, role)


def stored_histories(
    results: Iterable[CellResult], releases_of: Callable[[str], Sequence[Release]]
) -> dict[str, list[ScenarioHistory]]:
    """The histories that stored cells make up: name of an implementation → its histories.

    Those of releases with themselves come first, then those with each peer, by scenario. Cells with parameters of
    their own make up none. `releases_of`: from an implementation's name to its releases.
    """
    cells = defaultdict[str, dict[tuple[str, Role, str], list[CellResult]]](lambda: defaultdict(list))
    for result in results:
        cell = result.cell
        if cell.parameters or not result.runs or (ends := _ends(cell.client, cell.server)) is None:
            continue
        name, peer, role = ends
        cells[name][peer, role, cell.scenario.name].append(result)
    return {
        name: [
            scenario_history(name, group[0].cell.scenario, releases_of(name), group, role, peer=peer)
            for (peer, role, _), group in sorted(by_scenario.items())
        ]
        for name, by_scenario in sorted(cells.items())
    }


def _ends(client: Implementation, server: Implementation) -> tuple[str, str, Role] | None:
    """Whose release plays, with which peer, in which role; None without a release, or with two."""
    if server.release and client.name == server.name:
        return server.base_name, "", "server"
    if server.release and not client.release:
        return server.base_name, client.name, "server"
    return (client.base_name, server.name, "client") if client.release and not server.release else None


def has_release(result: CellResult) -> bool:
    """Whether a cell names a release of an implementation, and so belongs to a history."""
    cell = result.cell
    return any(
        item.release
        for item in (cell.client, cell.server, *(contestant.implementation for contestant in cell.others.values()))
    )


@dataclass(frozen=True)
class Criterion:
    """What counts as a change against an older release."""

    metric: MetricName | None
    """The metric that decides; None for any other byte on the wire."""
    better: Better = "neutral"
    """Its better direction; where it has none, a change in either counts."""
    share: float = 0.0
    """By how much of the older release's figure it changes at least."""
    improves: bool = False
    """It becomes better, not worse."""

    def is_changed(self, before: ReleaseResult, after: ReleaseResult) -> bool | None:
        """Whether the newer release is changed; None where that cannot be told."""
        if self.metric is None:
            return before.captures != after.captures
        earlier, later = before.median(self.metric), after.median(self.metric)
        if earlier is None or later is None:
            return None
        if earlier == later:
            return False
        worse = later - earlier if self.better == "lower" else earlier - later
        change = abs(worse) if self.better == "neutral" else -worse if self.improves else worse
        return change > 0 and differ(earlier, later, self.share)

    def text(self, flows: int) -> str:
        """What is asked, for people."""
        if self.metric is None:
            return "any other byte on the wire"
        return (
            f"{self.metric.text(flows)} {'better' if self.improves else 'worse'} by more than {100 * self.share:.3g} %"
        )


def change_between(before: ReleaseResult, after: ReleaseResult, metrics: Sequence[MetricName]) -> ReleaseChange:
    """What differs between two releases in one scenario."""
    if before.captures and before.captures == after.captures:
        return ReleaseChange(before, after, identical=True)
    figures = {}
    flows = len(before.result.cell.scenario.flows) if before.result is not None else 1
    for metric in metrics:
        medians = before.median(metric), after.median(metric)
        if medians[0] is not None and medians[1] is not None and differ(medians[0], medians[1], NAMED_SHARE):
            figures[metric.text(flows)] = medians[0], medians[1]
    endings = tuple(item.result.outcomes if item.result is not None else {} for item in (before, after))
    return ReleaseChange(
        before,
        after,
        identical=False,
        figures=figures,
        parts=_parts(before, after),
        endings=(endings[0], endings[1]) if endings[0] != endings[1] else None,
    )


def differ(before: float, after: float, share: float) -> bool:
    """Whether two values differ by more than a share of the first; so does every finite one from infinity."""
    if math.isinf(before) or math.isinf(after):
        return before != after
    return abs(after - before) > share * abs(before)


def _parts(before: ReleaseResult, after: ReleaseResult) -> dict[State, float]:
    """By how many seconds the states of the first transfer became longer; medians over the runs that have them."""
    if before.result is None or after.result is None:
        return {}
    changes = state_changes(before.result, after.result)
    return {state: later - earlier for state, (earlier, later) in changes.items()}
