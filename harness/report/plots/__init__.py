"""Figures of stored runs, from the store alone: run.json, measured.json and series.parquet.

A plot is one file in this package with a function marked `@plot` (see `registry`); nothing else changes.
"""
