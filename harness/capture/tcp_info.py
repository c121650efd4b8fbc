"""A kernel's TCP statistics of a connection over time (tcp.csv), and its generator's report (iperf3.json)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from harness.capture.files import MAX_RECORD_SIZE, read_bytes, read_whole_lines

#: Fields of struct tcp_info (include/uapi/linux/tcp.h) without their prefix, in its units: packets, bytes, µs, bytes/s.
_NUMBERS = (
    "cwnd",
    "mss",
    "srtt_us",
    "rttvar_us",
    "min_rtt_us",
    "unacked",
    "sacked",
    "lost",
    "retrans",
    "bytes_acked",
    "bytes_sent",
    "bytes_retrans",
    "total_retrans",
    "delivery_rate",
    "notsent_bytes",
    "total_rto",
    "total_rto_time_ms",
    "snd_wnd",
)
#: States of congestion control by number (enum tcp_ca_state).
_STATES = ("open", "disorder", "cwr", "recovery", "loss")
_SCHEMA = {"t_ns": pl.Int64, **dict.fromkeys(_NUMBERS, pl.Float64), "ca_state": pl.String}


def read_tcp(path: Path) -> pl.DataFrame:
    """One row per sample, in order of time; null where the kernel does not offer a figure. Raises OSError.

    Columns: t_ns; cwnd, unacked, sacked, lost, retrans (packets); mss, bytes_acked, bytes_sent, bytes_retrans,
    notsent_bytes, snd_wnd (bytes); srtt_us, rttvar_us, min_rtt_us (µs); total_retrans, total_rto (counts),
    total_rto_time_ms; delivery_rate (bytes/s); ca_state, a word of `_STATES`. Columns missing from the file are null
    throughout.
    """
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_SCHEMA)
    text = pl.read_csv(data, infer_schema=False, truncate_ragged_lines=True)
    columns = [
        (pl.col(name).str.strip_chars().cast(kind, strict=False) if name in text.columns else pl.lit(None, kind)).alias(
            name
        )
        for name, kind in _SCHEMA.items()
    ]
    state_names = {str(number): name for number, name in enumerate(_STATES)}
    frame = text.select(columns).with_columns(
        pl.col("ca_state").str.to_lowercase().replace(state_names).replace("", None)
    )
    return frame.drop_nulls("t_ns").sort("t_ns", maintain_order=True)


@dataclass(frozen=True)
class IperfReport:
    """The data that a generator's sender wrote to its socket."""

    size: int
    """Bytes."""
    seconds: float

    @property
    def rate_mbps(self) -> float:
        """Mean, Mbit/s."""
        return 8 * self.size / self.seconds / 1e6


def read_iperf3(path: Path) -> IperfReport | None:
    """The sum of the sender's intervals in iperf3's report (`--json`); None where there are none.

    A truncated report is no valid JSON, so it has none. A server whose client was stopped writes its last whole
    interval twice (iperf 3.18); it counts once. Raises OSError.
    """
    intervals: list[Any] = _read_report(path).get("intervals", [])
    sums = [item["sum"] for item in intervals if isinstance(item, dict) and isinstance(item.get("sum"), dict)]
    if len(sums) > 1 and sums[-1] == sums[-2]:
        sums.pop()
    seconds = sum(float(item.get("seconds", 0)) for item in sums)
    if not seconds:
        return None
    return IperfReport(sum(int(item.get("bytes", 0)) for item in sums), seconds)


def read_algorithm(path: Path) -> str | None:
    """The sender's congestion control in iperf3's report (`--json`), which it reads from the socket (TCP_CONGESTION).

    None where the report has none, or was truncated. Raises OSError.
    """
    end = _read_report(path).get("end")
    algorithm = end.get("sender_tcp_congestion") if isinstance(end, dict) else None
    return algorithm if isinstance(algorithm, str) and algorithm else None


def _read_report(path: Path) -> dict[str, Any]:
    """A generator's report; empty where it was truncated and is no valid JSON. Raises OSError."""
    try:
        report = json.loads(read_bytes(path, MAX_RECORD_SIZE))
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}
