from __future__ import annotations

from dataclasses import replace

import pytest

from harness.capture.divergence import TrailDifference
from harness.engine.images.contents import Contents
from harness.errors import InputError
from harness.outcome import MeasuredRun, Measurement, Outcome, Run
from harness.report.reruns import rerun_sentence, reruns_document
from harness.repro.verify import draw_sample, select_runs
from harness.store.identity import Equivalence, Ledger, with_key
from harness.store.run_comparison import RunComparison
from harness.store.run_comparison import compare_with_reference as compared_runs
from tests.examples import cell


class _Images:
    """Of a store only what was in its images."""

    def __init__(self, *known: Contents) -> None:
        self._known = {contents.digest: contents for contents in known}

    def contents(self, digest: str) -> Contents | None:
        return self._known.get(digest)


def _run(captures: str = "same", trail: str = "2:aabb", status: str = "completed", **more: object) -> Run:
    return Run(
        cell=cell(),
        repetition=0,
        outcome=Outcome.model_validate({"status": status}),
        started_at="",
        captures={"left": captures, "right": captures},
        trail=trail,
        **more,
    )


def _measured(seconds: float) -> MeasuredRun:
    return MeasuredRun(version=1, measurements=(Measurement(name="completion", value=seconds, unit="s"),))


_NOTHING = (_Images(), _Images())


def compared(
    run: Run, measured: MeasuredRun | None, again: Run, anew: MeasuredRun | None,
    images: tuple[_Images, _Images] = _NOTHING, ledger: Ledger | None = None,
) -> RunComparison:  # fmt: skip
    """Two runs, of stores that know images alone; without a ledger every digest is another thing."""
    return compared_runs(run, measured, again, anew, images, ledger or Ledger())  # type: ignore[arg-type]


def sentence(comparison: RunComparison, ledger: Ledger | None = None) -> str:
    """What is said of it."""
    return rerun_sentence(comparison, ledger or Ledger())


def test_equal_captures_are_identical_whatever_else_is_other() -> None:
    again = _run(contents={"sim": "d2"})
    comparison = compared(_run(contents={"sim": "d1"}), _measured(2.0), again, _measured(2.0))
    assert (comparison.answer, comparison.first_difference, comparison.other_images) == ("identical", None, ("sim",))
    assert sentence(comparison).endswith("identical; other files in the image of sim")


def test_other_captures_with_the_same_figures() -> None:
    comparison = compared(_run(), _measured(2.0), _run("other", "2:aacc"), _measured(2.0))
    assert (comparison.answer, comparison.first_difference) == ("same figures", TrailDifference(2, 2))


def test_what_differs_is_named_with_its_place_and_its_bits() -> None:
    contents = Contents("d1", {"openssl": "3.5.1"}, {"/usr/local/bin/server": "aa"})
    other_contents = Contents("d2", {"openssl": "3.5.2"}, {"/usr/local/bin/server": "bb"})
    again = _run("other", "2:ccbb", contents={"server0": "d2"}, lab_kernel="k2", cpu="host")
    again = again.model_copy(update={"cell": with_key(again.cell.model_copy(update={"engine_code": "new"}))})
    comparison = compared(
        _run(contents={"server0": "d1"}, lab_kernel="k1", cpu="lab"),
        _measured(2.0),
        again,
        _measured(2.5),
        (_Images(contents), _Images(other_contents)),
    )
    assert comparison.answer == "differs"
    text = sentence(comparison)
    for words in (
        "differs",
        "at packet 1 of",
        "completion 2 there, 2.5 here (s)",
        "other engine's code",
        "other lab kernel",
        "cpu host instead of lab",
        "openssl in the image of server0: 3.5.1, here 3.5.2",
        "/usr/local/bin/server in the image of server0",
    ):
        assert words in text
    entry = reruns_document([comparison]).data["verified"][0]
    assert entry["packets"] == {"first": 1, "last": 1}
    assert entry["figures"] == [{"metric": "completion", "unit": "s", "reference": 2.0, "here": 2.5}]


