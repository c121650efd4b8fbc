"""A parameter in a manifest: how it is set on an image, which values are valid, and its default. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from harness.errors import UnfitError, did_you_mean
from harness.scenario.documented import DocumentedModel
from harness.scenario.parameters import PARAMETERS, ROLES, Parameter, ParameterValue, Role, Word, WrittenValue
from harness.units import Duration, Size

#: Valid names of placeholders in a manifest's text.
_PLACEHOLDERS = ("value", "bytes", "ms", "s")


def _known(name: str) -> str:
    if name not in PARAMETERS:
        raise UnfitError(f"'{name}' is not a parameter", did_you_mean(name, PARAMETERS))
    return name


#: The name of a parameter, as a key of a manifest.
ParameterName = Annotated[str, AfterValidator(_known)]


class _ManifestPart(DocumentedModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Setting(_ManifestPart):
    """How an image sets one parameter in one role. Without flag, environment, sysctl and asks it cannot be set."""

    flag: str | None = None
    """Words for CLIENT_PARAMS or SERVER_PARAMS, with {value}, {bytes}, {ms} or {s}."""
    environment: str | None = None
    """An environment variable instead, as NAME=text with the same placeholders."""
    sysctl: str | None = None
    """A setting of the kernel in the network namespace of the host instead, as net.NAME=text with the same placeholders
    (sysctl(8)). A kernel that has it not for each namespace refuses."""
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
    since: Annotated[str, Field(pattern=r"^([0-9][A-Za-z0-9.+_-]*)?$")] = ""
    """The first release that has it so; of older ones nothing is claimed. Empty where every supported release does."""
    note: str = ""
    """What a reader should know, such as how the default grows."""

    @property
    def claimed(self) -> bool:
        """Whether it can be brought about: by the role itself, or by asking its peer."""
        return self.settable or self.asks is not None

    @property
    def settable(self) -> bool:
        """Whether this role can be told, by itself."""
        return self.flag is not None or self.environment is not None or self.sysctl is not None

    @field_validator("environment")
    @classmethod
    def _assignment(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"[A-Z_][A-Z0-9_]*=", value):
            raise UnfitError(f"'{value}' is not an assignment", "write NAME={value}")
        return value

    @field_validator("sysctl")
    @classmethod
    def _of_the_network(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"net\.[a-z0-9_]+(\.[a-z0-9_]+)+=", value):
            raise UnfitError(
                f"'{value}' is no setting of a network namespace", "write net.ipv4.tcp_rmem=4096 131072 {bytes}, say"
            )
        return value

    @field_validator("flag", "environment", "sysctl", "asks")
    @classmethod
    def _placeholders(cls, value: str | None) -> str | None:
        if value is None:
            return None
        for name in re.findall(r"\{([^}]*)\}", value):
            if name not in _PLACEHOLDERS:
                choices = ", ".join(f"{{{placeholder}}}" for placeholder in _PLACEHOLDERS)
                raise UnfitError(
                    f"'{{{name}}}' is not a placeholder: use one of {choices}", did_you_mean(name, _PLACEHOLDERS)
                )
        if re.search(r"[{}]", re.sub(r"\{[^{}]*\}", "", value)):
            raise UnfitError(f"'{value}' has a brace without its partner", "write {value}")
        if "$" in value:
            raise UnfitError(f"'{value}' has a $, which Compose takes for a variable", "write the value itself")
        if "{" not in value:
            raise UnfitError(f"'{value}' has no placeholder, and says the same whatever is asked", "write {value}")
        return value

    @field_validator("values")
    @classmethod
    def _some(cls, value: tuple[Word, ...] | dict[Word, Word] | None) -> tuple[Word, ...] | dict[Word, Word] | None:
        if value is not None and not value:
            raise UnfitError("no value at all could be set", "leave the key out where any value will do")
        words = value.values() if isinstance(value, dict) else value or ()
        if dollar_word := next((word for word in words if "$" in word), None):
            raise UnfitError(f"'{dollar_word}' has a $, which Compose takes for a variable", "write the value itself")
        return value

    def own(self, parameter: Parameter, value: ParameterValue) -> str:
        """The image's own word for a canonical value. ValueError for an unsupported value."""
        if self.values is not None:
            words = self.values if isinstance(self.values, dict) else {word: word for word in self.values}
            if str(value) not in words:
                raise ValueError(f"does not know {parameter.name} {value}; known: {', '.join(words)}")
            return words[str(value)]
        number = parameter.number(value)
        for bound, sign in ((self.minimum, 1), (self.maximum, -1)):
            limit = None if bound is None else parameter.number(bound)
            if number is not None and limit is not None and sign * number < sign * limit:
                raise ValueError(f"takes {parameter.name} {'from' if sign > 0 else 'up to'} {bound}, not {value}")
        return str(value)

    def fill(self, text: str, parameter: Parameter, value: ParameterValue) -> str:
        """`text` with its placeholders filled for a canonical value. ValueError as in `own`."""
        fields: dict[str, object] = {"value": self.own(parameter, value)}
        if parameter.kind == "size":
            fields["bytes"] = Size.parse(str(value)).bytes
        elif parameter.kind == "duration":
            # Without an exponent: programs do not read 1e+06.
            ns = Decimal(Duration.parse(str(value)).value)
            fields |= {"ms": f"{ns.scaleb(-6).normalize():f}", "s": f"{ns.scaleb(-9).normalize():f}"}
        return text.format(**fields)


