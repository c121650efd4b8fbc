"""The vocabulary of endpoint parameters: one name, one meaning and one unit for every implementation. Pure.

A manifest says per role which of them an image honours and how; a scenario or the command line asks for them
by role. What an image does not honour makes a cell unsupported, by name: nothing is ignored in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FiniteFloat,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from harness.errors import did_you_mean
from harness.units import Duration, Size

Role = Literal["client", "server"]
ROLES: tuple[Role, Role] = ("client", "server")
Kind = Literal["word", "switch", "size", "duration", "count"]
ParameterValue = str | int

#: What a placeholder in a manifest's text may be called.
_PLACEHOLDERS = ("value", "bytes", "ms", "s")
_HOW = {
    "word": "a word",
    "switch": "on or off",
    "size": "a size, such as 1200 B or 16 MiB",
    "duration": "a duration, such as 100 ms",
    "count": "a whole number",
}


def _word(value: object) -> object:
    """YAML reads a bare on or off as a boolean; here it is a word."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


#: Words and values as files have them.
Word = Annotated[str, BeforeValidator(_word, json_schema_input_type=str | bool)]
WrittenValue = Annotated[ParameterValue, BeforeValidator(_word, json_schema_input_type=ParameterValue | bool)]
WrittenNumber = Annotated[
    ParameterValue | FiniteFloat, BeforeValidator(_word, json_schema_input_type=ParameterValue | float | bool)
]


def other(role: Role) -> Role:
    """The role at the other end."""
    return "server" if role == "client" else "client"


@dataclass(frozen=True)
class Parameter:
    """One parameter that is set alike on every implementation."""

    name: str
    kind: Kind
    meaning: str
    acts: Literal["sender", "receiver", "both"]
    """Whose behaviour it is. In a download the server is the sender of data, the client the receiver."""
    evidence: str
    """What shows, in a run, that it took effect."""
    near: tuple[float, float] | None = None
    """What is observed lies within these multiples of what is set; None where numbers are not to be compared."""

    def agrees(self, value: ParameterValue, observed: float | str) -> bool | None:
        """Whether an observation is what a canonical value leads to expect; None where that cannot be said."""
        wanted = self.number(value)
        if wanted is None:
            return str(value) == observed if isinstance(observed, str) else None
        if self.near is None or isinstance(observed, str):
            return None
        return self.near[0] * wanted <= observed <= self.near[1] * wanted

    def canonical(self, value: object) -> ParameterValue:
        """A value as it is written in results: "100ms" and "0.1 s" are both "100 ms". Raises ValueError."""
        text = str(_word(value)).strip()
        if self.kind == "size":
            return str(Size.parse(text))
        if self.kind == "duration":
            return str(Duration.parse(text))
        if self.kind == "count":
            if not text.isdigit():
                raise ValueError(f"'{text}' is not {_HOW['count']}")
            return int(text)
        if self.kind == "switch" and text not in ("on", "off"):
            raise ValueError(f"'{text}' is neither on nor off")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", text):
            raise ValueError(f"'{text}' is not {_HOW['word']}")
        return text

    def number(self, value: ParameterValue) -> float | None:
        """A canonical value as a number: bytes, seconds or a count; None for a word."""
        if self.kind == "size":
            return float(Size.parse(str(value)).bytes)
        if self.kind == "duration":
            return Duration.parse(str(value)).seconds
        return float(value) if self.kind == "count" else None

    @property
    def written(self) -> str:
        """How its values are written."""
        return _HOW[self.kind]


