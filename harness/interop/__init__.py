"""The test cases of the QUIC interop runner, judged from decrypted captures.

A check is one place in `harness.interop.checks`: a function below its declaration. Scenarios name the checks of their
case; verdicts, tables and pages read what they found.
"""

from harness.interop.judging import checked
from harness.interop.mistakes import mistakes
from harness.interop.registry import Check, declared
from harness.interop.verdict import RunResult, Word, failure, run_result, verdict_of

__all__ = [
    "Check", "RunResult", "Word", "checked", "declared", "failure", "mistakes", "run_result", "verdict_of",
]  # fmt: skip
