"""One repository checkout at work: its images, its store, and campaigns over its cells."""

from harness.app.checkout import App
from harness.app.options import Options, Places

__all__ = ["App", "Options", "Places"]
