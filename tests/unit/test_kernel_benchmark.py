from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.environment import lab_kernel
from harness.engine.kernel import OWN, LabKernel
from harness.errors import InputError
from harness.outcome import Outcome, RandomBytes, Run
from tests.examples import cell
from tools.bench.kernels import SideBySide, differences, kernel_of, report, sentence, summary, varied


def _run(wall: float = 1.0, status: str = "completed", **overrides: object) -> Run:
    content = {"captures": {"left": "a", "right": "b"}, "artefacts": {"growth.csv": "c"}, "cell": cell(), **overrides}
    return Run(
        repetition=0, outcome=Outcome.model_validate({"status": status}), started_at="", wall=wall, **content
    )  # fmt: skip


def test_a_kernel_is_a_way_of_entering_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "linux"
    file.touch()
    assert kernel_of("host") == LabKernel(entry="host")
    assert kernel_of(str(file)) == LabKernel(file)
    assert kernel_of(f"{file}@inproc") == LabKernel(file, "inproc")
    assert kernel_of(f"{file}@inproc").settings == {"LAB_ENTRY": "inproc"}
    assert LabKernel().settings == {}
    with pytest.raises(InputError, match="no way to enter programs is called 'inprok'"):
        kernel_of(f"{file}@inprok")
    with pytest.raises(InputError, match="there is no lab kernel guest"):
        kernel_of("guest")


def test_the_entry_is_asked_for_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_ENTRY", raising=False)
    assert lab_kernel() == OWN
    monkeypatch.setenv("HARNESS_ENTRY", "inproc")
    assert lab_kernel() == LabKernel(entry="inproc")


def test_the_cheapest_cells_are_taken_that_have_something_new() -> None:
    dear = _run(3.0)
    run = _run(2.0, cell=cell().model_copy(update={"parameters": {"server.congestion_control": "reno"}}))
    again = _run(4.0, cell=run.cell)
    assert varied([dear, again, run]) == [run]
    stored_run = _run(5.0, cell=cell().model_copy(update={"parameters": {"server.congestion_control": "bbr"}}))
    assert varied([dear, stored_run, again, run]) == [run, stored_run]


def test_all_that_was_recorded_is_compared() -> None:
    run = _run()
    assert differences(run, _run(9.0)) == ()
    assert differences(run, _run(captures={"left": "a", "right": "x"})) == ("right capture",)
    assert differences(run, _run(artefacts={"growth.csv": "x"})) == ("growth.csv",)
    assert differences(run, _run(artefacts={})) == ("growth.csv",)
    assert differences(run, _run(random={"client0": RandomBytes(bytes=1, digest="d")})) == ("random bytes of client0",)
    assert differences(run, _run(status="crashed"))[0] == "outcome: completed, crashed"


def test_ratios_are_old_by_new_and_medians() -> None:
    pairs = [
        SideBySide((_run(6.0), _run(3.0)), (4.0, 1.0), ()),
        SideBySide((_run(4.0), _run(4.0)), (4.0, 2.0), ("left capture",)),
        SideBySide((_run(9.0), _run(3.0)), (9.0, 3.0), ()),
    ]
    assert "6.00 : 3.00 s = 2.00, of the processor 4.00 : 1.00 s = 4.00, the same bytes" in sentence(pairs[0])
    assert sentence(pairs[1]).endswith("DIFFERS: left capture")
    assert summary(pairs) == (
        "2 of 3 give the same bytes; median ratios: 2.00 by the wall's clock, 3.00 of the processor"
    )
    content = report(pairs)
    assert (content["same"], content["ratios"]) == (2, [2.0, 3.0])
    assert [cell_entry["differs"] for cell_entry in content["cells"]] == [[], ["left capture"], []]
