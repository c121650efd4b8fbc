"""What a stored result is called by: keys of cells, digests of what makes runs, and which digests are the same thing.

A run depends on an engine's code, on the simulator with its lab kernel, and on the images of its endpoints. Each has a
*digest* of what it is made from. Another digest can still behave the same: a renamed variable, a better comment. The
ledger (`results/equivalences.yaml`) says which digests were proven to; a cell's key names the first of them alone.
"""

from harness.store.identity.cell_key import cell_key, compiled, keyed, used
from harness.store.identity.equivalences import (
    Component,
    Equivalence,
    Kind,
    Ledger,
    Proof,
    cell_identities,
    components,
    day_of_today,
    read_ledger,
    write_ledger,
)
from harness.store.identity.scenario_keys import is_key, known_keys, scenario_keys

__all__ = [
    "Component",
    "Equivalence",
    "Kind",
    "Ledger",
    "Proof",
    "cell_identities",
    "cell_key",
    "compiled",
    "components",
    "day_of_today",
    "is_key",
    "keyed",
    "known_keys",
    "read_ledger",
    "scenario_keys",
    "used",
    "write_ledger",
]
