"""Clients' moves in a run: on the wire, and in the reports of the server's stack."""

from __future__ import annotations

from harness.analysis.handover.handover import ClientMove, client_moves

__all__ = ["ClientMove", "client_moves"]
