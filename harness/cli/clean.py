"""`harness clean`."""

from __future__ import annotations

from harness.cli.consoles import console
from harness.cli.environment import open_app


def clean() -> None:
    """Remove what the harness left or made in Docker: containers, networks, images and their exports. Results stay."""
    from harness.engine.docker_cli import image_ids
    from harness.engine.images.build import remove_everything

    app = open_app()
    for name in [*remove_everything(), *app.cache.tidy(image_ids())]:
        console().print(f"removed {name}", markup=False)
