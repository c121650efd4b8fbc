"""Edits of the kernel's sources. A pattern must be there exactly once, else the build stops and says so."""

import re
import sys
from pathlib import Path

HERE = Path(sys.argv[1])
UM = Path("arch/um")


def change(file: Path, *edits: tuple[str, str]) -> None:
    """Replace each pattern, which must be there exactly once."""
    text = file.read_text()
    for pattern, replacement in edits:
        text, count = re.subn(pattern, lambda _, new=replacement: new, text, flags=re.MULTILINE | re.DOTALL)
        if count != 1:
            raise SystemExit(f"{file}: found {count} places for {pattern!r} instead of one: this kernel is another one")
    file.write_text(text)


def put(file: Path, pattern: str, *, ahead: str = "", behind: str = "") -> None:
    """Add text around a pattern, which must be there exactly once."""
    found = re.findall(pattern, file.read_text(), flags=re.MULTILINE)
    change(file, (pattern, ahead + (found or [""])[0] + behind))


def add(name: str, target: Path) -> None:
    """Put one of our files into the sources."""
    target.write_bytes((HERE / name).read_bytes())
