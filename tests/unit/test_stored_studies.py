"""What the pages of studies say, held against the runs of results/reference."""

from __future__ import annotations

from functools import cache

from harness.cli.environment import REFERENCE, open_app
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_history import has_release
from studies.game_changers.page import game_changers
from studies.in_sequence.page import in_sequence
from studies.in_sequence_satellite.page import claim, satellite


@cache
def stored(*names: str) -> tuple[CellResult, ...]:
    """The cells of these scenarios in the reference, releases aside. A name that ends in a slash is of a folder."""
    folders = tuple(name for name in names if name.endswith("/"))
    found = open_app(REFERENCE).results.find(
        lambda cell: cell.scenario.name in names or cell.scenario.name.startswith(folders or ("\0",))
    )
    return tuple(result for result in found if not has_release(result))


def test_one_claim_has_one_answer_on_every_page() -> None:
    names = ("satellite/medium", "satellite/large-lossy", "in-sequence/quic-medium", "in-sequence/quic-large-lossy")
    runs = stored(*names, "studies/reach-250-3-lossy")
    counts = "26 of 40 runs within 2 MB's objective"
    medium = "picoquic → picoquic: 10 of 10 runs within all 3 objectives; curl → picoquic: 0 of 2 runs"
    for page in (satellite(runs), claim(runs)):
        assert f"that is not decided: picoquic → picoquic: {counts}; curl → picoquic: 0 of 6 runs" in page
        assert f"that is borne out: {medium}" in page
    rows = [line for line in in_sequence(runs).splitlines() if "| only picoquic with picoquic meets" in line]
    assert [row.rpartition(" | ")[2] for row in rows] == ["borne out |", "not decided |"]
    assert medium in rows[0]
    assert f"picoquic → picoquic: {counts}" in rows[1]
    reach = game_changers(runs).partition("What would it take?")[2]
    (row,) = (line for line in reach.splitlines() if line.startswith("| picoquic→picoquic |"))
    assert f"and the best, as it is, has {counts}." in row
