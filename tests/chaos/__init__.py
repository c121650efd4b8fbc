"""Faults of the ground, done to the installed harness while it works, and what it must make of each of them.

`make chaos` does two hundred, by a seed. Each has a store, a cache and a memory folder of its own; the harness is asked
by its command line alone. What must hold after each is in `trial`; the kinds of faults are a table, in `kinds`.
"""
