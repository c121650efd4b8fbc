"""Runs in virtual time on many machines: a driver has the plan and the store, workers need only this package.

The machines are Dask's (`distributed`): a scheduler, and workers that anybody starts by `dask worker`. A run is a task.
"""
