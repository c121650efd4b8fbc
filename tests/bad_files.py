"""Files that no harness can make sense of: what is wrong, where, and the words that must say so.

A case is a good file with one text in place of another. '▸' stands where the message must point, and is removed.
"""

from __future__ import annotations

from typing import NamedTuple

MARK = "▸"
#: What pydantic, Python and PyYAML say among themselves.
RAW = ("Input should", "Value error", "valid dictionary", "function-", "Traceback", "Error:", "pydantic", "NoneType")


class Bad(NamedTuple):
    """One mistake in a good file."""

    original: str
    mutated: str
    error: str
    hint: str = ""

    def text(self, good: str) -> tuple[str, int, int]:
        """The bad file, and the line and column that the message must name."""
        assert good.count(self.original) == 1, f"{self.original!r} stands {good.count(self.original)} times"
        marked = good.replace(self.original, self.mutated)
        assert marked.count(MARK) == 1, self.mutated
        at = marked.index(MARK)
        return marked.replace(MARK, ""), marked.count("\n", 0, at) + 1, at - marked.rfind("\n", 0, at)


#: What the good scenario has of changes.
_CHANGES = "  changes:\n    - {at: 5 s, forward: {rate: 20 Mbit/s}}\n"
SCENARIO = """\
schema: 1
title: A case
description: What it stands for.
references: [somebody]
path:
  forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP, loss: 1 %}
  return: {rate: 10 Mbit/s, delay: 300 ms}
  terminal: client
  mtu: 1500
  changes:
    - {at: 5 s, forward: {rate: 20 Mbit/s}}
flows:
  - {download: 10 MB, start: 0 s}
clients: [ngtcp2]
servers: [quiche]
protocol: auto
ip_version: 4
timeout: 120 s
repetitions: 3
milestones: [2 MB, 10 MB]
objectives:
  - {metric: completion, at_most: 9 s}
parameters:
  server.congestion_control: reno
vary:
  server.initial_cwnd: [10, 32]
combine: product
"""

