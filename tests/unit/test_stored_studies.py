"""What the pages of studies say, held against the runs of results/reference."""

from __future__ import annotations

import csv
import io
import re
from functools import cache

from harness.cli.environment import REFERENCE, open_app
from harness.doe.effects import analyse_all, group_studies
from harness.doe.effects.failing_modes import failing_modes, without_failing_modes
from harness.doe.effects.samples import group_profiles
from harness.doe.effects.summary import residual_text
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_history import has_release
from studies.checklist.page import checklist
from studies.game_changers.overview import changes_game, profiles_table
from studies.game_changers.page import every_effect, game_changers, tallies, times_data
from studies.in_sequence.page import in_sequence
from studies.in_sequence_satellite.page import claim, satellite
from tests.examples import catalogue
from tools.reference.interop_page import interop_page
from tools.reference.readme import with_results


@cache
def stored(*names: str) -> tuple[CellResult, ...]:
    """The cells of these scenarios in the reference, releases aside. A name that ends in a slash is of a folder."""
    folders = tuple(name for name in names if name.endswith("/"))
    cell_results = open_app(REFERENCE).results.find(
        lambda cell: cell.scenario.name in names or cell.scenario.name.startswith(folders or ("\0",))
    )
    return tuple(result for result in cell_results if not has_release(result))


def test_one_claim_has_one_answer_on_every_page() -> None:
    names = ("satellite/medium", "satellite/large-lossy", "in-sequence/quic-medium", "in-sequence/quic-large-lossy")
    runs = stored(*names, "studies/reach-250-3-lossy")
    counts = "26 of 40 runs within 2 MB's objective"
    medium = "picoquic → picoquic: 10 of 10 runs within all 3 objectives; curl → picoquic: 0 of 2 runs"
    others = "ngtcp2 → picoquic and quiche → picoquic meet them too, beside the claim's pairs"
    for page in (satellite(runs), claim(runs)):
        assert f"that is not decided: picoquic → picoquic: {counts}; curl → picoquic: 0 of 6 runs" in page
        assert f"that is borne out: {medium}" in page
        assert others in page
    rows = [line for line in in_sequence(runs).splitlines() if "| only picoquic with picoquic meets" in line]
    assert [row.rpartition(" | ")[2] for row in rows] == ["borne out |", "not decided |"]
    assert medium in rows[0] and others in rows[0]
    (listed,) = (row for row in checklist(runs).splitlines() if "meets the objectives, and no other pair" in row)
    assert medium in listed and others in listed
    assert f"picoquic → picoquic: {counts}" in rows[1]
    reach = game_changers(runs).partition("What would it take?")[2]
    (row,) = (line for line in reach.splitlines() if line.startswith("| picoquic→picoquic |"))
    assert f"and the best, as it is, has {counts}." in row


def test_what_never_changes_the_game_over_a_satellite_may_do_so_elsewhere() -> None:
    opening = every_effect(
        stored("studies/levels-250-3", "studies/levels-near-250-3", "studies/fraction-near-250-3")
    ).partition("[figure]")[0]
    (never,) = (line for line in opening.splitlines() if "never change it there" in line)
    (elsewhere,) = (line for line in opening.splitlines() if line.startswith("* On paths of 20 ms these do: "))
    for name in ("client.max_ack_delay", "client.ack_delay_exponent"):
        assert name in never and f"`{name}` (on quic-go)" in elsewhere


def test_a_profile_meets_objectives_by_the_rule_of_all_pages() -> None:
    """Two runs that pass are no proof where packets are lost at random."""
    (lossy,) = (line for line in _profiles("250-3-lossy") if line.startswith("| picoquic |"))
    assert " ~ |" in lossy and "✓" not in lossy
    (certain,) = (line for line in _profiles("50-10") if line.startswith("| picoquic |"))
    assert "✓" in certain and "~" not in certain


def _profiles(path: str) -> list[str]:
    return profiles_table(group_profiles(stored(f"studies/profiles-{path}")))


def test_pages_count_the_same_pairs_of_a_satellite_case() -> None:
    """msquic's client refuses two of the cases: it is no pair that was held against their objectives."""
    runs = stored("satellite/large", "satellite/large-lossy", "satellite/medium")
    table = [line.split(" | ") for line in satellite(runs).splitlines() if " | virtual | " in line]
    counts = {row[0].removeprefix("| ").strip("`"): row[3] for row in table}
    assert counts == {"satellite/large": "25", "satellite/large-lossy": "21", "satellite/medium": "26"}
    results_page = with_results("<!-- findings --><!-- /findings --><!-- results --><!-- /results -->", runs, "")
    assert "1 of 25 pairs meets all objectives of `satellite/large` " in results_page
    assert "3 of 26 pairs meet all objectives of `satellite/medium` " in results_page
    assert "No pair is shown to meet all objectives of `satellite/large-lossy` (21); " in results_page


