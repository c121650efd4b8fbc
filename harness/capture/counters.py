"""The kernel's own count: statistics of the queueing disciplines over time (sim/counters.jsonl)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from harness.capture.files import read_objects

_COUNTS = ("bytes", "packets", "drops", "overlimits", "backlog", "qlen", "early", "pdrop", "marked")
_SCHEMA = {"t_ns": pl.Int64, "device": pl.String, **dict.fromkeys(_COUNTS, pl.Int64)}


def read_counters(path: Path) -> pl.DataFrame:
    """One row per sample and device, in order of time. Raises OSError.

    Columns: t_ns, device, and of the device's root discipline bytes, packets, drops, overlimits (cumulative),
    backlog (bytes) and qlen (packets); early, pdrop and marked are those of a RED queue on the device, 0
    elsewhere (early counts forced drops too, pdrop those of the hard limit; net/sched/sch_red.c). The drops of a tbf
    or hfsc include those of the queue inside it (tbf_enqueue, hfsc_enqueue), those of a netem or prio the losses of
    the netems inside (netem_dequeue, prio_enqueue).
    """
    rows = []
    for sample in read_objects(path):
        time, disciplines = sample.get("t"), sample.get("qdiscs")
        if isinstance(time, int | float) and isinstance(disciplines, list):
            rows.extend(_rows(round(time * 1e9), [d for d in disciplines if isinstance(d, dict)]))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort("t_ns", maintain_order=True)


def _rows(t_ns: int, disciplines: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """A row for each device with a root discipline."""
    red = {item.get("dev"): item for item in disciplines if item.get("kind") == "red"}
    rows: list[tuple[object, ...]] = []
    for item in disciplines:
        # A path that is gone has a discipline that drops everything, which is no loss.
        if item.get("kind") == "blackhole":
            continue
        if item.get("root") is True and isinstance(item.get("dev"), str):
            early = red.get(item["dev"], {})
            values = [(early if name in ("early", "pdrop", "marked") else item).get(name) for name in _COUNTS]
            rows.append((t_ns, item["dev"], *(value if isinstance(value, int) else 0 for value in values)))
    return rows


def running_total(counters: pl.DataFrame, device: str, count: str) -> tuple[np.ndarray, np.ndarray]:
    """Sample times (ns) and a cumulative count of one device, made to never fall; both int64, shape (n,).

    A count that falls was started anew (the discipline was replaced), and goes on from where it was.
    """
    rows = counters.filter(pl.col("device") == device)
    values = rows[count].to_numpy().astype(np.int64)
    steps = np.diff(values, prepend=0)
    return rows["t_ns"].to_numpy().astype(np.int64), np.cumsum(np.where(steps < 0, values, steps))


def total(counters: pl.DataFrame, device: str, count: str, start_ns: int, end_ns: int) -> int | None:
    """How much a count grew from the last sample at or before start to the first at or after end.

    None where the device was never sampled. A missing sample before start counts as 0: the disciplines are new.
    """
    times, values = running_total(counters, device, count)
    if not len(times):
        return None
    before = int(np.searchsorted(times, start_ns, side="right")) - 1
    after = min(int(np.searchsorted(times, end_ns)), len(times) - 1)
    return int(values[after] - (values[before] if before >= 0 else 0))
