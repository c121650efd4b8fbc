"""Metrics of all flows of a run together: sums, and how evenly they share.

Over all flows, unresponsive ones too, as CCPerf does it; fairness among the flows with congestion control stands
beside it, as "…_responsive", where others run with them. "…_samples" is the mean of the index over the samples of 0.1 s
in which at least two flows were active throughout, "…_means" the index of the flows' mean throughputs: flows that
take turns are unfair by the first and fair by the second.
"""
