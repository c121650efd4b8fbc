"""Designs of experiments: factors and levels → the combinations that are run, for each pair what it honours. Pure."""

from harness.planning.design.combinations import (
    MOST_COMBINATIONS,
    Aliases,
    aliases,
    combinations,
    least_of_random,
    most_cells,
    size,
)
from harness.planning.design.fraction import Rows, fraction, resolution
from harness.planning.design.pair_design import Pair, PairDesign, honoured, of_pair, players_of
from harness.planning.design.validation import mistakes

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
