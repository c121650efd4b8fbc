"""The test cases of the QUIC interop runner, judged from decrypted captures.

A check is in one place in `harness.analysis.interop.checks`: a function below its declaration. Scenarios name the
checks of their case; verdicts, tables and pages read the results.
"""

from harness.analysis.interop.registry import Check, declared_checks, mistakes
from harness.analysis.interop.verdict import ResultWord, RunResult, failure_text, run_checks, run_result, verdict_of

__all__ = [
    "Check",
    "ResultWord",
    "RunResult",
    "declared_checks",
    "failure_text",
    "mistakes",
    "run_checks",
    "run_result",
    "verdict_of",
]
