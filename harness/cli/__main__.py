"""`python -m harness.cli`, for whoever has no script `harness` on their path."""

from harness.cli import program

program()
