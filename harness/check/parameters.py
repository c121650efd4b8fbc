"""Which transfers show that a parameter takes effect, and how it is told from their runs. Pure.

For every parameter that a manifest claims, a few values are tried, each in a run of its own against an
implementation that is known to work; then what was observed (`harness.analysis.metrics.observed`) is held against what
was asked. A run tells of a parameter from several places; each is judged by itself.
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

#: (value asked, what was measured of its run).
Tried = tuple[ParameterValue, MeasuredRun]
#: Empty when what was seen is what was asked, else what is wrong; and what was seen, for people.
Told = tuple[str, str]


@dataclass(frozen=True)
class ParameterTrial:
    """How one parameter is tried."""

    scenario: str
    candidates: tuple[ParameterValue, ...]
    """Values of which the first two that the image takes are tried; all it knows, where it lists them."""
    tell: Callable[[Role, Sequence[Tried]], Told]
    peer: str = ""
    """The implementation to have at the other end, where it can be had: one that does not hide the effect."""
    beside: Mapping[str, ParameterValue] = field(default_factory=dict)
    """What is set beside it, where the role can set it, so that the effect is not hidden by something else."""
    with_itself: bool = False
    """Whether the image is both ends, where it can be, and both are told: what one remembers the other may have to."""


def values(setting: Setting, name: str, trial: ParameterTrial) -> list[ParameterValue]:
    """The values to try on an image."""
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
    """What a manifest claims: (role, parameter, how), in the vocabulary's order."""
    entries = []
    for name in PARAMETERS:
        for role in implementation.roles:
            setting = implementation.setting(role, name)
            if setting is not None and setting.claimed:
                entries.append((role, name, setting))
    return entries


# --- telling


def seen(measured: MeasuredRun, role: Role, name: str) -> list[Observation]:
    """What a run shows of a parameter in a role."""
    return [
        observation for observation in measured.observed if observation.role == role and observation.parameter == name
    ]


def _number(name: str, value: ParameterValue) -> float:
    number = PARAMETERS[name].number(value)
    assert number is not None
    return number


def _agreeing(name: str) -> Callable[[Role, Sequence[Tried]], Told]:
    """Each value is observed, near enough, in at least one place.

    What one place cannot show (a first probe timeout that an answer forestalled) another can.
    """

    def tell(role: Role, runs: Sequence[Tried]) -> Told:
        errors, shown = [], []
        for value, measured in runs:
            observations = seen(measured, role, name)
            matching = [
                observation for observation in observations if PARAMETERS[name].agrees(value, observation.value)
            ]
            if not matching:
                errors.append(
                    f"{value} was not seen" + (f": {_text(observations[0])}" if observations else " anywhere")
                )
            shown.append(f"{value}: {_text(matching[0])}" if matching else f"{value}: –")
        return "; ".join(errors), "; ".join(shown)

    return tell


def _initial_rtt(role: Role, runs: Sequence[Tried]) -> Told:
    """The first probe timeout is the same multiple of every value asked for (3 by RFC 9002 §6.2.2, 2 in some stacks).

    Where a run shows no timeout, the value that the endpoint recorded counts.
    """
    timeouts = [(value, found[0]) for value, measured in runs if (found := seen(measured, role, "first_pto"))]
    if len(timeouts) < len(runs) or len(timeouts) < 2:
        return _agreeing("initial_rtt")(role, runs)
    multiples = [float(observation.value) / _number("initial_rtt", value) for value, observation in timeouts]
    shown = "; ".join(
        f"{value}: first probe timeout after {float(observation.value) * 1e3:.0f} ms, {multiple:.2f} times as long"
        for (value, observation), multiple in zip(timeouts, multiples, strict=True)
    )
    steady = max(multiples) <= 1.1 * min(multiples) and 1.5 < min(multiples) < 4
    return ("" if steady else f"the first probe timeout does not follow: {shown}"), shown


def _text(observation: Observation) -> str:
    value = (
        observation.value
        if isinstance(observation.value, str)
        else f"{observation.value:,.0f}"
        if observation.value >= 1e4
        else f"{observation.value:.4g}"
    )
    return f"{value} {observation.unit.removeprefix('1')}".rstrip() + f" ({observation.source})"


