"""Designs of experiments: factors and levels → the combinations that run, limited to what each pair honours. Pure."""

from harness.planning.design.factorial import (
    MOST_COMBINATIONS,
    Aliases,
    Rows,
    combinations,
    design_resolution,
    design_size,
    find_aliases,
    fraction,
    least_random_runs,
    max_cells,
)
from harness.planning.design.pair_design import (
    Pair,
    PairDesign,
    design_for_pair,
    flow_pair,
    honoured_levels,
    study_mistakes,
)

__all__ = [
    "MOST_COMBINATIONS",
    "Aliases",
    "Pair",
    "PairDesign",
    "Rows",
    "combinations",
    "design_for_pair",
    "design_resolution",
    "design_size",
    "find_aliases",
    "flow_pair",
    "fraction",
    "honoured_levels",
    "least_random_runs",
    "max_cells",
    "study_mistakes",
]