_ALL = (
    Parameter(
        "congestion_control", "word", "congestion control algorithm (RFC 9002 §7): reno, cubic, bbr …", "sender",
        "the congestion window's answer to loss in qlog, and another transfer from the same seed",
    ),
    Parameter(
        "initial_cwnd", "count", "initial congestion window, in packets (RFC 9002 §7.2)", "sender",
        "bytes sent in the first round trip; the first congestion window in qlog", near=(0.85, 1.15),
    ),
    Parameter(
        "initial_rtt", "duration", "RTT assumed before the first sample (RFC 9002 §6.2.2)", "both",
        "the first probe timeout on the wire; the recorded value in qlog", near=(0.9, 1.1),
    ),
    Parameter(
        "ack_ratio", "count", "ack-eliciting packets received per ACK sent, in bulk (RFC 9000 §13.2.2)", "receiver",
        "data packets per acknowledgement, counted in the capture", near=(0.6, 1.4),
    ),
    Parameter(
        "max_ack_delay", "duration", "longest time an ACK is held back (RFC 9000 §13.2.1)", "receiver",
        "the transport parameter as the peer received it", near=(0.999, 1.001),
    ),
    Parameter(
        "ack_delay_exponent", "count", "unit of the ACK delay field, a power of two of 1 µs (RFC 9000 §18.2)",
        "receiver", "the transport parameter as the peer received it", near=(1, 1),
    ),
    Parameter(
        "max_udp_payload", "size", "largest UDP payload sent", "sender", "the largest datagram in the capture",
        near=(1, 1),
    ),
    Parameter(
        "path_mtu_discovery", "switch", "probing for larger packets (RFC 9000 §14.3)", "sender",
        "datagrams beyond the size it starts with",
    ),
    Parameter(
        "connection_window", "size", "flow-control credit for the connection, fixed (RFC 9000 §4.1)", "receiver",
        "initial_max_data as the peer received it", near=(1, 1),
    ),
    Parameter(
        "stream_window", "size", "flow-control credit for a stream, fixed (RFC 9000 §4.1)", "receiver",
        "initial_max_stream_data as the peer received it", near=(1, 1),
    ),
    Parameter(
        "pacing", "switch", "packets spread over the round trip (RFC 9002 §7.7)", "sender",
        "the longest burst of the first flight",
    ),
    Parameter(
        "gso", "switch", "several datagrams per system call, cut by the kernel (UDP_SEGMENT, udp(7))", "sender",
        "datagrams on the wire per datagram the kernel was given, in virtual time",
    ),
    Parameter(
        "zero_rtt", "switch", "requests as early data in a resumed connection (RFC 9001 §4.6)", "both",
        "0-RTT packets of the second connection",
    ),
    Parameter(
        "bdp_seed", "word", "start from what an earlier connection learnt of the path: off, careful-resume, "
        "jump-start or bdp-frame (draft-ietf-tsvwg-careful-resume, draft-kuhn-quic-bdpframe-extension)", "sender",
        "bytes sent in the first two round trips of data: the second connection's, per the first's",
    ),
    Parameter(
        "ecn", "switch", "datagrams marked ECN-capable (RFC 9000 §13.4)", "sender", "the IP header's ECN field",
    ),
)  # fmt: skip

#: Name → parameter, in the order of every table.
PARAMETERS: dict[str, Parameter] = {parameter.name: parameter for parameter in _ALL}


def parse_parameter_name(name: str) -> tuple[Role, str]:
    """Split "server.congestion_control" into role and parameter; ValueError for anything unknown."""
    role, _, parameter = name.partition(".")
    if role not in ROLES or parameter not in PARAMETERS:
        near = did_you_mean(name, [f"{known}.{other}" for known in ROLES for other in PARAMETERS])
        raise ValueError(f"'{name}' is not a parameter of an endpoint: {near}")
    return role, parameter


def canonical_value(name: str, value: object) -> ParameterValue:
    """The canonical form of one value of role.NAME. Raises ValueError that says how it is written."""
    parameter = PARAMETERS[parse_parameter_name(name)[1]]
    try:
        return parameter.canonical(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error} (it is {parameter.written})") from error


def _known(name: str) -> str:
    if name not in PARAMETERS:
        raise ValueError(f"'{name}' is not a parameter: {did_you_mean(name, PARAMETERS)}")
    return name