def test_what_changed_alike_in_several_images_is_said_once() -> None:
    was = [Contents(f"d{name}", {"libkrb5-3": "u1"}, {}) for name in ("sim", "server0")]
    now = [Contents(f"e{name}", {"libkrb5-3": "u2"}, {}) for name in ("sim", "server0")]
    stored_contents, rerun_contents = ({name: f"{word}{name}" for name in ("sim", "server0")} for word in "de")
    comparison = compared(
        _run(contents=stored_contents), _measured(2.0), _run(contents=rerun_contents), _measured(2.0),
        (_Images(*was), _Images(*now)),
    )  # fmt: skip
    assert sentence(comparison).endswith("identical; libkrb5-3 in the images of sim, server0: u1, here u2")


def test_digests_by_different_rules_say_nothing_of_each_other() -> None:
    # The loader's cache once counted as a program.
    was = Contents("d1", {"openssl": "3.5.1"}, {"/etc/ld.so.cache": "aa"})
    now = Contents("2-d1", {"openssl": "3.5.1"}, {})
    images = _Images(was), _Images(now)
    again = _run(contents={"sim": "2-d1"})
    comparison = compared(_run(contents={"sim": "d1"}), _measured(2.0), again, _measured(2.0), images)
    assert (comparison.changed, comparison.other_images) == ((), ())
    images = _Images(was), _Images(replace(now, packages={"openssl": "3.5.2"}))
    comparison = compared(_run(contents={"sim": "d1"}), _measured(2.0), again, _measured(2.0), images)
    assert [change.name for change in comparison.changed] == ["openssl"]


def test_an_entry_of_the_ledger_is_named_where_a_run_that_rests_on_it_differs() -> None:
    stored = _run()
    entry = Equivalence.model_validate(
        {
            "kind": "image", "name": "alpha", "digest": "digest-of-alpha-2", "same_as": "digest-of-alpha",
            "proof": {"cells": 9, "commit": "c", "date": "2026-11-25"},
        }
    )  # fmt: skip
    ledger = Ledger().with_entry(entry)
    image = stored.cell.client_image.model_copy(update={"identity": "digest-of-alpha-2"})
    today = with_key(stored.cell.model_copy(update={"client_image": image}), ledger)
    comparison = compared(
        stored, _measured(2.0), _run("other").model_copy(update={"cell": today}), _measured(2.5), ledger=ledger
    )
    assert comparison.equivalences == (entry,)
    assert "the ledger holds it for the same by image alpha digest-of-al = digest-of-al" in sentence(comparison, ledger)
    assert "ledger" not in sentence(compared(stored, _measured(2.0), _run("other"), _measured(2.5)))


def test_whose_processor_it_was_is_said_where_endpoints_saw_it() -> None:
    there, here = ({"cpu": f"AMD EPYC (family {family}, model 1)"} for family in (26, 25))
    sentences = [
        sentence(compared(_run(host=there, cpu=cpu), None, _run("other", host=here, cpu=cpu), None))
        for cpu in ("host", "lab")
    ]
    assert "on AMD EPYC (family 26, model 1) there, on AMD EPYC (family 25, model 1) here" in sentences[0]
    assert "AMD" not in sentences[1]


def test_a_reference_without_figures_tells_by_its_captures_alone() -> None:
    comparison = compared(_run(), MeasuredRun(version=1), _run("other"), _measured(2.0))
    assert (comparison.answer, comparison.figures) == ("differs", ())


def test_a_run_that_ended_otherwise_differs() -> None:
    comparison = compared(_run(), None, _run("other", status="crashed"), None)
    assert comparison.answer == "differs"
    assert "completed there, crashed here" in sentence(comparison)


def test_a_sample_is_of_cells_and_the_same_each_time() -> None:
    runs = [
        Run(cell=cell(seed=seed), repetition=number, outcome=Outcome(status="completed"), started_at="")
        for seed in range(1, 8)
        for number in range(2)
    ]
    sample = draw_sample(runs, 3, seed=1)
    assert sample == draw_sample(runs, 3, seed=1) != draw_sample(runs, 3, seed=2)
    assert len({run.cell.key for run in sample}) == 3
    assert {run.repetition for run in sample} == {0}
    assert len(draw_sample(runs, 99, seed=1)) == 7
    assert select_runs(runs, []) == runs
    key = runs[0].cell.key
    assert select_runs(runs, [key]) == runs[:2]
    assert select_runs(runs, [f"{key}/1"]) == [runs[1]]
    with pytest.raises(InputError, match="is called"):
        select_runs(runs, ["0123"])
