"""Attribution as an experiment: which setting removes which part of a transfer's time, and what its removal saves.

A reading of one run says that so many seconds were flow control (`harness.analysis.time_breakdown`). That predicts what
the transfer saves without the cause. Here the cause is removed, all else is kept, and the cell runs again. The lab test
of the time breakdown takes its states and settings from the same table.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.errors import InputError
from harness.evaluation.cell_result import CellResult, attributions, notable_parts, point_of
from harness.netem import bdp_bytes, queue_bytes
from harness.outcome import Attribution, Cell, State, proven_outcome
from harness.planning.endpoint_config import effective_parameters, is_over_tcp, refusal_reason
from harness.planning.sampling import is_random
from harness.planning.sweep import Point, point_at
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, parse_parameter_name
from harness.units import Size


@dataclass(frozen=True)
class Cause:
    """One cause of lost time: the states that show it, and the settings that remove it."""

    title: str
    states: tuple[State, ...]
    settings: tuple[str, ...]
    """Names of a sweep (`harness.planning.sweep`); down is the direction to the client."""


#: Every cause that a setting can remove. Attribution is of downloads: the server sends.
CAUSES: Mapping[str, Cause] = {
    "windows": Cause(
        "flow-control windows",
        ("flow_control",),
        ("client.connection_window", "client.stream_window", "client.tcp_rmem_max"),
    ),
    "initial_window": Cause("initial window", ("slow_start",), ("server.initial_cwnd",)),
    # After a loss the window falls, limits, and may leave a probe timeout as the only way to notice.
    "losses": Cause("losses", ("recovery", "window_limited", "probe_timeouts"), ("path.down.loss", "path.down.queue")),
    "late_acknowledgements": Cause(
        "late acknowledgements", ("acknowledgements",), ("path.up.rate", "client.ack_ratio")
    ),
    "pacing": Cause("pacing", ("sender_idle",), ("server.pacing",)),
    "server_buffer": Cause("server's buffer", ("buffer_limited",), ("server.stream_window", "server.tcp_wmem_max")),
    "jitter": Cause("packets that overtake", ("spurious_recovery",), ("path.down.jitter", "path.down.reorder")),
}
#: Why a state has no cause that a setting removes.
_NO_CAUSE: Mapping[State, str] = {
    "shared": "the other flows belong to the scenario",
    "unexplained": "no rule names its cause",
}
#: Queue without losses, in bandwidth-delay products: slow start overshoots by less (docs/studies.md).
DEEP_QUEUE = 4
#: Bytes of a packet, of which an initial window counts packets (RFC 9002 §7.2); and of TCP's segments.
_PACKET, _SEGMENT = 1200, 1448
#: Acknowledgements of every second packet (RFC 9000 §13.2.2).
_ACK_RATIO = 2
#: Servers whose stream_window is also how much of a stream is sent and not acknowledged: nginx's directive
#: http3_stream_buffer_size.
_SENDS_FROM_STREAM_WINDOW = frozenset({"nginx"})
#: Runs of each cell whose figures depend on the seed: six make an interval of 95 % (`harness.stats.intervals`).
RANDOM_RUNS = 6


@dataclass(frozen=True)
class Removal:
    """A cause that is removed from a cell."""

    title: str
    states: tuple[State, ...]
    """Those of the cell's parts that are predicted to vanish."""
    settings: Mapping[str, str]
    attributed: float
    """Seconds in these states: the prediction."""
    notes: tuple[str, ...] = ()
    """Settings of the same cause that the cell does not take, with the reason."""


@dataclass(frozen=True)
class Remainder:
    """A part that no setting removes from the cell."""

    state: State
    seconds: float
    why: str


@dataclass(frozen=True)
class Plan:
    """What is removed from a cell, and what cannot be."""

    transfer: Attribution
    removals: tuple[Removal, ...]
    remainders: tuple[Remainder, ...]

    @property
    def trials(self) -> list[Removal]:
        """Every removal alone, and where there are several all of them together, as the last one."""
        if len(self.removals) < 2:
            return list(self.removals)
        settings = {name: value for removal in self.removals for name, value in removal.settings.items()}
        states = tuple(state for removal in self.removals for state in removal.states)
        return [
            *self.removals,
            Removal("all together", states, settings, sum(removal.attributed for removal in self.removals)),
        ]


