"""The part of a baseline that a gate keeps: the cells that changed, and the number of cells of each standing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from harness.errors import InputError, ResultError
from harness.evaluation.publish import publish_runs
from harness.evaluation.regression.decision import ChangeStatus, Decision
from harness.store.records import describe_read_error, read_object
from harness.store.results import StoreReader, disk_error, is_columnar

_COMPARISON_FILE = "compared.json"
#: Standings of cells that have no baseline, or for which the runs show no change.
_LEFT_OUT: frozenset[ChangeStatus] = frozenset({"same", "new", "cannot tell"})


@dataclass(frozen=True)
class BaselineComparison:
    """The summary of a comparison."""

    within: Annotated[float, Field(allow_inf_nan=False)]
    """Relative change up to which a figure counted as the same."""
    counts: Mapping[str, int]
    """Standing → number of cells."""


_ADAPTER = TypeAdapter(BaselineComparison)


def write_changed_cells(root: Path, decided: Sequence[Decision], within: float, source: StoreReader) -> int:
    """Write the changed cells of a baseline (`source`) to a new columnar store below `root`.

    Returns their number. InputError if `root` is not empty; EngineError if the disk refuses.
    """
    if root.exists() and any(root.iterdir()):
        raise InputError(f"--keep {root}: something is there already", "name a new folder, or remove it")
    changed = [
        decision.pair.base
        for decision in decided
        if decision.status not in _LEFT_OUT and decision.pair.base is not None
    ]
    counts: dict[str, int] = {}
    for decision in decided:
        counts[decision.status] = counts.get(decision.status, 0) + 1
    try:
        root.mkdir(parents=True, exist_ok=True)
        publish_runs(root, changed, source, lambda run: False)
        (root / _COMPARISON_FILE).write_text(json.dumps({"within": within, "counts": counts}, indent=1) + "\n")
    except OSError as error:
        raise disk_error(error, root) from error
    return len(changed)


def read_comparison(root: Path) -> BaselineComparison | None:
    """Read the summary that `write_former` wrote; None if there is none. ResultError if it cannot be read."""
    file = root / _COMPARISON_FILE
    if not is_columnar(root) or not file.exists():
        return None
    try:
        return _ADAPTER.validate_python(read_object(file))
    except (OSError, ValueError) as error:
        raise ResultError(
            f"{file}: not what a gate keeps of a baseline: {describe_read_error(error)}",
            "take it from the project's history again",
        ) from error