def _or_without_role(schema: dict[str, Any]) -> None:
    """For the JSON Schema: the keys of a setting may replace the roles."""
    schema["properties"] |= Setting.model_json_schema()["properties"]


class RoleSettings(_ManifestPart):
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
            for key in ("minimum", "maximum", "default"):
                if (value := getattr(setting, key)) is not None:
                    _check(parameter, value, f"{role} {key}")
            for word in setting.values or ():
                _check(parameter, word, f"{role} value")
            _check_bounds(parameter, setting)
            for text in filter(None, (setting.flag, setting.environment, setting.asks)):
                _check_text(parameter, text)
        return self

    def of(self, role: Role) -> Setting | None:
        """The setting in one role."""
        return self.client if role == "client" else self.server


def _check(parameter: Parameter, value: ParameterValue, label: str) -> None:
    try:
        parameter.canonical(value)
    except ValueError as error:
        hint = getattr(error, "hint", "")
        raise UnfitError(f"{label} of {parameter.name}: {error}; it is {parameter.written}", hint) from error


def _check_bounds(parameter: Parameter, setting: Setting) -> None:
    """ValueError for bounds without a value between them, or for a parameter that cannot have bounds."""
    for name, bound in (("minimum", setting.minimum), ("maximum", setting.maximum)):
        if bound is not None and parameter.number(parameter.canonical(bound)) is None:
            raise UnfitError(f"{parameter.name} is {parameter.written}, which has no {name}", "list its values instead")
    if setting.minimum is not None and setting.maximum is not None:
        low, high = (parameter.number(parameter.canonical(extreme)) for extreme in (setting.minimum, setting.maximum))
        if low is not None and high is not None and low > high:
            raise UnfitError(
                f"{parameter.name}: the minimum {setting.minimum} is above the maximum {setting.maximum}",
                "exchange the two",
            )


def _check_text(parameter: Parameter, text: str) -> None:
    """ValueError if a text uses a placeholder that a parameter of this kind does not fill."""
    allowed = {"size": {"value", "bytes"}, "duration": {"value", "ms", "s"}}.get(parameter.kind, {"value"})
    for name in re.findall(r"\{([^}]*)\}", text):
        if name not in allowed:
            placeholders = ", ".join(f"{{{placeholder}}}" for placeholder in sorted(allowed))
            text = f"{parameter.name} is {parameter.written}, which does not fill '{{{name}}}': use {placeholders}"
            raise UnfitError(text, f"for example {placeholders.partition(',')[0]}")