# --- Which interventions a cell gets. Pure.


def plan_removals(result: CellResult) -> Plan | None:
    """What can be removed from a cell, by its median run. None where no time was attributed."""
    transfers = attributions(result)
    if not transfers:
        return None
    cell, transfer = result.cell, transfers[0]
    parts = {part.state: part.seconds for part in notable_parts(transfer)}
    removals, remainders = list[Removal](), list[Remainder]()
    for name, cause in CAUSES.items():
        states = tuple(state for state in cause.states if state in parts and not _is_outage(cell, state))
        if not states:
            continue
        settings, notes = dict[str, str](), list[str]()
        for setting, value in _settings(name, cell, transfer):
            if value is None:
                notes.append(setting)
            elif why := _refusal(cell, transfer.flow, setting, value):
                notes.append(why)
            else:
                settings[setting] = value
        attributed = sum(transfer.seconds_in(state) for state in states)
        if settings:
            removals.append(Removal(cause.title, states, settings, attributed, tuple(notes)))
        else:
            remainders += [Remainder(state, parts[state], "; ".join(notes)) for state in states]
    handled = {state for item in removals for state in item.states} | {item.state for item in remainders}
    remainders += [
        Remainder(state, seconds, _NO_CAUSE.get(state, "the outage belongs to the scenario"))
        for state, seconds in parts.items()
        if state not in handled
    ]
    return Plan(
        transfer,
        tuple(sorted(removals, key=lambda removal: -removal.attributed)),
        tuple(sorted(remainders, key=lambda remainder: -remainder.seconds)),
    )


def _is_outage(cell: Cell, state: State) -> bool:
    """Whether probe timeouts are those of an outage that the scenario asks for."""
    return state == "probe_timeouts" and any(path.outages for path in cell.scenario.every_path.values())


#: A setting and its value; or the reason why there is none, and None.
_Setting = tuple[str, str | None]


def _settings(name: str, cell: Cell, transfer: Attribution) -> list[_Setting]:
    """The settings that remove a cause from a cell."""
    scenario, number = cell.scenario, transfer.flow
    over_tcp = is_over_tcp(
        scenario, number, cell.implementation("client", number), cell.implementation("server", number)
    )
    path = next(iter(scenario.every_path.values()))
    file = str(Size(1 << transfer.size.bit_length()))
    if name == "windows":
        names = ["tcp_rmem_max"] if over_tcp else ["connection_window", "stream_window"]
        return [
            (_endpoint_name(cell, number, f"client.{parameter}"), _taken_size(cell, number, parameter, file))
            for parameter in names
        ]
    if name == "initial_window":
        packets = math.ceil(bdp_bytes(path.to_client.rate, path.rtt) / (_SEGMENT if over_tcp else _PACKET))
        setting = cell.implementation("server", number).setting("server", "initial_cwnd")
        most = packets if setting is None or setting.maximum is None else int(setting.maximum)
        return [(_endpoint_name(cell, number, "server.initial_cwnd"), str(min(packets, most)))]
    if name == "pacing":
        return [(_endpoint_name(cell, number, "server.pacing"), "off")]
    if name == "server_buffer":
        server = cell.implementation("server", number)
        if over_tcp:
            return [(_endpoint_name(cell, number, "server.tcp_wmem_max"), file)]
        if server.base_name in _SENDS_FROM_STREAM_WINDOW:
            return [(_endpoint_name(cell, number, "server.stream_window"), file)]
        return [(f"{server.name} has no setting for the buffer that it sends from", None)]
    if len(scenario.every_path) > 1 or scenario.in_sequence:
        return [("the scenario has several paths", None)]
    if name == "losses":
        return _loss_settings(cell, transfer)
    if name == "jitter":
        link = path.to_client
        jitter: list[_Setting] = [("path.down.jitter", "0 ms")] if link.variation.deviation.value else []
        reorder: list[_Setting] = [("path.down.reorder", "0 %")] if link.reorder is not None else []
        return [*jitter, *reorder] or [("the path keeps packets in order", None)]
    rates = path.to_client.rate, path.to_server.rate
    faster: _Setting = ("path.up.rate", str(rates[0]))
    slow = rates[1].bits_per_second < rates[0].bits_per_second
    return [
        faster if slow else ("the return path is as fast as the forward path", None),
        (_endpoint_name(cell, number, "client.ack_ratio"), str(_ACK_RATIO)),
    ]


