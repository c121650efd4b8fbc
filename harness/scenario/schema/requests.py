"""What a client asks for, and when: a page with its objects, equal requests at equal times, the segments of a video.

Each is a schedule of requests over one connection (`ScheduledRequest`), which the client's program follows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, ValidationInfo, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import FILE_BESIDE, OBJECT_NAME, PRIORITY, Part
from harness.scenario.schema.trace import FOLDER, READ, read_named_file
from harness.units import Duration, Rate, Size

#: Maximum number of requests of one flow: their URLs are words of one command line.
MAXIMUM_REQUESTS: Final = 5000
#: Bytes of a datagram: a sequence number and a time at least; at most what a packet of 1200 B holds (RFC 9000 §14.1).
_SMALLEST_DATAGRAM, _LARGEST_DATAGRAM = 16, 1100
#: The largest HAR file that is read, bytes.
_LARGEST_HAR = 64 * 2**20

Priority = Annotated[str, Field(pattern=PRIORITY)]


_AT_ONCE: Final = Duration(0)


#: What an object of a page is to a browser, as the Fetch standard calls its destination; and its file's extension.
ObjectType = Literal["document", "style", "script", "font", "image"]
EXTENSIONS: Final[dict[str, str]] = {
    "document": "html", "style": "css", "script": "js", "font": "woff2", "image": "png",
}  # fmt: skip


@dataclass(frozen=True)
class ScheduledRequest:
    """One request of a schedule."""

    size: Size
    """Of its response."""
    name: str = ""
    """The object of a page that it is for; several may share it."""
    after: tuple[int, ...] = ()
    """The numbers of the requests whose responses are whole before it is sent."""
    wait: Duration = _AT_ONCE
    """How long after the last of them."""
    at: Duration = _AT_ONCE
    """It is not sent before this time, counted from the end of the handshake."""
    priority: str = ""
    """As RFC 9218 writes it; empty without one."""
    type: ObjectType | None = None
    """What it is to a browser."""


# --- A page.


def _or_one(schema: dict[str, Any]) -> None:
    """For a JSON Schema: a list of one may be written without brackets."""
    several = {key: schema.pop(key) for key in ("type", "items")}
    schema["anyOf"] = [several["items"], several]


class PageObject(Part):
    """Objects of a page that are alike: of one size, and asked for at the same time."""

    name: Annotated[str, Field(pattern=OBJECT_NAME)]
    """Their name: others come after it, and results have it."""
    size: Size
    """Of each."""
    count: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_REQUESTS)] = 1
    """How many."""
    after: Annotated[tuple[Annotated[str, Field(pattern=OBJECT_NAME)], ...], Field(json_schema_extra=_or_one)] = ()
    """The objects that have all arrived before these are asked for: a name, or several."""
    wait: Duration = Duration(0)
    """How long after that they are asked for: the time that a browser thinks."""
    priority: Priority | None = None
    """How urgent (RFC 9218): u=0 first, u=7 last, i where parts are of use. Without it none is sent."""
    type: ObjectType | None = None
    """What they are to a browser, which finds them in the document, and fonts in the styles, and takes its own
    priorities. Without it no browser loads the page."""

    @field_validator("after", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.size.bytes:
            raise UnfitError(f"the object {self.name} has at least one byte", "write size: 1 kB, say")
        return self


def _or_list(schema: dict[str, Any]) -> None:
    """For a JSON Schema: a page may be the list of its objects."""
    objects = schema["properties"]["objects"]["items"]
    whole = {key: schema.pop(key) for key in ("type", "properties", "additionalProperties")}
    schema["anyOf"] = [{"type": "array", "items": objects}, whole]


class Page(Part):
    """A page: objects that one client asks for over one connection, some of them after others."""

    model_config = ConfigDict(json_schema_extra=_or_list)

    objects: tuple[PageObject, ...] = ()
    """In the order in which they are asked for, where they are at the same time. `page: [...]` is short for it."""
    har: Annotated[str, Field(pattern=rf"{FILE_BESIDE}|^$")] = ""
    """Instead of objects, the recording of a page load (HTTP Archive), in the scenario's folder or below. Its sizes and
    its order are used: the first object that is a document is asked for first, and all others come after it."""
    digest: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$", json_schema_extra=READ)] = ""
    """SHA-256 of that file, hexadecimal; filled in."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, list | tuple):
            return {"objects": value}
        folder = (info.context or {}).get(FOLDER)
        if not isinstance(value, Mapping) or "har" not in value or folder is None:
            return value
        if value.get("objects"):
            raise UnfitError("a page has the objects of its har, or its own", "leave out one of the two")
        name = str(value["har"])
        if re.match(FILE_BESIDE, name) is None:
            raise UnfitError(f"'{name}' is no file beside the scenario", "write har: page.har, say")
        data = read_named_file(name, "", info.context or {}, _LARGEST_HAR)
        return {"har": name, "objects": list(_har_objects(data, name)), "digest": hashlib.sha256(data).hexdigest()}

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.objects:
            raise UnfitError("a page has an object", "write page: [{name: html, size: 50 kB}]")
        known: list[str] = []
        for item in self.objects:
            if item.name in known:
                raise UnfitError(f"two objects are called {item.name}", "give each a name, or write count: 2")
            for before in item.after:
                if before not in known:
                    raise UnfitError(
                        f"{item.name} comes after {before}, which does not stand above it",
                        f"above it stand: {', '.join(known)}" if known else "the first object comes after nothing",
                    )
            known.append(item.name)
        if (count := sum(item.count for item in self.objects)) > MAXIMUM_REQUESTS:
            raise UnfitError(f"{count} objects, and a page has room for {MAXIMUM_REQUESTS}", "write fewer")
        return self

    @property
    def not_for_browsers(self) -> str:
        """Why a browser would not ask for these objects as they come after each other; empty where it would."""
        document, *subresources = self.objects
        styles = {item.name for item in subresources if item.type == "style"}
        if document.type != "document" or document.count > 1:
            return "its first object is no single document"
        for item in subresources:
            finds = {document.name} if item.type in ("style", "script", "image") else styles
            if item.type in (None, "document"):
                return f"{item.name} has no type by which a document names it"
            if not item.after or not finds.issuperset(item.after):
                return f"{item.name} does not come after {'the document' if item.type != 'font' else 'styles'} alone"
            if item.wait.value:
                return f"{item.name} waits, which no document says"
        return ""

    def schedule(self) -> tuple[ScheduledRequest, ...]:
        """Its requests, in the order of the objects."""
        firsts = [0, *accumulate(item.count for item in self.objects)]
        numbers = {
            item.name: range(first, first + item.count) for item, first in zip(self.objects, firsts, strict=False)
        }
        return tuple(
            ScheduledRequest(
                size=item.size,
                name=item.name,
                after=tuple(number for name in item.after for number in numbers[name]),
                wait=item.wait,
                priority=item.priority or "",
                type=item.type,
            )
            for item in self.objects
            for _ in range(item.count)
        )


