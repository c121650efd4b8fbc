"""A gate for nightly runs: stored cells beside those of a baseline, figure by figure. Pure.

Where both are of the same bits and of virtual time, every figure is the same to the last digit, or somebody hides
chance from the lab. Where the bits differ, a figure has changed when it is off by more than a tolerance, and, where
chance plays a part, when a test over all figures of the matrix together shows it (see
`harness.evaluation.regression.decision`).
"""
