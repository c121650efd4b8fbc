"""Twelve faults as `make chaos` does them: most in virtual time, some on containers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.campaign import Chaos, StolenError
from tests.chaos.kinds import KINDS
from tests.chaos.schedule import schedule
from tests.lab.conftest import Harness

pytestmark = pytest.mark.alone

#: One of so many is in real time: two of twelve, since each takes some fifteen seconds.
FAULTS, SEED, SHARE = 12, 1, 6


@pytest.fixture
def chaos(warm: Harness, tmp_path: Path) -> Iterator[Chaos]:
    campaign = Chaos(tmp_path / "chaos")
    yield campaign
    campaign.clear(all_of_it=False)


def test_twelve_faults_of_the_ground_stay_the_ground_s(chaos: Chaos) -> None:
    planned = schedule([kind for kind in KINDS if kind.possible()], FAULTS, SEED, SHARE)
    try:
        chaos.prepare(sorted({fault.kind.engine for fault in planned}, reverse=True), print)
    except StolenError as error:
        pytest.skip(str(error))
    fault_reports = chaos.run_faults(planned, len(os.sched_getaffinity(0)), lambda fault_report: None)
    assert len(fault_reports) == FAULTS
    assert {
        fault_report.fault.name: fault_report.trial.problems
        for fault_report in fault_reports
        if not fault_report.trial.is_sound
    } == {}
