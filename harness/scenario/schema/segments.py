"""A path of several links in a row: segments, and what stands between two of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails

from harness.errors import UnfitError
from harness.scenario.schema.base import PATH_NAME, Part
from harness.scenario.schema.path import Link, Path
from harness.scenario.schema.queue import FRAME_HEADER, DropTail
from harness.units import Duration, Percentage, QueueSize, Size

#: Maximum number of segments of a path: each has its own simulator, and the address plan has room for so many.
MAXIMUM_SEGMENTS = 8
#: Smallest maximum of a buffer, which is its initial size (tcp_wmem and tcp_rmem, tcp(7)), and the largest: an integer
#: of 31 bits. Maximum packets of an initial window, more than any stack can use.
_FIRST_BUFFER, _MOST_BUFFER, _MOST_WINDOW = {"tcp_wmem_max": 16384, "tcp_rmem_max": 131072}, 2**31 - 1, 65535


class Segment(Path):
    """One of several links in a row. `forward` leads towards the client, which is at the end of the last one."""

    name: Annotated[str, Field(pattern=PATH_NAME)]
    """What it is called in tables, and in sweeps: path.NAME.forward.rate."""
    terminal: Literal["client"] = "client"
    """The client is always behind the last segment."""


class Proxy(Part):
    """A proxy between two segments. It ends every TCP connection that passes it, and opens another one in its place
    towards the server, in the client's name; all else it forwards.
    """

    proxy: Literal["tcp-split"]
    """What it does: split TCP, as a performance enhancing proxy of a satellite system does (RFC 3135 §3.1)."""
    tcp_wmem_max: Size = Size.parse("4 MB")
    """Most that a connection's send buffer grows to (net.ipv4.tcp_wmem)."""
    tcp_rmem_max: Size = Size.parse("6 MB")
    """Most that a connection's receive buffer grows to (net.ipv4.tcp_rmem)."""
    initial_cwnd: Annotated[int, Field(strict=True, ge=1, le=_MOST_WINDOW)] = 10
    """Initial congestion window, packets (initcwnd of its routes)."""
    initial_rwnd: Annotated[int, Field(strict=True, ge=1, le=_MOST_WINDOW)] = 10
    """Initial receive window, packets (initrwnd of its routes)."""
    congestion_control: Literal["cubic", "reno", "bbr"] = "cubic"
    """Of what it sends, to either side (congctl of its routes)."""

    @field_validator("tcp_wmem_max", "tcp_rmem_max")
    @classmethod
    def _buffer(cls, value: Size, info: ValidationInfo) -> Size:
        least = _FIRST_BUFFER[str(info.field_name)]
        if not least <= value.bytes <= _MOST_BUFFER:
            text = f"the kernel's buffers grow to {least} B at least and {_MOST_BUFFER} B at most, not to {value}"
            raise UnfitError(text, "write '4 MB', say")
        return value


def _kind(step: Any) -> str:
    return "a proxy" if isinstance(step, Proxy) or (isinstance(step, dict) and "proxy" in step) else "a segment"


def _form(path: Any) -> str:
    return "segments" if isinstance(path, list | tuple) else "one link"


def _possible(steps: tuple[Segment | Proxy, ...]) -> tuple[Segment | Proxy, ...]:
    if (wrong := _unfit(steps)) is not None:
        number, error = wrong
        place = (number,) if steps else ()
        details = InitErrorDetails(type="value_error", loc=place, input=steps, ctx={"error": error})
        raise ValidationError.from_exception_data("path", [details])
    return steps


#: A segment, or the device between two segments.
_Step = Annotated[Annotated[Segment, Tag("a segment")] | Annotated[Proxy, Tag("a proxy")], Discriminator(_kind)]
_Steps = Annotated[tuple[_Step, ...], AfterValidator(_possible)]
AnyPath = Annotated[Annotated[Path, Tag("one link")] | Annotated[_Steps, Tag("segments")], Discriminator(_form)]
"""A path of one link each way, or of several segments from the servers' end to the clients'."""


def _unfit(steps: Sequence[Segment | Proxy]) -> tuple[int, UnfitError] | None:
    """What keeps steps from being a path, and the number of the step that does; None where nothing does."""
    segments = [step for step in steps if isinstance(step, Segment)]
    for number, step in enumerate(steps):
        before, after = (steps[at] if 0 <= at < len(steps) else None for at in (number - 1, number + 1))
        if isinstance(step, Proxy) and not (isinstance(before, Segment) and isinstance(after, Segment)):
            return number, UnfitError(
                "a proxy stands between two segments: none is first or last, or beside another",
                "put it between two segments, or leave it out",
            )
        if isinstance(step, Segment) and step.mtu != segments[0].mtu:
            return number, UnfitError(
                f"an MTU of {step.mtu} B behind one of {segments[0].mtu} B: no rule says who makes packets smaller",
                "give all segments the same mtu",
            )
        if isinstance(step, Segment) and step.name in [
            earlier.name for earlier in steps[:number] if isinstance(earlier, Segment)
        ]:
            return number, UnfitError(f"two segments are called {step.name}", "give each a name of its own")
    if len(segments) < 2:
        return 0, UnfitError("one segment is a path", "write its keys below path, and no list")
    if len(segments) > MAXIMUM_SEGMENTS:
        return len(steps) - 1, UnfitError(
            f"{len(segments)} segments, and a path has room for {MAXIMUM_SEGMENTS}", "put some of them together"
        )
    return None


def boundaries(steps: Sequence[Segment | Proxy]) -> tuple[Proxy | None, ...]:
    """What stands between each two neighbouring segments, from the server's end: a proxy, or None for a router."""
    devices: list[Proxy | None] = []
    for step, after in itertools.pairwise(steps):
        if isinstance(step, Proxy):
            devices.append(step)
        elif isinstance(after, Segment):
            devices.append(None)
    return tuple(devices)


def end_to_end(segments: Sequence[Path]) -> Path:
    """One path that stands for several in a row, at their start: the slowest rate and its queue, all delays and losses.

    What reference times and limits are computed from; no lab is built of it.
    """
    return Path(
        forward=_end_to_end([segment.forward for segment in segments], segments),
        **{"return": _end_to_end([segment.return_ for segment in segments], segments)},
        mtu=segments[0].mtu,
    )


def _end_to_end(links: Sequence[Link], segments: Sequence[Path]) -> Link:
    slowest = min(range(len(links)), key=lambda index: links[index].rate)
    link, rtt = links[slowest], segments[slowest].rtt
    queue_bytes = link.queue.capacity.bytes_at(link.rate, rtt, segments[slowest].mtu + FRAME_HEADER)
    delivery = math.prod(1 - hop.mean_loss for hop in links)
    return Link(
        rate=link.rate,
        delay=Duration(sum(hop.delay.value for hop in links)),
        jitter=Duration(sum(hop.variation.deviation.value for hop in links)),
        loss=Percentage(round((1 - delivery) * 10**9)),
        queue=DropTail(size=QueueSize.parse(f"{max(queue_bytes, 1)} B")) if link.queue.holds else link.queue,
    )