def _har_objects(data: bytes, name: str) -> Iterator[dict[str, JsonValue]]:
    """The objects of a HAR file (HTTP Archive 1.2): a document, then all that came after it, in their order.

    Bytes are those of the body as it was transferred, else of the content. Requests without either are left out.
    """
    try:
        entries = json.loads(data)["log"]["entries"]
        if not isinstance(entries, list):
            raise TypeError
        objects = [
            (size, _har_type(entry["response"])) for entry in entries if (size := _har_bytes(entry["response"])) > 0
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise UnfitError(
            f"{name} is no HAR file: it has no log.entries with responses", "save one in a browser's network panel"
        ) from error
    if not objects:
        raise UnfitError(f"{name} has no response with a body", "record a page load with an empty cache")
    yield {"name": "html", "size": f"{objects[0][0]} B", "type": "document"}
    for number, (size, kind) in enumerate(objects[1:], 1):
        yield {"name": f"object{number}", "size": f"{size} B", "after": "html", "type": kind}


def _har_type(response: Mapping[str, Any]) -> ObjectType:
    """By the media type; what is neither a style nor a script is an image, which a document names without more."""
    media = str(response.get("content", {}).get("mimeType", ""))
    return "style" if "css" in media else "script" if "javascript" in media or "ecmascript" in media else "image"


def _har_bytes(response: Mapping[str, Any]) -> int:
    """`bodySize` is -1 where it is not known, and 0 where the body came from the cache."""
    body = int(response.get("bodySize", -1))
    return body if body > 0 else int(response.get("content", {}).get("size", 0))


# --- Equal requests at equal times.


class RepeatedRequests(Part):
    """Requests of one size at equal times, whether or not those before have been answered."""

    size: Size
    """Of each response."""
    every: Duration
    """Time between two requests."""
    count: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_REQUESTS)]
    """How many."""
    priority: Priority | None = None
    """How urgent each is (RFC 9218). Without it none is sent."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.size.bytes:
            raise UnfitError("a response has at least one byte", "write size: 1 kB, say")
        if not self.every.value:
            raise UnfitError("requests have a time between them", "write every: 100 ms, or files: for all at once")
        return self

    def schedule(self) -> tuple[ScheduledRequest, ...]:
        """The requests, in order of time."""
        return tuple(
            ScheduledRequest(self.size, at=Duration(number * self.every.value), priority=self.priority or "")
            for number in range(self.count)
        )


# --- Datagrams.


class Datagrams(Part):
    """Datagrams that a server sends at equal times, as media does (RFC 9221): what is lost is not sent again."""

    size: Size
    """Of each."""
    every: Duration
    """Time between two groups."""
    packets: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    """How many in a group, one right behind the other."""
    count: Annotated[int, Field(strict=True, ge=1, le=100_000)]
    """How many groups."""

    @model_validator(mode="after")
    def _sendable(self) -> Self:
        if not _SMALLEST_DATAGRAM <= self.size.bytes <= _LARGEST_DATAGRAM:
            raise UnfitError(
                f"a datagram has {_SMALLEST_DATAGRAM} to {_LARGEST_DATAGRAM} B: its number and its time, and no more "
                "than every path carries in one packet",
                "write size: 160 B, say",
            )
        if not self.every.value:
            raise UnfitError("groups of datagrams have a time between them", "write every: 20 ms")
        return self

    @property
    def duration(self) -> Duration:
        """From the first group to the end of the last one's time."""
        return Duration(self.count * self.every.value)


# --- A video.


class Video(Part):
    """Segments of a video of one rate, fetched one after the other, and played as they come."""

    segment: Duration
    """Play time of each segment."""
    rate: Rate
    """Of the video: a segment has as many bits as its play time at this rate."""
    count: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_REQUESTS)]
    """How many segments."""
    ahead: Duration = Duration(30 * 10**9)
    """The player asks for no segment earlier than this before it is due without any stall."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.segment.value or not self.rate.value:
            raise UnfitError("a segment has a play time and a rate", "write segment: 4 s, rate: 5 Mbit/s")
        return self

    @property
    def size(self) -> Size:
        """Of each segment."""
        return Size(max(1, round(self.rate.value * self.segment.seconds / 8)))

    def schedule(self) -> tuple[ScheduledRequest, ...]:
        """A request for each segment, after the one before it."""
        return tuple(
            ScheduledRequest(
                self.size,
                after=(number - 1,) if number else (),
                at=Duration(max(0, number * self.segment.value - self.ahead.value)),
            )
            for number in range(self.count)
        )
