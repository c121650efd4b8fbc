"""A digest of the code that runs a lab. It is part of a cell's key, so that runs of a changed engine get other keys.

The digest is of a module's statements, without comments and docstrings. The simulator is an image with its own digest.
That one includes the code that both engines share (`simulator.lifecycle`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from harness.derived import DERIVED
from harness.outcome import ENGINES, EngineName

# --- Python source without comments, docstrings and empty lines.
#
# Digests of code are made from this, so that a better comment changes no digest. This is done for Python only, with its
# own parser. Comments of C and of shell scripts count: only a preprocessor or a shell can tell them from code, and a
# mistake would give two programs the same digest. `harness equivalent` proves that such a change did nothing.


def statements(source: str) -> str:
    """A module's text without comments, docstrings and the lines that are empty then. SyntaxError."""
    lines = source.splitlines()
    dropped = {number for first, last in _docstrings(ast.parse(source), lines) for number in range(first, last + 1)}
    for number, column in _comments(source):
        lines[number - 1] = lines[number - 1][:column]
    code_lines = (line.rstrip() for number, line in enumerate(lines, 1) if number not in dropped)
    return "\n".join(line for line in code_lines if line)


def effective_content(name: str, content: bytes) -> bytes:
    """The part of a file that counts for a digest: statements of valid Python, else the whole content.

    A version of Python that cannot parse a file makes another digest of it. That is safe: the same file may then get
    another digest, but two different files never get the same one.
    """
    if not name.endswith(".py"):
        return content
    try:
        return statements(content.decode()).encode()
    except (SyntaxError, ValueError, tokenize.TokenError):
        return content


def _docstrings(tree: ast.AST, lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of each docstring, also of attributes: a string expression with nothing else on its lines."""
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
#: Modules of this package, relative to it, that influence a run in both engines.
_COMMON_MODULES = ("certificates", "exit_rules", "run_dir", "served_files")
DOCKER_MODULES = (
    *_COMMON_MODULES,
    "docker.engine",
    "compose_file",
    "docker.supervisor",
    "confinement",
    "fence",
    "docker.run_options",
    "external_failures",
    "docker.daemon",
    "docker.networks",
    "docker.containers",
    "docker.sampler",
)
VIRTUAL_MODULES = (
    *_COMMON_MODULES,
    "virtual.uml_guest",
    "external_failures",
    "images.rootfs_export",
    "virtual.sandbox",
    "virtual.engine",
    "virtual.guest_config",
)
#: Modules that do not influence a run: those that build, fetch and inspect images, describe kernel entries, wait for a
#: quiet host, identify processes or clean up.
EXCLUDED_MODULES = (
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
    "images.host_kernel",
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
    """Digest of an engine's code, hexadecimal; the same with every version of Python."""
    modules = sorted(VIRTUAL_MODULES if ENGINES[engine].virtual_time else DOCKER_MODULES)

    def derive() -> str:
        digest = hashlib.blake2b(digest_size=8)
        for module in modules:
            digest.update(f"{module}\n{statements(_file(module).read_text())}\n".encode())
        return digest.hexdigest()

    files = [Path(__file__), *map(_file, modules)]
    return str(DERIVED.get(f"engine {engine} {_FOLDER} {' '.join(modules)}", files, derive))