def _by_value(role: Role, runs: Sequence[Tried], name: str) -> dict[str, list[Observation]]:
    return {str(value): seen(measured, role, name) for value, measured in runs}


def _switch(
    name: str, shows_on: Callable[[float], bool], shows_off: Callable[[float], bool], shown_by: Role | None = None
) -> Callable[[Role, Sequence[Tried]], Told]:
    """What is observed with `on` shows it, and with `off` its absence, in the place that sees most of it.

    `shown_by`: the role at which it shows, whoever was told.
    """

    def tell(role: Role, runs: Sequence[Tried]) -> Told:
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
            shown.append(f"{value}: {_text(best)}")
            if not (shows_on if value == "on" else shows_off)(largest):
                errors.append(f"{value} shows {_text(best)}")
        return "; ".join(errors), "; ".join(shown)

    return tell


#: What window a large buffer allows, of a small one's, at least; and how much more of the time a small one is empty.
CLEARLY, LONGER = 1.5, 0.2


def _send_buffer(role: Role, runs: Sequence[Tried]) -> Told:
    """A small buffer runs empty for more of the time than one of several times the size; or lets less be in flight."""
    if all(observation.unit == "bytes" for _, measured in runs for observation in seen(measured, role, "tcp_wmem_max")):
        return _larger_window("tcp_wmem_max", role, runs)
    errors, shown, shares = _in_order("tcp_wmem_max", role, runs)
    if any(after > before - LONGER for before, after in itertools.pairwise(shares)):
        errors.append(f"a greater value runs empty for as long: {'; '.join(shown)}")
    return "; ".join(errors), "; ".join(shown)


def _receive_buffer(role: Role, runs: Sequence[Tried]) -> Told:
    """A buffer of several times the size allows a clearly larger window. How much of it is data the kernel says."""
    return _larger_window("tcp_rmem_max", role, runs)


def _larger_window(name: str, role: Role, runs: Sequence[Tried]) -> Told:
    errors, shown, windows = _in_order(name, role, runs)
    if any(after < CLEARLY * before for before, after in itertools.pairwise(windows)):
        errors.append(f"a greater value allows no larger window: {'; '.join(shown)}")
    return "; ".join(errors), "; ".join(shown)


def _in_order(name: str, role: Role, runs: Sequence[Tried]) -> tuple[list[str], list[str], list[float]]:
    """What is missing, what is seen for people, and the figures, from the least value on."""
    errors, shown, figures = [], [], []
    for value, measured in sorted(runs, key=lambda run: _number(name, run[0])):
        observations = seen(measured, role, name)
        if observations:
            shown.append(f"{value}: {_text(observations[0])}")
            figures.append(float(observations[0].value))
        else:
            errors.append(f"nothing seen with {value}")
    return errors, shown, figures


def _pacing(role: Role, runs: Sequence[Tried]) -> Told:
    """Without pacing the longest burst of the first or the second round trip is at least twice as long."""
    bursts = {value: observations for value, observations in _by_value(role, runs, "pacing").items() if observations}
    shown = "; ".join(
        f"{value}: {_text(observation)}" for value, observations in bursts.items() for observation in observations
    )
    if set(bursts) != {"on", "off"}:
        return "no burst was seen", shown
    rounds = zip(bursts["on"], bursts["off"], strict=False)
    differs = any(float(off.value) >= 2 * float(on.value) for on, off in rounds)
    return ("" if differs else "the server's bursts are no longer without"), shown


def _largest(measured: MeasuredRun, role: Role) -> float:
    """Largest datagram that a role was seen to send, bytes; 0 where none was seen."""
    return max([float(observation.value) for observation in seen(measured, role, "max_udp_payload")], default=0.0)


def _mtu_discovery(role: Role, runs: Sequence[Tried]) -> Told:
    """With discovery larger datagrams come than without."""
    sizes = {str(value): _largest(measured, role) for value, measured in runs}
    shown = "; ".join(f"{value}: largest datagram {size:.0f} bytes" for value, size in sizes.items())
    if set(sizes) != {"on", "off"} or not all(sizes.values()):
        return "no datagrams were seen", shown
    return ("" if sizes["on"] > sizes["off"] else "datagrams are no larger with discovery"), shown


