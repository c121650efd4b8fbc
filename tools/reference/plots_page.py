"""docs/plots.md: every figure, and every series that figures are drawn from."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.timeseries import SERIES
from harness.report.markdown import table_row

_HEAD = """# Figures and series

Generated (`make generate`) from [`harness/report/plots`](../harness/report/plots) and
[`harness/analysis/timeseries`](../harness/analysis/timeseries). `harness plot` draws any stored run:

```
harness plot satellite/medium                  # the first run of each of its cells: PNG, SVG, and an interactive page
harness plot KEY/0 KEY/1                       # two runs in one figure; its legend says what they differ in
harness plot 'ngtcp2→quiche' 'quiche→quiche'   # cells by the names that tables print
harness plot satellite/medium --servers quiche --together
harness plot dumbbell/fairness --only distribution,drop_rate --detail 21-24
```

`harness run` ends with the figures of flows that share a path, or with that of the worst download; they are in
`results/figures`.
"""


def plots_page(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """The page. `rows`: name, of what, what it shows, series that it needs, of each figure."""
    lines = [_HEAD, "## Figures", ""]
    lines += [table_row(["`--only`", "of", "what it shows", "needs"]), table_row(["---"] * 4)]
    lines += [table_row([f"`{name}`", of, shows, needs or "measurements alone"]) for name, of, shows, needs in rows]
    lines += [
        "",
        "## Series",
        "",
        "`series.parquet` of a run: flow (a number; -1 the bottleneck towards the clients, -2 all flows together, -3",
        "the bottleneck the other way), name, t (s since the first datagram), value.",
        "",
        table_row(["name", "unit", "what it is", "source"]),
        table_row(["---"] * 4),
    ]
    lines += [table_row([f"`{name}`", series.unit, series.meaning, series.source]) for name, series in SERIES.items()]
    return "\n".join(lines) + "\n"
