"""When the client had the first bytes of a response: from its file, or from the packets that brought them.

The client's file is what counts, as long as its size tells: it was sampled often, and grew in steps that are small
against the time. Where it grows in lumps the file does not say whether the client kept data back, or waited for a lost
packet. Then the packets of the left capture tell, decrypted (`analysis.arrival`), or as TCP's
segments (`analysis.tls_arrival`): between which two moments all the
bytes had come without a gap; and what the client had in its file had certainly come. What is reported is the middle,
like that between two samples. Only where neither tells is there no figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.analysis.arrival import BodyArrival, body_arrival
from harness.analysis.missing import Unknown
from harness.analysis.run_view import RunView
from harness.analysis.timeseries.file_growth import AHEAD
from harness.analysis.tls_arrival import TlsArrival, tls_arrival
from harness.capture.artefacts import Window
from harness.capture.counters import Growth, Moment, growth_of, spent

FILE, PACKETS, SEGMENTS = "client file", "left capture, decrypted", "left capture"
#: Two samples further apart than this bracket a moment too loosely to pass without a word, ns.
WIDE = 20_000_000
#: A moment that is known less precisely than this part of its time is not known.
ROUGH = 0.1


@dataclass(frozen=True)
class Reached:
    """A moment of a transfer."""

    seconds: float
    """Since the client's first datagram."""
    gap_ns: int
    """Between the two moments around it that are known."""
    vantage: str


@dataclass(frozen=True)
class Delivery:
    """One transfer's response, as the client got it."""

    view: RunView
    window: Window

    @cached_property
    def growth(self) -> Growth | None:
        """Samples of the file's size; None without any."""
        if self.view.growth is None:
            return None
        growth = growth_of(self.view.growth, self.window.transfer.flow, self.window.transfer.index)
        return growth if len(growth.t_ns) else None

    def has(self, size: int) -> bool:
        """Whether its file is known to have had `size` bytes."""
        return self.growth is not None and bool((self.growth.size >= size).any())

    @property
    def whole(self) -> bool:
        """Whether the client had all of it in the end, byte for byte."""
        return self.window.transfer.intact and self.window.transfer.received >= self.window.transfer.size

    @cached_property
    def _body(self) -> BodyArrival | TlsArrival | Unknown:
        if self.window.over_tcp:
            return tls_arrival(self.view, self.window)
        return body_arrival(self.view, self.window)

    def reached(self, size: int) -> Reached | Unknown:
        """When the client had `size` bytes, or why that is not known."""
        moment = self.written(size)
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unknown("no datagram of the client was captured")
        doubt = moment if isinstance(moment, Unknown) else self._doubt(size, moment, zero_ns)
        if doubt is None and isinstance(moment, Moment):
            return Reached((moment.middle_ns - zero_ns) / 1e9, moment.gap_ns, FILE)
        come = self._come(size, moment if isinstance(moment, Moment) else None)
        if isinstance(come, Unknown):
            return Unknown(f"{doubt.text if doubt is not None else ''}; of its packets, {come.text}")
        seconds = (come.middle_ns - zero_ns) / 1e9
        if come.gap_ns / 1e9 > ROUGH * seconds:
            known = f"{(come.after_ns - zero_ns) / 1e9:.2f} to {(come.before_ns - zero_ns) / 1e9:.2f} s"
            return Unknown(f"{doubt.text if doubt is not None else ''}; its packets tell {known}")
        return Reached(seconds, come.gap_ns, SEGMENTS if self.window.over_tcp else PACKETS)

    def written(self, size: int) -> Moment | Unknown:
        """When the file had `size` bytes, between two samples, or why it does not tell."""
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unknown("no datagram of the client was captured")
        moment = None if self.growth is None else self.growth.reached(size, zero_ns)
        if moment is None:
            return Unknown(f"the samples of the file's size end before {size} B")
        if moment.middle_ns <= zero_ns:
            return Unknown(f"the file had {size} B before the client's first datagram")
        arrived = self._arrived(moment.before_ns)
        if arrived is not None and arrived * AHEAD < size and self.view.capture_drops == 0:
            return Unknown(f"the file had {size} B when {arrived} B had arrived: the client sizes it in advance")
        return moment

    def _doubt(self, size: int, moment: Moment, zero_ns: int) -> Unknown | None:
        """Why the file does not tell a moment; None where it does. What has come to its end waits for nothing."""
        if size >= self.window.transfer.size or self.growth is None:
            return None
        seconds, step = (moment.middle_ns - zero_ns) / 1e9, self.growth.typical_step
        if max(moment.gap_ns / 1e9, step * 8 / self._rate) <= ROUGH * seconds:
            return None
        return Unknown(
            f"the client writes its file in lumps of {step / 1e6:.1f} MB and its size was sampled "
            f"{moment.gap_ns / 1e6:.0f} ms apart, so {seconds:.2f} s is not known to {ROUGH:.0%}"
        )

    def _come(self, size: int, written: Moment | None) -> Moment | Unknown:
        """When packets had brought the first `size` bytes; no later than the file had them."""
        if isinstance(self._body, Unknown):
            return self._body
        bounds = self._body.reached(size)
        if bounds.earliest_ns is None:
            return Unknown(f"less than {size} B came without a gap")
        dropped = self._dropped
        latest = None if dropped else bounds.latest_ns
        if written is not None and written.before_ns + WIDE >= bounds.earliest_ns:
            latest = min(written.before_ns, latest or written.before_ns)
        if latest is None and dropped:
            return Unknown(f"the client's full socket dropped {dropped} that had come")
        if latest is None:
            return Unknown(f"frames that were not captured may hold some of the first {size} B")
        return Moment(min(bounds.earliest_ns, latest), latest)

    def _arrived(self, until_ns: int) -> int | None:
        """Bytes of payload of UDP or TCP that had reached the client's side; None without a whole capture."""
        left, window = self.view.left, self.window
        if left is None or left.truncated:
            return None
        received = left.between(window.start_ns, until_ns + WIDE, window.transfer.flow, to_client=True)
        return int(received.payload.sum())

    @property
    def _dropped(self) -> int:
        """Datagrams that came and did not fit into the client's socket buffer."""
        window = self.window
        if self.view.cpu is None:
            return 0
        container = f"client{window.transfer.flow}"
        return spent(self.view.cpu, container, "rcvbuf_errors", window.start_ns, window.transfer.ended_ns) or 0

    @property
    def _rate(self) -> int:
        """Rate towards the client at the start, bit/s."""
        return self.view.emulated.to_client.rate.value
