"""What the kernel of a TCP flow's sender knows to have arrived."""

from __future__ import annotations

import polars as pl

from harness.metrics.shared_flow import SharedFlow


def acknowledged(flow: SharedFlow) -> pl.DataFrame | None:
    """The samples during the flow's life that have bytes_acked (bytes, cumulative), by t_ns; None without any.

    Source: tcpi_bytes_acked (include/uapi/linux/tcp.h), which is RFC 4898's tcpEStatsAppHCThruOctetsAcked.
    """
    rows = flow.view.tcp(flow.number)
    if rows is None:
        return None
    during = pl.col("t_ns").is_between(flow.life.zero_ns + flow.life.start_ns, flow.life.zero_ns + flow.life.end_ns)
    rows = rows.filter(during).drop_nulls(["bytes_acked"])
    return rows if len(rows) else None
