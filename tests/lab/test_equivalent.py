"""Changes of the code, proven on real runs: a rename, one that alters bytes, one that alters some cells alone.

Each is made in a repository of its own, a copy of this one's files, on a small reference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.store.provenance import copy_tracked_files
from tests.examples import ROOT
from tests.lab.conftest import CACHE, LINKS, Harness

pytestmark = pytest.mark.usefixtures("work_on_every_core", "warm")
#: A queue of thirteen full frames: what one packet more or less makes of it shows in every transfer.
SHORT = {**LINKS, "forward": {**LINKS["forward"], "queue": "20 kB"}}
CHANGES = [{"at": "200 ms", "forward": {"rate": "10 Mbit/s"}}]


@dataclass(frozen=True)
class Repository:
    """A copy of this checkout with a history of its own, and runs that its first commit is the base of."""

    folder: Path
    reference: Path

    @property
    def ledger(self) -> Path:
        return self.folder / "results" / "equivalences.yaml"

    @property
    def packages(self) -> str:
        """Where its own code is: the harness, and the simulator's module that it shares."""
        return os.pathsep.join((str(self.folder), str(self.folder / "images" / "sim")))

    def git(self, *words: str) -> str:
        name = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
        command = ["git", "-C", str(self.folder), *name, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def edit(self, place: str, old: str, new: str) -> None:
        file = self.folder / place
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def harness(self, *words: str, module: str = "harness.cli") -> subprocess.CompletedProcess[str]:
        places = {"HARNESS_STATE": str(ROOT / ".state"), "HARNESS_CACHE": str(CACHE), "PYTHONPATH": self.packages}
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            capture_output=True, text=True, cwd=self.folder, env={**os.environ, **places}, timeout=300, check=False,
        )  # fmt: skip

    def equivalent(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """(exit code, what it says as data, what it says for people)."""
        process = self.harness("equivalent", "--reference", str(self.reference), *words, "--json")
        assert process.stdout, process.stderr
        return process.returncode, json.loads(process.stdout), process.stderr


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The copy, with a reference of three cells."""
    harness = Harness(tmp_path_factory.mktemp("equivalent"))
    checkout = Repository(harness.folder / "checkout", harness.folder / "reference")
    copy_tracked_files(ROOT, checkout.folder, ":!results/reference")
    checkout.git("init", "--quiet")
    checkout.git("add", "--all")
    checkout.git("commit", "--quiet", "--message", "As it was")
    scenarios = [
        # Two certificates, so that the next cell does not stand for this one.
        harness.scenario("short", path=SHORT, certificates=2),
        harness.scenario("changing", path={**SHORT, "changes": CHANGES}),
        harness.scenario("v6", ip_version=6, flows=[{"download": "200 kB"}], milestones=[]),
    ]
    cells = harness.cells(*scenarios, "--clients", "ngtcp2", "--servers", "ngtcp2", "--engine", "virtual")
    assert [cell["outcomes"] for cell in cells] == [{"completed": 1}] * 3
    for scenario in scenarios:
        process = checkout.harness(
            "keep", scenario, "--store", str(harness.store), "--into", str(checkout.reference), module="tools.reference"
        )
        assert process.returncode == 0, process.stderr
    return checkout


@pytest.fixture
def repository(origin: Repository) -> Iterator[Repository]:
    """The copy as its first commit has it; whatever a test does to it is undone."""
    yield origin
    origin.git("reset", "--quiet", "--hard")
    origin.git("clean", "--quiet", "--force", "-d")


def test_a_renamed_module_keeps_the_results(repository: Repository) -> None:
    for place in [*repository.folder.glob("harness/**/*.py"), *repository.folder.glob("images/sim/simulator/*.py")]:
        text = place.read_text()
        renamed = text.replace("harness.errors", "harness.failures").replace("simulator.neighbours", "simulator.peers")
        if renamed != text:
            place.write_text(renamed)
    for folder, old, new in (("harness", "errors", "failures"), ("images/sim/simulator", "neighbours", "peers")):
        repository.git("mv", f"{folder}/{old}.py", f"{folder}/{new}.py")
    _stored_are(repository, 0)
    code, answer, text = repository.equivalent()
    assert code == 0, text
    assert answer["proven"]
    assert {(item["kind"], item["name"]) for item in answer["changed"]} == {("engine", "virtual"), ("simulator", "sim")}
    assert len(answer["cells"]) == 3
    assert {cell["by"] for cell in answer["cells"]} == {"the reference"}
    # The results are there again, and nothing is left to prove.
    _stored_are(repository, 3)
    code, answer, text = repository.equivalent()
    assert (code, answer["changed"]) == (0, []), text
    code, answer, text = repository.equivalent("--again")
    assert code == 0, text
    assert [entry["holds"] for entry in answer["entries"][-2:]] == [True, True]


def _stored_are(repository: Repository, count: int) -> None:
    """So many of the reference's runs are those that today's code would make."""
    keys = repository.harness("report", "--store", str(repository.reference), "--json")
    cells = json.loads(keys.stdout)["cells"]
    assert len(cells) == 3
    code = "import sys\nfrom pathlib import Path\nfrom harness.cli.environment import open_app\n" \
        "app, kept = open_app(), open_app(Path(sys.argv[1]))\n" \
        "runs = [run for key in kept.stored_runs.cell_keys() for run in kept.stored_runs.runs(key)]\n" \
        "print(sum(app.current_cell(run.cell).key == run.cell.key for run in runs))"  # fmt: skip
    process = subprocess.run(
        [sys.executable, "-c", code, str(repository.reference)], capture_output=True, text=True, check=True,
        cwd=repository.folder, env={**os.environ, "PYTHONPATH": repository.packages},
    )  # fmt: skip
    assert int(process.stdout) == count


def test_one_packet_less_in_the_queue_is_caught(repository: Repository) -> None:
    ledger = repository.ledger.read_text()
    repository.edit(
        "images/sim/simulator/plan.py", 'setup=raw["setup"],',
        'setup=[["18486" if word == "20000" else word for word in command] for command in raw["setup"]],',
    )  # fmt: skip
    code, answer, text = repository.equivalent()
    assert (code, answer["proven"]) == (1, False), text
    differing = {cell["scenario"] for cell in answer["cells"] if cell["differs"]}
    assert differing == {"short", "changing"}
    # The base has made them again, and the packet at which they part is shown.
    assert {cell["by"] for cell in answer["cells"] if cell["differs"]} == {"the base"}
    assert "ngtcp2→ngtcp2" in text and "capture: packet" in text
    assert repository.ledger.read_text() == ledger


def test_one_packet_more_in_netem_is_another_lab(repository: Repository) -> None:
    repository.edit("harness/netem/bounds.py", "return 1000 + math.ceil", "return 1001 + math.ceil")
    code, answer, text = repository.equivalent()
    assert (code, answer["changed"], len(answer["other_labs"])) == (1, [], 3)
    assert "another lab: " in text and "ngtcp2→ngtcp2" in text


def test_what_alters_some_cells_is_accepted_for_the_others_alone(repository: Repository) -> None:
    repository.edit("images/sim/simulator/plan.py", '(item["at_ns"] / 1e9, item', '(item["at_ns"] / 1e9 + 0.01, item')
    code, answer, text = repository.equivalent()
    assert (code, answer["proven"]) == (1, False), text
    assert {cell["scenario"] for cell in answer["cells"] if cell["differs"]} == {"changing"}
    assert "changes" in answer["suggestion"]
    code, answer, text = repository.equivalent("--except", "changes")
    assert (code, answer["proven"], answer["outside"]) == (0, True, 1), text
    assert "except: [" in repository.ledger.read_text()
    # The cell with changes is of other bits now, and is the only one.
    _stored_are(repository, 2)
