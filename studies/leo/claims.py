"""What is said of transfers over a low orbit, and the scenarios that show it."""

from __future__ import annotations

#: The link that both scenarios have: the profile `leo`, whose file names the measurements behind it.
SOURCE = "Low orbits: a link with another satellite every 15 s (profile leo)"
HANDOVERS, STEADY = "leo/handovers", "leo/steady"
#: What the profile does every 15 s, and the most that nothing passes then, ms.
RECONFIGURATION = "the link gets another rate and other delays, and nothing passes for 20 to 80 ms"
LONGEST_OUTAGE = 80.0
