"""Scenarios whose faults, files or test case cannot be: what is wrong, where, and the words that must say so."""

from __future__ import annotations

from tests.bad_files import Bad

FAULTY = """\
schema: 1
title: Faults
path:
  forward: {rate: 10 Mbit/s, delay: 15 ms, queue: 25 packets, drop: {rate: 30 %, burst: 3}}
  return: {rate: 10 Mbit/s, delay: 15 ms, drop: {packets: [2, 3]}, corrupt: {rate: 2 %, burst: 4}}
  blackhole: {after: 5 s, lasts: 2 s, repeat: 2}
testcase: transfer
ip_version: 4
flows:
  - files: [{count: 2, size: 1 KiB, name_length: 250}]
"""
_DROP, _LIST, _DARK = (
    "drop: {rate: 30 %, burst: 3}",
    "drop: {packets: [2, 3]}",
    "blackhole: {after: 5 s, lasts: 2 s, repeat: 2}",
)
_FILES = "files: [{count: 2, size: 1 KiB, name_length: 250}]"

FAULTS = [
    # --- what is dropped
    Bad(_DROP, "drop: ▸{}", "give exactly one of packets", "rate: 30 %"),
    Bad(_DROP, "drop: ▸{rate: 30 %, packets: [1]}", "give exactly one of packets", "rate: 30 %"),
    Bad(_DROP, "drop: {rate: ▸0 %}", "leaves nothing to chance", "30 %"),
    Bad(_DROP, "drop: {rate: ▸100 %}", "leaves nothing to chance", "30 %"),
    Bad(_DROP, "drop: {rate: ▸30}", "has no unit", "1 %"),
    Bad(_DROP, "drop: {rate: 30 %, burst: ▸0}", "at least 1, not 0", "limit"),
    Bad(_DROP, "drop: {rate: 30 %, burst: ▸17}", "at most 16, not 17", "limit"),
    Bad(_DROP, "drop: ▸30 %", "expected keys with values", ""),
    Bad(_LIST, "drop: ▸{packets: [2], burst: 1}", "a longest burst is of a rate", "leave out burst"),
    Bad(_LIST, "drop: ▸{packets: [3, 2]}", "number 2 stands behind 3", "in order"),
    Bad(_LIST, "drop: {packets: [▸0]}", "at least 1, not 0", "limit"),
    Bad(_LIST, "drop: {packets: [▸101]}", "at most 100, not 101", "limit"),
    Bad(_LIST, "drop: {▸pakets: [2]}", "unknown key", "'packets'"),
    Bad("return: {rate", "return: ▸{loss: 1 %, rate", "nobody can tell random loss from", "leave out loss"),
    # --- what is damaged
    Bad("corrupt: {rate: 2 %, burst: 4}", "corrupt: ▸{burst: 4}", "'rate' is missing", "rate"),
    Bad("corrupt: {rate: 2 %, burst: 4}", "corrupt: {rate: ▸-1 %}", "cannot be negative", "sign"),
    # --- when nothing passes
    Bad(_DARK, "blackhole: ▸{after: 0 s, lasts: 2 s}", "after is no time at all", "after: 2 s"),
    Bad(_DARK, "blackhole: ▸{after: 5 s, lasts: 0 s}", "lasts is no time at all", "lasts: 2 s"),
    Bad(_DARK, "blackhole: {after: 5 s, lasts: 2 s, repeat: ▸0}", "at least 1, not 0", "limit"),
    Bad(_DARK, "blackhole: ▸{after: 5 s}", "'lasts' is missing", "lasts"),
    # --- test cases
    Bad("testcase: transfer", "testcase: ▸transfers", "expected 'handshake'", "'transfer'"),
    Bad("testcase: transfer", "testcase: ▸5", "expected 'handshake'", ""),
    Bad("schema: 1", "▸schema: 1\nprotocol: h3", "a testcase decides the protocol", "leave out protocol"),
    Bad("ip_version: 4", "ip_version: ▸5", "expected 4, 6 or 46, not 5", "write 4, 6 or 46"),
    # --- files
    Bad(_FILES, "files: [{count: ▸0, size: 1 KiB}]", "at least 1, not 0", "limit"),
    Bad(_FILES, "files: [{count: ▸5001, size: 1 KiB}]", "at most 5000, not 5001", "limit"),
    Bad(_FILES, "files: [▸{count: 1, size: 0 B}]", "at least one byte", "1 KiB"),
    Bad(_FILES, "files: [{count: 1, size: 1 B, name_length: ▸256}]", "at most 255, not 256", "limit"),
    Bad(_FILES, "▸download: 1 MB\n    files: [{count: 1, size: 1 B}]", "several files have no other size", "leave out"),
    Bad(_FILES, "▸stop: 1 s\n    files: [{count: 1, size: 1 B}]", "several files have no other size", "leave out"),
    Bad(_FILES, "▸repeat_after: 1 s\n    files: [{count: 1, size: 1 B}]", "several files are not downloaded again", "leave"),
    Bad(_FILES, "▸kind: tcp\n    files: [{count: 1, size: 1 B}]", "a flow of tcp transfers no files", "kind: quic"),
    Bad(_FILES, "▸files: [{count: 3000, size: 1 B}, {count: 3000, size: 1 B}]", "6000 files", "fewer"),
]  # fmt: skip
