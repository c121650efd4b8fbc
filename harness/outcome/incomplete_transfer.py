"""A transfer that did not come to its end: what had come by then, and who was silent."""

from __future__ import annotations

from harness.formatting import counted
from harness.outcome.base import Fact
from harness.scenario.metric_names import TransferName
from harness.scenario.parameters import Role, other
from harness.units import Size


class Voice(Fact):
    """What one endpoint sent until a transfer was over."""

    datagrams: int = 0
    """Datagrams, or segments, that left it."""
    arrived: int = 0
    """Those of them that came to the other side of the path."""
    last: float | None = None
    """When the last one left, s after the client's first datagram; None where none did."""
    last_arrived: float | None = None
    """When the last one of those that arrived did."""
    what: str = ""
    """What the last one was: its bytes, and its frames where they can be read."""
    since_progress: int = 0
    """Those that left after the client's last progress."""
    since_progress_arrived: int = 0
    oversize: int = 0
    """Datagrams that it made and that its interface does not take, as its qlog and the capture have them."""
    largest: int = 0
    """UDP payload of the largest of these, bytes."""
    oversize_left: int = 0
    """Those of them that left it all the same, in fragments."""


class Unfinished(Fact):
    """One transfer that did not come to its end."""

    flow: int
    transfer: TransferName
    size: int
    """Bytes of all that was asked for."""
    received: int
    """Bytes that the client had in the end."""
    lasted: float
    """From the client's first datagram until it was over, s."""
    progress: float | None = None
    """When the client got something new for the last time, s; None where it never did."""
    client: Voice = Voice()
    server: Voice = Voice()
    mtu: int = 0
    """Largest UDP payload that an interface of the lab takes, bytes."""
    dark: tuple[tuple[float, float], ...] = ()
    """When the path forwarded nothing, s, as far as that is within its time."""

    def voice(self, role: Role) -> Voice:
        """What an endpoint sent."""
        return self.client if role == "client" else self.server

    @property
    def silent(self) -> tuple[Role, ...]:
        """Who sent nothing in the last third of the time since the last progress."""
        since = self.progress or 0.0
        edge = self.lasted - (self.lasted - since) / 3
        said = {role: self.voice(role).last for role in _ROLES}
        return tuple(role for role, last in said.items() if last is None or last < edge)

    @property
    def short(self) -> str:
        """For a column: '12 kB of 1 MB came, the last at 0.3 s; 14 datagrams of the server exceeded 1252 B'."""
        return "; ".join(filter(None, [self._came, self._oversized, self._silence]))

    @property
    def sentence(self) -> str:
        """For people, with all that is known, without a full stop."""
        return "; ".join(filter(None, [self._came, self._darkness, self._oversized, self._silence, *self._last]))

    @property
    def _came(self) -> str:
        if not self.received and self.progress is None:
            return f"nothing of {Size(self.size)} came"
        at = "" if self.progress is None else f", the last at {self.progress:.1f} s"
        return f"{_bytes(self.received)} of {Size(self.size)} came{at}"

    @property
    def _darkness(self) -> str:
        return ", ".join(f"the path was dark from {begin:g} to {end:g} s" for begin, end in self.dark)

    @property
    def _oversized(self) -> str:
        parts = []
        for role in _ROLES:
            voice = self.voice(role)
            if voice.oversize:
                left = f"{voice.oversize_left} left in fragments" if voice.oversize_left else "none of them left"
                parts.append(
                    f"{counted(voice.oversize, 'datagram')} of the {role}, of up to {voice.largest} B, "
                    f"exceeded the MTU's {self.mtu} B, and {left}"
                )
        return ", ".join(parts)

    @property
    def _silence(self) -> str:
        silent = self.silent
        if len(silent) == 2:
            last = {role: self.voice(role).last for role in silent}
            if None in last.values():
                return ", ".join(f"the {role} sent nothing at all" for role, at in last.items() if at is None)
            latest = max(at for at in last.values() if at is not None)
            return f"neither end sent anything in the last {self.lasted - latest:.1f} s"
        if not silent:
            return "both ends sent until it was over"
        role, speaker = silent[0], other(silent[0])
        voice, loud = self.voice(role), self.voice(speaker)
        came = f"while {loud.since_progress_arrived} of {loud.since_progress} datagrams of the {speaker} reached it"
        came += "" if self.progress is None else " after the last progress"
        if voice.last is None:
            return f"the {role} sent nothing at all, {came}"
        return f"the {role} was silent for the last {self.lasted - voice.last:.1f} s, {came}"

    @property
    def _last(self) -> list[str]:
        return [
            f"the {role}'s last datagram left at {voice.last:.1f} s ({voice.what})"
            for role in ("server", "client")
            for voice in [self.voice(role)]
            if voice.last is not None and voice.what
        ]


_ROLES: tuple[Role, ...] = ("server", "client")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"
