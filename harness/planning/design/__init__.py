"""Designs of experiments: factors and levels → the combinations that run, limited to what each pair honours. Pure."""

from harness.planning.design.factorial import (
    MOST_COMBINATIONS,
    Aliases,
    Rows,
    aliases,
    combinations,
    fraction,
    least_of_random,
    most_cells,
    resolution,
    size,
)
from harness.planning.design.pair_design import Pair, PairDesign, honoured, mistakes, of_pair, players_of

__all__ = [
    "MOST_COMBINATIONS",
    "Aliases",
    "Pair",
    "PairDesign",
    "Rows",
    "aliases",
    "combinations",
    "fraction",
    "honoured",
    "least_of_random",
    "mistakes",
    "most_cells",
    "of_pair",
    "players_of",
    "resolution",
    "size",
]
