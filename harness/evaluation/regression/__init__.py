"""A gate for nightly runs: compares stored cells with those of a baseline, figure by figure. Pure.

With the same code and images in virtual time, every figure must be equal to the last digit; else the lab has a hidden
source of randomness. With other code or images, a figure has changed if it differs by more than a tolerance. If the
figures are random, a test over all figures of the matrix must also show the change (see
`harness.evaluation.regression.decision`).
"""
