"""The sender's connection in time: tcp.csv, a row every 20 ms."""

from __future__ import annotations

import time
from pathlib import Path

from traffic import TrafficError
from traffic.diag import COLUMNS, ESTABLISHED, Connection, Diag, tcp_info

#: Between two samples, ns.
PERIOD = 20_000_000
#: What iperf3's client sends on every connection before anything else: its cookie and more is not data yet.
COOKIE = 37


class Sampler:
    """Writes down what the kernel says of one connection, found by its ports."""

    def __init__(self, file: Path, diag: Diag, family: int, ports: tuple[int, int], algorithm: str) -> None:
        """`ports`: own and the peer's; `algorithm`: the congestion control it must have."""
        self._out = file.open("w", buffering=1 << 16)
        self._out.write(",".join(("t_ns", *COLUMNS)) + "\n")
        self._diag = diag
        self._family = family
        self._ports = ports
        self._algorithm = algorithm
        self._known: Connection | None = None
        self.rows = 0
        self.over = False
        """Whether the connection was there and is gone."""

    def sample(self) -> None:
        """Write a row, if the connection is there. TrafficError when its congestion control is another."""
        if self.over:
            return
        if self._known is None:
            now = self._known = self._diag.find(self._family, ESTABLISHED, *self._ports)
        else:
            now = self._diag.look(self._known)
            self.over = now is None
        if now is None:
            return
        figures = tcp_info(now.info)
        self._out.write(f"{time.time_ns()},{','.join('' if v is None else str(v) for v in figures.values())}\n")
        self.rows += 1
        # iperf3's server sets it on a connection that stands already, before data.
        if now.algorithm != self._algorithm and (figures["bytes_sent"] or 0) > COOKIE:
            raise TrafficError(f"the data is sent with {now.algorithm}, not with {self._algorithm}")

    def close(self) -> None:
        """Write what is buffered."""
        self._out.close()
