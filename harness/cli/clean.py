"""`harness clean`."""

from __future__ import annotations

from harness.cli.consoles import console


def clean() -> None:
    """Remove what the harness left or made in Docker: containers, networks, images. Results stay."""
    from harness.engines.images import remove_everything

    for name in remove_everything():
        console().print(f"removed {name}")
