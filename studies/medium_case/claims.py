"""The scenarios that change one setting of the medium case, and what its document asks for."""

from __future__ import annotations

SOURCE = "draft-kuhn-quic-4-sat-06 §4.2 (medium public satellite broadband access)"
INITIAL_WINDOW = "studies/initial-window"
CONNECTION_WINDOW = "studies/connection-window"
NEIGHBOURS = "studies/medium-neighbours"
SCENARIOS = (INITIAL_WINDOW, CONNECTION_WINDOW, NEIGHBOURS)
#: The case itself, and the one with random loss.
MEDIUM, LOSSY = "satellite/medium", "satellite/large-lossy"
#: Servers on the path with random loss, told which controller to have; and servers told an initial RTT as well.
CONTROLLERS, INITIAL_RTT = "studies/levels-250-3-lossy", "studies/fraction-50-10"
#: The times of the case, as metrics.
TIMES = ("milestone_2MB", "milestone_10MB", "milestone_100MB")
