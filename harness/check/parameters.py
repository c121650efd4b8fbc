"""Transfers that show whether a parameter takes effect, and the judgement of their runs. Pure.

For every parameter that a manifest claims, a few values are tested, each in a run of its own against an implementation
that is known to work. Then the observations (`harness.analysis.metrics.observed`) are compared with the values that
were set. A run may show a parameter in several places; each observation is judged by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.outcome import MeasuredRun, Observation
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role
from harness.scenario.schema import Implementation

#: (value that was set, measurements of its run).
ValueRun = tuple[ParameterValue, MeasuredRun]
#: (errors, empty where the observations agree with the values that were set; observations for people).
Judgement = tuple[str, str]


@dataclass(frozen=True)
class ParameterTrial:
    """How one parameter is tested."""

    scenario: str
    candidates: tuple[ParameterValue, ...]
    """Values to test: the first two that the image accepts. Ignored where the image lists its values: then all."""
    judge: Callable[[Role, Sequence[ValueRun]], Judgement]
    peer: str = ""
    """The preferred implementation at the other end, if it is available: one that does not hide the effect."""
    other_parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    """Other parameters to set, where the role can, so that they do not hide the effect."""
    with_itself: bool = False
    """Whether the image is both ends, if it can be, and both have the value set: both may have to remember state."""


def values_to_try(setting: Setting, name: str, trial: ParameterTrial) -> list[ParameterValue]:
    """The values to test with an image."""
    parameter = PARAMETERS[name]
    if setting.values is not None:
        return [parameter.canonical(word) for word in setting.values]
    accepted = []
    for candidate in trial.candidates:
        with suppress(ValueError):
            value = parameter.canonical(candidate)
            setting.own(parameter, value)
            accepted.append(value)
    return accepted[:2]


def claims(implementation: Implementation) -> list[tuple[Role, str, Setting]]:
    """Claims of a manifest: (role, parameter, setting), in the order of `PARAMETERS`."""
    entries = []
    for name in PARAMETERS:
        for role in implementation.roles:
            setting = implementation.setting(role, name)
            if setting is not None and setting.claimed:
                entries.append((role, name, setting))
    return entries


# --- judging


def observations_of(measured: MeasuredRun, role: Role, name: str) -> list[Observation]:
    """Observations of a parameter in a role, from one run."""
    return [
        observation for observation in measured.observed if observation.role == role and observation.parameter == name
    ]


def _number(name: str, value: ParameterValue) -> float:
    number = PARAMETERS[name].number(value)
    assert number is not None
    return number


def _judge_agreement(name: str) -> Callable[[Role, Sequence[ValueRun]], Judgement]:
    """Judge that each value is observed, within the parameter's tolerance, in at least one place.

    One place may not show a value (no first probe timeout where the answer came before it); another may.
    """

    def judge(role: Role, runs: Sequence[ValueRun]) -> Judgement:
        errors, shown = [], []
        for value, measured in runs:
            observations = observations_of(measured, role, name)
            matching = [
                observation for observation in observations if PARAMETERS[name].agrees(value, observation.value)
            ]
            if not matching:
                errors.append(
                    f"{value} was not seen"
                    + (f": {_format_observation(observations[0])}" if observations else " anywhere")
                )
            shown.append(f"{value}: {_format_observation(matching[0])}" if matching else f"{value}: –")
        return "; ".join(errors), "; ".join(shown)

    return judge


def _initial_rtt(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """The first probe timeout is the same multiple of every value set (3 by RFC 9002 §6.2.2, 2 in some stacks).

    Where a run shows no timeout, the value that the endpoint recorded counts.
    """
    timeouts = [(value, ptos[0]) for value, measured in runs if (ptos := observations_of(measured, role, "first_pto"))]
    if len(timeouts) < len(runs) or len(timeouts) < 2:
        return _judge_agreement("initial_rtt")(role, runs)
    multiples = [float(observation.value) / _number("initial_rtt", value) for value, observation in timeouts]
    shown = "; ".join(
        f"{value}: first probe timeout after {float(observation.value) * 1e3:.0f} ms, {multiple:.2f} times as long"
        for (value, observation), multiple in zip(timeouts, multiples, strict=True)
    )
    steady = max(multiples) <= 1.1 * min(multiples) and 1.5 < min(multiples) < 4
    return ("" if steady else f"the first probe timeout does not follow: {shown}"), shown


def _format_observation(observation: Observation) -> str:
    value = (
        observation.value
        if isinstance(observation.value, str)
        else f"{observation.value:,.0f}"
        if observation.value >= 1e4
        else f"{observation.value:.4g}"
    )
    return f"{value} {observation.unit.removeprefix('1')}".rstrip() + f" ({observation.source})"


def _by_value(role: Role, runs: Sequence[ValueRun], name: str) -> dict[str, list[Observation]]:
    return {str(value): observations_of(measured, role, name) for value, measured in runs}


def _judge_switch(
    name: str, shows_on: Callable[[float], bool], shows_off: Callable[[float], bool], shown_by: Role | None = None
) -> Callable[[Role, Sequence[ValueRun]], Judgement]:
    """Judge that observations show the effect with `on`, and its absence with `off`; the largest observation counts.

    `shown_by`: the role whose observations count, whichever role was configured.
    """

    def judge(role: Role, runs: Sequence[ValueRun]) -> Judgement:
        errors, shown = [], []
        for value, observations in _by_value(shown_by or role, runs, name).items():
            counts = [
                (float(observation.value), observation)
                for observation in observations
                if isinstance(observation.value, float | int)
            ]
            if not counts:
                errors.append(f"nothing seen with {value}")
                continue
            largest, best = max(counts, key=lambda item: item[0])
            shown.append(f"{value}: {_format_observation(best)}")
            if not (shows_on if value == "on" else shows_off)(largest):
                errors.append(f"{value} shows {_format_observation(best)}")
        return "; ".join(errors), "; ".join(shown)

    return judge


#: The least ratio of the windows with a large and a small buffer; and the least difference between the shares of time
#: that a small and a large buffer are empty.
WINDOW_RATIO, EMPTY_SHARE = 1.5, 0.2


def _send_buffer(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """A small buffer is empty for a larger share of the time than a buffer several times its size; or it allows fewer
    bytes in flight.
    """
    if all(
        observation.unit == "bytes"
        for _, measured in runs
        for observation in observations_of(measured, role, "tcp_wmem_max")
    ):
        return _larger_window("tcp_wmem_max", role, runs)
    errors, shown, shares = _ascending_figures("tcp_wmem_max", role, runs)
    if any(after > before - EMPTY_SHARE for before, after in itertools.pairwise(shares)):
        errors.append(f"a greater value runs empty for as long: {'; '.join(shown)}")
    return "; ".join(errors), "; ".join(shown)


def _receive_buffer(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """A buffer of several times the size allows a clearly larger window. The kernel decides how much of it is data."""
    return _larger_window("tcp_rmem_max", role, runs)


def _larger_window(name: str, role: Role, runs: Sequence[ValueRun]) -> Judgement:
    errors, shown, windows = _ascending_figures(name, role, runs)
    if any(after < WINDOW_RATIO * before for before, after in itertools.pairwise(windows)):
        errors.append(f"a greater value allows no larger window: {'; '.join(shown)}")
    return "; ".join(errors), "; ".join(shown)


def _ascending_figures(name: str, role: Role, runs: Sequence[ValueRun]) -> tuple[list[str], list[str], list[float]]:
    """(errors, observations for people, observed figures), in ascending order of the value that was set."""
    errors, shown, figures = [], [], []
    for value, measured in sorted(runs, key=lambda run: _number(name, run[0])):
        observations = observations_of(measured, role, name)
        if observations:
            shown.append(f"{value}: {_format_observation(observations[0])}")
            figures.append(float(observations[0].value))
        else:
            errors.append(f"nothing seen with {value}")
    return errors, shown, figures


def _pacing(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """Without pacing the longest burst of the first or the second round trip is at least twice as long."""
    bursts = {value: observations for value, observations in _by_value(role, runs, "pacing").items() if observations}
    shown = "; ".join(
        f"{value}: {_format_observation(observation)}"
        for value, observations in bursts.items()
        for observation in observations
    )
    if set(bursts) != {"on", "off"}:
        return "no burst was seen", shown
    rounds = zip(bursts["on"], bursts["off"], strict=False)
    differs = any(float(off.value) >= 2 * float(on.value) for on, off in rounds)
    return ("" if differs else "the server's bursts are no longer without"), shown


def _largest_payload(measured: MeasuredRun, role: Role) -> float:
    """Largest UDP payload that a role was observed to send, bytes; 0 where none was observed."""
    return max(
        [float(observation.value) for observation in observations_of(measured, role, "max_udp_payload")], default=0.0
    )


def _mtu_discovery(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """Datagrams are larger with path MTU discovery than without."""
    sizes = {str(value): _largest_payload(measured, role) for value, measured in runs}
    shown = "; ".join(f"{value}: largest datagram {size:.0f} bytes" for value, size in sizes.items())
    if set(sizes) != {"on", "off"} or not all(sizes.values()):
        return "no datagrams were seen", shown
    return ("" if sizes["on"] > sizes["off"] else "datagrams are no larger with discovery"), shown


def _congestion_control(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """The transfers of any two controllers differ, with the same seed and the same losses.

    In virtual time two transfers with the same controller are identical to the last byte, and so are their
    measurements. A difference thus proves another controller. Where qlog shows the window, Reno reduces it at a loss to
    about 0.5, CUBIC to about 0.7 (RFC 9438 §4.6).
    """
    times = {str(value): measured.value("completion", 0) for value, measured in runs}
    shown, errors = [], []
    for value, measured in runs:
        text = f"{value}: {times[str(value)] or 0:.3f} s"
        for observation in observations_of(measured, role, "congestion_reaction"):
            text += f", window × {float(observation.value):.2f} at a loss"
        names = observations_of(measured, role, "congestion_control")
        text += "".join(f", {observation.value} in qlog" for observation in names)
        shown.append(text)
    if None in times.values():
        errors.append("a transfer did not end")
    for (first, first_measured), (second, second_measured) in itertools.combinations(runs, 2):
        if first_measured.measurements == second_measured.measurements:
            errors.append(f"{first} and {second} are the same transfer")
    return "; ".join(errors), "; ".join(shown)


def _datagrams(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """No datagram exceeds the limit, and a larger limit gives larger datagrams (alignment may cost a few bytes)."""
    errors, shown, sizes = [], [], []
    for value, measured in runs:
        limit = _number("max_udp_payload", value)
        largest = _largest_payload(measured, role)
        shown.append(f"{value}: largest datagram {largest:.0f} bytes")
        sizes.append((limit, largest))
        if not 0 < largest <= limit:
            errors.append(f"{value} gives datagrams of up to {largest:.0f} bytes")
    ordered = [largest for _, largest in sorted(sizes)]
    if len(sizes) > 1 and len(set(ordered)) < len(ordered):
        errors.append(f"different limits give the same size: {'; '.join(shown)}")
    return "; ".join(errors), "; ".join(shown)


#: With a BDP seed, a second connection sends at least this many times the data of one without a seed.
SEEDED_RATIO = 3


def _bdp_seed(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """The second connection sends several times the data in its first round trips, compared with `off`, or with the
    first connection where no run has `off`.

    Where qlogs name frames, they show BDP frames with bdp-frame. The server's qlog shows the phases of Careful Resume
    with careful-resume alone. The sender is the server, whichever role was configured.
    """
    ratios: dict[str, float] = {}
    errors, shown = [], []
    for value, observations in _by_value("server", runs, "bdp_seed").items():
        if not observations:
            errors.append(f"nothing seen with {value}")
            continue
        ratios[value] = float(observations[0].value)
        shown.append(f"{value}: {_format_observation(observations[0])}")
    plain = ratios.get("off", 1.0)
    if plain >= SEEDED_RATIO:
        errors.append(f"with off the second connection sends {plain:.1f} times as much as the first")
    for value, ratio in ratios.items():
        if value != "off" and ratio < SEEDED_RATIO * plain:
            baseline = "with off" if "off" in ratios else "in the first connection"
            errors.append(f"{value} gives {ratio / plain:.1f} times the data of the first round trips {baseline}")
    for seed, measured in runs:
        frames = [observation for end in ROLES for observation in observations_of(measured, end, "bdp_frames")]
        if seed == "bdp-frame" and frames:
            shown.append(
                "; ".join(f"{float(observation.value):g} BDP frames ({observation.source})" for observation in frames)
            )
            if not any(float(observation.value) for observation in frames):
                errors.append("no qlog names a BDP frame")
        phases = observations_of(measured, "server", "careful_resume")
        shown += [f"{seed}: {observation.value}" for observation in phases]
        if (seed == "careful-resume") != any("unvalidated" in str(observation.value) for observation in phases):
            errors.append(f"with {seed} the server's qlog has {'a' if phases else 'no'} phase unvalidated")
    return "; ".join(errors), "; ".join(shown)


#: Ratio of the congestion window after a move to the one before, where the new path has half the round trip: at least,
#: at most. A window that was reset may have doubled before it is observed.
_AFTER_A_MOVE = {"reset": (0.0, 0.25), "adaptive": (0.35, 0.65), "keep": (0.9, 1.1)}


def _migration_cwnd(role: Role, runs: Sequence[ValueRun]) -> Judgement:
    """The congestion window after a move follows the rule of each value, where the round trip is halved."""
    errors, shown = [], []
    for value, observations in _by_value(role, runs, "migration_cwnd").items():
        if not observations:
            errors.append(f"nothing seen with {value}")
            continue
        shown.append(f"{value}: {_format_observation(observations[0])}")
        low, high = _AFTER_A_MOVE.get(value, (0.0, 0.0))
        if not low <= float(observations[0].value) <= high:
            errors.append(f"{value} leaves {_format_observation(observations[0])}, not {low:g} to {high:g}")
    return "; ".join(errors), "; ".join(shown)


#: A server may buffer no more of a stream than its stream window. A small window would hide the limit under test.
_AMPLE_WINDOW: Mapping[str, ParameterValue] = {"stream_window": "16 MiB"}
#: Parameter → how it is tested. An image that is built here cannot claim a parameter that is not listed.
TRIALS: Mapping[str, ParameterTrial] = {
    "congestion_control": ParameterTrial("check/lossy", (), _congestion_control, other_parameters=_AMPLE_WINDOW),
    "initial_cwnd": ParameterTrial(
        "check/long", (6, 40), _judge_agreement("initial_cwnd"), other_parameters=_AMPLE_WINDOW
    ),
    "initial_rwnd": ParameterTrial("check/long", (6, 40), _judge_agreement("initial_rwnd")),
    "tcp_wmem_max": ParameterTrial("check/full", ("512 KiB", "8 MiB"), _send_buffer),
    "tcp_rmem_max": ParameterTrial("check/full", ("512 KiB", "8 MiB"), _receive_buffer),
    "initial_rtt": ParameterTrial(
        # ngtcp2's own first timeout comes after a second, so it does not hide the peer's.
        "check/long",
        ("50 ms", "150 ms"),
        _initial_rtt,
        peer="ngtcp2",
        other_parameters=_AMPLE_WINDOW,
    ),
    "ack_ratio": ParameterTrial("check/short", (4, 10), _judge_agreement("ack_ratio")),
    "max_ack_delay": ParameterTrial("check/short", ("10 ms", "60 ms"), _judge_agreement("max_ack_delay")),
    "ack_delay_exponent": ParameterTrial("check/short", (5, 8), _judge_agreement("ack_delay_exponent")),
    "idle_timeout": ParameterTrial("check/short", ("20 s", "45 s"), _judge_agreement("idle_timeout")),
    "max_udp_payload": ParameterTrial("check/short", ("1200 B", "1300 B"), _datagrams, other_parameters=_AMPLE_WINDOW),
    "path_mtu_discovery": ParameterTrial("check/short", (), _mtu_discovery, other_parameters=_AMPLE_WINDOW),
    "connection_window": ParameterTrial("check/short", ("4 MiB", "8 MiB"), _judge_agreement("connection_window")),
    "stream_window": ParameterTrial("check/short", ("4 MiB", "8 MiB"), _judge_agreement("stream_window")),
    # A pacer may send an initial window of ten packets as one burst (RFC 9002 §7.7).
    "pacing": ParameterTrial("check/long", (), _pacing, other_parameters={**_AMPLE_WINDOW, "initial_cwnd": 40}),
    # The ratio is datagrams per send call: 1 without GSO. A paced sender still sends many single datagrams with GSO
    # (picoquic: 1.1).
    "gso": ParameterTrial(
        "check/short",
        (),
        _judge_switch("gso", lambda ratio: ratio > 1.05, lambda ratio: ratio < 1.02),
        other_parameters=_AMPLE_WINDOW,
    ),
    # Early data depends on the client, or on the server's tickets. A token may hide it from the capture.
    "zero_rtt": ParameterTrial(
        "check/resumed", (), _judge_switch("zero_rtt", lambda count: count > 0, lambda count: count == 0, "client")
    ),
    # The peer is quic-go because its client migrates.
    "migration_cwnd": ParameterTrial(
        "check/moved", (), _migration_cwnd, peer="quic-go", other_parameters=_AMPLE_WINDOW
    ),
    "bdp_seed": ParameterTrial(
        "check/learnt", (), _bdp_seed, peer="quic-go", other_parameters=_AMPLE_WINDOW, with_itself=True
    ),
    "ecn": ParameterTrial(
        "check/short",
        (),
        _judge_switch("ecn", lambda share: share > 0.5, lambda share: share == 0),
        other_parameters=_AMPLE_WINDOW,
    ),
}
