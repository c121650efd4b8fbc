"""The vocabulary of endpoint parameters: one name, one meaning and one unit for every implementation. Pure.

For each role, a manifest lists the parameters that an image supports, and how they are set. A scenario or the command
line requests them by role. A parameter that an image does not support makes the cell unsupported, with its name in the
reason: nothing is ignored silently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BeforeValidator, FiniteFloat

from harness.errors import UnfitError, did_you_mean
from harness.formatting import format_value
from harness.units import Duration, Size

Role = Literal["client", "server"]
ROLES: tuple[Role, Role] = ("client", "server")
Kind = Literal["word", "switch", "size", "duration", "count"]
ParameterValue = str | int

_HOW = {
    "word": "a word",
    "switch": "on or off",
    "size": "a size, such as 1200 B or 16 MiB",
    "duration": "a duration, such as 100 ms",
    "count": "a whole number",
}


def _word(value: object) -> object:
    """Turn a boolean back into the word 'on' or 'off', which YAML reads as a boolean."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


#: Words and values as written in files.
Word = Annotated[str, BeforeValidator(_word, json_schema_input_type=str | bool)]
WrittenValue = Annotated[ParameterValue, BeforeValidator(_word, json_schema_input_type=ParameterValue | bool)]
WrittenNumber = Annotated[
    ParameterValue | FiniteFloat, BeforeValidator(_word, json_schema_input_type=ParameterValue | float | bool)
]


def peer_role(role: Role) -> Role:
    """The role at the other end."""
    return "server" if role == "client" else "client"


def _normalise(word: str) -> str:
    """A word without the spelling differences between stacks: NewReno, new_reno and reno are equal."""
    return re.sub(r"[-_ ]", "", word).casefold().removeprefix("new")


@dataclass(frozen=True)
class Parameter:
    """A parameter with the same meaning on every implementation."""

    name: str
    kind: Kind
    meaning: str
    acts: Literal["sender", "receiver", "both"]
    """The endpoint whose behaviour it changes. In a download the server sends the data, and the client receives it."""
    evidence: str
    """Evidence in a run that it took effect."""
    near: tuple[float, float] | None = None
    """Range of the ratio of an observed value to the configured one; None if numbers are not compared."""
    bounds: tuple[str, str] | None = None
    """The smallest and the largest plausible value; None without such limits."""

    def agrees(self, value: ParameterValue, observed: float | str) -> bool | None:
        """Whether an observation agrees with a canonical value; None if they cannot be compared."""
        expected = self.number(value)
        if expected is None:
            return _normalise(str(value)) == _normalise(observed) if isinstance(observed, str) else None
        if self.near is None or isinstance(observed, str):
            return None
        return self.near[0] * expected <= observed <= self.near[1] * expected

    def canonical(self, value: object) -> ParameterValue:
        """A value as written in results: "100ms" and "0.1 s" are both "100 ms". Raises ValueError."""
        canonical = _canonical(self.kind, str(_word(value)).strip())
        number = self.number(canonical)
        if self.bounds is not None and number is not None:
            minimum, maximum = (self.number(_canonical(self.kind, bound)) for bound in self.bounds)
            if minimum is not None and maximum is not None and not minimum <= number <= maximum:
                raise UnfitError(
                    f"{canonical} is no {self.name} that an endpoint could have: {self.bounds[0]} to {self.bounds[1]}",
                    f"it is: {self.meaning.partition('(')[0].strip()}",
                )
        return canonical

    def number(self, value: ParameterValue) -> float | None:
        """A canonical value as a number: bytes, seconds or a count; None for a word."""
        return _number(self.kind, str(value))

    @property
    def written(self) -> str:
        """Description of how its values are written."""
        return _HOW[self.kind]


#: Values are few, and each stands in many manifests: most of the time that these take to read was spent here.
_MOST_VALUES = 4096


