"""Careful Resume in quinn's server: it jumps, it retreats, it stays, as its RFC says."""

from __future__ import annotations

import json

import pytest

from studies.remembered.claims import ALIKE, CHANGED
from studies.remembered.compared import course
from tests.lab.conftest import Harness

COURSES = {next(iter(ALIKE)): "jumps", **{change.scenario: change.expected for change in CHANGED}}


@pytest.mark.parametrize(("scenario", "expected"), COURSES.items(), ids=COURSES)
def test_what_a_second_connection_does(warm: Harness, harness: Harness, scenario: str, expected: str) -> None:
    asked = ("--set", "server.bdp_seed=careful-resume", "--clients", "quinn", "--servers", "quinn")
    process = harness.run(scenario, *asked, "--repeat", "1", "--engine", "virtual", "--no-figures")
    assert process.returncode == 0, process.stderr
    (file,) = harness.store.glob("runs/*/*/measured.json")
    observed = {observation["parameter"]: observation for observation in json.loads(file.read_text())["observed"]}
    phases = observed["careful_resume"]
    assert course(phases["value"]) == expected, phases["source"]
