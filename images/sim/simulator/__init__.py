"""The simulator: a path between two interfaces, made of the kernel's own queues.

Runs inside the simulator container with NET_ADMIN and NET_RAW, and inside the lab kernel. Standard library
only. The plan it gets (/sim/plan.json) is data; nothing here knows of scenarios.
"""
