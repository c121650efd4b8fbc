"""`harness digests`."""

from __future__ import annotations

from harness.cli.consoles import print_json
from harness.cli.environment import open_app


def digests() -> None:
    """Print what the engines, the simulator and the images of this checkout are made from: kind, name, digest.

    `harness equivalent` of another revision asks for it: the name of this command and what it prints stay as they are.
    """
    from harness.repro.digests import component_digests

    printed: dict[str, dict[str, str]] = {}
    for (kind, name), digest in component_digests(open_app()).items():
        printed.setdefault(kind, {})[name] = digest
    print_json(printed)