def _congestion_control(role: Role, runs: Sequence[Tried]) -> Told:
    """Every controller's transfer is another one, from the same seed and over the same losses.

    In virtual time two transfers by the same controller are the same to the last byte, and so is all that is
    measured of them; what differs is another controller's. Where qlog shows the window, Reno answers a loss with
    about a half, CUBIC with about 0.7 (RFC 9438 §4.6).
    """
    times = {str(value): measured.value("completion", 0) for value, measured in runs}
    shown, errors = [], []
    for value, measured in runs:
        text = f"{value}: {times[str(value)] or 0:.3f} s"
        for observation in seen(measured, role, "congestion_reaction"):
            text += f", window × {float(observation.value):.2f} at a loss"
        names = seen(measured, role, "congestion_control")
        text += "".join(f", {observation.value} in qlog" for observation in names)
        shown.append(text)
    if None in times.values():
        errors.append("a transfer did not end")
    for (first, first_measured), (second, second_measured) in itertools.combinations(runs, 2):
        if first_measured.measurements == second_measured.measurements:
            errors.append(f"{first} and {second} are the same transfer")
    return "; ".join(errors), "; ".join(shown)


def _datagrams(role: Role, runs: Sequence[Tried]) -> Told:
    """No datagram is larger than asked, and a larger limit gives larger ones (alignment may cost a few bytes)."""
    errors, shown, sizes = [], [], []
    for value, measured in runs:
        limit = _number("max_udp_payload", value)
        largest = _largest(measured, role)
        shown.append(f"{value}: largest datagram {largest:.0f} bytes")
        sizes.append((limit, largest))
        if not 0 < largest <= limit:
            errors.append(f"{value} gives datagrams of up to {largest:.0f} bytes")
    ordered = [largest for _, largest in sorted(sizes)]
    if len(sizes) > 1 and len(set(ordered)) < len(ordered):
        errors.append(f"different limits give the same size: {'; '.join(shown)}")
    return "; ".join(errors), "; ".join(shown)


#: A second connection that starts from what the first learnt sends at least so many times what one does that does not.
SEVERAL = 3


def _bdp_seed(role: Role, runs: Sequence[Tried]) -> Told:
    """Against `off`, else against the first connection, the second one's first round trips have several times the data.

    Where qlogs name frames, the value bdp-frame shows some; the phases of Careful Resume are in the server's with
    careful-resume alone. The sender is the server, whoever was told.
    """
    ratios: dict[str, float] = {}
    errors, shown = [], []
    for value, observations in _by_value("server", runs, "bdp_seed").items():
        if not observations:
            errors.append(f"nothing seen with {value}")
            continue
        ratios[value] = float(observations[0].value)
        shown.append(f"{value}: {_text(observations[0])}")
    plain = ratios.get("off", 1.0)
    if plain >= SEVERAL:
        errors.append(f"with off the second connection sends {plain:.1f} times as much as the first")
    for value, ratio in ratios.items():
        if value != "off" and ratio < SEVERAL * plain:
            baseline = "with off" if "off" in ratios else "in the first connection"
            errors.append(f"{value} gives {ratio / plain:.1f} times the data of the first round trips {baseline}")
    for seed, measured in runs:
        frames = [observation for end in ROLES for observation in seen(measured, end, "bdp_frames")]
        if seed == "bdp-frame" and frames:
            shown.append(
                "; ".join(f"{float(observation.value):g} BDP frames ({observation.source})" for observation in frames)
            )
            if not any(float(observation.value) for observation in frames):
                errors.append("no qlog names a BDP frame")
        phases = seen(measured, "server", "careful_resume")
        shown += [f"{seed}: {observation.value}" for observation in phases]
        if (seed == "careful-resume") != any("unvalidated" in str(observation.value) for observation in phases):
            errors.append(f"with {seed} the server's qlog has {'a' if phases else 'no'} phase unvalidated")
    return "; ".join(errors), "; ".join(shown)


#: The congestion window after a move to a path of half the round trip, per that before: at least, at most.
#: A window that starts again may have doubled before it is looked at.
_AFTER_A_MOVE = {"reset": (0.0, 0.25), "adaptive": (0.35, 0.65), "keep": (0.9, 1.1)}


