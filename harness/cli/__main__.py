"""`python -m harness.cli`, for those who have no script `harness` on their path."""

from harness.cli import program

program()
