"""docs/metrics.md: every metric as it is declared."""

from __future__ import annotations

from harness.analysis.metrics.registry import Layer, Metric, declared_metrics
from harness.report.markdown import table_row

_SECTIONS: tuple[tuple[Layer, str, str], ...] = (
    (
        "flow",
        "Flows and their transfers",
        "A download that is repeated has each for the first and for the second connection: `repeat_completion`. In a "
        "run of several flows each has its own: `flow1_mean_srtt`. `throughput` is of a phase: "
        "`phase2_flow0_throughput`.",
    ),
    (
        "move",
        "Moves of clients",
        "A flow's moves have each their own, numbered from 1 in order of time, the repetitions of `every` among them: "
        "`move1_handover_throughput`, `flow1_move2_delivery_gap`. The server's stack's answer to each is in "
        "`measured.json` as data (`moves`) and in the table of `harness report moves`.",
    ),
    ("link", "The link", "Over all flows."),
    ("network", "All flows together", "In runs of several flows. `jain` is of a phase: `phase2_jain`."),
)
_BETTER = {"higher": "↑", "lower": "↓", "neutral": ""}


def metrics_page() -> str:
    """The page."""
    lines = [
        "# Metrics",
        "",
        "Generated (`make generate`) from the declarations in",
        "[`harness/analysis/metrics`](../harness/analysis/metrics). Objectives, tables, JSON and `measured.json` use",
        "these names and units; 1 is a number or a share. ↑ higher is better, ↓ lower is.",
    ]
    for layer, title, text in _SECTIONS:
        lines += ["", f"## {title}", "", text, ""]
        lines += [table_row(["metric", "unit", "", "what it is", "formula", "source"]), table_row(["---"] * 6)]
        lines += [table_row(_row(metric)) for metric in declared_metrics().values() if metric.layer == layer]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> list[str]:
    name = f"`{metric.name.replace('*', 'SIZE')}`"
    return [name, metric.unit, _BETTER[metric.better], metric.title, metric.formula, metric.source]
