"""`python -m tests.workflows`: actionlint over .github/workflows, in an image of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.cli.workspace import ROOT
from harness.engine.images.build import Build, Images

HERE = Path(__file__).parent


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """What actionlint says of the workflows of a repository. Raises EngineError where it cannot be built."""
    images = Images(ROOT / "images", ROOT / ".state")
    build = Build("actionlint", HERE, 60, bases={"GO": images.go})
    images.make(build, lambda name, seconds: print(f"making the image {name} (about {seconds:.0f} s)", flush=True))
    # Standard input is no file of the daemon's machine: nothing is mounted, wherever that runs.
    text, code = "", 0
    for file in sorted((folder / ".github" / "workflows").glob("*.yml")):
        command = ["docker", "run", "--rm", "-i", "--network", "none", build.reference, "-no-color",
                   "-stdin-filename", file.name, "-"]  # fmt: skip
        process = subprocess.run(command, input=file.read_text(), capture_output=True, text=True, check=False)
        text, code = text + process.stdout + process.stderr, max(code, process.returncode)
    return subprocess.CompletedProcess(["actionlint"], code, text)


if __name__ == "__main__":
    done = lint(ROOT)
    print(done.stdout, end="")
    sys.exit(done.returncode)
