"""Scenarios whose clients cannot move as they say: what is wrong, where, and the words that must say so."""

from __future__ import annotations

from tests.bad_files import Bad

MOVING = """\
schema: 1
title: A handover
paths:
  cellular:
    forward: {rate: 100 Mbit/s, delay: 20 ms}
    return: {rate: 50 Mbit/s, delay: 20 ms}
  campus:
    forward: {rate: 150 Mbit/s, delay: 1 ms}
    return: {rate: 150 Mbit/s, delay: 1 ms}
flows:
  - download: 10 MB
    path: cellular
    moves:
      - {at: 200 ms, to: campus, how: migrate, overlap: 1 s}
      - {at: 5 s, how: nat-port, every: 1 s}
      - {at: 7 s, to: cellular, how: interface, gap: 50 ms}
draw:
  paths.cellular.forward.rate: [100 Mbit/s, 150 Mbit/s]
  paths.cellular.forward.loss: [0 %, 5 %]
"""
_FIRST = "{at: 200 ms, to: campus, how: migrate, overlap: 1 s}"
_SECOND = "{at: 5 s, how: nat-port, every: 1 s}"
_THIRD = "{at: 7 s, to: cellular, how: interface, gap: 50 ms}"
_RATE = "paths.cellular.forward.rate: [100 Mbit/s, 150 Mbit/s]"
_CAMPUS = "    forward: {rate: 150 Mbit/s, delay: 1 ms}\n    return: {rate: 150 Mbit/s, delay: 1 ms}\n"
_FLOW = "  - download: 10 MB\n    path: cellular\n    moves:\n"
_MARKED = _FLOW.replace("- ", "- ▸", 1)

