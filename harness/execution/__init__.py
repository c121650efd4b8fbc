"""Execution: the images, the store and the campaigns of one repository checkout."""

from harness.execution.checkout import App
from harness.execution.options import CheckoutPaths, Options

__all__ = ["App", "CheckoutPaths", "Options"]
