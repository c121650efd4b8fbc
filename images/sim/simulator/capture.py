"""Captures on both sides of the bottleneck: of frames' heads, or of whole frames."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

from simulator.plan import ETHERNET_MTU
from simulator.shell import CommandError

#: Bytes of each frame kept: Ethernet, IPv6, UDP and enough of the payload to tell datagrams apart.
SNAPLEN = 96
#: More than any frame of a path has whose MTU is Ethernet's. In immediate mode the kernel sets aside as much for each
#: (tpacket version 2).
WHOLE = 1600
#: What is kept: the flows' packets, and what a router answers to a packet that is too large (RFC 792, RFC 4443 §3.2).
KEPT = "udp or tcp or (icmp[0] = 3 and icmp[1] = 4) or (icmp6 and ip6[40] = 2)"
#: tcpdump's buffer, KiB. In virtual time it is emptied before anything else happens.
BUFFER, VIRTUAL_BUFFER = 65536, 4096
#: For how long the kernel may keep packets back from a tcpdump that is not in immediate mode, seconds.
HELD_BACK = 1.0


class Capture:
    """Capture of one interface, outside the bottleneck."""

    def __init__(
        self,
        interface: str,
        side: str,
        logs: Path,
        *,
        virtual: bool = False,
        whole_frames: bool = False,
        mtu: int = ETHERNET_MTU,
    ) -> None:
        """`whole_frames`: keep more of them than their heads, at this MTU.

        `virtual`: in virtual time packets are handed over in blocks, which saves most of the work. The last block takes
        HELD_BACK to arrive, so whoever stops such a capture waits for that long first.
        """
        self.side = side
        # In real time immediate mode: otherwise tcpdump drops what it still keeps when it is told to end.
        mode = ["-B", str(VIRTUAL_BUFFER)] if virtual else ["--immediate-mode", "-B", str(BUFFER)]
        length = WHOLE + max(0, mtu - ETHERNET_MTU) if whole_frames else SNAPLEN
        self._process = subprocess.Popen(
            ["tcpdump", "-i", interface, *mode, "-n", "-s", str(length), "-Z", "root", "--no-promiscuous-mode",
             "--time-stamp-precision=nano", "-w", str(logs / f"trace_node_{side}.pcap"), KEPT],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def await_start(self) -> None:
        """Return when the capture listens. CommandError when it ended instead."""
        assert self._process.stderr is not None
        lines = []
        for line in self._process.stderr:
            lines.append(line.strip())
            if "listening on" in line:
                return
        raise CommandError(f"tcpdump ended: {' '.join(lines)}")

    def tell(self) -> None:
        """Tell the capture to end, without waiting."""
        self._process.send_signal(signal.SIGINT)

    def stop(self) -> dict[str, int]:
        """End the capture and return its counts: captured, received, dropped."""
        self.tell()
        _, text = self._process.communicate()
        counts = {}
        for name, words in (
            ("captured", "packets captured"),
            ("received", "packets received by filter"),
            ("dropped", "packets dropped by kernel"),
        ):
            match = re.search(rf"(\d+) {words}", text)
            counts[name] = int(match[1]) if match else -1
        return counts
