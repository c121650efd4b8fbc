"""A client's schedule: when it asks for which file, and when each was asked for and answered."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Where the times are written.
REQUESTS = Path("/logs/requests.csv")


@dataclass
class Request:
    """One request of a schedule."""

    at: float
    """Seconds after the handshake before which it is not made."""
    wait: float
    """Seconds after the last of those before it."""
    after: tuple[int, ...]
    priority: str
    """As RFC 9218 writes it; empty where none is sent."""
    asked_ns: int | None = None
    first_byte_ns: int | None = None
    complete_ns: int | None = None
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    def received(self) -> None:
        """A part of the response has come."""
        if self.first_byte_ns is None:
            self.first_byte_ns = time.time_ns()


def read_schedule(count: int) -> list[Request] | None:
    """The schedule of the environment, SCHEDULE=AT,WAIT,AFTER,PRIORITY[;…], an entry for each of so many URLs; None
    without one. Raises OSError for what is none.
    """
    text = os.environ.get("SCHEDULE")
    if not text:
        return None
    entries = text.split(";")
    try:
        if len(entries) != count:
            raise ValueError(f"{len(entries)} entries for {count} URLs")
        return [_request(entry, count) for entry in entries]
    except ValueError as error:
        raise OSError(f"SCHEDULE: {error}") from error


def _request(entry: str, count: int) -> Request:
    # A priority may have a comma.
    at, wait, after, priority = entry.split(",", 3)
    numbers: list[int] = []
    for part in filter(None, after.split("+")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    if any(number not in range(count) for number in numbers):
        raise ValueError(f"there is no such request: {after}")
    return Request(float(at), float(wait), tuple(numbers), priority)


async def follow_schedule(requests: Sequence[Request], ask: Callable[[int], asyncio.Future[None]]) -> None:
    """Ask for the files as they are due, in their order where several are at once; write down the times.

    Raises the first failure of a response, upon which no more is asked for.
    """
    zero = asyncio.get_running_loop().time()

    async def due(number: int) -> None:
        request = requests[number]
        for before in request.after:
            await requests[before].complete.wait()
        now = asyncio.get_running_loop().time()
        delay = max(zero + request.at - now, request.wait if request.after else 0.0)
        if delay > 0:
            await asyncio.sleep(delay)
        request.asked_ns = time.time_ns()
        await ask(number)
        request.complete_ns = time.time_ns()
        request.complete.set()

    tasks = [asyncio.create_task(due(number)) for number in range(len(requests))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        rows = [f"{number},{_times(request)}\n" for number, request in enumerate(requests)]
        REQUESTS.write_text("request,asked_ns,first_byte_ns,complete_ns\n" + "".join(rows))


def _times(request: Request) -> str:
    times = (request.asked_ns, request.first_byte_ns, request.complete_ns)
    return ",".join("" if moment is None else str(moment) for moment in times)