#: Of everything that a scenario may say, what a person gets wrong.
SCENARIOS = [
    # --- keys
    Bad("title: A case", "▸titel: A case", "unknown key 'titel'", "'title'"),
    Bad("schema: 1\ntitle: A case", "▸schema: 1", "'title' is missing", "title"),
    Bad("{rate: 50 Mbit/s, d", "{▸rat: 50 Mbit/s, d", "unknown key 'path.forward.rat'", "'rate'"),
    Bad("forward: {rate: 50 Mbit/s, ", "forward: ▸{", "'rate' is missing in path.forward", "rate"),
    Bad(
        "  return: {rate: 10 Mbit/s, delay: 300 ms}",
        "  ▸retrun: {rate: 10 Mbit/s, delay: 300 ms}",
        "unknown key 'path.retrun'",
        "'return'",
    ),
    Bad("path:\n  forward", "path:\n  ▸uplink: {rate: 1 Mbit/s, delay: 1 ms}\n  forward", "unknown key 'path.uplink'"),
    Bad("jitter: 1 ms", "▸jiter: 1 ms", "unknown key 'path.forward.jiter'", "'jitter'"),
    Bad("queue: 1 BDP", "▸buffer: 1 BDP", "unknown key 'path.forward.buffer'"),
    Bad("loss: 1 %", "▸losses: 1 %", "unknown key 'path.forward.losses'", "'loss'"),
    Bad("mtu: 1500", "▸download: 10 MB", "unknown key 'path.download'", "is a key of Flow"),
    Bad("start: 0 s}", "start: 0 s, path: ▸campus}", "one path, which has no name", "leave it out"),
    Bad(
        "start: 0 s}",
        "start: 0 s, moves: [{at: 1 s, how: migrate, to: ▸campus}]}",
        "one path, which has no name: there is none to move to",
        "paths: {NAME",
    ),
    Bad("vary:\n", "draw:\n  ▸paths.x.forward.rate: [1 Mbit/s, 2 Mbit/s]\nvary:\n", "one path", "path.forward.rate"),
    Bad("start: 0 s}", "start: 0 s, ▸rate: 5 Mbit/s}", "unknown key 'flows.0.rate'", "is a key of"),
    Bad("start: 0 s}", "▸begin: 0 s}", "unknown key 'flows.0.begin'"),
    Bad("clients: [ngtcp2]", "▸client: [ngtcp2]", "unknown key 'client'", "is a key of Flow"),
    Bad("timeout: 120 s", "▸time_out: 120 s", "unknown key 'time_out'", "'timeout'"),
    Bad("timeout: 120 s", "▸Timeout: 120 s", "unknown key 'Timeout'", "'timeout'"),
    Bad("{at: 5 s, ", "{▸after: 5 s, ", "unknown key 'path.changes.0.after'", ""),
    Bad(
        "{at: 5 s, forward: {rate: 20 Mbit/s}}",
        "{at: 5 s, ▸froward: {rate: 20 Mbit/s}}",
        "unknown key 'path.changes.0.froward'",
        "'forward'",
    ),
    Bad("at_most: 9 s", "▸at_mots: 9 s", "unknown key 'objectives.0.at_mots'", "'at_most'"),
    Bad("title: A case", "▸1: x\ntitle: A case", "unknown key '1'"),
    Bad("title: A case", "▸on: x\ntitle: A case", "unknown key 'on'"),
    Bad("title: A case", "▸null: x\ntitle: A case", "unknown key 'null'"),
    Bad("title: A case", "▸2026-01-01: x\ntitle: A case", "unknown key '2026-01-01'"),
    Bad("title: A case", "▸: x\ntitle: A case", "not valid YAML", "colons"),
    Bad("mtu: 1500", "mtu: 1500\n  ▸terminal: server", "'terminal' is given twice", "remove one"),
    Bad("title: A case", "title: A case\n▸title: Another", "'title' is given twice", "remove one"),
    Bad("loss: 1 %", "loss: 1 %, ▸loss: 2 %", "'loss' is given twice", "remove one"),
    # --- kinds
    Bad("schema: 1", "schema: ▸2", "expected 1, not 2", "1"),
    Bad("schema: 1", "schema: ▸one", "expected 1, not 'one'", "1"),
    Bad("title: A case", "title: ▸[A, case]", "expected a text, not a list", "one value"),
    Bad("title: A case", "title: ▸5", "expected a text, not 5", "quotes"),
    Bad("title: A case", "title: ▸1.20", "expected a text, not 1.2", "quotes"),
    Bad("title: A case", "title: ▸true", "expected a text, not true", "quotes"),
    Bad("title: A case", "title:▸", "expected a text, and there is nothing", "leave the key out"),
    Bad("title: A case", "title: ▸{a: case}", "expected a text, not keys with values", ""),
    Bad("title: A case", 'title: ▸"A\\ncase"', "is not one line of text", ""),
    Bad("description: What it stands for.", "description: ▸[What]", "expected a text, not a list", ""),
    Bad("references: [somebody]", "references: ▸somebody", "expected a list, not 'somebody'", "[one, other]"),
    Bad("references: [somebody]", "references: [▸5]", "expected a text, not 5", "quotes"),
    Bad("references: [somebody]", "references: ▸{a: b}", "expected a list, not keys with values", ""),
    Bad("flows:\n  - {download: 10 MB, start: 0 s}", "flows: ▸[]", "needs at least 1 entry", "fill the list"),
    Bad(
        "flows:\n  - {download: 10 MB, start: 0 s}",
        "flows: ▸{download: 10 MB}",
        "expected a list, not keys with values",
        "",
    ),
    Bad("flows:\n  - {download: 10 MB, start: 0 s}", "flows: ▸10 MB", "expected a list, not '10 MB'", ""),
    Bad("flows:\n  - {download: 10 MB, start: 0 s}", "flows:▸", "expected a list, and there is nothing", ""),
    Bad("- {download: 10 MB, start: 0 s}", "- ▸10 MB", "expected keys with values, not '10 MB'", "{key: value}"),
    Bad("- {download: 10 MB, start: 0 s}", "-▸", "expected keys with values, and there is nothing", ""),
    Bad("{rate: 10 Mbit/s, delay: 300 ms}", "▸10 Mbit/s", "expected keys with values, not '10 Mbit/s'", ""),
    Bad("{rate: 10 Mbit/s, delay: 300 ms}", "▸[10 Mbit/s, 300 ms]", "expected keys with values, not a list", ""),
    Bad(
        "  changes:\n    - {at: 5 s, forward: {rate: 20 Mbit/s}}",
        "  changes: ▸{at: 5 s, forward: {rate: 20 Mbit/s}}",
        "expected a list, not keys with values",
        "",
    ),
    Bad("clients: [ngtcp2]", "clients: ▸ngtcp2", "expected a list, not 'ngtcp2'", "[one, other]"),
    Bad("clients: [ngtcp2]", "clients: [▸5]", "expected a text, not 5", ""),
    Bad("repetitions: 3", "repetitions: ▸three", "expected a whole number, not 'three'", "digits"),
    Bad("repetitions: 3", "repetitions: ▸3.5", "expected a whole number, not 3.5", ""),
    Bad("repetitions: 3", "repetitions: ▸yes", "expected a whole number, not true", ""),
    Bad("repetitions: 3", "repetitions: ▸[3]", "expected a whole number, not a list", ""),
    Bad("repetitions: 3", "repetitions: ▸2026-01-01", "expected a whole number, not '2026-01-01'", ""),
    Bad("repetitions: 3", "repetitions: ▸0x10", "expected a whole number, not '0x10'", ""),
    Bad("repetitions: 3", "repetitions: ▸1:30", "expected a whole number, not '1:30'", ""),
    Bad("repetitions: 3", "repetitions: ▸0", "at least 1, not 0", "1"),
    Bad("repetitions: 3", "repetitions: ▸-1", "at least 1, not -1", ""),
    Bad("repetitions: 3", "repetitions: ▸1000000000", "at most 1000, not 1000000000", "1000"),
    Bad("milestones: [2 MB, 10 MB]", "milestones: ▸2 MB", "expected a list, not '2 MB'", ""),
    Bad("milestones: [2 MB, 10 MB]", "milestones: [▸2]", "has no unit", "10 MB"),
    Bad("milestones: [2 MB, 10 MB]", "milestones: [2 MB, ▸2 MB]", "'2 MB' is given twice", "leave one"),
    Bad("milestones: [2 MB, 10 MB]", "milestones: [▸0 B, 10 MB]", "nothing has arrived before", "2 MB"),
    # --- units
    Bad("rate: 50 Mbit/s", "rate: ▸50", "has no unit", "50 Mbit/s"),
    Bad("rate: 50 Mbit/s", "rate: ▸50 MB", "'MB' is not a unit of a rate"),
    Bad("rate: 50 Mbit/s", "rate: ▸50 Mbix/s", "'Mbix/s' is not a unit of a rate", "'Mbit/s'"),
    Bad("rate: 50 Mbit/s", "rate: ▸50 mbit/s", "'mbit/s' is not a unit of a rate", "'Mbit/s'"),
    Bad("rate: 50 Mbit/s", "rate: ▸fast", "'fast' is not a rate", "50 Mbit/s"),
    Bad("rate: 50 Mbit/s", "rate: ▸-50 Mbit/s", "a rate cannot be negative", "sign"),
    Bad("rate: 50 Mbit/s", "rate: ▸0 bit/s", "at least 1 kbit/s", "unit"),
    Bad("rate: 50 Mbit/s", "rate: ▸999 bit/s", "at least 1 kbit/s", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸100 Gbit/s", "tc has no rate beyond", "10 Gbit/s"),
    Bad("rate: 50 Mbit/s", "rate: ▸1e999999999 Mbit/s", "out of all proportion", "50 Mbit/s"),
    Bad("rate: 50 Mbit/s", "rate: ▸1e-999999999 Mbit/s", "out of all proportion", "50 Mbit/s"),
    Bad("rate: 50 Mbit/s", f"rate: ▸{'9' * 5000} bit/s", "out of all proportion", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸1e19 bit/s", "out of all proportion", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸nan Mbit/s", "is not a rate", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸inf Mbit/s", "is not a rate", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸0x32 Mbit/s", "is not a unit of a rate", ""),
    Bad("rate: 50 Mbit/s", "rate: 50,▸5 Mbit/s", "unknown key 'path.forward.5 Mbit/s'", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸.inf", "'.inf' is not a rate", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸[50 Mbit/s]", "a list has no unit", "50 Mbit/s"),
    Bad("rate: 50 Mbit/s", "rate: ▸{value: 50 Mbit/s}", "keys with values has no unit", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸~", "nothing has no unit", ""),
    Bad("rate: 50 Mbit/s", "rate: ▸true", "true has no unit", ""),
    Bad("delay: 325 ms", "delay: ▸325", "has no unit", "300 ms"),
    Bad("delay: 325 ms", "delay: ▸325 sec", "'sec' is not a unit of a duration", "s"),
    Bad("delay: 325 ms", "delay: ▸325 m", "'m' is not a unit of a duration", "'ms'"),
    Bad("delay: 325 ms", "delay: ▸-325 ms", "a duration cannot be negative", ""),
    Bad("delay: 325 ms", "delay: ▸325 Mbit/s", "'Mbit/s' is not a unit of a duration", ""),
    Bad("delay: 325 ms", "delay: ▸2026-01-01", "is not a unit of a duration", ""),
    Bad("delay: 325 ms", "delay: ▸1e30 s", "out of all proportion", ""),
    Bad("jitter: 1 ms", "jitter: ▸1", "has no unit", ""),
    Bad("loss: 1 %", "loss: ▸0.01", "0.01 has no unit", "1 %"),
    Bad("loss: 1 %", "loss: ▸1", "1 has no unit", "1 %"),
    Bad("loss: 1 %", "loss: ▸1 percent", "'percent' is not a unit of a fraction", ""),
    Bad("loss: 1 %", "loss: ▸101 %", "more than the whole", "1 %"),
    Bad("loss: 1 %", "loss: ▸-1 %", "cannot be negative", ""),
    Bad("loss: 1 %", "loss: ▸[1 %]", "a list has no unit", "1 %"),
    Bad("loss: 1 %", "loss: ▸{good_to_bad: 1 %}", "'bad_to_good' is missing in path.forward.loss", "bad_to_good"),
    Bad("loss: 1 %", "loss: {good_to_bad: ▸1, bad_to_good: 30 %}", "1 has no unit", "1 %"),
    Bad(
        "loss: 1 %",
        "loss: {good_to_bad: 1 %, bad_to_good: 30 %, ▸loss_in_bda: 5 %}",
        "unknown key 'path.forward.loss.loss_in_bda'",
        "'loss_in_bad'",
    ),
    Bad("loss: 1 %", "loss: {good_to_bad: 1 %, bad_to_good: ▸300 %}", "more than the whole", ""),
    Bad("queue: 1 BDP", "queue: ▸1", "1 is not a queue", "1 BDP"),
    Bad("queue: 1 BDP", "queue: ▸1 bdp", "is not a queue size", "1 BDP"),
    Bad("queue: 1 BDP", "queue: ▸[1 BDP]", "a list is not a queue", "1 BDP"),
    Bad("queue: 1 BDP", "queue: ▸0 B", "a queue that holds nothing", "1 BDP"),
    Bad("queue: 1 BDP", "queue: ▸0.5 packets", "a queue holds whole packets", "25 packets"),
    Bad("queue: 1 BDP", "queue: ▸-1 BDP", "is not a queue size", ""),
    Bad("queue: 1 BDP", f"queue: ▸{'9' * 5000} BDP", "out of all proportion", ""),
    Bad("queue: 1 BDP", "queue: ▸RED", "is not a queue size", ""),
    Bad("queue: 1 BDP", "queue: ▸red", "is not a queue size", ""),
    Bad("queue: 1 BDP", "queue: ▸codle", "'codle' is neither a size ('1 BDP') nor a discipline", "'codel'"),
    Bad("queue: 1 BDP", "queue: ▸hfsc", "is neither a size", "known: cake, codel"),
    Bad("queue: 1 BDP", "queue: ▸codel 1 bdp", "is not a queue size", ""),
    Bad(
        "queue: 1 BDP",
        "queue: {discipline: ▸codle, target: 5 ms}",
        "'codle' is no discipline: it is one of droptail, red, codel",
        "'codel'",
    ),
    Bad(
        "queue: 1 BDP",
        "queue: {discipline: codel, ▸size: 1 BDP}",
        "unknown key 'path.forward.queue.size'",
        "the keys here are limit, ecn, discipline, target, interval",
    ),
    Bad(
        "queue: 1 BDP",
        "queue: {discipline: codel, ▸taget: 5 ms}",
        "unknown key 'path.forward.queue.taget'",
        "did you mean 'target'?",
    ),
    Bad("queue: 1 BDP", "queue: {discipline: codel, target: ▸1 us}", "the kernel has 10 us to 1000 s", "5 ms"),
    Bad("queue: 1 BDP", "queue: {discipline: codel, target: ▸5}", "5 has no unit", "for example"),
    Bad("queue: 1 BDP", "queue: {discipline: fq_codel, flows: ▸0}", "it is at least 1, not 0", "1"),
    Bad("queue: 1 BDP", "queue: {discipline: fq_pie, flows: ▸70000}", "it is at most 65536", "65536"),
    Bad("queue: 1 BDP", "queue: {discipline: pie, alpha: ▸33}", "it is at most 32, not 33", "32"),
    Bad("queue: 1 BDP", "queue: {discipline: sfq, depth: ▸128}", "it is at most 127", "127"),
    Bad("queue: 1 BDP", "queue: {discipline: cake, isolation: ▸flow}", "expected", "'flows'"),
    Bad("queue: 1 BDP", "queue: ▸{discipline: step}", "'threshold' is missing in path.forward.queue", "threshold"),
    Bad("queue: 1 BDP", "queue: ▸codel 100 B", "less than one frame", "1514 B"),
    Bad(
        "queue: 1 BDP",
        "queue: {discipline: dualpi2, classic_protection: ▸12.5 %}",
        "the kernel has whole percents",
        "10 %",
    ),
    Bad("queue: 1 BDP", "queue: {discipline: ▸Red, size: 1 BDP}", "'Red' is no discipline", "'red'"),
    Bad("queue: 1 BDP", "queue: ▸{discipline: droptail}", "'size' is missing in path.forward.queue", "size"),
    Bad(
        "queue: 1 BDP",
        "queue: {size: 1 BDP, ▸limit: 1 BDP}",
        "unknown key 'path.forward.queue.limit'",
        "is a key of Cake and Codel and DualPi2 and 6 others; the keys here are discipline, size",
    ),
    # --- what a link does behind its queue
    Bad("loss: 1 %", "▸reoder: 1 %", "unknown key 'path.forward.reoder'", "did you mean 'reorder'?"),
    Bad(
        "loss: 1 %",
        "▸swap: 1 %",
        "unknown key 'path.forward.swap'",
        "the keys here are rate, service, delay, jitter, reorder, duplicate, loss",
    ),
    Bad("loss: 1 %", "reorder: ▸0 %", "a share of 0 % reorders nothing", "leave reorder out"),
    Bad("loss: 1 %", "reorder: ▸150 %", "150 %", ""),
    Bad("loss: 1 %", "reorder: ▸{gap: 5}", "'share' is missing in path.forward.reorder", "share"),
    Bad(
        "loss: 1 %", "reorder: {share: 1 %, ▸distance: 3}", "unknown key 'path.forward.reorder.distance'", "gap, ahead"
    ),
    Bad("loss: 1 %", "reorder: {share: 1 %, gap: ▸0}", "it is at least 1", "1"),
    Bad("loss: 1 %", "duplicate: ▸3", "3", "%"),
    Bad(
        "  forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms",
        "  forward: ▸{rate: 50 Mbit/s, delay: 325 ms, duplicate: 1 %, reorder: {share: 1 %, ahead: 3 ms}",
        "one that duplicates must be alone",
        "leave out ahead, or duplicate",
    ),
    Bad("loss: 1 %", "ecn: ▸blech", "expected", "'bleach'"),
    Bad(
        "jitter: 1 ms",
        "jitter: {deviation: 5 ms, ▸distribtion: normal}",
        "unknown key 'path.forward.jitter.distribtion'",
        "did you mean 'distribution'",
    ),
    Bad("jitter: 1 ms", "jitter: {deviation: 5 ms, distribution: ▸gauss}", "expected", "normal"),
    Bad(
        "jitter: 1 ms", "jitter: ▸{distribution: normal}", "'deviation' is missing in path.forward.jitter", "deviation"
    ),
    # --- what tc and the kernel cannot be
    Bad("queue: 1 BDP", "queue: ▸100 B", "less than one frame", "1514 B"),
    Bad("queue: 1 BDP", "queue: ▸1 us", "less than one frame", ""),
    Bad("queue: 1 BDP", "queue: ▸10 GB", "tc has no queue beyond", "1 BDP"),
    Bad("queue: 1 BDP", "queue: ▸9999999999 packets", "tc has no queue beyond", ""),
    Bad("queue: 1 BDP", "queue: ▸100000 BDP", "tc has no queue beyond", ""),
    Bad(
        "forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms",
        "forward: ▸{rate: 50 Mbit/s, delay: 325 ms, jitter: 400 ms",
        "jitter 400 ms exceeds the delay 325 ms",
    ),
    Bad("delay: 325 ms, jitter: 1 ms", "delay: 5 s, jitter: ▸3 s", "netem has no jitter beyond 2.1 s", "10 ms"),
    Bad("forward: {rate: 50 Mbit/s,", "forward: ▸{rate: 50 Mbit/s, burst: 100 B,", "below one frame"),
    Bad("forward: {rate: 50 Mbit/s,", "forward: {rate: 50 Mbit/s, burst: ▸5 GB,", "no bucket beyond", "15 kB"),
    Bad(
        "  forward: {rate: 50 Mbit/s, delay: 325 ms",
        "  ▸forward: {rate: 1 Gbit/s, delay: 5 s",
        "a lab has room for",
        "smaller",
    ),
    Bad("mtu: 1500", "mtu: ▸1000", "an interface with an MTU of 1000 B has no IPv6", "forward: {mtu: 1000}"),
    Bad("mtu: 1500", "mtu: ▸9001", "at most 9000, not 9001", "9000"),
    Bad(", loss: 1 %}", ", mtu: ▸67}", "at least 68, not 67", "68"),
    Bad(", loss: 1 %}", ", mtu: ▸{icmp: false}}", "'size' is missing in path.forward.mtu", ""),
    Bad(", loss: 1 %}", ", mtu: {size: 1400, ▸silent: true}}", "unknown key 'path.forward.mtu.silent'", "'size'"),
    Bad(", loss: 1 %}", ", mtu: ▸1400 B}", "expected a whole number, not '1400 B'", "digits"),
    Bad(
        "path:\n  forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP, loss: 1 %}",
        "path:\n  ▸forward: {rate: 50 Mbit/s, delay: 325 ms, queue: 1 BDP, mtu: 1501}",
        "forward: an MTU of 1501 B, and the interfaces carry 1500 B at most",
        "give the path mtu: 1501",
    ),
    Bad("mtu: 1500", "mtu: ▸1500 B", "expected a whole number, not '1500 B'", "digits"),
    Bad("mtu: 1500", "mtu: ▸on", "expected a whole number, not true", ""),
    Bad("terminal: client", "terminal: ▸satellite", "expected 'client' or 'server', not 'satellite'", "server"),
    Bad(
        "{rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "▸{rate: 50 Mbit/s, service: {process: poisson}, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "counts packets",
    ),
    Bad(
        "{rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "{rate: 50 Mbit/s, service: {process: ▸uniform}, delay: 325 ms, jitter: 1 ms, queue: 20 packets",
        "'uniform' is no process: it is one of poisson, slots",
        "poisson",
    ),
    Bad(
        "{rate: 10 Mbit/s, delay: 300 ms}\n  terminal: client\n  mtu: 1500\n  changes:\n    - {at: 5 s, forward: {rate: 20 Mbit/s}}",
        "{rate: ▸5 kbit/s, delay: 300 ms, queue: 20 packets, service: {process: poisson}}",
        "netem has no Poisson process as slow as 5 kbit/s",
        "1 Mbit/s",
    ),
    Bad(
        "{rate: 10 Mbit/s, delay: 300 ms}\n  terminal: client\n  mtu: 1500\n  changes:\n    - {at: 5 s, forward: {rate: 20 Mbit/s}}",
        "{rate: 5 Mbit/s, delay: 300 ms, queue: 20 packets, service: {process: poisson, cold_start: ▸1 ns, period: 2 ns}}",
        "this one ends before that",
        "5 s",
    ),
    Bad(
        "{rate: 10 Mbit/s, delay: 300 ms}\n  terminal: client\n  mtu: 1500\n  changes:\n    - {at: 5 s, forward: {rate: 20 Mbit/s}}",
        "{rate: 5 Mbit/s, delay: 300 ms, queue: 20 packets, service: ▸{process: poisson, cold_start: 5 s, period: 2 s}}",
        "before it is over",
    ),
    Bad(
        "path:\n  forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "path:\n  ▸forward: {rate: 50 Mbit/s, service: {process: poisson}, delay: 325 ms, jitter: 1 ms, queue: 20 packets",
        "keeps its rate",
    ),
    # --- policers and slots
    Bad("queue: 1 BDP", "queue: {discipline: policer, burst: ▸1 kB}", "holds less than one frame (1514 B)", "1514 B"),
    Bad("queue: 1 BDP", "queue: {discipline: policer, burst: 100 kB, exceed: ▸remark}", "another DSCP", "dscp: 8"),
    Bad("queue: 1 BDP", "queue: {discipline: policer, burst: 100 kB, ▸limit: 1 BDP}", "unknown key", "limit"),
    Bad(
        "{rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "▸{rate: 50 Mbit/s, service: {process: slots, every: 10 ms, packets: 5}, delay: 325 ms, queue: 1 BDP",
        "opportunities carry 4.968 Mbit/s of 1200-byte datagrams, less than the link's 50 Mbit/s",
        "more packets",
    ),
    Bad(
        "{rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "▸{rate: 50 Mbit/s, service: {process: slots, every: 10 ms}, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "cannot be told apart",
        "leave out jitter",
    ),
    # --- RED
    *(
        Bad("queue: 1 BDP", "queue: " + queue, says, hint)
        for queue, says, hint in [
            (
                "▸{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %}",
                "exactly one of wq and burst",
                "",
            ),
            (
                "▸{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: 0.002, burst: 50}",
                "exactly one of wq and burst",
                "",
            ),
            ("▸{discipline: red, limit: 50 kB, min: 15 kB, probability: 10 %, wq: 0.002}", "'max' is missing", "max"),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: ▸100 %, wq: 0.002}",
                "wraps 1.0 to 0",
                "",
            ),
            ("{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: ▸0 %, wq: 0.002}", "above 0 %", ""),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: ▸0.1, wq: 0.002}",
                "0.1 has no unit",
                "1 %",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: ▸0.0000001 %, wq: 0.002}",
                "no probability as small",
                "10 %",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: ▸2}",
                "at most 0.5, not 2",
                "",
            ),
            ("{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: ▸0}", "more than 0", ""),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: ▸.nan}",
                "expected a number, not '.nan'",
                "",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: ▸nan}",
                "expected a number",
                "",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: ▸1e-30}",
                "no weight as small",
                "0.002",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: ▸0.00001}",
                "32 bits of the kernel's average",
                "larger wq",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, burst: ▸1}",
                "no weight for a burst of 1",
                "15 or more",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, burst: ▸0}",
                "more than 0",
                "",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, burst: ▸1.5}",
                "expected a whole number",
                "",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, burst: ▸1000000000}",
                "no weight for a burst of 1000000000",
                "would do",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: 0.002, average_packet: ▸0 B}",
                "a packet has 1 to 1514 B, not 0",
                "1000 B",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: 0.002, average_packet: ▸1 GB}",
                "a packet has 1 to 1514 B",
                "1000 B",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: 0.002, ecn: ▸maybe}",
                "expected true or false, not 'maybe'",
                "true",
            ),
            (
                "{discipline: red, limit: 50 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: 0.002, ▸gentle: true}",
                "unknown key 'path.forward.queue.gentle'",
                "",
            ),
        ]
    ),
    Bad(
        "path:\n  forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "path:\n  ▸forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: {discipline: red, limit: 50 kB, min: 40 kB, max: 15 kB, probability: 10 %, wq: 0.002}",
        "RED needs min below max",
    ),
    Bad(
        "path:\n  forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP",
        "path:\n  ▸forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: {discipline: red, limit: 30 kB, min: 15 kB, max: 40 kB, probability: 10 %, wq: 0.002}",
        "max within the limit",
    ),
    Bad(
        "queue: 1 BDP",
        "queue: {discipline: red, limit: 4 GB, min: 1 GB, max: 3 GB, probability: 10 %, wq: ▸0.002}",
        "32 bits of the kernel's average",
        "larger wq",
    ),
    # --- changes
    Bad("forward: {rate: 20 Mbit/s}}", "forward: {rate: ▸900 bit/s}}", "at least 1 kbit/s", "unit"),
    Bad("forward: {rate: 20 Mbit/s}}", "forward: {rate: ▸20}}", "20 has no unit", ""),
    Bad("forward: {rate: 20 Mbit/s}}", "forward: {rate: ▸100 Gbit/s}}", "tc has no rate beyond", ""),
    Bad("forward: {rate: 20 Mbit/s}}", "forward: ▸{}}", "a change needs at least one of rate, delay, jitter"),
    Bad("{at: 5 s, forward: {rate: 20 Mbit/s}}", "▸{at: 5 s}", "a change needs a direction"),
    Bad("{at: 5 s, forward: {rate: 20 Mbit/s}}", "{at: ▸5, forward: {rate: 20 Mbit/s}}", "5 has no unit", ""),
    Bad(
        "{at: 5 s, forward: {rate: 20 Mbit/s}}",
        "{at: ▸1000 h, forward: {rate: 20 Mbit/s}}",
        "longer than any run may last",
        "unit",
    ),
    Bad("forward: {rate: 20 Mbit/s}}", "forward: {delay: ▸0 ms}}", "jitter 1 ms exceeds the delay", "delay"),
    # --- changes that repeat, and values of changes
    *(
        Bad("{at: 5 s, forward: {rate: 20 Mbit/s}}", changed, says, hint)
        for changed, says, hint in [
            ("▸{at: 5 s, every: 0 s, forward: {rate: 20 Mbit/s}}", "comes again after no time", "15 s"),
            ("▸{at: 5 s, until: 9 s, forward: {rate: 20 Mbit/s}}", "without every comes once", "every"),
            ("▸{at: 5 s, every: 1 s, until: 5 s, forward: {rate: 20 Mbit/s}}", "and ends at 5 s", "later until"),
            ("{at: 5 s, every: ▸50 ms, forward: {rate: 20 Mbit/s}}", "and a path has room for 1000", "{trace: FILE}"),
            ("▸{at: 3 min, every: 5 s, forward: {rate: 20 Mbit/s}}", "when every flow has ended", "earlier"),
            ("{at: 5 s, forward: {delay: ▸[40 ms, 20 ms]}}", "from the least to the most", "[20 ms, 40 ms]"),
            ("{at: 5 s, forward: {delay: [20 ms, ▸40]}}", "40 has no unit", ""),
            ("{at: 5 s, forward: {delay: ▸[20 ms]}}", "needs 2 entries", ""),
            ("{at: 5 s, forward: {jitter: ▸[1 ms, 400 ms]}}", "jitter 400 ms exceeds the delay", "smaller jitter"),
            ("{at: 5 s, forward: {jitter: ▸{deviation: 2 ms}}}", "netem keeps the order", "order: free"),
            ("{at: 5 s, forward: {reorder: ▸{share: 1 %, ahead: 2 ms}}}", "some time ahead stay so", "ahead"),
            ("{at: 5 s, forward: {queue: ▸100 B}}", "no full packet would pass", "1514 B"),
            ("{at: 5 s, forward: {rate: 0 bit/s, queue: ▸9 ms}}", "of a rate of 0 bit/s are nothing", "packets"),
            ("{at: 5 s, forward: {outage: ▸0 s}}", "an outage of no time", "50 ms"),
            (
                "{at: 5 s, every: 3 s, forward: {rate: 2 Mbit/s}}\n    - {at: 8 s, forward: {rate: ▸1 Mbit/s}}",
                "at 8 s changes.0.forward.rate gives the rate of forward as well",
                "until",
            ),
            (
                "{at: 5 s, every: 3 s, forward: {outage: [1 s, 2 s]}}\n"
                "    - {at: 7 s, every: 30 s, forward: {outage: 20 ms}}\n  blackhole: ▸{after: 6 s, lasts: 1 s}",
                "in the outage of changes.0.forward.outage until 7 s",
                "shorter",
            ),
        ]
    ),
    Bad(
        "jitter: 1 ms, queue: 1 BDP, loss: 1 %",
        "jitter: 1 ms, blackhole: ▸{after: 1 s, lasts: 2 s, every: 2 s}",
        "begins every 2 s, and lasts up to 2 s",
        "longer every",
    ),
    Bad(
        "jitter: 1 ms, queue: 1 BDP, loss: 1 %",
        "jitter: 1 ms, blackhole: ▸{after: 1 s, lasts: 2 s, every: 5 s, repeat: 2}",
        "both say how often",
        "leave one",
    ),
    Bad(
        "path:\n  forward: {rate: 50 Mbit/s, delay: 325 ms, jitter: 1 ms, queue: 1 BDP, loss: 1 %}\n  return: {rate: 10 Mbit/s, delay: 300 ms}\n  terminal: client\n  mtu: 1500\n  changes:\n    - {at: 5 s, forward: {rate: 20 Mbit/s}}",
        "path:\n  ▸forward: {rate: 50 Mbit/s, delay: 325 ms}\n  return: {rate: 10 Mbit/s, delay: 300 ms}\n  changes:\n    - {at: 5 s, forward: {rate: 20 Mbit/s}}\n    - {at: 1 s, forward: {rate: 20 Mbit/s}}",
        "in order of time",
    ),
    # --- flows
    *(
        Bad("{download: 10 MB, start: 0 s}", flow, says, hint)
        for flow, says, hint in [
            ("▸{start: 0 s}", "exactly one of download, upload (sizes) and stop", ""),
            ("▸{download: 10 MB, stop: 5 s}", "exactly one of download", ""),
            ("{download: ▸10}", "10 has no unit", "10 MB"),
            ("{download: ▸10 Mbit/s}", "'Mbit/s' is not a unit of a size", ""),
            ("{download: ▸10 mb}", "'mb' is not a unit of a size", "MB"),
            ("{download: ▸0 B}", "a flow with a size transfers something", "1 MB"),
            ("{download: ▸1000000 GB}", "at the rate of the line", "smaller"),
            ("{download: 10 MB, access_delay: ▸100 s}", "a round trip takes 200.625 s with it", "unit"),
            ("{files: ▸[{count: 5000, size: 1000 GB}]}", "files of 5000000 GB in all take", "fewer"),
            ("{files: ▸[{count: 3, size: 100 GB}], start: 0 s}", "at the rate of the line", "smaller"),
            ("{files: ▸[{count: 5000, size: 1 kB}]}", "the addresses of its files are", "fewer"),
            ("{files: ▸[{count: 600, size: 1 kB, name_length: 250}]}", "the addresses of its files are", "shorter"),
            ("{download: ▸1e30 B}", "out of all proportion", ""),
            ("{download: 10 MB, start: ▸soon}", "'soon' is not a duration", ""),
            ("{download: 10 MB, start: ▸-1 s}", "cannot be negative", ""),
            ("{download: 10 MB, start: ▸1000 h}", "longer than any run may last", "unit"),
            ("{download: 10 MB, repeat_after: ▸1000 h}", "longer than any run may last", "unit"),
            ("{download: 10 MB, access_delay: ▸1000 h}", "longer than any run may last", ""),
            ("▸{stop: 5 s, start: 9 s}", "stops at 5 s, before it starts", ""),
            ("▸{stop: 5 s, repeat_after: 1 s}", "what is cut off at a time is not repeated", ""),
            ("{stop: 5 s, kind: ▸sctp}", "expected 'quic', 'tcp' or 'udp', not 'sctp'", "tcp"),
            ("▸{stop: 5 s, kind: udp}", "the traffic of a udp flow", ""),
            ("▸{stop: 5 s, traffic: {model: poisson, rate: 1 Mbit/s}}", "QUIC endpoints transfer files", ""),
            ("▸{download: 1 MB, direction: to_server}", "what goes to the server is no download", "upload: 1 MB"),
            ("▸{upload: 1 MB, download: 1 MB}", "download says it once more", "leave out download"),
            ("▸{upload: 1 MB, direction: to_server}", "direction says it once more", "leave out direction"),
            ("▸{upload: 1 MB, kind: udp, traffic: {model: poisson, rate: 1 Mbit/s}}", "has a stop, no size", ""),
            ("{stop: 5 s, direction: ▸up}", "expected 'to_client' or 'to_server', not 'up'", ""),
            ("{stop: 5 s, kind: udp, traffic: ▸7}", "7 is not traffic", "bulk"),
            ("{stop: 5 s, kind: udp, traffic: ▸bursty}", "'bursty' is no model", ""),
            ("{stop: 5 s, kind: udp, traffic: {model: ▸posson, rate: 1 Mbit/s}}", "'posson' is no model", "'poisson'"),
            ("{stop: 5 s, kind: udp, traffic: ▸{rate: 1 Mbit/s}}", "'model' is missing", "model"),
            ("{stop: 5 s, kind: udp, traffic: ▸{model: poisson}}", "'rate' is missing in flows.0.traffic", "rate"),
            (
                "▸{stop: 5 s, kind: udp, traffic: {model: poisson, rate: 1 Mbit/s, packet: 9000 B}}",
                "payload of 16 to 1452 B",
                "",
            ),
            (
                "▸{stop: 5 s, kind: udp, traffic: {model: poisson, rate: 1 Mbit/s, packet: 0 B}}",
                "payload of 16 to 1452 B",
                "",
            ),
            (
                "{stop: 5 s, kind: udp, traffic: {model: cbr, rate: ▸0 bit/s}}",
                "traffic without a rate is none",
                "1 Mbit/s",
            ),
            (
                "{stop: 5 s, kind: tcp, traffic: {model: cbr, rate: ▸0 bit/s}}",
                "traffic without a rate is none",
                "1 Mbit/s",
            ),
            ("▸{stop: 5 s, kind: udp, traffic: {model: cbr, rate: 10 Gbit/s}}", "the generator sends at most", ""),
            (
                "{stop: 5 s, kind: udp, traffic: {model: uniform, packet: ▸[100 B], gap: [1 ms, 2 ms]}}",
                "needs 2 entries",
                "",
            ),
            (
                "{stop: 5 s, kind: udp, traffic: {model: uniform, packet: ▸100 B, gap: [1 ms, 2 ms]}}",
                "expected a list, not '100 B'",
                "",
            ),
            (
                "{stop: 5 s, kind: udp, traffic: ▸{model: uniform, packet: [200 B, 100 B], gap: [1 ms, 2 ms]}}",
                "from the smallest to the largest",
                "",
            ),
            (
                "{stop: 5 s, kind: udp, traffic: ▸{model: uniform, packet: [100 B, 200 B], gap: [0 ms, 0 ms]}}",
                "a gap is longer than nothing",
                "",
            ),
            ("▸{download: 1 MB, kind: udp, traffic: {model: poisson, rate: 1 Mbit/s}}", "has a stop, no size", ""),
            ("▸{download: 1 MB, kind: tcp, repeat_after: 1 s}", "is not repeated", ""),
            ("{download: 1 MB, server: ▸quice}", "nobody here has the implementation 'quice'", "'quiche'"),
            ("{download: 1 MB, server: ▸Quiche Server}", "is not a name of lowercase letters", "quic-go"),
            ("{download: 1 MB, client: ▸5}", "expected a text, not 5", ""),
            (
                "{download: 1 MB, parameters: ▸{server.pace: on}}",
                "'server.pace' is not a parameter of an endpoint",
                "server.pacing",
            ),
            (
                "{download: 1 MB, parameters: {server.congestion_control: ▸bbrr}}",
                "nobody here has the congestion control 'bbrr'",
                "'bbr'",
            ),
            ("{download: 1 MB, parameters: ▸{server.initial_rtt: 100}}", "has no unit", ""),
            ("{download: 1 MB, parameters: ▸[pacing]}", "expected keys with values, not a list", ""),
        ]
    ),
    # --- who, how
    Bad("clients: [ngtcp2]", "clients: [▸ngtcp]", "nobody here has the implementation 'ngtcp'", "'ngtcp2'"),
    Bad("clients: [ngtcp2]", "clients: [▸NGTCP2]", "is not a name of lowercase letters", ""),
    Bad("clients: [ngtcp2]", "clients: [ngtcp2, ▸ngtcp2]", "'ngtcp2' is given twice", "leave one"),
    Bad("servers: [quiche]", "servers: [▸quichee]", "nobody here has the implementation 'quichee'", "'quiche'"),
    Bad(
        "protocol: auto",
        "protocol: ▸http3",
        "expected 'auto', 'h3', 'hq-interop', 'h2' or 'webtransport', not 'http3'",
        "h3",
    ),
    Bad("protocol: auto", "protocol: ▸3", "expected 'auto', 'h3', 'hq-interop', 'h2' or 'webtransport', not 3", ""),
    Bad("ip_version: 4", "ip_version: ▸5", "expected 4, 6 or 46, not 5", "4, 6 or 46"),
    Bad("ip_version: 4", "ip_version: ▸ipv6", "expected 4, 6 or 46, not 'ipv6'", ""),
    Bad("timeout: 120 s", "timeout: ▸120", "120 has no unit", "300 ms"),
    Bad("title: A case", "title: ▸''", "it is blank", "say in a line"),
    Bad("title: A case", "title: ▸'  '", "it is blank", "say in a line"),
    Bad("references: [somebody]", "references: [▸' ']", "it is blank", "leave it out"),
    Bad(
        "server.initial_cwnd: [10, 32]",
        "▸flow0.access_delay: [10 ms, 100 s]",
        "with flow0.access_delay 100 s: a round trip takes",
        "unit",
    ),
    Bad(
        "vary:\n  server.initial_cwnd: [10, 32]\ncombine: product",
        "study: {design: full, factors: {server.initial_cwnd: [10, 32]}}\ncombine: ▸zip",
        "a study's design says what goes with what",
        "leave out combine",
    ),
    *(
        Bad(_CHANGES, f"  blackhole: {words}\n", says, hint)
        for words, says, hint in [
            ("{after: ▸9 h, lasts: 1 s}", "longer than any run may last", "unit"),
            ("{after: 1 s, lasts: ▸9 h}", "longer than any run may last", "unit"),
            ("{after: 100 s, lasts: 2 h, repeat: ▸5}", "the last of 5 times ends at ", "fewer"),
            ("{after: ▸3 min, lasts: 1 s}", "every flow has ended", "earlier"),
        ]
    ),
    Bad(
        "flows:\n  - {download: 10 MB, start: 0 s}",
        "testcase: ▸transfer\nflows:\n  - {kind: tcp, download: 10 MB, start: 0 s}",
        "testcase is for downloads",
        "leave out testcase",
    ),
    Bad(
        "flows:\n  - {download: 10 MB, start: 0 s}\nclients: [ngtcp2]\nservers: [quiche]\nprotocol: auto",
        "flows:\n  - {kind: tcp, download: 10 MB, start: 0 s}\nprotocol: ▸h3",
        "protocol is for downloads",
        "leave out",
    ),
    Bad(
        "clients: [ngtcp2]\nservers: [quiche]\nprotocol: auto",
        "clients: ▸[https]\nservers: [quiche]\ntestcase: transfer",
        "told to endpoints of QUIC",
        "leave out testcase",
    ),
    Bad("at_most: 9 s", "at_most: ▸0 s", "completion is never that little", "greater"),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: completion, at_least: ▸0 s}",
        "completion is never less than that",
        "greater",
    ),
    Bad("timeout: 120 s", "timeout: ▸0 s", "no transfer ends in no time", "120 s"),
    Bad("timeout: 120 s", "timeout: ▸1000 h", "longer than any run may last", "unit"),
    Bad("combine: product", "combine: ▸cross", "expected 'product' or 'zip', not 'cross'", ""),
    Bad("timeout: 120 s", "timeout: ▸500 ms", "a round trip alone takes 625 ms", "unit"),
    Bad("schema: 1\ntitle", "schema: 1\nname: ▸../../etc/x\ntitle", "is no", ""),
    Bad("schema: 1\ntitle", "schema: 1\nname: ▸a/../../x\ntitle", "is not a name of letters", ""),
    Bad("schema: 1\ntitle", "schema: 1\nname: ▸my case\ntitle", "is not a name of letters", "satellite/medium"),
    Bad("loss: 1 %", "loss: ▸100 %", "every packet is lost", "1 %"),
    # --- objectives: of what nobody measures, or in another unit (1.2)
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: completion, at_most: ▸3 Mbit/s}",
        "completion is in s, and '3 Mbit/s' is not",
        "3 s",
    ),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: completion, at_most: ▸9}",
        "completion is in s, and '9' is not",
        "3 s",
    ),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: goodput, at_least: ▸3 s}",
        "goodput is in Mbit/s, and '3 s' is not",
        "20 Mbit/s",
    ),
    Bad("{metric: completion, at_most: 9 s}", "{metric: utilisation_shared, at_least: ▸3 s}", "a plain number", "0.9"),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: ▸completoin, at_most: 9 s}",
        "there is no metric 'completoin'",
        "'completion'",
    ),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: ▸happiness, at_most: 9 s}",
        "there is no metric 'happiness'",
        "known",
    ),
    Bad(
        "{metric: completion, at_most: 9 s}", "{metric: ▸flow3_completion, at_most: 9 s}", "there is no flow 3", "flow0"
    ),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: ▸flow0_completion, at_most: 9 s}",
        "the only flow is not named",
        "'completion'",
    ),
    Bad("{metric: completion, at_most: 9 s}", "▸{metric: completion}", "exactly one of at_most and at_least"),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "▸{metric: completion, at_most: 9 s, at_least: 1 s}",
        "exactly one of at_most and at_least",
    ),
    Bad("{metric: completion, at_most: 9 s}", "▸{at_most: 9 s}", "'metric' is missing", "metric"),
    Bad("{metric: completion, at_most: 9 s}", "{metric: completion, at_most: ▸soon}", "'soon' is not a bound"),
    Bad("{metric: completion, at_most: 9 s}", "{metric: completion, at_most: ▸true}", "true is not a bound"),
    Bad("{metric: completion, at_most: 9 s}", "{metric: completion, at_most: ▸[9 s]}", "a list is not a bound"),
    Bad("{metric: completion, at_most: 9 s}", "{metric: completion, at_most: ▸.nan}", "'.nan' is not a bound"),
    Bad(
        "{metric: completion, at_most: 9 s}",
        "{metric: completion, at_most: ▸1e999}",
        "is not a number that can be used",
    ),
    Bad("{metric: completion, at_most: 9 s}", "▸completion", "expected keys with values, not 'completion'"),
    Bad("{metric: completion, at_most: 9 s}", "{metric: ▸5, at_most: 9 s}", "expected a text, not 5"),
    # --- parameters
    Bad(
        "  server.congestion_control: reno",
        "  ▸server.congestion: reno",
        "'server.congestion' is not a parameter of an endpoint",
        "server.congestion_control",
    ),
    Bad(
        "  server.congestion_control: reno",
        "  server.congestion_control: ▸bbrr",
        "nobody here has the congestion control 'bbrr'",
        "'bbr'",
    ),
    Bad(
        "  server.congestion_control: reno",
        "  server.congestion_control: ▸[reno]",
        "expected a text, not a list",
        "one value",
    ),
    Bad("  server.congestion_control: reno", "  ▸server.initial_rtt: 100", "has no unit", "300 ms"),
    Bad("  server.congestion_control: reno", "  ▸server.initial_cwnd: ten", "'ten' is not a whole number", "digits"),
    Bad("  server.congestion_control: reno", "  ▸server.initial_cwnd: -1", "'-1' is not a whole number", ""),
    Bad(
        "  server.congestion_control: reno",
        "  ▸server.initial_cwnd: 100000000000000000",
        "no initial_cwnd that an endpoint could have: 1 to 1000000",
        "initial congestion window",
    ),
    Bad(
        "  server.congestion_control: reno",
        "  ▸server.initial_cwnd: 0",
        "no initial_cwnd that an endpoint could have: 1 to 1000000",
        "initial congestion window",
    ),
    Bad(
        "  server.congestion_control: reno",
        "  ▸client.max_ack_delay: 17 s",
        "no max_ack_delay that an endpoint could have: 0 ms to 16383 ms",
        "longest time an ACK is held back",
    ),
    Bad(
        "  server.congestion_control: reno",
        "  ▸server.max_udp_payload: 1199 B",
        "no max_udp_payload that an endpoint could have: 1200 B to 65527 B",
        "largest UDP payload",
    ),
    Bad(
        "  server.congestion_control: reno",
        "  ▸client.stream_window: 5000000000 GiB",
        "no stream_window that an endpoint could have",
        "flow-control credit",
    ),
    Bad("  server.congestion_control: reno", "  ▸server.pacing: maybe", "'maybe' is neither on nor off", "on or off"),
    Bad("  server.congestion_control: reno", "  ▸server.connection_window: 10", "has no unit", "10 MB"),
    Bad("  server.congestion_control: reno", "  ▸cubic: reno", "'cubic' is not a parameter of an endpoint", ""),
    Bad(
        "  server.congestion_control: reno",
        "  ▸server.max_udp_payload: 1 B",
        "1 B is no max_udp_payload that an endpoint could have",
        "",
    ),
    Bad("  server.congestion_control: reno", "  client.congestion_control: ▸vegas", "nobody here", ""),
    Bad(
        "  server.congestion_control: reno",
        "  server.bdp_seed: ▸careful-resum",
        "nobody here has the bdp_seed 'careful-resum'",
        "'careful-resume'",
    ),
    Bad(
        "  - {download: 10 MB, start: 0 s}",
        "  - {download: 10 MB, repeat_after: 1 s, client: curl, parameters: {server.bdp_seed: ▸jump-start}}",
        "the bdp_seed jump-start is for a client that resumes, and curl keeps no tickets",
        "clients with tickets: aioquic",
    ),
    Bad(
        "  - {download: 10 MB, start: 0 s}\nclients: [ngtcp2]\n",
        "  - {download: 10 MB, repeat_after: 1 s, parameters: {server.bdp_seed: ▸careful-resume}}\nclients: [curl]\n",
        "the bdp_seed careful-resume is for a client that resumes, and curl keeps no tickets",
        "quinn",
    ),
    # --- sweeps
    *(
        Bad("vary:\n  server.initial_cwnd: [10, 32]", f"vary:\n  {vary}", says, hint)
        for vary, says, hint in [
            (
                "▸server.initial_cwn: [10, 32]",
                "'server.initial_cwn' is not a parameter of an endpoint",
                "'server.initial_cwnd'",
            ),
            ("▸initial_cwn: [10, 32]", "is not a parameter of an endpoint", "'initial_cwnd'"),
            ("▸path.forward.rat: [10 Mbit/s]", "is not a property of the path", "rate"),
            ("▸path.sideways.rate: [10 Mbit/s]", "is not a property of the path", "forward"),
            ("▸path.forward: [10 Mbit/s]", "is not a property of the path", ""),
            ("▸flow7.server: [quiche]", "there are 1 flows", "flow0"),
            ("▸flow0.serv: [quiche]", "'flow0.serv' is not a property of a flow", "server"),
            ("▸timeout: [10 s]", "is not a parameter of an endpoint", ""),
            ("path.forward.rate: [10 Mbit/s, ▸20]", "20 has no unit", "50 Mbit/s"),
            ("path.forward.rate: [10 Mbit/s, ▸0 bit/s]", "at least 1 kbit/s", ""),
            ("path.forward.rate: [10 Mbit/s, ▸100 Gbit/s]", "tc has no rate beyond", ""),
            ("path.down.loss: [1 %, ▸1]", "1 has no unit", "1 %"),
            ("path.down.queue: [1 BDP, ▸huge]", "neither a size ('1 BDP') nor a discipline", "codel"),
            ("path.down.queue: [1 BDP, ▸10 B]", "less than one frame", ""),
            ("path.down.delay: [▸1 us]", "exceeds the delay", ""),
            ("server.initial_rtt: [▸100]", "has no unit", "300 ms"),
            ("server.initial_rtt: [100 ms, ▸fast]", "is not a duration", ""),
            ("server.pacing: [on, ▸sometimes]", "neither on nor off", "on or off"),
            ("server.congestion_control: [reno, ▸bbrr]", "nobody here has the congestion control 'bbrr'", "'bbr'"),
            ("flow0.server: [quiche, ▸quice]", "nobody here has the implementation 'quice'", "'quiche'"),
            (
                "flow0.server.congestion_control: [reno, ▸cubik]",
                "nobody here has the congestion control 'cubik'",
                "'cubic'",
            ),
            ("flow0.access_delay: [▸5]", "5 has no unit", "300 ms"),
            ("server.initial_cwnd: [10, ▸10]", "'10' is given twice", "leave one"),
            ("▸server.initial_cwnd: []", "nothing to vary server.initial_cwnd over", "values"),
            ("server.initial_cwnd: ▸10", "expected a list, not 10", "[one, other]"),
            ("server.initial_cwnd:▸", "expected a list, and there is nothing", ""),
            ("server.initial_cwnd: [▸[10]]", "expected a text, not a list", ""),
        ]
    ),
    Bad(
        "vary:\n  server.initial_cwnd: [10, 32]",
        "▸vary:\n  server.initial_rtt: [100 ms, 0.1 s]",
        "two points of the sweep are the same",
        "leave one",
    ),
    Bad(
        "vary:\n  server.initial_cwnd: [10, 32]\ncombine: product",
        "▸vary:\n  server.initial_cwnd: [10, 32]\n  server.initial_rtt: [100 ms]\ncombine: zip",
        "values can be paired only where each has as many",
        "zip",
    ),
    Bad(
        "vary:\n  server.initial_cwnd: [10, 32]",
        f"▸vary:\n  server.initial_cwnd: {list(range(2, 102))}\n  client.max_ack_delay: [{', '.join(f'{n} ms' for n in range(1, 26))}]",
        "a sweep of 2500 points",
        "vary less",
    ),
    Bad(
        "vary:\n  server.initial_cwnd: [10, 32]",
        "vary: ▸[server.initial_cwnd]",
        "expected keys with values, not a list",
        "",
    ),
    # --- YAML
    Bad("title: A case\ndescription: What", "title: [A case\ndescription▸: What", "not valid YAML", "indentation"),
    Bad("title: A case", "title: x▸: case", "not valid YAML", "colons"),
    Bad("title: A case", "title: ▸@case", "not valid YAML", ""),
    Bad("title: A case", "title: ▸%case", "not valid YAML", ""),
    Bad("title: A case", "title: ▸`case`", "not valid YAML", ""),
    Bad("title: A case", "title: ▸*case", "*case stands for nothing", "&case"),
    Bad("references: [somebody]", "references: &a [x, ▸*a]", "something that it is in itself", ""),
    Bad("title: A case", "title: ▸!!python/object/apply:os.system [ls]", "the tag", "leave it out"),
    Bad("title: A case", "title: ▸!!binary aGVsbG8=", "the tag !!binary means nothing here", "leave it out"),
    Bad("title: A case", "title: ▸!!timestamp 2026-01-01", "the tag !!timestamp means nothing here", ""),
    Bad("title: A case", "title: ▸!mine case", "the tag !mine means nothing here", ""),
    Bad("repetitions: 3", "repetitions: ▸!!int three", "the tag !!int means nothing here", ""),
    Bad("references: [somebody]", "references: ▸!!set {somebody}", "the tag !!set means nothing here", ""),
    Bad("title: A case", "▸[a, b]: x\ntitle: A case", "a key is a word", "brackets"),
    Bad("title: A case", "▸{a: b}: x\ntitle: A case", "a key is a word", "brackets"),
    Bad("title: A case", "<<: ▸5\ntitle: A case", "merges mappings", "<<"),
    Bad("title: A case", 'title: ▸"A \\x1b[31mcase"', "the character U+001B is none of a text", "remove"),
    Bad("title: A case", 'title: "A \\u▸d800 case"', "not valid YAML", ""),
    Bad("title: A case", 'title: ▸"A \\0 case"', "the character U+0000 is none of a text", "remove"),
    Bad("repetitions: 3", f"repetitions: ▸{'9' * 5000}", "a number of 5000 digits", "18 digits"),
    Bad("repetitions: 3", f"repetitions: ▸-{'9' * 18}9", "a number of 20 digits", ""),
    Bad(
        "references: [somebody]",
        "references: " + "[" * 23 + "▸[" + "]" * 24,
        "more than 24 lists and mappings within each other",
        "see scenarios",
    ),
    Bad(
        "references: [somebody]",
        "references: " + "[" * 23 + "▸" + "[" * 3000 + "]" * 3023,
        "more than 24 lists and mappings within each other",
        "",
    ),
    Bad(
        "references: [somebody]",
        "references: " + "{a: " * 23 + "▸" + "{a: " * 3000 + "}" * 3023,
        "more than 24 lists",
        "",
    ),
    Bad("combine: product", "combine: product\n▸---\ntitle: Another", "not valid YAML", ""),
]

