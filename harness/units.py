"""Units as types: rates, durations, sizes, fractions and queue sizes.

MB = 10⁶ bytes and MiB = 2²⁰ bytes, everywhere. Every type parses its own printed form:
``T.parse(str(x)) == x``.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction as Ratio
from functools import lru_cache
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticSerializationUnexpectedValue, core_schema

from harness.errors import UnfitError, did_you_mean
from harness.formatting import format_value

#: The most digits, and the largest power of ten, of a written number; exact arithmetic on more takes too long.
_MAX_CHARACTERS, _MAX_EXPONENT = 40, 20
#: The base unit of a quantity is counted in 63 bits, as kernels do.
_MAX_VALUE = (1 << 63) - 1
#: Texts, and values, in each cache: exact arithmetic takes long, and a campaign's paths have few of either.
_CACHE_SIZE = 4096
_NUMBER = re.compile(r"\s*([-+]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*([^\s].*?)?\s*$")


@lru_cache(_CACHE_SIZE)
def _split(quantity: str, text: str) -> Ratio:
    """Number times unit, exactly; ValueError names the known units."""
    units = _KINDS[quantity].units
    match = _NUMBER.match(text)
    unit_names = ", ".join(units)
    if match is None:
        raise UnfitError(
            f"{format_value(text)} is not a {quantity}: a number and a unit ({unit_names})", _example(quantity)
        )
    number, unit = match.groups()
    if unit is None:
        raise UnfitError(
            f"{format_value(text)} has no unit: write a {quantity} as a number and one of {unit_names}",
            _example(quantity),
        )
    if unit not in units:
        raise UnfitError(
            f"{format_value(unit)} is not a unit of a {quantity}: use one of {unit_names}", did_you_mean(unit, units)
        )
    exponent = re.split("[eE]", number)[1:] or ["0"]
    if len(number) > _MAX_CHARACTERS or abs(int(exponent[0])) > _MAX_EXPONENT:
        raise UnfitError(f"{format_value(text)} is out of all proportion", _example(quantity))
    try:
        value = Ratio(Decimal(number)) * units[unit]
    except InvalidOperation as error:  # pragma: no cover - the pattern admits only numbers
        raise ValueError(f"'{number}' is not a number") from error
    if value < 0:
        raise UnfitError(f"a {quantity} cannot be negative: {format_value(text)}", "leave the sign out")
    if value > _MAX_VALUE:
        raise UnfitError(f"{format_value(text)} is out of all proportion", _example(quantity))
    return value


def _example(quantity: str) -> str:
    return f"for example '{_EXAMPLES[quantity]}'"


_EXAMPLES = {"duration": "300 ms", "size": "10 MB", "rate": "50 Mbit/s", "fraction": "1 %", "cost": "5 us"}


def _decimal(value: Ratio) -> str | None:
    """The shortest decimal that is exactly `value`, or None when it has more than six places."""
    scaled = value * 10**6
    if scaled.denominator != 1:
        return None
    return f"{Decimal(scaled.numerator).scaleb(-6).normalize():f}"


def _exact_decimal(value: Ratio) -> str:
    """A finite decimal with all its places, without an exponent."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = f"{(value * 10**places).numerator:0{places + 1}d}"
    return f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}" if places else digits


def _read_from_text(kind: Any, form: str, example: str) -> core_schema.CoreSchema:
    """How pydantic reads a unit type: from its text, never from a bare number; `form` says how it is written."""

    def read(value: object) -> Any:
        if isinstance(value, kind):
            return value
        if isinstance(value, str):
            return kind.parse(value)
        raise UnfitError(f"{format_value(value)} has no unit: write {form}", example)

    def write(value: object) -> str:
        # In a union each kind is tried in turn, and any object has a text.
        if not isinstance(value, kind):
            raise PydanticSerializationUnexpectedValue(f"expected {kind.__name__}, not {value!r}")
        return str(value)

    return core_schema.no_info_plain_validator_function(
        read, serialization=core_schema.plain_serializer_function_ser_schema(write)
    )


