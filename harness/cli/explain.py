"""`harness explain`."""

from __future__ import annotations

from harness.cli.consoles import print_text
from harness.cli.environment import open_app
from harness.cli.options import EngineChoice, OnEngine, Scenarios


def explain(scenarios: Scenarios, engine: OnEngine = EngineChoice.COMPOSE) -> None:
    """Print what a scenario's path amounts to, and its path program under an engine."""
    from harness.report.explain import explain as text

    for scenario in open_app().catalogue.find_scenarios(scenarios):
        print_text(text(scenario, engine.value))
