"""One repository checkout at work: its images, its store, and campaigns over its cells."""

from harness.execution.checkout import App
from harness.execution.options import Options, Places

__all__ = ["App", "Options", "Places"]
