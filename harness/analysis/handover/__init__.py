"""What a run shows of its clients' moves: on the wire, and in what the server's stack says of itself."""

from __future__ import annotations

from harness.analysis.handover.handover import SeenMove, seen_moves

__all__ = ["SeenMove", "seen_moves"]
