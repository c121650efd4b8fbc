"""How hard the package is to inherit, in numbers: `python -m tools.house`, and `--check` against the limits below.

    $ python -m tools.house
    | measure                                | now    | limit  |
    | files in the package                   | 333    | 335    |
    …

A limit is what was reached last. Lower it when you get below; `make check` keeps it from rising.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import grimp

from harness.outcome import EngineName

ROOT = Path(__file__).parent.parent
PACKAGE = "harness"
#: Lines below which a module with one importer is no thing of its own.
SMALL = 80
#: Words that say nothing of what a variable holds, and participles that say only what was done to it.
_WORDS = """
one ones other others another every each all_ some any_ more most rest thing things stuff it them this that these
those what who whom whose which where there here then so such same much many
found made told said done gone got given taken seen kept known wanted asked held written heard begun
came come went put set_ tmp temp res val foo bar
"""
EMPTY_WORDS = frozenset(_WORDS.split())
#: Names of engines as they stand in code.
ENGINE_NAMES = frozenset(get_args(EngineName))


@dataclass(frozen=True)
class Measure:
    """One number, and what it may be at most."""

    title: str
    value: float
    limit: float
    unit: str = ""

    @property
    def is_exceeded(self) -> bool:
        """Whether the number is above its limit. Percentages count to a tenth."""
        return round(self.value, 1) > self.limit

    def text(self, value: float) -> str:
        """A value as the table shows it."""
        return f"{value:.1f} %" if self.unit == "%" else f"{value:,.0f}"


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    """Dotted, `harness.units`."""
    path: Path
    lines: int
    tree: ast.Module


def modules(root: Path = ROOT) -> list[Module]:
    """The modules of the package, sorted by name. Raises OSError and SyntaxError."""
    package = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        text = path.read_text()
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        package.append(Module(name, path, len(text.splitlines()), ast.parse(text)))
    return package


def bound_names(tree: ast.AST) -> Iterator[str]:
    """The names that functions bind: parameters, assignments, loops, comprehensions, `with` and `except`."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        arguments = function.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        parameters += [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
        yield from {item.arg for item in parameters} - {"self", "cls"}
        body = function.body if isinstance(function.body, list) else [function.body]
        yield from {
            node.id
            for statement in body
            for node in _own_nodes(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }


def _own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without those of functions and classes inside."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(child)


def is_empty(name: str) -> bool:
    """Whether a name consists of nothing but empty words."""
    words = [word for word in name.strip("_").split("_") if word]
    return bool(words) and (name in EMPTY_WORDS or all(word in EMPTY_WORDS for word in words))


def class_names(package: list[Module]) -> dict[str, list[str]]:
    """Class name → the modules that define one of that name, where several do. Private names count as well."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in package:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    return {name: defining for name, defining in sorted(places.items()) if len(defining) > 1}


def compares_engines(tree: ast.AST) -> bool:
    """Whether code asks what an engine is called: a comparison, a `match` or a mapping by engines' names.

    Words of a command line (lists) and mappings with other keys as well are about Docker Compose.
    """
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            operands = [node.value]
        elif isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            operands = [key for key in node.keys if key is not None] if set(keys) <= ENGINE_NAMES else []
        for operand in operands:
            parts = operand.elts if isinstance(operand, ast.Tuple | ast.Set) else [operand]
            if any(isinstance(part, ast.Constant) and part.value in ENGINE_NAMES for part in parts):
                return True
    return False


def measures(root: Path = ROOT) -> list[Measure]:
    """All numbers of a checkout, with their limits."""
    package = modules(root)
    by_name = {module.name: module for module in package}
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    importers = Counter(
        imported for name in graph.modules for imported in graph.find_modules_directly_imported_by(name)
    )
    single = [
        name
        for name, module in by_name.items()
        if importers[name] == 1 and module.lines < SMALL and module.path.name != "__init__.py"
    ]
    names = Counter(name for module in package for name in bound_names(module.tree))
    empty = sum(count for name, count in names.items() if is_empty(name))
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    directly = [module for module in package if module.name.count(".") == 1 and module.path.name != "__init__.py"]
    skips = sum(len(re.findall(r"# fmt: (?:skip|off)", module.path.read_text())) for module in package)
    return [
        Measure("files in the package", len(package), 380),
        Measure("lines in the package", sum(module.lines for module in package), 80_400),
        Measure("modules directly in the package", len(directly), 5),
        Measure(f"modules below {SMALL} lines with one importer", len(single), 16),
        Measure("names in functions that are empty words", 100 * empty / names.total(), 1.0, "%"),
        Measure("class names with several meanings", len(class_names(package)), 0),
        Measure("files that compare engines by their names", sum(compares_engines(item.tree) for item in package), 1),
        Measure("layers of imports", len(layers), 10),
        Measure("places where the formatter is overruled", skips, 20),
    ]


def main() -> int:
    """Print the table. Exit code 1 with --check where a number is above its limit."""
    parser = argparse.ArgumentParser(description="How hard the package is to inherit, in numbers.")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a number is above its limit")
    parser.add_argument("--names", action="store_true", help="list the names behind the numbers, most frequent first")
    options = parser.parse_args()
    if options.names:
        package = modules()
        counts = Counter(name for module in package for name in bound_names(module.tree) if is_empty(name))
        print("empty words:", ", ".join(f"{name} {count}" for name, count in counts.most_common()))
        print("classes:", ", ".join(f"{name} {len(places)}" for name, places in class_names(package).items()))
        print("engines:", ", ".join(module.name for module in package if compares_engines(module.tree)))
    rows = measures()
    print("| measure | now | limit |\n| --- | ---: | ---: |")
    for row in rows:
        print(f"| {row.title} | {row.text(row.value)} | {row.text(row.limit)} |")
    exceeded = [row.title for row in rows if row.is_exceeded]
    if options.check and exceeded:
        print(f"error: above the limit: {', '.join(exceeded)}", file=sys.stderr)
        print("hint: 'python -m tools.house --names' lists what counts", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
