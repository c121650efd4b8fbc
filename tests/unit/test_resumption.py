"""What tables say of a second connection that starts from what the first learnt."""

from __future__ import annotations

from typing import Any

import pytest

from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError, configure_endpoints
from harness.report.markdown import render_blocks
from harness.report.results import results_document, scenario_blocks
from harness.report.resumption import footnotes, seed_of
from harness.scenario.schema import Implementation, Scenario
from tests.bounds import PICOQUIC, results, scenario
from tests.examples import cell, implementation
from tests.rendering import printed

SENTENCE = "the second connection starts from what the first learnt (picoquic, bdp_seed: jump-start"


def again(**more: Any) -> Scenario:
    """A scenario with a repeat, in which nobody asks for a seed unless told."""
    plain = {"server.congestion_control": "bbr"}
    return scenario("satellite-seeded").model_copy(update={"parameters": plain, "vary": {}, **more})


def forgetful(**more: Any) -> Implementation:
    return implementation("forgetful", session=True, parameters={**PARAMETERS, **more})


PARAMETERS = {"congestion_control": {"server": {"flag": "--cc={value}"}}}


@pytest.mark.parametrize(
    ("repeating", "client", "server", "sentence"),
    [
        (again(), PICOQUIC, PICOQUIC, f"† {SENTENCE} by default)"),
        (scenario("satellite-seeded"), PICOQUIC, PICOQUIC, f"† {SENTENCE})"),
        (again(parameters={"server.bdp_seed": "off"}), PICOQUIC, PICOQUIC, ""),
        (again(), implementation("alpha"), PICOQUIC, ""),  # keeps no session
        (again(), PICOQUIC, forgetful(), ""),
        (again(), PICOQUIC, forgetful(bdp_seed={"default": "off"}), ""),
        (scenario("satellite-basic"), PICOQUIC, PICOQUIC, ""),  # is not repeated
    ],
)
def test_what_a_repeat_starts_from(
    repeating: Scenario, client: Implementation, server: Implementation, sentence: str
) -> None:
    cell_results = results(repeating, [4.8], client=client, server=server)[:1]
    assert footnotes(cell_results) == ([sentence] if sentence else [])


def test_every_format_says_so() -> None:
    cell_results = results(again(), [4.8], figures={"milestone_100MB": 6.0})
    forgot = results(again(), [9.8], figures={"milestone_100MB": 6.0}, server=forgetful())
    text = render_blocks(scenario_blocks([*cell_results, *forgot]))
    assert "| 6.00 | 4.80 † |" in text and "| 6.00 | 9.80 |" in text
    assert text.rstrip().endswith(f"† {SENTENCE} by default)")
    assert "†" not in render_blocks(scenario_blocks(forgot))
    document = results_document([*cell_results, *forgot])
    text = printed(document)
    assert "4.80 †" in text and "9.80 †" not in text
    assert f"† {SENTENCE} by default)" in text
    seeds = [cell["repeat_seed"] for cell in document.data["cells"]]
    assert seeds == [{"server": "picoquic", "value": "jump-start", "asked": False}, None]


def test_a_flow_s_own_parameter_counts() -> None:
    flow = again().flows[0].model_copy(update={"parameters": {"server.bdp_seed": "off"}})
    (result,) = results(again(flows=(flow,)), [4.8])
    assert seed_of(result.cell) is None


def asked(value: str, client: Implementation, **more: Any) -> Cell:
    repeating = again(parameters={"server.congestion_control": "bbr", "server.bdp_seed": value}, **more)
    return cell(repeating, client, PICOQUIC)


def test_a_seed_is_for_a_client_that_resumes() -> None:
    forgets = implementation("forgets", session=False)
    with pytest.raises(UnsupportedError, match="forgets keeps no session tickets") as caught:
        configure_endpoints(asked("jump-start", forgets), 0)
    assert (caught.value.role, caught.value.reason) == ("client", "session")
    assert configure_endpoints(asked("off", forgets), 0)
    assert configure_endpoints(asked("jump-start", PICOQUIC), 0)
    once = again().flows[0].model_copy(update={"repeat_after": None})
    assert configure_endpoints(asked("jump-start", forgets, flows=(once,), objectives=()), 0), (
        "nothing is to be resumed"
    )
