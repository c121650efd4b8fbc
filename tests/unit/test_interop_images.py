"""What entry scripts take of the interop runner's test cases, and what their manifests say that they refuse."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.scenario.parameters import Role
from harness.scenario.schema import TESTCASES, Implementation, TestcaseName, asked_of
from tests.examples import ROOT, catalogue, implementation
from tools.reference.interop_page import interop_page

BUILT = {
    name: stack
    for name, (stack, _) in catalogue().implementations().items()
    if stack.build is not None and stack.speaks_quic and stack.upstream_image is None
}
ASKED = [(name, role) for name, stack in BUILT.items() for role in stack.roles]
REFUSED = 127
#: Where scripts start what images hold, and write to.
_PLACES = re.compile(r"(?<![\w.}/])(/setup\.sh|/run_program\.sh|/run/|/tmp/)")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Entry scripts as images have them below another root, where nothing gets past /setup.sh."""
    path = tmp_path_factory.mktemp("root")
    for folder in ("run", "tmp"):
        (path / folder).mkdir()
    (path / "setup.sh").write_text("#!/bin/sh\nexit 1\n")
    (path / "setup.sh").chmod(0o755)
    scripts = {f"{name}.sh": ROOT / "images" / name / "run_endpoint.sh" for name in BUILT}
    for name, script in {"run_program.sh": ROOT / "images" / "endpoint" / "run_program.sh", **scripts}.items():
        text = _PLACES.sub(rf"{path}\1", script.read_text())
        (path / name).write_text(text)
        (path / name).chmod(0o755)
    return path


def _ends_with(root: Path, name: str, role: Role, testcase: str) -> int:
    environment = {"ROLE": role, "TESTCASE": testcase, "REQUESTS": "https://server4:443/a", "PATH": os.environ["PATH"]}
    shell = shutil.which("bash") or "bash"
    script = root / f"{name}.sh"
    with script.open() as text:
        shell = shell if "bash" in text.readline() else shutil.which("sh") or "sh"
    process = subprocess.run(
        [shell, str(script)], env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert process.returncode in (1, REFUSED), process.stderr
    # What is refused says so; what is not there would end with 127, too.
    assert (process.returncode == REFUSED) == bool(process.stderr), process.stderr
    return process.returncode


@pytest.mark.parametrize(("name", "role"), ASKED)
def test_a_script_refuses_what_its_manifest_says_and_nothing_else(root: Path, name: str, role: Role) -> None:
    refused = {testcase for testcase in asked_of(role) if _ends_with(root, name, role, testcase) == REFUSED}
    assert refused == {testcase for testcase in asked_of(role) if BUILT[name].refusal(role, testcase)}
    assert _ends_with(root, name, role, "nonsense") == REFUSED


@pytest.mark.parametrize(("name", "role"), ASKED)
def test_servers_that_can_reject_early_data_know_the_word(root: Path, name: str, role: Role) -> None:
    knows = role == "server" and name in ("noq", "quic-go", "quinn")
    assert (_ends_with(root, name, role, "zerortt-rejected") != REFUSED) == knows


def _refusing(**overrides: object) -> Implementation:
    return implementation("mine", **overrides)


@pytest.mark.parametrize(
    ("manifest", "role", "testcase", "why"),
    [
        (_refusing(), "client", "retry", ""),
        (_refusing(roles=["server"], parameters={}), "client", "retry", "it has no client"),
        (_refusing(protocols=["h3"]), "client", "retry", "it does not speak hq-interop"),
        (_refusing(protocols=["h3"]), "client", "http3", ""),
        (_refusing(protocols=["hq-interop"]), "server", "http3", "it does not speak h3"),
        (_refusing(refuses=[{"testcases": ["v2", "ecn"], "why": "no"}]), "server", "ecn", "no"),
        (_refusing(refuses=[{"testcases": ["v2"], "why": "no"}]), "server", "ecn", ""),
        (_refusing(refuses=[{"testcases": ["v2"], "roles": ["client"], "why": "no"}]), "server", "v2", ""),
    ],
)
def test_why_a_test_case_is_refused(manifest: Implementation, role: Role, testcase: TestcaseName, why: str) -> None:
    assert manifest.refusal(role, testcase) == why


def test_each_role_is_told_what_is_not_the_other_s_alone() -> None:
    assert set(TESTCASES) - set(asked_of("client")) == {"connectionmigration"}
    assert set(TESTCASES) - set(asked_of("server")) == {"keyupdate"}


def test_the_page_says_what_every_image_takes_and_why_not_the_rest() -> None:
    scenarios = [catalogue().scenario(file) for file in catalogue().scenario_files()]
    page = interop_page(scenarios, list(BUILT.values()), [])
    assert page.index("No runs are stored.") < page.index("## How it is done")
    table = page.partition("## What the images here take")[2].partition("\n* ")[0]
    rows = {row[0]: row[1:] for row in (text.strip("| ").split(" | ") for text in table.splitlines()) if len(row) > 1}
    column = TESTCASES.index("keyupdate")
    assert rows["quinn"][column] == "c"
    assert rows["quic-go"][column] == "–"
    assert rows["ngtcp2"].count("c s") == 1
    for stack in BUILT.values():
        for refusal in stack.refuses:
            assert not stack.tested or refusal.why in page
