"""Metrics of each flow that shares a path, or is cut off at a time: CCPerf's, from real stacks.

A run of one file downloaded to its end has none of these: its questions are other ones, and its metrics stay as they
are. A flow counts from its client's first packet to its stop (where it has none, to its last arrival; see
`harness.analysis.timeseries.lifetimes`); samples are the bins and grid points of the series
(`harness.analysis.timeseries`) that lie wholly within that time. Means are arithmetic, and what a flow's source does
not expose is absent, with a reason. CCPerf: ccperf.net/metrics; RFC 5166 is behind most of them.
"""
