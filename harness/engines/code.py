"""A digest of the code that runs a lab, for cells' keys: another engine makes other runs, and says so by itself.

What a module does is hashed, not what it says: comments, docstrings and empty lines are left out, so that better words
cost nobody a night of runs. The simulator is an image, and has its own identity; it holds what both engines share
(`simulator.lifecycle`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from harness.outcome import EngineName

_FOLDER = Path(__file__).parent
#: Modules of this package on which it depends what happens in a run.
_BOTH = ("certificates", "conclusion", "folder", "served")
MODULES: dict[EngineName, tuple[str, ...]] = {
    "compose": (
        *_BOTH,
        "compose",
        "compose_file",
        "conductor",
        "held",
        "launch",
        "outside",
        "paths",
        "project",
        "sampler",
        "waits",
    ),
    "virtual": (*_BOTH, "guest", "outside", "rootfs", "virtual", "world"),
}
#: Those on which it does not: what makes or fetches images, says how a kernel is entered, keeps company away, names
#: what is there, cleans up.
BESIDE = (
    "__init__", "building", "cache", "code", "contents", "context", "docker", "gauge", "images", "kernels", "owner",
    "precedence", "quiet", "registry", "sealed", "shared_files", "standing", "upstream",
)  # fmt: skip


@functools.cache
def engine_code(engine: EngineName) -> str:
    """Digest of an engine's code, hexadecimal; the same for every version of Python."""
    digest = hashlib.blake2b(digest_size=8)
    for module in sorted(MODULES[engine]):
        digest.update(f"{module}\n{statements((_FOLDER / f'{module}.py').read_text())}\n".encode())
    return digest.hexdigest()


def statements(source: str) -> str:
    """A module's text without comments, docstrings and what is empty then."""
    lines = source.splitlines()
    left_out = {number for first, last in _docstrings(ast.parse(source)) for number in range(first, last + 1)}
    for number, column in _comments(source):
        lines[number - 1] = lines[number - 1][:column]
    kept = (line.rstrip() for number, line in enumerate(lines, 1) if number not in left_out)
    return "\n".join(line for line in kept if line)


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """First and last line of each expression that is a string and nothing else: docstrings, also of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.end_lineno or node.lineno


def _comments(source: str) -> Iterator[tuple[int, int]]:
    """Line and column of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start