def test_failures_of_the_interop_page_are_as_many_below_as_above() -> None:
    scenarios = [catalogue().scenario(file) for file in catalogue().scenario_files()]
    page = interop_page(scenarios, [], stored("interop/"))
    counts = re.search(r"(\d+) of (\d+) failures look to be an implementation's, (\d+) our endpoints', and none", page)
    assert counts is not None
    for heading, count in (("or something that it does not have", counts[1]), ("our endpoints' doing", counts[3])):
        assert re.search(rf"{heading}\*\* \({count}(, and \d+ more that fails? in some runs only)?\)\.", page)
    assert int(counts[1]) + int(counts[3]) == int(counts[2])


def test_one_run_of_quiche_makes_no_game_changers() -> None:
    analyses = [
        analysis for analysis in analyse_all(stored("studies/fraction-50-10")) if analysis.sample.server == "quiche"
    ]
    by_time = {
        analysis.metric: {effect.factors[0]: effect for effect in analysis.main_effects} for analysis in analyses
    }
    early = by_time["milestone_2MB"]
    for name in ("client.max_ack_delay", "client.ack_delay_exponent"):
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
    analyses = analyse_all(stored("studies/levels-250-3-lossy"))
    assert {(analysis.chance, analysis.repetitions, analysis.is_decided) for analysis in analyses} == {(True, 2, False)}
    assert not any(changes_game(effect) for analysis in analyses for effect in analysis.main_effects)


def test_one_run_counts_where_nothing_is_random() -> None:
    analyses = analyse_all(stored("studies/levels-50-10"))
    assert {(analysis.chance, analysis.repetitions) for analysis in analyses} == {(False, 1)}
    by_factor = {tally.factor: tally for tally in tallies(analyses)}
    window = by_factor["client.connection_window"]
    assert (len(window.servers), window.changes) == (9, window.servers)
    assert window.largest_text == "25.2 s (2.03125 MB → 8.125 MB)"
    # picoquic's client raises a stream's credit by itself: with half a BDP set more than that came per round trip.
    assert "client.stream_window" not in by_factor
    assert all("picoquic's credit grows" in analysis.sample.refused["client.stream_window"] for analysis in analyses)


def test_what_any_change_does_to_a_server_is_no_factor_s() -> None:
    """Three settings of quiche that have nothing to do with each other took 0.65 s longer than the base, each alone."""
    analyses = analyse_all(stored("studies/levels-250-3"))
    (early,) = (
        analysis for analysis in analyses if (analysis.sample.server, analysis.metric) == ("quiche", "milestone_2MB")
    )
    effects = {effect.factors[0]: effect for effect in early.main_effects}
    for name in ("client.ack_delay_exponent", "client.max_ack_delay", "client.connection_window"):
        assert effects[name].ratio.median > 1.1
        assert effects[name].is_shared
        assert not changes_game(effects[name])
    assert changes_game(effects["server.initial_cwnd"])


def test_milestones_and_paths_of_one_server_count_once() -> None:
    page = game_changers(stored("studies/levels-50-10", "studies/fraction-250-3-lossy"))
    question = page.partition("**PICOQUIC can still do better")[2].partition("**Are they relevant")[0]
    assert "Yes, on half of the servers and more: `client.connection_window`." in question
    assert "| client.connection_window | 9 of 9: aioquic, msquic," in question
    assert "`client.stream_window` does not count: " in question
    assert "These studies decide nothing: `studies/fraction-250-3-lossy`." in question
    assert "they have 2 repetitions at most. The test needs 6." in question


def test_a_level_that_was_not_reached_is_no_level() -> None:
    analyses = analyse_all(stored("studies/ack-ratio-initial-rtt-50-10", "studies/levels-50-10"))
    by_pair = {
        (analysis.sample.scenario.name.partition("/")[2], analysis.sample.server): analysis.sample
        for analysis in analyses
    }
    # Behind quinn, which sends in bursts, ratios of 5, 10 and 25 were all seen at 9.6: one of them is left.
    quinn = by_pair["ack-ratio-initial-rtt-50-10", "quinn"]
    assert quinn.factors["client.ack_ratio"] == ("2 (seen 4.4)", 10)
    assert quinn.refused["client.ack_ratio 25"] == (
        "it was seen at 9.62 to 9.7, and 10 at 9.62 to 9.7: they are no two levels"
    )
    assert {"client.ack_ratio 5", "client.ack_ratio 25"} <= quinn.refused.keys()
    assert len(quinn.cells) == 2 * 3
    # The client acknowledges 103 packets of quiche at once when it is told two.
    assert by_pair["levels-50-10", "quiche"].factors["client.ack_ratio"] == ("2 (seen 103)", 5, 10, 25)
    # A level that was reached keeps its name, and so does one of which nothing is seen.
    assert by_pair["levels-50-10", "quinn"].factors["server.initial_rtt"] == ("100 ms", "250 ms", "600 ms")
    page = every_effect(stored("studies/ack-ratio-initial-rtt-50-10"))
    assert "| `studies/ack-ratio-initial-rtt-50-10` | picoquic→quinn | `client.ack_ratio`: 2 (seen 4.4), 10 |" in page


