"""`harness check`: does an implementation follow the contract, and does what its manifest claims take effect?"""

from __future__ import annotations

from harness.check.run import check
from harness.outcome.conformance import Finding

__all__ = ["Finding", "check"]
