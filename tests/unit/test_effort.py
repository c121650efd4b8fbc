"""What stored runs took, as pages say it."""

from __future__ import annotations

from harness.evaluation.cell_result import CellResult
from harness.outcome import Transfer
from harness.report.results import effort_summary, slowest_families, total_effort
from tests.engine_pairs import result, run
from tests.examples import scenario
from tools.reference.readme import TIMES, with_experiments, with_results, with_verdicts


def of(name: str, *walls: float, virtual: float | None = 60.0) -> CellResult:
    """A cell of a scenario, with a run for each wall time."""
    pairs = []
    for wall in walls:
        stored_run, measured = run(completion=30.0)
        pairs.append((stored_run.model_copy(update={"wall": wall, "virtual": virtual}), measured))
    return result("virtual" if virtual else "compose", *pairs, definition=scenario(name=name))


STORED = [
    of("queue/red", 900, 900),
    of("studies/far", 3600),
    of("studies/near", 1800, 1800),
    of("satellite/large", 360),
]


def test_the_families_that_took_longest_come_first() -> None:
    assert slowest_families(STORED, 2) == [("studies", 7200), ("queue", 1800)]
    assert slowest_families([], 2) == []


def test_the_readme_says_what_all_runs_in_virtual_time_took_and_what_took_longest() -> None:
    page = "<!-- verdicts --><!-- /verdicts -->"
    readme = with_verdicts(page, [*STORED, of("satellite/medium", 9000, virtual=None)])
    assert (
        "4 cells in virtual time. Their 6 runs' transfers took 0.1 h of virtual time. With the labs' set-up that was 2.6 h of one core"
        in readme
    )
    assert "Longest were `studies` 2.0 h, `queue` 0.5 h, `satellite` 0.1 h." in readme


def test_pages_open_with_what_few_runs_show() -> None:
    page = "".join(f"<!-- {name} --><!-- /{name} -->" for name in ("findings", "results", "why"))
    few = [of("satellite/medium", 60), of("interop/medium-10mb", 60)]
    for results in ([], few, few[1:]):
        opening, _, _ = with_results(page, results, "").partition("<!-- /findings -->")
        assert ("No runs are stored." in opening) is not bool(results)
        assert ("1 pair end in the grid below: alpha → beta soonest" in opening) is bool(results)
        assert "No runs are stored." in with_experiments(page, [], results)
    assert TIMES.file not in opening
    opening, _, _ = with_results(page, few, "", [TIMES.file]).partition("<!-- /findings -->")
    assert opening.index("alpha → beta soonest") < opening.index(TIMES.file) < opening.index("client ↓ server →")
    drawn = TIMES.draw(few)
    assert drawn is not None and TIMES.draw([]) is None
    assert [(row["row"], row["value"]) for rows in drawn["datasets"].values() for row in rows if "case" in row] == [
        ("beta", 30.0)
    ]


def test_runs_of_nobody_take_nothing() -> None:
    assert total_effort([]) == (0, 0, 0)
    assert effort_summary([]) == ""


def test_virtual_time_is_that_of_the_transfers_without_the_lab_being_set_up() -> None:
    transfer = Transfer(flow=0, index=0, size=1, started_ns=5_600_000_000, ended_ns=35_600_000_000)
    stored_run, measured = run(completion=30.0)
    timed_run = stored_run.model_copy(update={"wall": 3.0, "virtual": 36.0, "transfers": (transfer,)})
    assert total_effort([result("virtual", (timed_run, measured))]) == (1, 30.0, 3.0)