def _taken_size(cell: Cell, flow: int, parameter: str, wanted: str) -> str:
    """A size of a client's parameter: what is wanted, or of a few known sizes the largest."""
    setting = cell.implementation("client", flow).setting("client", parameter)
    if setting is None or setting.values is None:
        return wanted
    sizes = [Size.parse(str(word)) for word in setting.values]
    return str(min(max(sizes, key=lambda size: size.bytes), Size.parse(wanted), key=lambda size: size.bytes))


def _loss_settings(cell: Cell, transfer: Attribution) -> list[_Setting]:
    path = cell.scenario.path
    link = path.to_client
    if not transfer.seconds_in("recovery"):
        return [("no packet was lost: the congestion control alone decides how its window grows", None)]
    settings: list[_Setting] = [("path.down.loss", "0 %")] if link.mean_loss else []
    if link.queue.holds and queue_bytes(link, path.rtt) < DEEP_QUEUE * bdp_bytes(link.rate, path.rtt):
        settings.append(("path.down.queue", f"{DEEP_QUEUE} BDP"))
    return settings or [(f"the path loses nothing at random, and its queue has {DEEP_QUEUE} BDP or more", None)]


def _endpoint_name(cell: Cell, flow: int, full: str) -> str:
    """The name of a parameter in a sweep: of one of several flows, that flow's own."""
    return full if len(cell.scenario.flows) == 1 else f"flow{flow}.{full}"


def _refusal(cell: Cell, flow: int, setting: str, value: str) -> str:
    """Why a cell does not take a setting, or has it already; empty where it takes it."""
    full = setting.removeprefix(f"flow{flow}.")
    if full.partition(".")[0] not in ROLES:
        try:
            point_at(Point(cell.scenario, cell.parameters), {setting: value})
        except InputError as error:
            return error.message
        return ""
    role, name = parse_parameter_name(full)
    canonical = PARAMETERS[name].canonical(value)
    parameters: dict[str, ParameterValue] = effective_parameters(cell, flow)
    pair = cell.implementation("client", flow), cell.implementation("server", flow)
    own = pair[ROLES.index(role)].setting(role, name)
    default = None if own is None or own.default is None else PARAMETERS[name].canonical(own.default)
    if parameters.get(full, default) == canonical:
        return f"{pair[ROLES.index(role)].name} has {name} {value} already"
    return refusal_reason(cell.scenario.flows[flow], *pair, full, {**parameters, full: canonical})


def removed_cell(cell: Cell, settings: Mapping[str, str]) -> Cell:
    """A cell with settings changed, without a key. Raises SweepError (`harness.planning.sweep`)."""
    point = point_at(Point(cell.scenario, cell.parameters), settings)
    content = {"scenario": point.scenario, "parameters": dict(point.parameters), "key": "", "compiled": ""}
    return cell.model_copy(update=content)


# --- What the removals saved. Pure.


@dataclass(frozen=True)
class RemovalEffect:
    """A removal, and what it saved."""

    removal: Removal
    result: CellResult
    saved: float | None
    """Median over the runs of the completion time of the base less that without the cause, s; negative where the
    transfer took longer. None where no pair of runs completed.
    """
    seconds: float | None
    """Median completion time without the cause, s."""
    runs: int
    """Pairs of runs behind it, with equal seeds."""

    @property
    def difference(self) -> float | None:
        """Seconds that the removal saved beyond the attributed ones."""
        return None if self.saved is None else self.saved - self.removal.attributed


@dataclass(frozen=True)
class Explained:
    """A cell, its parts, and what their removal saved."""

    base: CellResult
    transfer: Attribution
    effects: tuple[RemovalEffect, ...]
    """Of each cause alone."""
    together: RemovalEffect | None
    """Of all causes; None where there are fewer than two."""
    remainders: tuple[Remainder, ...]

    @property
    def interaction(self) -> float | None:
        """Seconds that all removals together saved, less the sum of what each one saved alone: above zero where a cause
        hid another, below where two removals save the same time. None where a figure is missing.
        """
        saved = [effect.saved for effect in self.effects]
        if self.together is None or self.together.saved is None or None in saved:
            return None
        return self.together.saved - sum(value for value in saved if value is not None)


