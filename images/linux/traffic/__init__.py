"""A flow of TCP or UDP between two containers: this kernel's TCP, driven by iperf3, and UDP by a law of our own.

Standard library only. `python3 -m traffic client|server`; what the flow is like is in TRAFFIC (see plan.py).
"""


class TrafficError(Exception):
    """The flow cannot be what was asked for; the text says why, in one line."""


class Stopped(BaseException):
    """SIGTERM came. Raised wherever the program is, and no error, hence outside Exception."""
