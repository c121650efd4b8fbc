"""Execution: the images, the store and the campaigns of one repository checkout.

A module of this package loads no more than it needs: the scheduler of a cluster, which only waits for a process, needs
neither a checkout nor polars. polars replaces Python's handler of SIGINT (sigaction(2) with SA_RESTART), so that a
process that loads it late and then waits for another one does not notice Ctrl-C.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.execution.checkout import App
    from harness.execution.options import CheckoutPaths, Options

__all__ = ["App", "CheckoutPaths", "Options"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    from harness.execution import checkout, options

    return getattr(checkout if name == "App" else options, name)
