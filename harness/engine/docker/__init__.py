"""The Docker engine: a lab as containers on this machine, in real time."""