#: Contents that are no text at all, or no file of ours: (bytes, line, column, words, hint).
CONTENTS: dict[str, tuple[bytes, int, int, str, str]] = {
    "empty": (b"", 1, 1, "the file is empty", "see scenarios/"),
    "blank": (b"\n\n", 1, 1, "the file is empty", "see scenarios/"),
    "comment": (b"# nothing\n", 1, 1, "the file is empty", ""),
    "a list": (b"- a\n- b\n", 1, 1, "expected a mapping", "see scenarios/"),
    "a word": (b"hello\n", 1, 1, "expected a mapping", ""),
    "a number": (b"5\n", 1, 1, "expected a mapping", ""),
    "NUL": (b"schema: 1\ntitle: a\0b\n", 2, 9, "the character U+0000 cannot stand in YAML", "remove it"),
    "NULs": (b"\0" * 4096, 1, 1, "the character U+0000 cannot stand in YAML", ""),
    "bell": (b"title: a\a\n", 1, 9, "the character U+0007 cannot stand in YAML", ""),
    "escape": (b"title: \x1b[31mred\n", 1, 8, "the character U+001B cannot stand in YAML", ""),
    "Latin-1": ("schema: 1\ntitle: Gerät\n".encode("latin-1"), 2, 11, "the byte 0xe4 is not UTF-8", "UTF-8"),
    "UTF-16": ("schema: 1\n".encode("utf-16"), 1, 1, "is not UTF-8", "UTF-8"),
    "gzip": (b"\x1f\x8b\x08\x00", 1, 2, "the byte 0x8b is not UTF-8", "UTF-8"),
    "half a character": ("title: ü".encode()[:-1], 1, 8, "is not UTF-8", ""),
    "large": (b"# " + b"x" * (300 << 10), 1, 1, "more than 256 KiB", "another file"),
    "tab": (b"path:\n\tforward: 1\n", 2, 1, "not valid YAML", "indentation"),
    "brackets": (b"[" * 3000, 1, 25, "more than 24 lists and mappings within each other", ""),
    "braces": (b"{" * 3000, 1, 25, "more than 24 lists and mappings within each other", ""),
    "dashes": (b"- " * 3000, 1, 49, "more than 24 lists and mappings within each other", ""),
    "questions": (b"? " * 3000, 1, 49, "more than 24 lists and mappings within each other", ""),
    "indentation": (
        b"".join(b" " * depth + b"a:\n" for depth in range(300)),
        25,
        25,
        "more than 24 lists and mappings",
        "",
    ),
    "billion laughs": (
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            b"%c: &%c [%s]\n" % (new, new, b",".join([b"*%c" % old] * 9))
            for old, new in zip(b"abcdefgh", b"bcdefghi", strict=True)
        ),
        5,
        11,
        "more than 20000 entries, aliases written out",
        "",
    ),
    "deep aliases": (
        b"a: &a0 [x]\n" + b"".join(b"k%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 40)),
        24,
        12,
        "more than 24 lists and mappings within each other",
        "",
    ),
    "recursive list": (b"a: &a [*a]\n", 1, 8, "*a stands for something that it is in itself", ""),
    "recursive mapping": (b"a: &a {b: {c: *a}}\n", 1, 15, "*a stands for something that it is in itself", ""),
    "recursive root": (b"&a\nb: *a\n", 2, 4, "*a stands for something that it is in itself", ""),
    "recursive merge": (b"a: &a {<<: *a}\n", 1, 12, "*a stands for something that it is in itself", ""),
    "no such alias": (b"a: *b\n", 1, 4, "*b stands for nothing", "&b"),
    "many entries": (b"a: [" + b"1," * 30000 + b"]\n", 1, 39999, "more than 20000 entries", ""),
    "two documents": (b"a: 1\n---\nb: 2\n", 2, 1, "not valid YAML", ""),
    "a directive": (b"%YAML 9.9\n---\na: 1\n", 1, 1, "not valid YAML", ""),
    "JSON cut off": (b'{"schema": 1, "title": "x"', 1, 27, "not valid YAML", ""),
    "a lone brace": (b"}\n", 1, 1, "not valid YAML", ""),
    "a quote": (b'title: "x\n', 2, 1, "not valid YAML", ""),
    "HTML": (b"<html><body>404: not found</body></html>\n", 1, 1, "", ""),
    "Markdown": (b"# Title\n\n- a\n  b: c\n", 4, 4, "not valid YAML", ""),
    "a merge conflict": (b"<<<<<<< HEAD\ntitle: a\n=======\ntitle: b\n>>>>>>> x\n", 2, 6, "not valid YAML", ""),
}