@dataclass(frozen=True, order=True, slots=True)
class Quantity:
    """A whole number of a base unit, with the names people use for its multiples."""

    value: int

    noun: ClassVar[str]
    units: ClassVar[dict[str, Ratio]]
    #: The units a value is printed in, largest first; the last is the base unit.
    printed_units: ClassVar[tuple[str, ...]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "50 Mbit/s", "325 ms", "100 MB". Raises ValueError with the units that are known."""
        base = _split(cls.noun, text)
        return cls(round(base))

    def __str__(self) -> str:
        return _format_value(self.noun, self.value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return _read_from_text(cls, f"a {cls.noun} as a number and one of {', '.join(cls.units)}", _example(cls.noun))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        units = "|".join(re.escape(unit) for unit in cls.units)
        return {
            "type": "string",
            "pattern": rf"^\s*[0-9][0-9_]*(\.[0-9]+)?([eE][-+]?[0-9]+)?\s*({units})\s*$",
            "description": f"a {cls.noun}: a number and one of {', '.join(cls.units)}",
        }


@lru_cache(_CACHE_SIZE)
def _format_value(quantity: str, value: int) -> str:
    kind = _KINDS[quantity]
    for unit in kind.printed_units:
        amount = Ratio(value) / kind.units[unit]
        if amount >= 1 or unit == kind.printed_units[-1]:
            text = _decimal(amount)
            if text is not None:
                return f"{text} {unit}"
    raise AssertionError("the base unit prints every value")


class Duration(Quantity):
    """A length of time, in whole nanoseconds."""

    __slots__ = ()
    noun = "duration"
    units: ClassVar = {
        "ns": Ratio(1),
        "us": Ratio(10**3),
        "µs": Ratio(10**3),
        "ms": Ratio(10**6),
        "s": Ratio(10**9),
        "min": Ratio(60 * 10**9),
        "h": Ratio(3600 * 10**9),
    }
    printed_units = ("s", "ms", "us", "ns")

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.value / 1e9

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.value + other.value)


class Cost(Quantity):
    """What computing takes, in whole picoseconds."""

    __slots__ = ()
    noun = "cost"
    units: ClassVar = {
        "ps": Ratio(1),
        "ns": Ratio(10**3),
        "us": Ratio(10**6),
        "µs": Ratio(10**6),
        "ms": Ratio(10**9),
        "s": Ratio(10**12),
    }
    printed_units = ("s", "ms", "us", "ns", "ps")


class Size(Quantity):
    """An amount of data, in whole bytes."""

    __slots__ = ()
    noun = "size"
    units: ClassVar = {
        "B": Ratio(1),
        "kB": Ratio(10**3),
        "MB": Ratio(10**6),
        "GB": Ratio(10**9),
        "KiB": Ratio(2**10),
        "MiB": Ratio(2**20),
        "GiB": Ratio(2**30),
    }
    printed_units = ("GB", "MB", "kB", "B")

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return self.value

    def __str__(self) -> str:
        # Sizes of packets are shown in bytes. Powers of two read better as such: 16 MiB, not 16.777216 MB.
        if self.value < 10_000:
            return f"{self.value} B"
        for unit in ("GiB", "MiB", "KiB"):
            amount = Ratio(self.value) / self.units[unit]
            if amount.denominator == 1 and amount >= 1 and self.value % 1000:
                return f"{amount.numerator} {unit}"
        return Quantity.__str__(self)

    def label(self) -> str:
        """The size as part of a name: "100MB", "10MiB"."""
        for unit in ("GB", "MB", "kB", "GiB", "MiB", "KiB"):
            amount, rest = divmod(self.value, self.units[unit].numerator)
            if amount >= 1 and not rest:
                return f"{amount}{unit}"
        return f"{self.value}B"


class Rate(Quantity):
    """A data rate at layer 2 (tc counts the Ethernet header), in whole bits per second."""

    __slots__ = ()
    noun = "rate"
    units: ClassVar = {
        "bit/s": Ratio(1),
        "bps": Ratio(1),
        "kbit/s": Ratio(10**3),
        "kbps": Ratio(10**3),
        "Mbit/s": Ratio(10**6),
        "Mbps": Ratio(10**6),
        "Gbit/s": Ratio(10**9),
        "Gbps": Ratio(10**9),
    }
    printed_units = ("Gbit/s", "Mbit/s", "kbit/s", "bit/s")

    @property
    def bits_per_second(self) -> int:
        """The rate in bit/s."""
        return self.value

    def bytes_in(self, duration: Duration) -> int:
        """Bytes that this rate carries in `duration`, rounded to whole bytes."""
        return round(Ratio(self.value * duration.value, 8 * 10**9))

    def time_for(self, size: int) -> float:
        """Seconds this rate takes for `size` bytes."""
        return size * 8 / self.value


class Percentage(Quantity):
    """A part of a whole, in whole parts of 10⁻⁹."""

    __slots__ = ()
    noun = "fraction"
    units: ClassVar = {"%": Ratio(10**7)}
    printed_units = ("%",)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "1 %" (a percentage, 0 to 100)."""
        base = _split(cls.noun, text)
        if base > 10**9:
            raise UnfitError(f"{format_value(text)} is more than the whole (100 %)", "write '1 %', say")
        return cls(round(base))

    def __str__(self) -> str:
        return f"{_decimal(Ratio(self.value, 10**7)) or self.value / 10**7} %"

    @property
    def fraction(self) -> float:
        """The part of the whole, 0 to 1."""
        return self.value / 1e9


#: The types, by their names in errors.
_KINDS: dict[str, type[Quantity]] = {kind.noun: kind for kind in (Duration, Cost, Size, Rate, Percentage)}
_QUEUE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(BDP|packets?|×\s*BDP)\s*$")


@dataclass(frozen=True, slots=True)
class QueueSize:
    """The capacity of a queue: bytes, packets, time at the link's rate, or multiples of the BDP."""

    amount: Ratio
    unit: str  # "B", "packets", "ns" or "BDP"

    @classmethod
    def parse(cls, text: str) -> QueueSize:
        """Read "50 kB", "25 packets", "100 ms" or "1 BDP". Raises ValueError."""
        match = _QUEUE.match(text)
        if match and len(match[1]) > _MAX_CHARACTERS:
            raise UnfitError(f"{format_value(text)} is out of all proportion", "for example '1 BDP'")
        if match:
            amount = Ratio(Decimal(match[1]))
            if match[2].startswith("packet"):
                if amount.denominator != 1:
                    raise UnfitError(f"{format_value(text)}: a queue holds whole packets", "write '25 packets', say")
                size = cls(amount, "packets")
            else:
                size = cls(amount, "BDP")
        else:
            size = cls._parse_quantity(text)
        if size.amount <= 0:
            raise UnfitError(f"{format_value(text)}: a queue that holds nothing passes nothing", "write '1 BDP', say")
        return size

    @classmethod
    def _parse_quantity(cls, text: str) -> QueueSize:
        for kind, unit in ((Size, "B"), (Duration, "ns")):
            with contextlib.suppress(ValueError):
                return cls(Ratio(kind.parse(text).value), unit)
        raise UnfitError(
            f"{format_value(text)} is not a queue size: bytes ('50 kB'), packets ('25 packets'), time "
            "('100 ms') or '1 BDP'",
            "for example '1 BDP'",
        )

    def part(self, share: Decimal) -> QueueSize:
        """A share of this size: whole packets, bytes or nanoseconds, one at least."""
        amount = self.amount * Ratio(share)
        return QueueSize(amount if self.unit == "BDP" else Ratio(max(1, round(amount))), self.unit)

    def bytes_at(self, rate: Rate, rtt: Duration, packet: int) -> int:
        """The size in bytes on a link of `rate`, with packets of `packet` bytes and the path's `rtt`."""
        if self.unit == "B":
            return round(self.amount)
        if self.unit == "packets":
            return round(self.amount) * packet
        if self.unit == "ns":
            return rate.bytes_in(Duration(round(self.amount)))
        return round(self.amount * rate.value * rtt.value / (8 * 10**9))

    def __str__(self) -> str:
        if self.unit == "B":
            return str(Size(round(self.amount)))
        if self.unit == "ns":
            return str(Duration(round(self.amount)))
        return f"{_exact_decimal(self.amount)} {self.unit}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return _read_from_text(cls, "bytes ('50 kB'), packets, time ('100 ms') or '1 BDP'", "for example '1 BDP'")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "description": "a queue size: '50 kB', '25 packets', '100 ms' or '1 BDP'"}
