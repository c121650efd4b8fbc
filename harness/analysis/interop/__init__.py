"""The test cases of the QUIC interop runner, judged from decrypted captures.

A check is in one place in `harness.analysis.interop.checks`: a function below its declaration. Scenarios name the
checks of their case; verdicts, tables and pages read the results.
"""

from harness.analysis.interop.registry import Check, declared, mistakes
from harness.analysis.interop.verdict import RunResult, Word, checked, failure, run_result, verdict_of

__all__ = [
    "Check", "RunResult", "Word", "checked", "declared", "failure", "mistakes", "run_result", "verdict_of",
]  # fmt: skip