def effect_of(base: CellResult, transfer: Attribution, removal: Removal, result: CellResult) -> RemovalEffect:
    """What a removal saved, by the runs that both cells have."""
    before, after = (_completions(cell, transfer) for cell in (base, result))
    pairs = [before[number] - after[number] for number in sorted(before.keys() & after.keys())]
    return RemovalEffect(
        removal,
        result,
        statistics.median(pairs) if pairs else None,
        statistics.median(after.values()) if after else None,
        len(pairs),
    )


def _completions(result: CellResult, transfer: Attribution) -> dict[int, float]:
    """Repetition → completion time of a transfer, s, of the runs that completed."""
    return {
        run.repetition: seconds
        for run, measured in result.runs
        if measured is not None
        and proven_outcome(run, measured).status == "completed"
        and (seconds := measured.value("completion", transfer.flow, transfer.transfer)) is not None
    }


def explained(base: CellResult, plan: Plan, results: Sequence[CellResult]) -> Explained:
    """The effects of a plan. `results`: of its trials, in their order."""
    effects = [
        effect_of(base, plan.transfer, removal, result) for removal, result in zip(plan.trials, results, strict=True)
    ]
    count = len(plan.removals)
    return Explained(
        base, plan.transfer, tuple(effects[:count]), effects[count] if len(effects) > count else None, plan.remainders
    )


def differences(entries: Iterable[Explained]) -> list[float]:
    """Measured less attributed seconds of every cause that was removed alone, and whose runs completed."""
    return [
        difference for entry in entries for effect in entry.effects if (difference := effect.difference) is not None
    ]


# --- Experiments on a checkout, and what is stored of them.

#: Yields cells, is sent the result of each, and returns what came of them; None where no time was attributed.
ExplanationGenerator = Generator[list[Cell], Sequence[CellResult], Explained | None]


def runs_of(cell: Cell) -> int:
    """Runs that a cell and its trials get: one where nothing depends on the seed."""
    return RANDOM_RUNS if is_random(cell) else 1


def explain(cell: Cell, with_key: Callable[[Cell], Cell]) -> ExplanationGenerator:
    """The experiment on one cell: first the cell itself, then its trials. `with_key` gives a cell its key."""
    (base,) = yield [cell]
    plan = plan_removals(base)
    if plan is None:
        return None
    trials = [with_key(removed_cell(cell, removal.settings)) for removal in plan.trials]
    results = (yield trials) if trials else []
    return explained(base, plan, results)


def stored_explanations(results: Iterable[CellResult], stored: Iterable[CellResult]) -> dict[str, Explained]:
    """Key of a cell → its experiment, for those of `results` all of whose trials are among `stored`.

    A trial has the bits of its base: images, simulator, engine. A cell of which nothing can be removed needs none.
    """
    by_point = {_identity(result.cell): result for result in stored if result.runs}
    entries = dict[str, Explained]()
    for result in results:
        if (plan := plan_removals(result)) is None or not (plan.removals or plan.remainders):
            continue
        cells = [removed_cell(result.cell, removal.settings) for removal in plan.trials]
        trials = [trial for cell in cells if (trial := by_point.get(_identity(cell))) is not None]
        if len(trials) == len(cells):
            entries[result.cell.key] = explained(result, plan, trials)
    return entries


def trial_keys(results: Sequence[CellResult]) -> set[str]:
    """Keys of those cells that are trials on others of `results`: pages of the others leave them out.

    A trial stays one after its base was made again with other images or another engine.
    """
    keys_by_point: dict[object, set[str]] = {}
    for result in results:
        keys_by_point.setdefault(point_of(result.cell), set()).add(result.cell.key)
    keys = set[str]()
    for result in results:
        plan = plan_removals(result)
        for removal in plan.trials if plan is not None else ():
            with suppress(InputError):
                keys |= keys_by_point.get(point_of(removed_cell(result.cell, removal.settings)), set())
    return keys


def _identity(cell: Cell) -> tuple[object, ...]:
    return (
        point_of(cell),
        cell.client_image.identity,
        cell.server_image.identity,
        cell.sim_image.identity,
        cell.engine_code,
    )
