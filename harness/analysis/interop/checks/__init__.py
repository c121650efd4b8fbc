"""The checks, a module for each part of the protocol."""