@lru_cache(_MOST_VALUES)
def _canonical(kind: Kind, text: str) -> ParameterValue:
    if kind == "size":
        return str(Size.parse(text))
    if kind == "duration":
        return str(Duration.parse(text))
    if kind == "count":
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise UnfitError(f"{format_value(text)} is not {_HOW['count']}", "write digits alone, such as 10")
        return int(text)
    if kind == "switch" and text not in ("on", "off"):
        raise UnfitError(f"{format_value(text)} is neither on nor off", "write on or off")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", text):
        raise UnfitError(f"{format_value(text)} is not {_HOW['word']}", "letters, digits, '.', '_', '+' and '-'")
    return text


@lru_cache(_MOST_VALUES)
def _number(kind: Kind, value: str) -> float | None:
    if kind == "size":
        return float(Size.parse(value).bytes)
    if kind == "duration":
        return Duration.parse(value).seconds
    return float(value) if kind == "count" else None


#: In packets: a million full ones take about a second at 10 Gbit/s.
_WINDOWS = ("1", "1000000")
#: max_ack_delay is below 2^14 ms, and ack_delay_exponent is at most 20 (RFC 9000 §18.2). Flow-control credit is below
#: 2^62 (§16). A UDP payload has at least 1200 bytes (§14), and at most what UDP can carry.
_ACK_DELAYS, _CREDITS = ("0 ms", "16383 ms"), ("0 B", "4294967295 GiB")

#: tcp_rmem and tcp_wmem are integers of 31 bits, and their defaults precede the maximum.
_BUFFERS = ("4 KiB", "2147483647 B")

