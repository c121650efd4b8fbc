"""`harness cache`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.consoles import paper, print_json
from harness.cli.environment import open_app
from harness.cli.options import AsJson


def cache(
    tidy: Annotated[
        bool,
        typer.Option("--tidy", help="Remove what no image needs any more, and what is over the limit."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is kept to be used again (exported images, served files) and how large it is. Results are elsewhere."""
    from harness.engine.docker_cli import image_ids
    from harness.engine.images.cache import size_of
    from harness.errors import EngineError
    from harness.report.cached import Cached, cached_json, show_cached

    app = open_app()
    removed: list[str] = []
    if tidy:
        try:
            images = image_ids()
        except EngineError:
            # What no image needs cannot be told then.
            images = None
        removed = [*app.cache.tidy(images), *app.cache.bound()]
    entries = {"rootfs": 0, "www": 0}
    for one in app.cache.kept():
        kind = one.name.partition("/")[0]
        entries[kind] += 1
    state = app.places.state
    found = Cached(
        str(app.cache.folder), app.cache.limit, app.cache.sizes(), entries, removed,
        {f"{state} (logs of builds and of what was installed)": size_of(state)},
    )  # fmt: skip
    if as_json:
        print_json(cached_json(found))
    else:
        show_cached(found, paper())
