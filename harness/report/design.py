"""What studies are for each pair, before they run: factors, what is absent, and what a fraction cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.execution.matrix import Designed
from harness.formatting import counted
from harness.planning.design import PairDesign

#: Groups of interactions that are told in words; --json has all.
_MOST_GROUPS = 12


def lines(found: Sequence[Designed]) -> list[str]:
    """A paragraph for each pair; those that have no part in it share a line."""
    made = []
    for one in found:
        if not one.design.too_few:
            made += _paragraph(one)
    left_out = [f"{one.client}→{one.server}" for one in found if one.design.too_few]
    if left_out:
        made.append(f"without cells, since they honour too little: {', '.join(left_out)}")
    return made


def _paragraph(one: Designed) -> list[str]:
    design = one.design
    what = [label for label in design.labels if label] or [
        f"{name} [{', '.join(map(str, levels))}]" for name, levels in design.factors.items()
    ]
    study = one.scenario.study
    kind = f", {study.design}" if study is not None and study.factors else ""
    made = [
        f"study {one.scenario.name} {one.client}→{one.server}: {counted(len(design.points), 'cell')}{kind}: "
        f"{'; '.join(what)}"
    ]
    made += [f"  absent: {name}: {why}" for name, why in design.absent.items()]
    return made + [f"  {line}" for line in aliased(design)]


def aliased(design: PairDesign) -> list[str]:
    """The aliases of a fraction, a line each; empty where everything of two factors is told apart."""
    names, found = list(design.factors), design.aliases

    def word(pair: tuple[int, ...]) -> str:
        return " × ".join(names[n] for n in pair)

    made = [f"aliased: {names[n]} = {' = '.join(map(word, pairs))}" for n, pairs in found.of_main]
    made += [f"aliased: {' = '.join(map(word, group))}" for group in found.together[:_MOST_GROUPS]]
    if len(found.together) > _MOST_GROUPS:
        made.append(f"aliased: {len(found.together) - _MOST_GROUPS} more groups of interactions (--json has them)")
    return made


def report(found: Sequence[Designed]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "scenario": one.scenario.name,
            "client": one.client,
            "server": one.server,
            "cells": len(one.design.points),
            "factors": {name: list(levels) for name, levels in one.design.factors.items()},
            "profiles": [label for label in one.design.labels if label],
            "absent": dict(one.design.absent),
            "too_few": one.design.too_few,
            "aliases": _aliases(one.design),
        }
        for one in found
    ]


def _aliases(design: PairDesign) -> dict[str, Any]:
    names, found = list(design.factors), design.aliases
    return {
        "main": {names[n]: [[names[a], names[b]] for a, b in pairs] for n, pairs in found.of_main},
        "interactions": [[[names[a], names[b]] for a, b in group] for group in found.together],
    }