MANIFEST = """\
schema: 1
name: mine
title: Mine
project: https://example.org/mine
licence: MIT
version: "1.2"
image: registry.example/mine:1.2
build_time: 60 s
tested: true
roles: [client, server]
protocols: [h3, hq-interop]
colour: "#4e79a7"
marker: circle
session: true
container: {capabilities: [SETUID], read_only: true, writes: [/var/lib/mine]}
parameters:
  congestion_control: {server: {flag: "--cc={value}", values: {reno: newreno, cubic: cubic}, default: cubic}}
  connection_window: {flag: "--window={bytes}", default: 1 MiB, minimum: 1 kB, maximum: 1 GB}
  gso: {server: {environment: "NO_GSO={value}", values: {on: "0", off: "1"}, default: on}}
  ack_ratio: {default: 2}
extensions: [ack_frequency]
notes: What a reader should know.
"""

MANIFESTS = [
    Bad("capabilities: [SETUID]", "capabilities: [▸SYS_ADMIN]", "expected", "SETUID"),
    Bad("capabilities: [SETUID]", "capabilities: [▸CAP_SETUID]", "expected", "SETUID"),
    Bad("read_only: true", "read_only: ▸maybe", "expected", ""),
    Bad("writes: [/var/lib/mine]", "writes: [▸var/lib]", "is not a folder, from the root on", "/var/lib/nginx"),
    Bad("writes: [/var/lib/mine]", "writes: [▸/var/../etc]", "is not a folder, from the root on", ""),
    Bad("writes: [/var/lib/mine]", "writes: [▸/]", "is not a folder, from the root on", ""),
    Bad("writes: [/var/lib/mine]", "writes: ▸[/logs/mine]", "'/logs/mine' is not the image's own", "leave it out"),
    Bad(
        "container: {capabilities: [SETUID], read_only: true,",
        "container: ▸{capabilities: [SETUID],",
        "the whole root can be written to",
        "read_only: true",
    ),
    Bad("title: Mine", "title: ▸'  '", "it is blank", "leave it out"),
    Bad("notes: What", "refuses: [{testcases: [retry], why: ▸' '}]\nnotes: What", "it is blank", "lacks"),
    *(
        Bad(
            'environment: "NO_GSO={value}"',
            f'environment: ▸"{name}={{value}}"',
            f"{name} is what every endpoint has",
            "variable of its own",
        )
        for name in ("ROLE", "PATH", "REQUESTS", "CLIENT_PARAMS", "LD_PRELOAD")
    ),
    Bad("notes: What", "virtual_environment: {▸HOME: elsewhere}\nnotes: What", "HOME is what every endpoint has", ""),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc\\n={value}"', "has the character U+000A", "one line"),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc\\t{value}"', "has the character U+0009", "without tabs"),
    Bad("values: {reno: newreno, cubic: cubic}", 'values: ▸{reno: "new\\nreno", cubic: cubic}', "U+000A", "one line"),
    Bad(
        "default: 1 MiB, minimum: 1 kB", "default: ▸1 B, minimum: 1 kB", "the default 1 B is below the minimum 1 kB", ""
    ),
    Bad("default: 1 MiB, minimum", "default: ▸2 GB, minimum", "the default 2 GB is above the maximum 1 GB", "a note"),
    Bad("name: mine", "▸nmae: mine", "unknown key 'nmae'", "'name'"),
    Bad("schema: 1\nname: mine", "▸schema: 1", "'name' is missing", "name"),
    Bad("name: mine", "name: ▸Mine", "is not a name of lowercase letters", "quic-go"),
    Bad("name: mine", "name: ▸my own", "is not a name of lowercase letters", ""),
    Bad("name: mine", "name: ▸../mine", "is not a name of lowercase letters", ""),
    Bad("name: mine", "name: ▸--help", "is not a name of lowercase letters", ""),
    Bad("name: mine", "name: ▸all", "'all' stands for everybody", "another"),
    Bad("name: mine", "name: ▸5", "expected a text, not 5", "quotes"),
    Bad("name: mine", "name:▸", "expected a text, and there is nothing", ""),
    Bad("schema: 1", "schema: ▸3", "expected 1, not 3", "1"),
    Bad("title: Mine", "title: ▸[Mine]", "expected a text, not a list", ""),
    Bad("title: Mine", 'title: ▸"Mi\\nne"', "is not one line of text", ""),
    Bad('version: "1.2"', "version: ▸1.2", "expected a text, not 1.2", "quotes"),
    Bad('version: "1.2"', "version: ▸2", "expected a text, not 2", "quotes"),
    Bad("licence: MIT", "▸license: MIT", "unknown key 'license'", "'licence'"),
    Bad('colour: "#4e79a7"', '▸color: "#4e79a7"', "unknown key 'color'", "'colour'"),
    Bad(
        "image: registry.example/mine:1.2", "image: ▸--help", "is not the name of an image", "registry.example/mine:1.2"
    ),
    Bad("image: registry.example/mine:1.2", "image: ▸Mine Image", "is not the name of an image", ""),
    Bad("image: registry.example/mine:1.2", 'image: ▸"mine:"', "is not the name of an image", ""),
    Bad("image: registry.example/mine:1.2", 'image: ▸"mine; rm -rf /"', "is not the name of an image", ""),
    Bad("image: registry.example/mine:1.2", 'image: ▸""', "is not the name of an image", ""),
    Bad("image: registry.example/mine:1.2", "image: ▸[mine]", "expected a text, not a list", ""),
    Bad("schema: 1\nname: mine", "▸schema: 1\nbuild: .\nname: mine", "exactly one of image"),
    Bad("image: registry.example/mine:1.2", "build: ▸nowhere", "there is no Dockerfile in 'nowhere'", ""),
    Bad("image: registry.example/mine:1.2", "build: ▸/", "'/' is not a folder, '.' or the name of one below", ""),
    Bad("image: registry.example/mine:1.2", "build: ▸../mine", "'../mine' is not a folder", ""),
    Bad(
        "image: registry.example/mine:1.2",
        "build: ▸--help",
        "'--help' is not a folder, '.' or the name of one below",
        "",
    ),
    Bad("image: registry.example/mine:1.2", "build: ▸5", "expected a text, not 5", ""),
    Bad(
        "image: registry.example/mine:1.2",
        "build: .\nupstream_repository: ▸--upload-pack=sh",
        "is not a web address",
        "https://",
    ),
    Bad(
        "image: registry.example/mine:1.2",
        "build: .\nupstream_repository: ▸git@example.org:mine",
        "is not a web address",
        "",
    ),
    Bad(
        "image: registry.example/mine:1.2",
        "build: .\nupstream_repository: ▸file:///etc/passwd",
        "is not a web address",
        "",
    ),
    Bad(
        "image: registry.example/mine:1.2", "build: .\nupstream_image: ▸--privileged", "is not the name of an image", ""
    ),
    Bad("schema: 1\nname: mine", "▸schema: 1\nupstream_image: x\nname: mine", "there is no build"),
    Bad("build_time: 60 s", "build_time: ▸60", "60 has no unit", "300 ms"),
    Bad("build_time: 60 s", "build_time: ▸-60 s", "cannot be negative", ""),
    Bad("tested: true", "tested: ▸perhaps", "expected true or false, not 'perhaps'", "true or false"),
    Bad("tested: true", "tested: ▸[true]", "expected true or false, not a list", ""),
    Bad("session: true", "session: ▸tickets", "expected true or false, not 'tickets'", ""),
    Bad("roles: [client, server]", "roles: ▸[]", "needs at least 1 entry", ""),
    Bad("roles: [client, server]", "roles: ▸client", "expected a list, not 'client'", "[one, other]"),
    Bad("roles: [client, server]", "roles: [client, ▸sever]", "expected 'client' or 'server', not 'sever'", "'server'"),
    Bad("roles: [client, server]", "roles: [server, client, ▸client]", "'client' is given twice", "leave one"),
    Bad(
        "protocols: [h3, hq-interop]",
        "protocols: [▸http/3]",
        "expected 'h3', 'hq-interop', 'webtransport', 'h2', 'tcp' or 'udp', not 'http/3'",
        "",
    ),
    Bad("protocols: [h3, hq-interop]", "protocols: ▸[]", "needs at least 1 entry", ""),
    Bad("protocols: [h3, hq-interop]", "protocols: [h3, ▸h3]", "'h3' is given twice", ""),
    Bad('colour: "#4e79a7"', "colour: ▸blue", "is not a colour", "#4e79a7"),
    Bad('colour: "#4e79a7"', 'colour: ▸"#4e7"', "is not a colour", ""),
    Bad('colour: "#4e79a7"', "colour:▸ #4e79a7", "expected a text, and there is nothing", ""),
    Bad("marker: circle", "marker: ▸blob", "expected 'circle', 'square'", "known"),
    Bad("marker: circle", "marker: ▸triangle", "expected 'circle', 'square'", "'triangle-up'"),
    Bad(
        "extensions: [ack_frequency]",
        "extensions: [▸ack-frequency]",
        "expected 'ack_frequency', not 'ack-frequency'",
        "'ack_frequency'",
    ),
    Bad("notes: What a reader should know.", "notes: ▸5", "expected a text, not 5", ""),
    # --- parameters
    Bad("  ack_ratio: {default: 2}", "  ▸ack_ration: {default: 2}", "'ack_ration' is not a parameter", "'ack_ratio'"),
    Bad("  ack_ratio: {default: 2}", "  ack_ratio: ▸2", "expected keys with values, not 2", ""),
    Bad("  ack_ratio: {default: 2}", "  ack_ratio: ▸[2]", "expected keys with values, not a list", ""),
    Bad("  ack_ratio: {default: 2}", "  ack_ratio: ▸{default: two}", "'two' is not a whole number", ""),
    Bad("  ack_ratio: {default: 2}", "  ack_ratio: ▸{default: -2}", "'-2' is not a whole number", ""),
    Bad("  ack_ratio: {default: 2}", '  ack_ratio: ▸{flag: "--acks={ms}"}', "does not fill '{ms}'", ""),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc={valeu}"', "'{valeu}' is not a placeholder", "'value'"),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc={value"', "has a brace without its partner", "{value}"),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc=value}"', "has a brace without its partner", ""),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc={}"', "'{}' is not a placeholder", ""),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc={value!r}"', "is not a placeholder", ""),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc={value:>999999999}"', "is not a placeholder", ""),
    Bad('flag: "--cc={value}"', "flag: ▸--cubic", "has no placeholder", "{value}"),
    Bad('flag: "--cc={value}"', 'flag: ▸"--cc=${value}"', "takes for a variable", "value itself"),
    Bad("values: {reno: newreno, cubic: cubic}", "values: ▸{reno: $RENO, cubic: cubic}", "takes for a variable", ""),
    Bad('flag: "--cc={value}"', "flag: ▸5", "expected a text, not 5", ""),
    Bad('flag: "--cc={value}"', '▸flags: "--cc={value}"', "unknown key", "'flag'"),
    Bad('environment: "NO_GSO={value}"', 'environment: ▸"{value}"', "is not an assignment", "NAME="),
    Bad('environment: "NO_GSO={value}"', 'environment: ▸"no-gso={value}"', "is not an assignment", ""),
    Bad('environment: "NO_GSO={value}"', 'sysctl: ▸"kernel.gso={value}"', "no setting of a network namespace", "net."),
    Bad('environment: "NO_GSO={value}"', 'sysctl: ▸"net.ipv4.gso={word}"', "is not a placeholder", ""),
    Bad("values: {reno: newreno, cubic: cubic}", "values: ▸{}", "no value at all could be set", "leave the key out"),
    Bad("values: {reno: newreno, cubic: cubic}", "values: ▸5", "expected a list, not 5", ""),
    Bad("values: {reno: newreno, cubic: cubic}", "values: {reno: ▸[a]}", "expected a text, not a list", ""),
    Bad(
        '  connection_window: {flag: "--window={bytes}", default: 1 MiB, minimum: 1 kB, maximum: 1 GB}',
        '  initial_cwnd: ▸{flag: "--iw={value}", default: 100000000000000000}',
        "no initial_cwnd that an endpoint could have: 1 to 1000000",
        "initial congestion window",
    ),
    Bad(
        '  connection_window: {flag: "--window={bytes}", default: 1 MiB, minimum: 1 kB, maximum: 1 GB}',
        '  connection_window: ▸{flag: "--window={bytes}", default: 1 MiB, minimum: 2 GB, maximum: 1 GB}',
        "the minimum 2 GB is above the maximum 1 GB",
        "exchange",
    ),
    Bad(
        '  connection_window: {flag: "--window={bytes}", default: 1 MiB, minimum: 1 kB, maximum: 1 GB}',
        '  connection_window: ▸{flag: "--window={bytes}", default: 1}',
        "has no unit",
        "10 MB",
    ),
    Bad(
        '  connection_window: {flag: "--window={bytes}", default: 1 MiB, minimum: 1 kB, maximum: 1 GB}',
        '  connection_window: ▸{flag: "--window={bytes}", minimum: 1 s}',
        "is not a unit of a size",
        "",
    ),
    Bad(
        '  gso: {server: {environment: "NO_GSO={value}", values: {on: "0", off: "1"}, default: on}}',
        '  gso: ▸{server: {environment: "NO_GSO={value}", minimum: on}}',
        "which has no minimum",
        "list",
    ),
    Bad(
        '  gso: {server: {environment: "NO_GSO={value}", values: {on: "0", off: "1"}, default: on}}',
        '  gso: ▸{server: {environment: "NO_GSO={value}", values: [perhaps]}}',
        "neither on nor off",
        "",
    ),
    Bad(
        '  gso: {server: {environment: "NO_GSO={value}", values: {on: "0", off: "1"}, default: on}}',
        "  gso: {server: {default: on}, ▸peer: {default: on}}",
        "unknown key 'parameters.gso.peer'",
        "",
    ),
    Bad("session: true", "session: true\nrefuses: ▸v2", "expected a list, not 'v2'", "[one, other]"),
    Bad("session: true", "session: true\nrefuses: [▸{testcases: [v2]}]", "'why' is missing in refuses.0", "why"),
    Bad("session: true", "session: true\nrefuses: [{testcases: ▸[], why: no}]", "needs at least 1 entry", ""),
    Bad("session: true", "session: true\nrefuses: [{testcases: [▸v3], why: no}]", "not 'v3'", ""),
    Bad("session: true", "session: true\nrefuses: [{testcases: [v2], roles: [▸peer], why: no}]", "not 'peer'", ""),
    Bad("session: true", "session: true\nmoves: [▸walk]", "expected 'migrate' or 'interface'", ""),
    Bad("session: true", "session: true\nmoves: [▸nat-port]", "expected 'migrate' or 'interface'", ""),
    Bad("session: true", "session: true\nmoves: [migrate, ▸migrate]", "'migrate' is given twice", "leave one"),
    Bad("tested: true", "tested: true\n▸name: other", "'name' is given twice", "remove one"),
    Bad("notes: What", "notes: ▸!!binary What", "the tag !!binary means nothing here", ""),
]
