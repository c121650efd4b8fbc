"""A lab for QUIC over long, lossy and shared paths.

The middle of the package is frozen data and pure functions; containers, the lab kernel and the disk are
its edges. `README.md` has the architecture on one screen.
"""

__version__ = "0.1.0"
