"""One file per metric, which says what it yields and in which unit."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.metrics.registry import Caution, metrics
from harness.metrics.view import RunView
from tests.unit.shared_flows import write_counters, write_three_flows

PACKAGES = ("flow", "bottleneck", "network")
METRICS = {
    name: function for name, function in metrics().items() if name.split(".")[2] in PACKAGES and name.count(".") == 4
}


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunView]:
    """Three flows, one of UDP and two of TCP, before a queue that is RED."""
    folder = tmp_path_factory.mktemp("run")
    run = write_three_flows(folder)
    shutil.copytree(folder / "flow1", folder / "flow2")
    lab = json.loads((folder / "lab.json").read_text())
    lab["links"]["to_client"]["discipline"] = "red"
    (folder / "lab.json").write_text(json.dumps(lab))
    write_counters(folder, {0.6: 5}, early=3, pdrop=2)
    yield RunView(folder, run)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_file_has_one_metric_at_most(package: str) -> None:
    in_file = Counter(name.rsplit(".", 1)[0] for name in METRICS if name.split(".")[2] == package)
    assert in_file and set(in_file.values()) == {1}
    folder = Path(importlib.import_module(f"harness.metrics.{package}").__file__ or "").parent
    # What has none is shared by several: then no test of one metric alone covers it, so there are few such.
    without = {module.name for module in pkgutil.iter_modules([str(folder)])} - {n.split(".")[3] for n in in_file}
    assert without <= {
        "acknowledged",
        "losses",
        "state",
        "utility",
        "shared",
        "together",
        "sums",
        "fairness",
        "sharing",
    }


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_metric_says_what_it_yields(name: str, view: RunView) -> None:
    text = inspect.getdoc(METRICS[name]) or ""
    found = [item for item in METRICS[name](view) if not isinstance(item, Caution)]
    assert found or name in ("harness.metrics.flow.silent.silent", "harness.metrics.flow.late_start.late_start")
    for item in found:
        plain = item.name
        for ours, asked in ((r"^flow\d+_", ""), (r"flow\d+", "flowM"), (r"phase\d+", "phaseN"), ("_responsive$", "")):
            plain = re.sub(ours, asked, plain)
        unit = re.sub(r"\^\d+", "ⁿ", item.unit)
        assert re.search(rf"\b{plain}\b", text), f"{plain} is not in the text of {name}"
        assert f"({unit})" in text, f"{unit} is not in the text of {name}"
