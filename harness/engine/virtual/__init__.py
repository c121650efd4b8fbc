"""The virtual engine: a lab inside one User Mode Linux kernel, in virtual time."""