_ALL = (
    Parameter(
        "congestion_control",
        "word",
        "congestion control algorithm (RFC 9002 §7): reno, cubic, bbr …",
        "sender",
        "the congestion window's answer to loss in qlog, and another transfer from the same seed",
    ),
    Parameter(
        "initial_cwnd",
        "count",
        "initial congestion window, in packets (RFC 9002 §7.2)",
        "sender",
        "bytes sent in the first round trip; the first congestion window in qlog",
        near=(0.85, 1.15),
        bounds=_WINDOWS,
    ),
    Parameter(
        "initial_rwnd",
        "count",
        "receive window of TCP that is advertised first, in packets (initrwnd, ip-route(8))",
        "receiver",
        "the first window advertised, as the sender's kernel has it",
        near=(0.85, 1.15),
        bounds=_WINDOWS,
    ),
    Parameter(
        "tcp_wmem_max",
        "size",
        "most that TCP's send buffer grows to (third number of tcp_wmem, tcp(7))",
        "sender",
        "for how much of the time the kernel had nothing to send",
        bounds=_BUFFERS,
    ),
    Parameter(
        "tcp_rmem_max",
        "size",
        "most that TCP's receive buffer grows to (third number of tcp_rmem, tcp(7))",
        "receiver",
        "the largest window advertised, as the sender's kernel has it",
        bounds=_BUFFERS,
    ),
    Parameter(
        "initial_rtt",
        "duration",
        "RTT assumed before the first sample (RFC 9002 §6.2.2)",
        "both",
        "the first probe timeout on the wire; the recorded value in qlog",
        near=(0.9, 1.1),
        bounds=("1 us", "60 s"),
    ),
    Parameter(
        "ack_ratio",
        "count",
        "ack-eliciting packets received per ACK sent, in bulk (RFC 9000 §13.2.2)",
        "receiver",
        "data packets per acknowledgement, counted in the capture",
        near=(0.6, 1.4),
        bounds=("1", "65535"),
    ),
    Parameter(
        "max_ack_delay",
        "duration",
        "longest time an ACK is held back (RFC 9000 §13.2.1)",
        "receiver",
        "the transport parameter as the peer received it",
        near=(0.999, 1.001),
        bounds=_ACK_DELAYS,
    ),
    Parameter(
        "ack_delay_exponent",
        "count",
        "unit of the ACK delay field, a power of two of 1 µs (RFC 9000 §18.2)",
        "receiver",
        "the transport parameter as the peer received it",
        near=(1, 1),
        bounds=("0", "20"),
    ),
    Parameter(
        "idle_timeout",
        "duration",
        "silence after which a connection ends (RFC 9000 §10.1); the lesser of both ends' is in force",
        "both",
        "the transport parameter as the peer received it",
        near=(0.999, 1.001),
        bounds=("1 ms", "2147483647 ms"),
    ),
    Parameter(
        "max_udp_payload",
        "size",
        "largest UDP payload sent",
        "sender",
        "the largest datagram in the capture",
        near=(1, 1),
        bounds=("1200 B", "65527 B"),
    ),
    Parameter(
        "path_mtu_discovery",
        "switch",
        "probing for larger packets (RFC 9000 §14.3)",
        "sender",
        "datagrams beyond the size it starts with",
    ),
    Parameter(
        "connection_window",
        "size",
        "flow-control credit for the connection, fixed (RFC 9000 §4.1)",
        "receiver",
        "initial_max_data as the peer received it",
        near=(1, 1),
        bounds=_CREDITS,
    ),
    Parameter(
        "stream_window",
        "size",
        "flow-control credit for a stream, fixed (RFC 9000 §4.1)",
        "receiver",
        "initial_max_stream_data as the peer received it",
        near=(1, 1),
        bounds=_CREDITS,
    ),
    Parameter(
        "pacing",
        "switch",
        "packets spread over the round trip (RFC 9002 §7.7)",
        "sender",
        "the longest burst of the first flight",
    ),
    Parameter(
        "gso",
        "switch",
        "several datagrams per system call, cut by the kernel (UDP_SEGMENT, udp(7))",
        "sender",
        "datagrams on the wire per datagram the kernel was given, in virtual time",
    ),
    Parameter(
        "zero_rtt",
        "switch",
        "requests as early data in a resumed connection (RFC 9001 §4.6)",
        "both",
        "0-RTT packets of the second connection",
    ),
    Parameter(
        "bdp_seed",
        "word",
        "start from what an earlier connection learnt of the path: off, careful-resume, "
        "jump-start or bdp-frame (RFC 9959, draft-kuhn-quic-bdpframe-extension)",
        "sender",
        "bytes sent in the first two round trips of data: the second connection's, per the first's",
    ),
    Parameter(
        "migration_cwnd",
        "word",
        "congestion window after the client's address changed: reset (RFC 9000 §9.4), keep "
        "or adaptive, which is max((RTT_old − RTT_new) / RTT_old · cwnd_old, initial window) (Kim and Koh)",
        "sender",
        "the congestion window in qlog after the move, per that before",
    ),
    Parameter(
        "ecn",
        "switch",
        "datagrams marked ECN-capable (RFC 9000 §13.4)",
        "sender",
        "the IP header's ECN field",
    ),
)

#: Name → parameter, in the order of every table.
PARAMETERS: dict[str, Parameter] = {parameter.name: parameter for parameter in _ALL}


def parse_parameter_name(name: str) -> tuple[Role, str]:
    """Split "server.congestion_control" into role and parameter; ValueError if either is unknown."""
    role, _, parameter = name.partition(".")
    if role not in ROLES or parameter not in PARAMETERS:
        near = did_you_mean(name, [f"{endpoint}.{key}" for endpoint in ROLES for key in PARAMETERS])
        raise UnfitError(f"'{name}' is not a parameter of an endpoint", near)
    return role, parameter


def canonical_value(name: str, value: object) -> ParameterValue:
    """The canonical form of a value of role.NAME. Raises ValueError, which says how values are written."""
    parameter = PARAMETERS[parse_parameter_name(name)[1]]
    try:
        return parameter.canonical(value)
    except ValueError as error:
        raise UnfitError(f"{name}: {error} (it is {parameter.written})", getattr(error, "hint", "")) from error
