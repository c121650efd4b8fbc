"""Clients' moves in a run: on the wire, and in the reports of the server's stack."""

from __future__ import annotations

from harness.analysis.handover.handover import SeenMove, seen_moves

__all__ = ["SeenMove", "seen_moves"]
