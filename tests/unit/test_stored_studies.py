"""What the pages of studies say, held against the runs of results/reference."""

from __future__ import annotations

from functools import cache

from harness.cli.environment import REFERENCE, open_app
from harness.doe.effects import analyse_all
from harness.doe.effects.summary import residual_text
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_history import has_release
from studies.game_changers.overview import changes_game
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


def test_one_run_of_quiche_makes_no_game_changers() -> None:
    analyses = [one for one in analyse_all(stored("studies/fraction-50-10")) if one.sample.server == "quiche"]
    by_time = {one.metric: {effect.factors[0]: effect for effect in one.main_effects} for one in analyses}
    early = by_time["milestone_2MB"]
    for name in ("client.max_ack_delay", "client.ack_delay_exponent", "client.stream_window"):
        assert all(not changes_game(effects[name]) for effects in by_time.values()), name
        assert early[name].rests_on_one_run, name
    # What looks like the ACK ratio is as probably three other factors together, all of them worth more.
    triple = {"server.congestion_control", "server.initial_cwnd", "server.initial_rtt"}
    assert [set(names) for names in early["client.ack_ratio"].aliased] == [triple]
    assert not changes_game(early["client.ack_ratio"])
    # The run itself is shown.
    assert "2 MB: an outlier: repetition 1 with congestion_control bbr" in residual_text(analyses[0])
    assert "took 107.6 s" in residual_text(analyses[0])


def test_two_seeds_decide_nothing_where_packets_are_lost_at_random() -> None:
    analyses = analyse_all(stored("studies/fraction-250-3-lossy"))
    assert {(one.chance, one.repetitions, one.is_decided) for one in analyses} == {(True, 2, False)}
    assert not any(changes_game(effect) for one in analyses for effect in one.main_effects)
