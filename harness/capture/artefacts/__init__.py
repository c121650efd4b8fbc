"""A run's folder as data: its files, each read when it is first asked for, and the transfers they are of."""
