"""The commands of tools/: their help, and that they refuse bad words as `harness` does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.examples import ROOT


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False, cwd=ROOT)


def test_the_help_names_the_commands_of_the_reference() -> None:
    shown = _run("tools.reference", "--help")
    assert shown.returncode == 0, shown.stderr
    assert all(f" {name} " in shown.stdout for name in ("run", "keep", "generate", "figures", "site"))


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("tools.bench", "--kernels", "host", "nowhere"), "there is no lab kernel nowhere", "name a file"),
        (("tools.bench", "virtuall"), "no benchmarks 'virtuall'", "'virtual'"),
        (("tools.reference", "keep", "satelite/medium"), "no scenario 'satelite/medium'", "'satellite/medium'"),
    ],
)
def test_bad_words_get_an_error_and_a_hint(words: tuple[str, ...], message: str, hint: str) -> None:
    refused = _run(*words)
    assert refused.returncode == 2
    assert message in refused.stderr and hint in refused.stderr
    assert "Traceback" not in refused.stderr