MOVES = [
    # --- where to
    Bad("to: campus", "to: ▸campsu", "there is no path 'campsu'", "'campus'"),
    Bad("to: campus", "to: ▸cellular", "the client is on cellular already", "another path"),
    Bad("to: cellular, how", "to: ▸campus, how", "the client is on campus already", "another path"),
    Bad("to: campus", "to: ▸The Campus", "is not the name of a path", "campus"),
    Bad("to: campus", "to: ▸5", "expected a text, not 5", "quotes"),
    Bad(_FIRST, "▸{at: 200 ms, how: migrate}", "'to' is missing", "to: NAME"),
    Bad(_THIRD, "▸{at: 7 s, how: interface}", "'to' is missing", "to: NAME"),
    Bad(_SECOND, "▸{at: 5 s, how: nat-port, to: cellular}", "nat-port stays on its path", "leave out to"),
    Bad(_SECOND, "▸{at: 5 s, how: nat-address, to: cellular}", "nat-address stays on its path", "leave out to"),
    Bad("path: cellular", "path: ▸cellullar", "there is no path 'cellullar'", "'cellular'"),
    # --- when
    Bad("at: 200 ms", "at: ▸200", "has no unit", "300 ms"),
    Bad(_FIRST, "▸{at: 0 s, to: campus, how: migrate}", "a move at 0 comes before the connection", "200 ms"),
    Bad(_FLOW + "      - " + _FIRST + "\n      - " + _SECOND,
        _MARKED + "      - " + _FIRST + "\n      - {at: 200 ms, how: nat-port}",
        "two moves at once, at 200 ms", "a time of its own"),
    Bad(_FLOW + "      - " + _FIRST + "\n      - " + _SECOND,
        _MARKED + "      - " + _SECOND + "\n      - " + _FIRST,
        "moves must be in order of time", "the earlier one first"),
    Bad(_THIRD, "{at: 7 s, to: cellular, how: interface, gap: ▸9 h}", "longer than any run may last", "unit"),
    Bad("at: 7 s", "at: ▸120 s", "it moves at 120 s, and by 120 s the flow has ended", "earlier"),
    Bad("at: 7 s", "at: ▸9 h", "longer than any run may last", "unit"),
    Bad("every: 1 s", "every: ▸1 ms", "makes 2000 moves, and a flow has room for 1000", "longer time"),
    Bad(_SECOND, "▸{at: 5 s, how: nat-port, every: 0 s}", "no time to send in", "every: 5 s"),
    Bad(_FLOW + "      - " + _FIRST, _MARKED + "      - {at: 1 s, to: campus, how: interface, gap: 5 s}",
        "the gap of the move at 1 s lasts beyond the next one, at 5 s", "shorter gap"),
    # --- how
    Bad("how: migrate", "how: ▸migrat", "expected 'migrate'", "'migrate'"),
    Bad("to: campus, how: migrate", "▸too: campus, to: campus, how: migrate", "unknown key 'flows.0.moves.0.too'", "'to'"),
    Bad(_FIRST, "▸{at: 200 ms, to: campus, how: migrate, gap: 1 s}", "migrate has no gap", "leave out gap"),
    Bad(_THIRD, "▸{at: 7 s, to: cellular, how: interface, overlap: 1 s}", "interface has no overlap", "leave out"),
    Bad(_THIRD, "▸{at: 7 s, to: cellular, how: interface, every: 1 s}", "interface has no every", "leave out every"),
    Bad(_SECOND, "▸{at: 5 s, how: nat-port, gap: 1 s}", "nat-port has no gap", "leave out gap"),
    Bad("      - " + _SECOND, "      - ▸{at: 5 s}", "'how' is missing", "how"),
    # --- who
    Bad("- download: 10 MB", "- ▸kind: tcp\n    download: 10 MB", "a flow of tcp stays where it is", "kind: quic"),
    Bad("- download: 10 MB", "- ▸kind: udp\n    stop: 9 s\n    traffic: {model: cbr, rate: 1 Mbit/s}",
        "a flow of udp stays where it is", "kind: quic"),
    Bad("- download: 10 MB", "- ▸download: 10 MB\n    repeat_after: 1 s", "a flow that moves is not repeated", ""),
    Bad("- download: 10 MB", "- ▸download: 10 MB\n    start: 1 s", "a flow that moves starts with it", "leave out start"),
    # --- what becomes of a path that is left
    Bad("      - " + _FIRST + "\n      - " + _SECOND + "\n      - " + _THIRD + "\n",
        "      - ▸" + _FIRST + "\n      - " + _SECOND + "\n      - " + _THIRD + "\n  - {download: 1 MB}\n",
        "cellular is gone at 1.2 s, and flow 1 is on it", "move that flow first"),
    Bad("      - " + _FIRST, "      - ▸{at: 200 ms, to: campus, how: migrate, overlap: 8 s}",
        "cellular is gone at 8.2 s, and flow 0 is on it", "move that flow first"),
    Bad(_CAMPUS, _CAMPUS + "    changes: ▸[{at: 1 s, forward: {rate: 1 Mbit/s}}]\n",
        "a client loses this path at 7 s: its figures stay as they are", "leave out changes"),
    Bad("forward: {rate: 150 Mbit/s, delay: 1 ms}",
        "forward: {rate: 150 Mbit/s, delay: 1 ms, queue: 50 packets, service: ▸{process: poisson}}",
        "a client loses this path at 7 s", "leave out service"),
    # --- paths
    Bad("schema: 1\ntitle: A handover\n",
        "▸schema: 1\ntitle: A handover\n"
        "path: {forward: {rate: 1 Mbit/s, delay: 1 ms}, return: {rate: 1 Mbit/s, delay: 1 ms}}\n",
        "give exactly one of path", "leave one"),
    Bad("  campus:\n", "  ▸Campus:\n", "'Campus' is not the name of a path", "campus"),
    Bad("  campus:\n", "  ▸a-name-that-is-far-too-long:\n", "is not the name of a path", "campus"),
    Bad("schema: 1\ntitle: A handover\npaths:\n  cellular:\n",
        "▸schema: 1\ntitle: A handover\npaths:\n  cellular:\n    mtu: 1400\n",
        "the paths share the servers' network, and with it their MTU", "the same mtu"),
    Bad("    forward: {rate: 150 Mbit/s, delay: 1 ms}", "    forward: {rate: 150 Mbit/s, delay: 1 ms, queue: ▸100 B}",
        "less than one frame", "1514 B"),
    # --- values that are drawn
    Bad(_RATE, "▸paths.cellullar.forward.rate: [100 Mbit/s, 150 Mbit/s]", "there is no path 'cellullar'", "'cellular'"),
    Bad(_RATE, "▸path.forward.rate: [100 Mbit/s, 150 Mbit/s]", "the scenario has several paths", "paths.cellular"),
    Bad(_RATE, "▸paths.cellular.forward.speed: [1 Mbit/s, 2 Mbit/s]", "is not a property of the path", "PROPERTY"),
    Bad(_RATE, "▸paths.cellular.forward.queue: [1 BDP, 2 BDP]", "a queue is not drawn", "rate"),
    Bad(_RATE, "paths.cellular.forward.rate: ▸[150 Mbit/s, 100 Mbit/s]", "from the least to the most", "exchange"),
    Bad(_RATE, "paths.cellular.forward.rate: [▸100, 150 Mbit/s]", "has no unit", "50 Mbit/s"),
    Bad(_RATE, "paths.cellular.forward.rate: ▸[150 Mbit/s]", "needs 2 entries", "add"),
    Bad(_RATE, "paths.cellular.forward.rate: ▸150 Mbit/s", "expected a list", ""),
    Bad(_RATE, _RATE + "\n  ▸paths.cellular.down.rate: [1 Mbit/s, 2 Mbit/s]",
        "that is paths.cellular.forward.rate by another name", "leave one"),
    Bad(_RATE, "paths.cellular.forward.jitter: ▸[1 ms, 30 ms]", "jitter 30 ms exceeds the delay 20 ms", "jitter"),
    Bad("draw:\n  " + _RATE, "vary:\n  paths.cellular.forward.rate: [1 Mbit/s]\ndraw:\n  ▸" + _RATE,
        "is both drawn and varied", "leave one"),
    Bad("draw:\n  " + _RATE, "vary:\n  ▸paths.campsu.forward.rate: [1 Mbit/s]\ndraw:\n  " + _RATE,
        "there is no path 'campsu'", "'campus'"),
]  # fmt: skip
