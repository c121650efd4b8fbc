"""Which causes a cell has removed, what that saved, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doe.interventions import (
    CAUSES,
    Explained,
    Plan,
    differences,
    explain,
    explained,
    plan_removals,
    removed_cell,
    runs_of,
    stored_explanations,
    trial_keys,
)
from harness.evaluation.cell_result import CellResult
from harness.outcome import STATES, Attributed, Attribution, Cell, State, StateShare
from harness.planning.sweep import is_dimension
from harness.report.document import Document, render_json
from harness.report.markdown import render_blocks
from harness.report.site import build
from harness.report.why import summary_text, why_blocks, why_document, with_explanations
from harness.scenario.schema import Implementation
from harness.store.identity import with_key
from harness.store.results import Store
from tests.engine_pairs import result, run
from tests.examples import cell, implementation, link, path, scenario
from tests.packed_pages import cells_of
from tests.plot_runs import page_cache

CLIENT: Mapping[str, object] = {
    "parameters": {
        "connection_window": {"client": {"flag": "--window={bytes}"}},
        "stream_window": {"client": {"values": ["1 MiB", "4 MiB"], "flag": "--stream={bytes}"}},
        "ack_ratio": {"client": {"default": 2}},
    }
}
SERVER: Mapping[str, object] = {
    "parameters": {
        "initial_cwnd": {"server": {"flag": "--cwnd={value}", "default": 10}},
        "pacing": {"server": {"default": "on"}},
    }
}


def cell_of(server: Mapping[str, object] = SERVER, name: str = "beta", **of: object) -> Cell:
    definition = scenario(objectives=[{"metric": "completion", "at_most": "5 s"}], **of)
    players: list[Implementation] = [implementation("alpha", **CLIENT), implementation(name, **server)]
    return cell(definition, *players, engine="virtual")


def completions(of: Cell, *seconds: float, **parts: float) -> CellResult:
    """A cell whose runs completed after so many seconds, with so many of them in each state, the rest at line rate."""
    pairs = []
    for number, completion in enumerate(seconds):
        shares = {**parts, "line_rate": completion - sum(parts.values())}
        ordered: list[State] = [state for state in STATES if state in shares]
        attribution = Attribution(
            flow=0,
            transfer="first",
            size=10_000_000,
            seconds=completion,
            parts=tuple(StateShare(state=state, seconds=shares[state]) for state in ordered),
        )
        stored, measured = run(completion=completion)
        assert measured is not None
        attributed = Attributed(version=1, transfers=(attribution,))
        pairs.append(
            (
                stored.model_copy(update={"repetition": number}),
                measured.model_copy(update={"attributed": attributed}),
            )
        )
    return result("virtual", *pairs, of=of)


def planned(of: Cell, **parts: float) -> Plan:
    plan = plan_removals(completions(of, 20.0, **parts))
    assert plan is not None
    return plan


def test_every_setting_of_a_cause_is_one_of_a_sweep_and_every_state_has_one_cause() -> None:
    assert all(is_dimension(name) for cause in CAUSES.values() for name in cause.settings)
    states = [state for cause in CAUSES.values() for state in cause.states]
    assert len(states) == len(set(states)) and set(states) <= set(STATES)


def test_a_cell_gets_what_removes_its_parts_the_largest_first() -> None:
    plan = planned(cell_of(), slow_start=3.0, flow_control=4.0, recovery=2.0, window_limited=0.5)
    assert [(removal.title, removal.attributed) for removal in plan.removals] == [
        ("flow-control windows", 4.0),
        ("initial window", 3.0),
        ("losses", 2.5),
    ]
    windows, initial, losses = (dict(removal.settings) for removal in plan.removals)
    # Of few known sizes it is the largest. The harness gives the connection more than the file already.
    assert windows == {"client.stream_window": "4 MiB"}
    assert plan.removals[0].notes == ("alpha has connection_window 16 MiB already",)
    # 50 Mbit/s for 650 ms, in packets of 1200 B.
    assert initial == {"server.initial_cwnd": "3386"}
    assert losses == {"path.down.queue": "4 BDP"}
    assert plan.remainders == ()
    assert dict(plan.trials[-1].settings) == windows | initial | losses and plan.trials[-1].attributed == 9.5


def test_parts_below_a_hundredth_of_the_time_get_nothing() -> None:
    assert planned(cell_of(), slow_start=0.19).removals == ()
    assert plan_removals(result("virtual", run(completion=1.0))) is None


def test_random_loss_goes_with_the_queue_and_neither_where_there_is_none() -> None:
    lossy = cell_of(path=path(forward=link(loss="1 %")))
    assert dict(planned(lossy, recovery=2.0).removals[0].settings) == {
        "path.down.loss": "0 %",
        "path.down.queue": "4 BDP",
    }
    deep = planned(cell_of(path=path(forward=link(queue="5 BDP"))), recovery=2.0)
    assert deep.removals == () and deep.remainders[0].why == (
        "the path loses nothing at random, and its queue has 4 BDP or more"
    )


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("buffer_limited", "beta has no setting for the buffer that it sends from"),
        ("sender_idle", "beta cannot set pacing as a server; it is on"),
        ("window_limited", "no packet was lost: the congestion control alone decides how its window grows"),
        ("spurious_recovery", "the path keeps packets in order"),
        ("shared", "the other flows belong to the scenario"),
        ("unexplained", "no rule names its cause"),
    ],
)
def test_what_cannot_be_removed_is_named_with_the_reason(state: State, why: str) -> None:
    plan = planned(cell_of(), **{state: 3.0})
    assert plan.removals == ()
    assert [(item.state, item.seconds, item.why) for item in plan.remainders] == [(state, 3.0, why)]


def test_a_stack_that_does_not_honour_the_initial_window_refuses() -> None:
    (part,) = planned(cell_of({"parameters": {"initial_cwnd": {"server": {"default": 32}}}}), slow_start=3.0).remainders
    assert part.why == "beta cannot set initial_cwnd as a server; it is 32"


def test_the_largest_initial_window_that_a_stack_takes() -> None:
    server = {"parameters": {"initial_cwnd": {"server": {"flag": "--cwnd={value}", "maximum": 1024}}}}
    assert dict(planned(cell_of(server), slow_start=3.0).removals[0].settings) == {"server.initial_cwnd": "1024"}


def test_a_return_path_as_fast_as_the_forward_path_and_what_is_so_already() -> None:
    (removal,) = planned(cell_of(), acknowledgements=3.0).removals
    assert dict(removal.settings) == {"path.up.rate": "50 Mbit/s"}
    assert removal.notes == ("alpha has ack_ratio 2 already",)


def test_the_buffer_of_nginx_is_its_stream_window() -> None:
    server = {"parameters": {"stream_window": {"server": {"flag": "--stream={bytes}", "default": "64 KiB"}}}}
    (removal,) = planned(cell_of(server, name="nginx"), buffer_limited=3.0).removals
    assert dict(removal.settings) == {"server.stream_window": "16 MiB"}


def test_an_outage_is_the_scenarios_own_and_other_probe_timeouts_are_losses() -> None:
    dark = cell_of(path=path(blackhole={"after": "1 s", "lasts": "2 s"}))
    plan = planned(dark, probe_timeouts=3.0)
    assert [item.why for item in plan.remainders] == ["the outage belongs to the scenario"]
    assert planned(cell_of(), probe_timeouts=2.0, recovery=1.0).removals[0].attributed == 3.0


def test_a_removed_cell_differs_in_the_setting_alone() -> None:
    base = cell_of()
    other = with_key(removed_cell(base, {"server.initial_cwnd": "400", "path.down.queue": "4 BDP"}))
    assert other.parameters == {"server.initial_cwnd": 400, "path.down.queue": "4 BDP"}
    assert str(other.scenario.path.forward.queue.capacity) == "4 BDP" and other.key != base.key
    assert other.scenario.flows == base.scenario.flows and other.seed == base.seed


def test_chance_takes_six_runs_and_else_one_is_exact() -> None:
    assert runs_of(cell_of()) == 1
    assert runs_of(cell_of(path=path(forward=link(loss="1 %")))) == 6


# --- what came of it


def driven(base: CellResult, *seconds: tuple[float, ...]) -> Explained:
    """The experiment on a cell whose trials took so many seconds."""
    generator = explain(base.cell, with_key)
    assert next(generator) == [base.cell]
    trials = generator.send([base])
    assert len(trials) == len(seconds) and len({trial.key for trial in trials}) == len(trials)
    try:
        generator.send([completions(trial, *of) for trial, of in zip(trials, seconds, strict=True)])
    except StopIteration as stopped:
        assert isinstance(stopped.value, Explained)
        return stopped.value
    raise AssertionError("the experiment went on")


BASE = completions(cell_of(), 20.0, slow_start=3.0, flow_control=4.0, sender_idle=1.0)


def test_interaction_is_what_all_save_beyond_the_sum_of_each() -> None:
    entry = driven(BASE, (17.0,), (18.0,), (12.0,))
    assert [effect.saved for effect in entry.effects] == [3.0, 2.0]
    assert entry.together is not None and entry.together.saved == 8.0 and entry.interaction == 3.0
    assert [effect.difference for effect in entry.effects] == differences([entry]) == [-1.0, -1.0]
    assert [item.state for item in entry.remainders] == ["sender_idle"]


def test_pairs_of_runs_with_equal_seeds_count() -> None:
    base = completions(cell_of(), 20.0, 24.0, 22.0, slow_start=3.0)
    entry = driven(base, (17.0, 23.0, 18.0))
    assert (entry.effects[0].saved, entry.effects[0].seconds, entry.effects[0].runs) == (3.0, 18.0, 3)
    assert entry.together is None and entry.interaction is None


def test_a_trial_that_fails_has_no_figure_and_costs_the_interaction_alone() -> None:
    plan = plan_removals(BASE)
    assert plan is not None
    cells = [with_key(removed_cell(BASE.cell, removal.settings)) for removal in plan.trials]
    late = result("virtual", run("timed_out", received=1), of=cells[1])
    entry = explained(BASE, plan, [completions(cells[0], 17.0), late, completions(cells[2], 12.0)])
    assert [effect.saved for effect in entry.effects] == [3.0, None] and entry.interaction is None
    assert differences([entry]) == [-1.0] and "| timed out | – |" in render_blocks(why_blocks([entry]))


def test_a_cell_without_attribution_has_no_experiment() -> None:
    generator = explain(BASE.cell, with_key)
    next(generator)
    with pytest.raises(StopIteration) as stopped:
        generator.send([result("virtual", run(completion=1.0), of=BASE.cell)])
    assert stopped.value.value is None


def trials_of(base: CellResult, *seconds: float) -> list[CellResult]:
    plan = plan_removals(base)
    assert plan is not None
    cells = [with_key(removed_cell(base.cell, removal.settings)) for removal in plan.trials]
    return [completions(of, completion) for of, completion in zip(cells, seconds, strict=True)]


def test_a_stored_experiment_needs_all_its_trials_with_the_same_bits() -> None:
    trials = trials_of(BASE, 17.0, 18.0, 12.0)
    entries = stored_explanations([BASE], [BASE, *trials])
    assert entries[BASE.cell.key].interaction == 3.0
    assert stored_explanations([BASE], [BASE, *trials[:2]]) == {}
    other = trials[2].cell.model_copy(update={"engine_code": "another"})
    assert stored_explanations([BASE], [BASE, *trials[:2], replace(trials[2], cell=other)]) == {}
    stuck = completions(cell_of(), 20.0, sender_idle=3.0)
    assert [item.state for item in stored_explanations([stuck], [])[stuck.cell.key].remainders] == ["sender_idle"]
    assert trial_keys([BASE, *trials]) == {trial.cell.key for trial in trials}
    # The base was made again by another engine: pages leave out its former trials all the same.
    remade = replace(BASE, cell=BASE.cell.model_copy(update={"engine_code": "another"}))
    assert trial_keys([remade, *trials]) == {trial.cell.key for trial in trials}


def test_a_report_has_the_experiments_on_cells_that_miss_and_names_the_others() -> None:
    trials = trials_of(BASE, 17.0, 18.0, 12.0)
    plain = Document({"schema": 2}, [])
    shown = with_explanations(plain, [BASE, *trials], [BASE, *trials])
    assert "interaction: together +3.00 s" in render_blocks(shown.blocks)
    assert [entry["key"] for entry in render_json(shown)["why"]] == [BASE.cell.key]
    absent = with_explanations(plain, [BASE], [BASE])
    assert "no experiment is stored of alpha→beta: 'harness why' runs it" in render_blocks(absent.blocks)
    assert render_json(absent)["why"] == []


def test_the_page_of_an_experiment() -> None:
    entry = driven(BASE, (17.0,), (18.0,), (12.0,))
    assert render_blocks(why_blocks([entry])).splitlines() == [
        "**test/case alpha→beta**: 20.00 s",
        "",
        "| removed | by | attributed, s | measured, s | then it takes, s |",
        "| --- | --- | ---: | ---: | ---: |",
        "| flow-control windows (flow control) | `client.stream_window=4 MiB` | 4.00 | 3.00 | 17.00 |",
        "| initial window (slow start) | `server.initial_cwnd=3386` | 3.00 | 2.00 | 18.00 |",
        "| all together |  | 7.00 | 8.00 | 12.00 |",
        "",
        "- interaction: together +3.00 s beyond the sum of each alone",
        "- flow-control windows, not removed wholly: alpha has connection_window 16 MiB already",
        "- could not be removed: sender idle 1.00 s: beta cannot set pacing as a server; it is on",
        "",
        "Measured less attributed seconds, over 2 removals in 1 cell: median -1.00 s; median without its sign 1.00 s; "
        "from -1.00 to -1.00 s.",
    ]
    assert summary_text([entry]).startswith("Measured less attributed seconds, over 2 removals")


def test_json_has_the_same() -> None:
    (data,) = render_json(why_document([driven(BASE, (17.0,), (18.0,), (12.0,))]))["cells"]
    assert (data["seconds"], data["interaction"], data["together"]["measured"]) == (20.0, 3.0, 8.0)
    assert [(item["cause"], item["attributed"], item["measured"], item["runs"]) for item in data["removed"]] == [
        ("flow-control windows", 4.0, 3.0, 1),
        ("initial window", 3.0, 2.0, 1),
    ]
    assert data["not_removed"] == [
        {"state": "sender_idle", "seconds": 1.0, "why": "beta cannot set pacing as a server; it is on"}
    ]


def test_the_site_shows_the_experiment_where_it_was_run(tmp_path: Path) -> None:
    trials = trials_of(BASE, 17.0, 18.0, 12.0)
    folder, store = tmp_path / "site", Store(tmp_path / "store")
    build.render_site(folder, [BASE, *trials], store, lambda wanted: [], page_cache())
    (script,) = (folder / "cells").glob("*.js")
    pages = cells_of(script)
    shown = {key for key, content in pages.items() if "By experiment" in content["page"]}
    assert shown == {BASE.cell.key}
    assert "interaction: together +3.00 s" in pages[BASE.cell.key]["page"]
