"""Designs of studies per pair, before they run: factors, absent factors, and aliases of fractional designs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.execution.matrix import StudyDesign
from harness.formatting import format_count
from harness.planning.design import PairDesign

#: Groups of aliased interactions that texts list; --json has all.
_MOST_GROUPS = 12


def lines(pair_studies: Sequence[StudyDesign]) -> list[str]:
    """A paragraph per pair. Pairs that honour too few parameters share a line."""
    texts = []
    for pair_study in pair_studies:
        if not pair_study.design.too_few:
            texts += _paragraph(pair_study)
    excluded = [f"{pair_study.client}→{pair_study.server}" for pair_study in pair_studies if pair_study.design.too_few]
    if excluded:
        texts.append(f"without cells, since they honour too little: {', '.join(excluded)}")
    return texts


def _paragraph(pair_study: StudyDesign) -> list[str]:
    design = pair_study.design
    settings = [label for label in design.labels if label] or [
        f"{name} [{', '.join(map(str, levels))}]" for name, levels in design.factors.items()
    ]
    study = pair_study.scenario.study
    kind = f", {study.design}" if study is not None and study.factors else ""
    paragraph = [
        f"study {pair_study.scenario.name} {pair_study.client}→{pair_study.server}: "
        f"{format_count(len(design.points), 'cell')}{kind}: {'; '.join(settings)}"
    ]
    paragraph += [f"  absent: {name}: {why}" for name, why in design.unsupported.items()]
    return paragraph + [f"  {line}" for line in alias_lines(design)]


def alias_lines(design: PairDesign) -> list[str]:
    """The aliases of a fractional design, a line each. Empty where no effect of up to two factors is aliased."""
    names, aliases = list(design.factors), design.aliases

    def word(pair: tuple[int, ...]) -> str:
        return " × ".join(names[n] for n in pair)

    texts = [f"aliased: {names[n]} = {' = '.join(map(word, pairs))}" for n, pairs in aliases.of_main]
    texts += [f"aliased: {' = '.join(map(word, group))}" for group in aliases.together[:_MOST_GROUPS]]
    if len(aliases.together) > _MOST_GROUPS:
        texts.append(f"aliased: {len(aliases.together) - _MOST_GROUPS} more groups of interactions (--json has them)")
    return texts


def report(pair_studies: Sequence[StudyDesign]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "scenario": pair_study.scenario.name,
            "client": pair_study.client,
            "server": pair_study.server,
            "cells": len(pair_study.design.points),
            "factors": {name: list(levels) for name, levels in pair_study.design.factors.items()},
            "profiles": [label for label in pair_study.design.labels if label],
            "absent": dict(pair_study.design.unsupported),
            "too_few": pair_study.design.too_few,
            "aliases": _aliases(pair_study.design),
        }
        for pair_study in pair_studies
    ]


def _aliases(design: PairDesign) -> dict[str, Any]:
    names, aliases = list(design.factors), design.aliases
    return {
        "main": {names[n]: [[names[a], names[b]] for a, b in pairs] for n, pairs in aliases.of_main},
        "interactions": [[[names[a], names[b]] for a, b in group] for group in aliases.together],
    }
