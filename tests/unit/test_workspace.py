"""Workspaces, and the program as it is installed without a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.catalogue import Catalogue
from harness.catalogue.validation import validate
from harness.cli import completion, main
from harness.cli.environment import home_folder, open_app, state_folder, store_folder
from harness.cli.workspace import MARK, find_workspace
from harness.errors import InputError
from harness.store.provenance import commit_of, copy_tracked_files
from tests.examples import ROOT

SCENARIO = """\
schema: 1
title: My satellite
path:
  forward: {rate: 30 Mbit/s, delay: 300 ms, queue: 1 BDP}
  return: {rate: 5 Mbit/s, delay: 300 ms}
flows:
  - download: 2 MB
"""
MANIFEST = """\
schema: 1
name: mine
roles: [client, server]
title: Mine
project: https://example.org/mine
image: mine/mine:1
tested: true
colour: "#123456"
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace, the working directory, with a scenario and an implementation of its own."""
    for name in ("HARNESS_STORE", "HARNESS_STATE", "HARNESS_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["harness", "init"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    (tmp_path / "scenarios" / "mine").mkdir()
    (tmp_path / "scenarios" / "mine" / "geo.yaml").write_text(SCENARIO)
    (tmp_path / "images" / "mine").mkdir()
    (tmp_path / "images" / "mine" / "image.yaml").write_text(MANIFEST)
    return tmp_path


# --- a workspace beside a checkout


def test_a_workspace_is_found_from_below_and_by_its_variable(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (workspace / MARK).is_dir() and (workspace / "scenarios" / "schema.json").is_file()
    assert find_workspace() == workspace
    monkeypatch.chdir(workspace / "scenarios" / "mine")
    assert find_workspace() == workspace
    assert store_folder("figures") == workspace / "results" / "figures"
    assert state_folder() == workspace / MARK
    monkeypatch.chdir("/")
    assert find_workspace() is None and home_folder() == ROOT
    monkeypatch.setenv("HARNESS_WORKSPACE", str(workspace))
    assert find_workspace() == workspace
    monkeypatch.setenv("HARNESS_WORKSPACE", str(workspace / "images"))
    with pytest.raises(InputError) as caught:
        find_workspace()
    assert caught.value.hint == f"make one with 'harness init {workspace / 'images'}'"


def test_a_checkout_within_a_workspace_is_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HARNESS_WORKSPACE", raising=False)
    checkout = tmp_path / "checkout"
    (checkout / "docs").mkdir(parents=True)
    (tmp_path / MARK).mkdir()
    monkeypatch.setattr("harness.cli.workspace.ROOT", checkout)
    monkeypatch.chdir(checkout / "docs")
    assert find_workspace() is None


def test_what_is_in_a_workspace_stands_beside_what_the_program_has(workspace: Path) -> None:
    app = open_app()
    assert app.paths.store == workspace / "results"
    assert app.catalogue.find_scenarios(["mine/geo"])[0].name == "mine/geo"
    assert app.catalogue.find_scenarios(["mine"])[0].title == "My satellite"
    assert app.catalogue.find_scenarios(["satellite/medium"])
    assert {"mine", "picoquic"} <= set(app.catalogue.implementations())
    assert app.catalogue.outside_file("mine/geo") == "" and not app.catalogue.manifests_of(["mine"])
    assert "mine/geo" in completion.scenarios("mi") and "mine" in completion.scenarios("mi")
    assert completion.one_implementation("mi") == ["mine"]


def test_commands_that_run_a_cell_again_name_no_store_of_a_workspace(workspace: Path) -> None:
    from tests.examples import cell

    assert open_app()._command_words(cell()).options == ()
    assert open_app(workspace / "other")._command_words(cell()).options == ("--store", str(workspace / "other"))


def test_two_scenarios_of_one_name_are_an_error(workspace: Path) -> None:
    (workspace / "scenarios" / "satellite").mkdir()
    own = workspace / "scenarios" / "satellite" / "medium.yaml"
    own.write_text(SCENARIO)
    catalogue = Catalogue(ROOT, workspace=workspace)
    with pytest.raises(InputError) as caught:
        catalogue.find_scenarios(["satellite/medium"])
    shipped = ROOT / "scenarios" / "satellite" / "medium.yaml"
    assert caught.value.message == f"{own}: the name 'satellite/medium' is that of {shipped}"
    assert [problem.message for problem in validate(Catalogue(ROOT, workspace=workspace), [])] == [caught.value.message]


def test_a_second_init_keeps_what_is_there(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["harness", "init", str(workspace)])
    with pytest.raises(SystemExit):
        main()
    assert "is a workspace already" in capsys.readouterr().err
    assert (workspace / "scenarios" / "mine" / "geo.yaml").read_text() == SCENARIO


def test_the_checkout_is_no_workspace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["harness", "init", str(ROOT)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "name a folder of your own" in capsys.readouterr().err
    assert not (ROOT / MARK).exists()


def test_the_commit_of_a_folder_that_is_no_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_COMMIT", raising=False)
    assert commit_of(tmp_path) == ""
    # Within a clone of something else, such as a virtual environment in a project.
    assert commit_of(ROOT / "harness") == ""
    (tmp_path / "commit").write_text("0123abcd+\n")
    assert commit_of(tmp_path) == "0123abcd+"
    monkeypatch.setenv("HARNESS_COMMIT", "4567cdef")
    assert commit_of(tmp_path) == "4567cdef"


# --- the program as pip installs it


@dataclass(frozen=True)
class Installed:
    """The program in a virtual environment of its own, whose other packages are those of this process."""

    prefix: Path
    home: Path
    shell: tuple[str, ...] = ()
    """What starts it, if that is not this process."""

    def __call__(self, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command of it, in a folder. No folder of the checkout is in its environment."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "PYTHON", "XDG_"))
        }
        return subprocess.run(
            [*self.shell, str(self.prefix / "bin" / "harness"), *words], cwd=folder, capture_output=True, text=True,
            check=False, env={**kept, "HOME": str(self.home), **variables},
        )  # fmt: skip

    def in_bash(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """The same, typed into bash: the program looks which shell has started it."""
        # Of one command alone bash would make itself that command.
        return replace(self, shell=("bash", "-c", '"$0" "$@"; exit $?'))(folder, *words)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A wheel is built of what Git has, and installed without network."""
    base = tmp_path_factory.mktemp("installed")
    source, wheels, prefix, home = (base / name for name in ("source", "wheels", "environment", "home"))
    for folder in (source, wheels, home):
        folder.mkdir()
    copy_tracked_files(
        ROOT, source, "pyproject.toml", "setup.py", "MANIFEST.in", "harness", "studies", "scenarios", "images",
        "results/equivalences.yaml",
    )  # fmt: skip
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(source))
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all")):
        subprocess.run([*git, *words], check=True)
    # What Git does not have is no part of any recipe.
    (source / "images" / "rust" / "left-over").write_text("junk")
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(wheels)], cwd=source, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    (wheel,) = wheels.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python"), "install"]
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, str(wheel)], check=True)
    (packages,) = prefix.glob("lib/python*/site-packages")
    # Links of editable installations are in .pth files, which are not read in a folder that such a file names.
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("-packages")))
    return Installed(prefix, home)


