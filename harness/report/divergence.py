"""Where two runs diverge, for people and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.capture.divergence import CapturedFrame, Divergence, PacketDivergence
from harness.capture.syscalls import Call, CallDivergence
from harness.formatting import format_count
from harness.outcome import RandomBytes


def text(divergence: Divergence, times: int = 2) -> str:
    """In words, a fact per line. `times`: number of compared runs."""
    lines = [*_facts(divergence)]
    if divergence.identical:
        return "\n".join([*lines, f"identical: the captures and random streams of {format_count(times, 'run')}"])
    lines += [line for item in divergence.packets for line in _packets(item)]
    lines += [f"{side} capture: the digests differ, and the files are not there" for side in divergence.unseen]
    lines += [
        f"random bytes of {item.endpoint}: {_random_text(item.drawn[0])} in the first run, "
        f"{_random_text(item.drawn[1])} in the second"
        for item in divergence.random
    ]
    if divergence.calls is not None:
        lines += _calls(divergence.calls)
    return "\n".join(lines)


def report(divergence: Divergence, times: int = 2) -> dict[str, Any]:
    """As data."""
    return {
        "schema": 1,
        "identical": divergence.identical,
        "runs": times,
        "facts": [dict(zip(("name", "first", "second"), fact, strict=True)) for fact in divergence.facts],
        "packets": [asdict(item) for item in divergence.packets],
        "unseen": list(divergence.unseen),
        "random": [
            {"endpoint": item.endpoint, "drawn": [stream.model_dump() if stream else None for stream in item.drawn]}
            for item in divergence.random
        ],
        "calls": None if divergence.calls is None else asdict(divergence.calls),
    }


def _facts(divergence: Divergence) -> Iterator[str]:
    for name, first, second in divergence.facts:
        yield f"{name}: {first or 'unknown'} in the first run, {second or 'unknown'} in the second"


def _random_text(drawn: RandomBytes | None) -> str:
    return "none" if drawn is None else f"{drawn.bytes} ({drawn.digest[:8]})"


def _packets(item: PacketDivergence) -> Iterator[str]:
    differences = " and ".join(item.differs) or "one capture has ended"
    yield f"{item.side} capture: packet {item.number} of {item.counts[0]} and {item.counts[1]} differs: {differences}"
    for name, packet in zip(("first", "second"), item.packets, strict=True):
        yield f"  {name} run: {'no more packets' if packet is None else _packet(packet)}"


def _packet(packet: CapturedFrame) -> str:
    header = f"{packet.t_ns / 1e9:.9f} s  {packet.source} → {packet.destination}"
    return f"{header}  {packet.kind}, {packet.length} bytes on the wire"


def _calls(item: CallDivergence) -> Iterator[str]:
    first_call = next(call for call in item.calls if call is not None)
    yield f"system calls: number {first_call.number} differs: {' and '.join(item.differs)}"
    for name, call in zip(("first", "second"), item.calls, strict=True):
        yield f"  {name} run: {'no more calls' if call is None else _call(call)}"
    yield f"  before it, of {first_call.host} {first_call.process} (pid {first_call.pid}):"
    yield from (f"    {_call(call)}" for call in item.before)
    yield "  before it, of anybody:"
    yield from (f"    {_call(call)}" for call in item.around)


def _call(call: Call) -> str:
    looks = f", {format_count(call.looks, 'clock read')} before it" if call.looks else ""
    process = f"{call.host} {call.process} (pid {call.pid})"
    return f"{call.time_ns / 1e9:.9f} s  {process}  {call.name} = {call.result_text}{looks}"
