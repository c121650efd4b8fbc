"""Stored runs: records, Parquet tables, compression, and the keys that cells are stored by."""
