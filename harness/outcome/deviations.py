"""Where a run shows something else than what its endpoints were told: a warning of the run. Pure.

An observation (`harness.analysis.metrics.observed`) is held against what was set (`Parameter.agrees`). Each kind of
evidence may see its own side of a parameter: one that agrees is enough. What is not to be compared departs from
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.formatting import format_count
from harness.outcome import Cell, MeasuredRun, Observation, Run
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role, parse_parameter_name


@dataclass(frozen=True)
class Deviation:
    """A parameter that a run shows at another value than the one set."""

    name: str
    """As it was set: server.initial_cwnd, or flow0.server.initial_cwnd."""
    role: Role
    parameter: str
    value: ParameterValue
    """As set, canonical."""
    seen: Observation
    """The first that does not agree."""


def observed_flow(run: Run) -> int | None:
    """The flow that a run's observations are of; None where there is none.

    That is the first over QUIC or TCP between the cell's own pair that transferred something.
    """
    pair_flows = [index for index in range(len(run.cell.scenario.flows)) if is_pair_flow(run.cell, index)]
    active_flows = {transfer.flow for transfer in run.transfers}
    return next((index for index in pair_flows if index in active_flows or not active_flows), None)


def is_pair_flow(cell: Cell, flow: int) -> bool:
    """Whether a flow is one between the cell's client and server, over QUIC or TCP."""
    spec = cell.scenario.flows[flow]
    named = [(spec.implementation(role), cell.implementation(role).name) for role in ROLES]
    return spec.kind != "udp" and all(name is None or name == default for name, default in named)


def configured_values(run: Run, flow: int) -> dict[tuple[Role, str], tuple[str, ParameterValue]]:
    """(role, parameter) → (the name it was set under, its canonical value), of one flow of a run.

    What the harness chose itself counts as set. A flow's own comes before what was asked of a role.
    """
    settings: dict[tuple[Role, str], tuple[str, ParameterValue]] = {}
    prefix = f"flow{flow}."
    for values in (run.effective, run.cell.parameters):
        for name, value in values.items():
            with suppress(ValueError):
                settings[parse_parameter_name(name)] = name, value
    flow_values = {f"{prefix}{name}": value for name, value in run.cell.scenario.flows[flow].parameters.items()}
    for name, value in {**flow_values, **run.effective, **run.cell.parameters}.items():
        if name.startswith(prefix):
            with suppress(ValueError):
                settings[parse_parameter_name(name.removeprefix(prefix))] = name, value
    return settings


def find_deviations(run: Run, measured: MeasuredRun | None) -> tuple[Deviation, ...]:
    """Every parameter of the flow that was observed that the run shows at another value, in order of its name."""
    flow = observed_flow(run)
    if measured is None or flow is None:
        return ()
    observations: dict[tuple[Role, str], list[Observation]] = {}
    for observation in measured.observed:
        observations.setdefault((observation.role, observation.parameter), []).append(observation)
    deviating = []
    for (role, parameter), (name, value) in sorted(configured_values(run, flow).items()):
        matching = observations.get((role, parameter), [])
        agreeing = [_agrees(run.cell, flow, role, parameter, value, observation) for observation in matching]
        if False in agreeing and True not in agreeing:
            deviating.append(Deviation(name, role, parameter, value, matching[agreeing.index(False)]))
    return tuple(deviating)


def _agrees(
    cell: Cell, flow: int, role: Role, parameter: str, value: ParameterValue, observation: Observation
) -> bool | None:
    """`Parameter.agrees`, where an endpoint may call a value by its own word, too."""
    definition = PARAMETERS[parameter]
    answer = definition.agrees(definition.canonical(value), observation.value)
    setting = cell.implementation(role, flow).setting(role, parameter)
    if answer is False and isinstance(observation.value, str) and setting is not None:
        with suppress(ValueError):
            return definition.agrees(setting.own(definition, value), observation.value)
    return answer


def contradiction_sentences(run: Run, observed: Sequence[Observation]) -> tuple[str, ...]:
    """Where an endpoint's own record names another congestion control than the one it was told, a sentence each.

    It must be one that the endpoint can be told: a name that nobody here knows may be another word for the same.
    """
    flow = observed_flow(run)
    if flow is None:
        return ()
    return tuple(
        sentence
        for observation in observed
        if observation.parameter == "congestion_control"
        and isinstance(observation.value, str)
        and (sentence := contradiction_sentence(run, flow, observation.role, observation.value, observation.source))
    )


def contradiction_sentence(run: Run, flow: int, role: Role, word: str, source: str) -> str:
    """That a role of a flow names another congestion control than it was told; empty where it does not.

    `source`: whose word it is.
    """
    configured = configured_values(run, flow).get((role, "congestion_control"))
    setting = run.cell.implementation(role, flow).setting(role, "congestion_control")
    if configured is None or setting is None or not setting.values:
        return ""
    definition, (name, value) = PARAMETERS["congestion_control"], configured
    stack_words: Mapping[str, str] = (
        setting.values if isinstance(setting.values, Mapping) else {term: term for term in setting.values}
    )
    named = {
        canonical
        for canonical, native in stack_words.items()
        if definition.agrees(canonical, word) or definition.agrees(native, word)
    }
    if not named or str(value) in named:
        return ""
    return f"flow {flow}: {name} was set to {value}, and {source} says {word}"


def deviation_sentences(runs: Iterable[tuple[Run, MeasuredRun | None]]) -> list[str]:
    """The departures of a cell's runs, one a parameter: 'server.initial_cwnd was set to 10, and 3.7 packets were seen
    in 2 of 5 runs'.
    """
    runs = list(runs)
    observations: dict[tuple[str, ParameterValue], list[Observation]] = {}
    for run, measured in runs:
        for departure in find_deviations(run, measured):
            observations.setdefault((departure.name, departure.value), []).append(departure.seen)
    return [
        f"{name} was set to {value}, and {_seen(group)} in {len(group)} of {format_count(len(runs), 'run')}"
        for (name, value), group in observations.items()
    ]


def _seen(observations: Sequence[Observation]) -> str:
    unit = f" {observations[0].unit}" if observations[0].unit not in ("1", "") else ""
    numbers = sorted(observation.value for observation in observations if not isinstance(observation.value, str))
    if not numbers:
        return f"{' and '.join(dict.fromkeys(_words(observations)))} was seen"
    low, high = (_number(value) for value in (numbers[0], numbers[-1]))
    return f"{low if low == high else f'{low} to {high}'}{unit} were seen"


def _words(observations: Iterable[Observation]) -> Iterator[str]:
    for observation in observations:
        if isinstance(observation.value, str):
            yield observation.value


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:.3g}"
