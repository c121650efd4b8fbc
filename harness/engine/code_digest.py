"""A digest of the code that runs a lab, for cells' keys: another engine makes other runs, and says so by itself.

The digest is of a module's statements, without comments and docstrings. The simulator is an image, and has its own
digest; it holds what both engines share (`simulator.lifecycle`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from harness.outcome import ENGINES, EngineName

# --- Python source without what does nothing: comments, docstrings, empty lines.
#
# Digests of code are made of this, so that better words make nothing another thing. Only Python is read this way, by
# its own parser. Comments of C and of shell scripts count: to tell them from code takes a preprocessor or a shell, and
# a mistake there would take two programs for the same one. `harness equivalent` proves that such a change did nothing.


def statements(source: str) -> str:
    """A module's text without comments, docstrings and the lines that are empty then. SyntaxError."""
    lines = source.splitlines()
    dropped = {number for first, last in _docstrings(ast.parse(source), lines) for number in range(first, last + 1)}
    for number, column in _comments(source):
        lines[number - 1] = lines[number - 1][:column]
    kept = (line.rstrip() for number, line in enumerate(lines, 1) if number not in dropped)
    return "\n".join(line for line in kept if line)


def behaviour(name: str, content: bytes) -> bytes:
    """What counts of a file: of Python its statements, of any other file, and of Python that has an error, all of it.

    A version of Python that cannot read a file makes another digest of it, which is safe: the same file is then taken
    for another one, and never another file for the same.
    """
    if not name.endswith(".py"):
        return content
    try:
        return statements(content.decode()).encode()
    except (SyntaxError, ValueError, tokenize.TokenError):
        return content


def _docstrings(tree: ast.AST, lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of each expression that is a text and nothing else, where nothing else is on its lines.

    These are docstrings, also of attributes.
    """
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node.value.value, str):
            last = node.end_lineno or node.lineno
            before = lines[node.lineno - 1].encode()[: node.col_offset]
            after = lines[last - 1].encode()[node.end_col_offset or 0 :].strip()
            if not before.strip() and (not after or after.startswith(b"#")):
                yield node.lineno, last


def _comments(source: str) -> Iterator[tuple[int, int]]:
    """Line and column of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start


# --- code digest


_FOLDER = Path(__file__).parent
#: Modules of this package, from it, on which it depends what happens in a run.
_BOTH = ("certificates", "exit_rules", "run_dir", "served_files")
DOCKER_MODULES = (
    *_BOTH,
    "docker.engine",
    "compose_file",
    "docker.supervisor",
    "confinement",
    "fence",
    "docker.run_options",
    "external_failures",
    "docker.networks",
    "docker.containers",
    "docker.sampler",
)
VIRTUAL_MODULES = (
    *_BOTH,
    "virtual.uml_guest",
    "external_failures",
    "images.rootfs_export",
    "virtual.sandbox",
    "virtual.engine",
    "virtual.guest_config",
)
#: Those on which it does not: what makes or fetches images or says what is in them, says how a kernel is entered, keeps
#: company away, names what is there, cleans up.
BESIDE = (
    "__init__",
    "build_queue",
    "code_digest",
    "docker.__init__",
    "docker.host_jitter",
    "docker_cli",
    "images.__init__",
    "images.build",
    "images.cache",
    "images.components",
    "images.contents",
    "images.file_manifest",
    "images.hardlink_pool",
    "images.record",
    "images.registry",
    "images.sbom",
    "kernel",
    "process_owner",
    "virtual.__init__",
)


def _file(module: str) -> Path:
    return _FOLDER.joinpath(*module.split(".")).with_suffix(".py")


@functools.cache
def engine_code(engine: EngineName) -> str:
    """Digest of an engine's code, hexadecimal; the same for every version of Python."""
    digest = hashlib.blake2b(digest_size=8)
    for module in sorted(VIRTUAL_MODULES if ENGINES[engine].virtual_time else DOCKER_MODULES):
        digest.update(f"{module}\n{statements(_file(module).read_text())}\n".encode())
    return digest.hexdigest()