def test_a_factor_whose_levels_were_seen_alike_says_nothing() -> None:
    samples = {
        analysis.sample.server: analysis.sample for analysis in analyse_all(stored("studies/fraction-250-3-lossy"))
    }
    assert "client.ack_ratio" not in samples["quiche"].factors
    assert "they are no two levels" in samples["quiche"].refused["client.ack_ratio"]
    assert len(samples["quiche"].cells) == 16


def test_a_mode_that_fails_is_said_to_once_and_is_worth_nothing() -> None:
    runs = stored(
        "studies/reach-50-10", "studies/profiles-50-10", "studies/fraction-50-10", "studies/levels-50-10",
    )  # fmt: skip
    (mode,) = failing_modes(runs)
    assert (mode.server, mode.level, mode.metrics) == ("quiche", "bbr", ("milestone_2MB", "milestone_10MB"))
    assert mode.times[1][0] > 3 * mode.other_mode_times[1][1]
    analyses = analyse_all(runs)
    assert all(analysis.sample.refused["server.congestion_control bbr"] for analysis in analyses if "quiche" in analysis.sample.name
               and analysis.sample.scenario.name == "studies/levels-50-10")  # fmt: skip
    by_factor = {tally.factor: tally for tally in tallies(analyses)}
    assert "quiche" not in by_factor["server.initial_rtt"].changes
    assert by_factor["server.initial_rtt"].largest_at.startswith("100 MB, picoquic→tquic")
    page = game_changers(runs)
    assert page.count("That is a failure of this mode") == 1
    assert page.index("**quiche with bbr**, everything else its own, takes 24 s and 32.1 s for 2 MB and 10 MB") < (
        page.index("## What N. Kuhn's slides ask")
    )
    assert (
        "With `server.initial_rtt` 600 ms it takes 6.5 to 9.23 s of 10 MB (8 runs, `studies/fraction-50-10`)." in page
    )
    assert "| quiche | 6.21 / 8.17 / 24.05 ✕ | 26.56 / 34.61 / 51.51 ✕ ⊗ |" in page
    # On a path of 20 ms the mode does not fail, and counts.
    (near,) = (study for study in without_failing_modes(group_studies(stored("studies/levels-near-50-10")), [mode])
               if study.server == "quiche")  # fmt: skip
    assert "bbr" in near.factors["server.congestion_control"]
    # Without the runs that set nothing but the mode nobody knows, and the mode's runs count.
    assert not failing_modes(stored("studies/levels-50-10"))


def test_a_base_that_is_not_a_stack_s_own_is_named_in_the_table_s_head() -> None:
    page = game_changers(stored("studies/levels-50-10", "studies/reach-50-10", "studies/profiles-50-10"))
    levels = page.partition("(`studies/levels-50-10`)")[2]
    head = next(line for line in levels.splitlines() if line.startswith("| worth"))
    assert "| `server.initial_rtt` from 100 ms, own of aioquic alone |" in head
    assert "| `server.congestion_control` from cubic, not of aioquic, picoquic, tquic |" in head
    assert "| `server.initial_cwnd` from 10, not of tquic |" in head
    assert "| `client.max_ack_delay` from 5 ms, nobody's own |" in head
    own = page.partition("**50/10 Mbit/s** (`studies/reach-50-10`)")[2]
    head, _, *rows = (line for line in own.splitlines() if line.startswith("|"))
    assert " from " not in head
    # Beside their own 333 ms a shorter initial RTT is worth 100 % and more on tquic, whose own is BBR, and on nobody else.
    tquic = next(row for row in rows if row.startswith("| tquic |"))
    assert "| **14.2** / **20.3** / **29.6** |" in tquic
    columns = [row.split(" | ")[3] for row in rows[:8] if not row.startswith("| tquic |")]
    assert not any("**" in column for column in columns)
    times = list(csv.DictReader(io.StringIO(times_data(stored("studies/levels-50-10")))))
    bases = {row["server"]: row["foreign_base"].split("; ") for row in times if row["client"] == "picoquic"}
    assert "server.congestion_control cubic (its own: bbr)" in bases["tquic"]
    assert not any(base.startswith("server.congestion_control") for base in bases["quiche"])