def _migration_cwnd(role: Role, runs: Sequence[Tried]) -> Told:
    """The window that the rule of each word leaves, where the round trip is half as long as before."""
    errors, shown = [], []
    for value, observations in _by_value(role, runs, "migration_cwnd").items():
        if not observations:
            errors.append(f"nothing seen with {value}")
            continue
        shown.append(f"{value}: {_text(observations[0])}")
        low, high = _AFTER_A_MOVE.get(value, (0.0, 0.0))
        if not low <= float(observations[0].value) <= high:
            errors.append(f"{value} leaves {_text(observations[0])}, not {low:g} to {high:g}")
    return "; ".join(errors), "; ".join(shown)


#: A server may hold no more of a stream than its window: that would hide what else limits it.
_AMPLE: Mapping[str, ParameterValue] = {"stream_window": "16 MiB"}
#: How each parameter is tried. One that is not here cannot be claimed by an image that is built here.
TRIALS: Mapping[str, ParameterTrial] = {
    "congestion_control": ParameterTrial("check/lossy", (), _congestion_control, beside=_AMPLE),
    "initial_cwnd": ParameterTrial("check/long", (6, 40), _agreeing("initial_cwnd"), beside=_AMPLE),
    "initial_rwnd": ParameterTrial("check/long", (6, 40), _agreeing("initial_rwnd")),
    "tcp_wmem_max": ParameterTrial("check/full", ("512 KiB", "8 MiB"), _send_buffer),
    "tcp_rmem_max": ParameterTrial("check/full", ("512 KiB", "8 MiB"), _receive_buffer),
    "initial_rtt": ParameterTrial(
        # ngtcp2's own first timeout comes after a second, and so does not cover the other's.
        "check/long",
        ("50 ms", "150 ms"),
        _initial_rtt,
        peer="ngtcp2",
        beside=_AMPLE,
    ),
    "ack_ratio": ParameterTrial("check/short", (4, 10), _agreeing("ack_ratio")),
    "max_ack_delay": ParameterTrial("check/short", ("10 ms", "60 ms"), _agreeing("max_ack_delay")),
    "ack_delay_exponent": ParameterTrial("check/short", (5, 8), _agreeing("ack_delay_exponent")),
    "idle_timeout": ParameterTrial("check/short", ("20 s", "45 s"), _agreeing("idle_timeout")),
    "max_udp_payload": ParameterTrial("check/short", ("1200 B", "1300 B"), _datagrams, beside=_AMPLE),
    "path_mtu_discovery": ParameterTrial("check/short", (), _mtu_discovery, beside=_AMPLE),
    "connection_window": ParameterTrial("check/short", ("4 MiB", "8 MiB"), _agreeing("connection_window")),
    "stream_window": ParameterTrial("check/short", ("4 MiB", "8 MiB"), _agreeing("stream_window")),
    # A pacer lets an initial window of ten packets through at once (RFC 9002 §7.7).
    "pacing": ParameterTrial("check/long", (), _pacing, beside={**_AMPLE, "initial_cwnd": 40}),
    # Without it every datagram is a call of its own; with it a paced sender still makes many of one (picoquic: 1.1).
    "gso": ParameterTrial(
        "check/short", (), _switch("gso", lambda ratio: ratio > 1.05, lambda ratio: ratio < 1.02), beside=_AMPLE
    ),
    # Early data is the client's own doing, or that of the server's tickets; a token may hide it from the capture.
    "zero_rtt": ParameterTrial(
        "check/resumed", (), _switch("zero_rtt", lambda count: count > 0, lambda count: count == 0, "client")
    ),
    # quic-go as a client migrates.
    "migration_cwnd": ParameterTrial("check/moved", (), _migration_cwnd, peer="quic-go", beside=_AMPLE),
    "bdp_seed": ParameterTrial("check/learnt", (), _bdp_seed, peer="quic-go", beside=_AMPLE, with_itself=True),
    "ecn": ParameterTrial(
        "check/short", (), _switch("ecn", lambda share: share > 0.5, lambda share: share == 0), beside=_AMPLE
    ),
}
