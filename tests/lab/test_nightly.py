"""`make nightly`, as the owner of a nightly CI has it: night after night on one machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from tests.examples import ROOT
from tests.lab.conftest import Harness, build_image, local_image

#: A client that grants less than the path holds (100 kB).
_STARVED = """
FROM {image}
RUN sed -i '2i CLIENT_PARAMS="${{CLIENT_PARAMS:-}} --max-data=30000 --max-stream-data-bidi-local=30000 \
--max-window=30000 --max-stream-window=30000"' /run_endpoint.sh
"""


def _nightly(
    scenario: str, night: Path, baseline: Path, target: str = "nightly", **overrides: str
) -> subprocess.CompletedProcess[str]:
    given = {
        "SCENARIO": scenario, "CLIENTS": "ngtcp2,quiche", "SERVERS": "quiche", "ENGINE": "virtual", "REPEAT": "1",
        "NIGHT": str(night), "BASELINE": str(baseline),
        # They are the reference's, and take minutes (tests/lab/test_equivalent.py).
        "PROOFS": "", **overrides,
    }  # fmt: skip
    words = [f"{name}={value}" for name, value in given.items()]
    return subprocess.run(
        ["make", "--no-print-directory", target, *words],
        capture_output=True, text=True, cwd=ROOT, timeout=900, check=False,
        env={**os.environ, "GITHUB_ACTIONS": "true"},
    )  # fmt: skip


def test_nights_in_which_nothing_changed_and_one_with_a_regression(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("night", flows=[{"download": "2 MB"}], milestones=["2 MB"])
    nights, baseline = harness.folder / "nights", harness.folder / "baseline"

    first = _nightly(case, nights / "1", baseline)
    assert first.returncode == 0, first.stderr
    assert "There was no baseline; it is now these 2 cells" in first.stdout

    # In two shards, as on two machines.
    for shard in ("1/2", "2/2"):
        process = _nightly(case, nights / f"2-{shard[0]}", baseline, "night", SHARD=shard)
        assert process.returncode == 0, process.stderr
    shards = [str(folder) for folder in sorted(nights.glob("2-*"))]
    merged = [*harness.command("merge", *shards)[:-1], str(nights / "2")]
    assert subprocess.run(merged, cwd=ROOT, check=False, timeout=60).returncode == 0
    completed = _nightly(case, nights / "2", baseline, "gate")
    assert completed.returncode == 0, completed.stderr + completed.stdout
    assert "2 cells: 2 same: the gate is open" in completed.stdout
    assert "2 cells of the same bits in virtual time had to be the same to the last digit" in completed.stdout

    recipe = harness.folder / "starved"
    recipe.mkdir()
    (recipe / "Dockerfile").write_text(_STARVED.format(image=local_image("ngtcp2")))
    image = build_image("quic-lab-test/starved:1", recipe)
    worse = _nightly(case, nights / "3", baseline, WORDS=f"--image ngtcp2={image}")
    assert worse.returncode != 0
    assert "the gate is shut by 1 cell" in worse.stdout and "the image of ngtcp2" in worse.stdout
    (command,) = [text for text in worse.stderr.splitlines() if text.startswith("::error ")]
    assert "completion" in command and "ngtcp2→quiche" in command
    summary = (nights / "3" / "summary.markdown").read_text()
    assert summary.index("## Since the baseline") < summary.index("▼ worse") < summary.index("## Verdicts")
    assert (nights / "3" / "site" / "index.html").is_file()
    failed = [
        case
        for case in ElementTree.parse(nights / "3" / "junit.xml").iter("testcase")
        if case.find("failure") is not None
    ]
    assert ["ngtcp2→quiche" in (case.get("name") or "") for case in failed] == [True]

    # A closed gate leaves the baseline as it was.
    again = _nightly(case, nights / "4", baseline)
    assert again.returncode == 0 and "2 same" in again.stdout