def test_an_installed_program_works_in_a_workspace(installed: Installed, tmp_path: Path) -> None:
    process = installed(tmp_path, "init")
    assert process.returncode == 0 and "is a workspace" in process.stderr
    (tmp_path / "scenarios" / "geo.yaml").write_text(SCENARIO)
    (tmp_path / "images" / "mine").mkdir()
    (tmp_path / "images" / "mine" / "image.yaml").write_text(MANIFEST)

    listed = installed(tmp_path, "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"geo"' in listed.stdout and '"satellite/medium"' in listed.stdout and '"mine"' in listed.stdout

    valid = installed(tmp_path, "validate")
    assert valid.returncode == 0 and "files are valid" in valid.stderr, valid.stderr
    (tmp_path / "scenarios" / "geo.yaml").write_text(SCENARIO.replace("title", "titel"))
    wrong = installed(tmp_path, "validate")
    assert wrong.returncode == 2 and f"{tmp_path}/scenarios/geo.yaml:2:1: unknown key 'titel'" in wrong.stderr

    # The recipes of its images, its simulator and its engine are those of the checkout, or the key would be another.
    words = ("satellite/medium", "--clients", "picoquic", "--servers", "quiche", "--engine", "virtual", "--json")
    planned = installed(tmp_path, "plan", *words)
    assert planned.returncode == 0, planned.stderr
    checkout = subprocess.run(
        [sys.executable, "-m", "harness.cli", "plan", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    keys = [{run["key"] for run in json.loads(text)["runs"]} for text in (planned.stdout, checkout.stdout)]
    assert keys[0] == keys[1] and len(keys[0]) == 1
    # It wrote below its workspace and its user's folders alone, and nothing where it is installed.
    assert {path.name for path in tmp_path.iterdir()} == {"scenarios", "images", "results", MARK}
    assert (tmp_path / MARK / "derived.json").is_file()


def test_an_installed_program_has_the_commit_it_was_built_from(installed: Installed, tmp_path: Path) -> None:
    (package,) = installed.prefix.glob("lib/python*/site-packages/harness/shipped")
    assert (package / "commit").read_text().strip() in installed(tmp_path, "--version").stdout
    assert not (package / "images" / "rust" / "left-over").exists()


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("run", "satellite/medium"), "'harness run' needs a workspace", "'harness init' makes this folder one"),
        (("images", "picoquic"), "'harness images' needs a workspace", "'harness init' makes this folder one"),
    ],
)
def test_without_a_workspace_nothing_runs(
    installed: Installed, tmp_path: Path, words: tuple[str, ...], message: str, hint: str
) -> None:
    ended = installed(tmp_path, *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr and hint in ended.stderr
    assert not list(tmp_path.iterdir())
    # What only reads works anywhere.
    assert "BDP" in installed(tmp_path, "explain", "satellite/medium").stdout


def test_what_needs_the_history_of_the_code_says_so(installed: Installed, tmp_path: Path) -> None:
    installed(tmp_path, "init")
    for words in (("equivalent",), ("verify",), ("images", "--record"), ("images", "--container", "lab:1")):
        ended = installed(tmp_path, *words)
        assert ended.returncode == 2 and "needs a clone of the repository" in ended.stderr
        assert "hint: clone it" in ended.stderr


# --- the shell's completion


def test_one_command_installs_the_completion_of_a_shell(installed: Installed, tmp_path: Path) -> None:
    process = installed.in_bash(tmp_path, "--install-completion")
    assert process.returncode == 0, process.stderr
    (script,) = installed.home.rglob("harness.sh")
    assert "_HARNESS_COMPLETE=complete_bash" in script.read_text()
    assert script.name in (installed.home / ".bashrc").read_text()
    # Bash can read it, and the program answers it with the workspace's own scenarios.
    subprocess.run(["bash", "-n", str(script)], check=True)
    installed(tmp_path, "init")
    (tmp_path / "scenarios" / "geo.yaml").write_text(SCENARIO)
    asked = {"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": "harness\nrun\nge", "COMP_CWORD": "2"}
    assert installed(tmp_path, **asked).stdout.split() == ["geo"]