#: The name of a parameter, as a key of a manifest.
ParameterName = Annotated[str, AfterValidator(_known)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Setting(_Part):
    """How an image sets one parameter in one role. Without flag, environment and asks it cannot be set."""

    flag: str | None = None
    """Words for CLIENT_PARAMS or SERVER_PARAMS, with {value}, {bytes}, {ms} or {s}."""
    environment: str | None = None
    """An environment variable instead, as NAME=text with the same placeholders."""
    asks: str | None = None
    """Words with which this role asks its peer to behave so (the peer must name the extension)."""
    values: tuple[Word, ...] | dict[Word, Word] | None = None
    """The values it knows, or a map from our words to its own."""
    minimum: WrittenValue | None = None
    """Smallest value it takes."""
    maximum: WrittenValue | None = None
    """Largest value it takes."""
    default: WrittenValue | None = None
    """The value in force when nothing is asked for; absent where it is not known."""
    note: str = ""
    """What a reader should know, such as how the default grows."""

    @property
    def claimed(self) -> bool:
        """Whether it can be brought about: by the role itself, or by asking its peer."""
        return self.settable or self.asks is not None

    @property
    def settable(self) -> bool:
        """Whether this role can be told, by itself."""
        return self.flag is not None or self.environment is not None

    @field_validator("flag", "environment", "asks")
    @classmethod
    def _placeholders(cls, value: str | None) -> str | None:
        for name in re.findall(r"\{([^}]*)\}", value or ""):
            if name not in _PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in _PLACEHOLDERS)
                raise ValueError(f"'{{{name}}}' is not a placeholder: use one of {known}")
        return value

    @field_validator("environment")
    @classmethod
    def _assignment(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"[A-Z_][A-Z0-9_]*=", value):
            raise ValueError(f"'{value}' is not an assignment: write NAME=text")
        return value

    def own(self, parameter: Parameter, value: ParameterValue) -> str:
        """The image's own word for a canonical value. ValueError when it is not one of those it takes."""
        if self.values is not None:
            known = self.values if isinstance(self.values, dict) else {word: word for word in self.values}
            if str(value) not in known:
                raise ValueError(f"does not know {parameter.name} {value}; known: {', '.join(known)}")
            return known[str(value)]
        number = parameter.number(value)
        for bound, sign in ((self.minimum, 1), (self.maximum, -1)):
            limit = None if bound is None else parameter.number(bound)
            if number is not None and limit is not None and sign * number < sign * limit:
                raise ValueError(f"takes {parameter.name} {'from' if sign > 0 else 'up to'} {bound}, not {value}")
        return str(value)

    def fill(self, text: str, parameter: Parameter, value: ParameterValue) -> str:
        """`text` with its placeholders filled for a canonical value. ValueError as in `own`."""
        fields: dict[str, object] = {"value": self.own(parameter, value)}
        number = parameter.number(value)
        if parameter.kind == "size":
            fields["bytes"] = Size.parse(str(value)).bytes
        elif parameter.kind == "duration" and number is not None:
            fields |= {"ms": f"{number * 1e3:g}", "s": f"{number:g}"}
        return text.format(**fields)


def _or_without_role(schema: dict[str, Any]) -> None:
    """For the JSON Schema: the keys of a setting may stand in place of the roles."""
    schema["properties"] |= Setting.model_json_schema()["properties"]


class RoleSettings(_Part):
    """One parameter in both roles; keys given without a role hold for both."""

    model_config = ConfigDict(json_schema_extra=_or_without_role)

    parameter: SkipJsonSchema[str]
    client: Setting | None = None
    """As a client."""
    server: Setting | None = None
    """As a server."""

    @model_validator(mode="before")
    @classmethod
    def _without_role(cls, value: object) -> object:
        if isinstance(value, dict) and not {"client", "server"} & value.keys():
            shared = {key: item for key, item in value.items() if key != "parameter"}
            return {"parameter": value.get("parameter"), "client": shared, "server": shared}
        return value

    @model_validator(mode="after")
    def _values_of_its_kind(self) -> Self:
        parameter = PARAMETERS.get(self.parameter)
        if parameter is None:
            return self  # the key itself is in error
        for role in ROLES:
            setting = self.of(role)
            if setting is None:
                continue
            for what in ("minimum", "maximum", "default"):
                if (value := getattr(setting, what)) is not None:
                    _check(parameter, value, f"{role} {what}")
            for word in setting.values or ():
                _check(parameter, word, f"{role} value")
            for text in (setting.flag, setting.environment, setting.asks):
                _check_text(parameter, text)
        return self

    def of(self, role: Role) -> Setting | None:
        """The setting in one role."""
        return self.client if role == "client" else self.server


def _check(parameter: Parameter, value: ParameterValue, what: str) -> None:
    try:
        parameter.canonical(value)
    except ValueError as error:
        raise ValueError(f"{what} of {parameter.name}: {error}; it is {parameter.written}") from error


def _check_text(parameter: Parameter, text: str | None) -> None:
    """ValueError when a text uses a placeholder that a parameter of this kind does not fill."""
    filled = {"size": {"value", "bytes"}, "duration": {"value", "ms", "s"}}.get(parameter.kind, {"value"})
    for name in re.findall(r"\{([^}]*)\}", text or ""):
        if name not in filled:
            known = ", ".join(f"{{{other}}}" for other in sorted(filled))
            raise ValueError(f"{parameter.name} is {parameter.written}, which does not fill '{{{name}}}': use {known}")
