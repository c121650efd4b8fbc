"""The logs that the environment asks for: TLS secrets in $SSLKEYLOGFILE, a qlog per connection in $QLOGDIR."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Self, TextIO

from qh3.quic.connection import QuicConnection
from qh3.quic.logger import QLOG_VERSION, QuicLogger, QuicLoggerTrace

#: Events of each datagram and packet: qh3 gives them neither a packet number nor frames.
_LEFT_OUT = ("datagrams_received", "datagrams_sent", "packet_received", "packet_sent")
#: A millisecond, in seconds.
_MS = 1e-3
_json = json.JSONEncoder(separators=(",", ":")).encode


class _Trace(QuicLoggerTrace):
    """A trace that is written as it grows (JSON-SEQ, RFC 7464); qh3's own keeps it in memory until the end."""

    def __init__(self, *, is_client: bool, odcid: bytes, file: TextIO) -> None:
        super().__init__(is_client=is_client, odcid=odcid)
        self._file = file
        self._figures: dict[str, float] = {}
        whole = self.to_dict()
        trace = {"common_fields": whole["common_fields"], "vantage_point": whole["vantage_point"]}
        self._write({"qlog_format": "JSON-SEQ", "qlog_version": QLOG_VERSION, "trace": trace})

    def log_event(self, *, category: str, event: str, data: dict[str, Any]) -> None:
        """Write an event."""
        if event not in _LEFT_OUT:
            self._write({"time": self.encode_time(time.time()), "name": f"{category}:{event}", "data": data})

    def log_recovery(self, figures: dict[str, float]) -> None:
        """Write those figures of congestion control and loss recovery that changed."""
        changed = {name: value for name, value in figures.items() if self._figures.get(name) != value}
        if changed:
            self._figures |= changed
            self.log_event(category="recovery", event="metrics_updated", data=changed)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(f"\x1e{_json(record)}\n")


class _Traces(QuicLogger):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._open: set[_Trace] = set()

    def start_trace(self, is_client: bool, odcid: bytes) -> QuicLoggerTrace:
        path = self._folder / f"qh3-{'client' if is_client else 'server'}-{odcid.hex()}.sqlog"
        trace = _Trace(is_client=is_client, odcid=odcid, file=path.open("w", buffering=2**16))
        self._open.add(trace)
        return trace

    def end_trace(self, trace: QuicLoggerTrace) -> None:
        if isinstance(trace, _Trace) and trace in self._open:
            self._open.discard(trace)
            trace.close()

    def close(self) -> None:
        for trace in list(self._open):
            self.end_trace(trace)


def log_recovery(quic: QuicConnection) -> None:
    """Write what a connection's congestion control and loss recovery are at; qh3 has no events of them.

    Its public interface does not give these figures; its core does.
    """
    trace, core = quic._quic_logger, quic._core
    if not isinstance(trace, _Trace) or core is None:
        return
    figures: dict[str, float] = {
        "congestion_window": core.congestion_window,
        "bytes_in_flight": core.bytes_in_flight,
        "pto_count": core.pto_count,
    }
    for name, rtt in (("smoothed_rtt", core.smoothed_rtt), ("latest_rtt", core.latest_rtt)):
        if rtt is not None:
            figures[name] = round(rtt / _MS, 6)
    trace.log_recovery(figures)


class Logs:
    """Both logs, each None where the environment does not ask for it; complete on disk when the block ends."""

    def __init__(self) -> None:
        folder, keys = os.environ.get("QLOGDIR"), os.environ.get("SSLKEYLOGFILE")
        self.qlog = _Traces(Path(folder)) if folder else None
        self.keys = Path(keys).open("a") if keys else None  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.qlog is not None:
            self.qlog.close()
        if self.keys is not None:
            self.keys.close()
