"""Runs in virtual time on many machines: a driver has the plan and the store, workers need only this package.

The cluster is one of Dask (`distributed`): a scheduler, and workers started with `dask worker`. Each run is a task.
"""
