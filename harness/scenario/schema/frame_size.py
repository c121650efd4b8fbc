"""Sizes of what a link carries."""

from __future__ import annotations

#: The IP MTU of every emulated link, bytes.
MTU = 1500
#: Bytes that tc counts on top of the IP packet: the Ethernet header.
FRAME_HEADER = 14
