"""Command lines that no harness can make sense of: the words, what must be said of them, and the hint."""

from __future__ import annotations

from typing import NamedTuple


class BadCommand(NamedTuple):
    """A command line, and what it must say."""

    words: tuple[str, ...]
    error: str
    hint: str = ""


def _plan(*words: str) -> tuple[str, ...]:
    return ("plan", "satellite/medium", "--clients", "ngtcp2", "--servers", "quiche", *words)


def _run(*words: str) -> tuple[str, ...]:
    return ("run", "satellite/medium", "--clients", "ngtcp2", "--servers", "quiche", *words)


#: {tmp} stands for an empty folder, {file} for a file in it that is no store and no scenario, {case} for a scenario,
#: {split} for one with a proxy and a download.
COMMANDS = [
    # --- shards, images that stand in, gates, merges
    *(
        BadCommand(make("--shard", text), f"--shard '{text}': expected K/N", "--shard 3/8")
        for make in (_plan, _run)
        for text in ("0/3", "4/3", "three", "1/0", "1/2/3")
    ),
    BadCommand(_plan("--shards", "0"), "--shards", ""),
    *(
        BadCommand(make("--image", text), "expected NAME=", "--image quiche=mine/quiche:dev")
        for make in (_plan, _run)
        for text in ("quiche", "quiche=", "=mine", "quiche=--help", "quiche=A B")
    ),
    BadCommand(_plan("--image", "quish=mine"), "no implementation 'quish'", "'quiche'"),
    BadCommand(_plan("--image", "quiche=a", "--image", "quiche=b"), "--image quiche is given twice", "leave one"),
    BadCommand(("gate", "--baseline", "{tmp}/none"), "no such folder, so there is no baseline", "harness run"),
    BadCommand(("gate", "--baseline", "{tmp}", "--within", "much"), "--within much", "3%"),
    BadCommand(("gate", "--baseline", "{tmp}", "--allow", "{tmp}/none.yaml"), "none.yaml", ""),
    BadCommand(("gate", "--baseline", "{tmp}", "--until", "1"), "--until", ""),
    BadCommand(("merge", "{tmp}/none"), "no such folder, so there are no runs in it", "name the folder"),
    BadCommand(("merge", "{tmp}", "--store", "{tmp}"), "that is the store itself", "name others"),
    BadCommand(("merge", "{file}"), "no such folder", ""),
    # --- scenarios
    *(
        BadCommand((verb, "satelite/medium"), "no scenario 'satelite/medium'", "'satellite/medium'")
        for verb in ("explain", "plan", "run", "report", "compare", "plot", "measure", "judge")
    ),
    BadCommand(("explain", "satellite/medum"), "no scenario 'satellite/medum'", "'satellite/medium'"),
    BadCommand(("explain", ""), "no scenario ''", ""),
    BadCommand(("explain", "x" * 300), "no scenario", ""),
    BadCommand(("explain", "x" * 5000), "no scenario", "known"),
    BadCommand(("explain", "[/nope]"), "no scenario '[/nope]'", ""),
    BadCommand(("explain", "{file}"), "expected a mapping", "see scenarios/"),
    BadCommand(("explain", "{tmp}"), "no scenario", ""),
    BadCommand(("explain", "/dev/null"), "no scenario '/dev/null'", ""),
    BadCommand(("validate", "{tmp}/none.yaml"), "no such file", "check the name"),
    BadCommand(("validate", "{tmp}/none/none.yaml"), "no such file", "no folder"),
    BadCommand(("validate", "{tmp}"), "no YAML file is below this folder", "name files"),
    BadCommand(("images", "--push", ""), "--push: its value is empty", "leave the option out"),
    BadCommand(("images", "--from="), "--from: its value is empty", "leave the option out"),
    BadCommand(_plan("--engine", "virtual", "--cluster", "local:2", "--verify", "nan%"), "expected a share", "2%"),
    BadCommand(_plan("--engine", "virtual", "--cluster", "tcp://127.0.0.1:99999"), "there is no port 99999", "65535"),
    BadCommand(_plan("--engine", "virtual", "--cluster", "tcp://127.0.0.1:0"), "there is no port 0", "65535"),
    BadCommand(_plan("--engine", "virtual", "--cluster", "local:9999"), "256 workers are the most", "an address"),
    BadCommand(_plan("--verify", "2%"), "--verify is for runs on a cluster", "--cluster"),
    BadCommand(_plan("--retry", "sulked"), "there is no 'sulked'", ""),
    BadCommand(_plan("--zip"), "--zip: nothing of satellite/medium is varied", "several --vary"),
    BadCommand(_plan("--set", "flow0.access_delay=9 h"), "with flow0.access_delay 32400 s: 32400 s is longer", "unit"),
    BadCommand(("validate", "/dev/zero"), "not a file", "YAML"),
    BadCommand(("validate", "{file}"), "expected a mapping", ""),
    BadCommand(("report", "metrix"), "no scenario 'metrix'", "'metrics'"),
    BadCommand(("report", "metrics", "satelite/medium"), "no scenario 'satelite/medium'", "'satellite/medium'"),
    BadCommand(("divergence", "a", "b", "c"), "3 things are named", "one scenario"),
    BadCommand(("divergence", "satelite/medium"), "no scenario 'satelite/medium'", "'satellite/medium'"),
    BadCommand(("lab", "satelite/medium", "{tmp}/x"), "no scenario 'satelite/medium'", "'satellite/medium'"),
    BadCommand(("schema", "scenery"), "no schema 'scenery'", "'scenario'"),
    # --- implementations
    BadCommand(
        ("plan", "satellite/medium", "--clients", "ngtcp"), "no implementation 'ngtcp' for the clients", "'ngtcp2'"
    ),
    BadCommand(
        ("run", "satellite/medium", "--servers", "quice"), "no implementation 'quice' for the servers", "'quiche'"
    ),
    BadCommand(("plan", "satellite/medium", "--clients", ","), "no client was named", "commas"),
    BadCommand(("plan", "satellite/medium", "--clients", ""), "--clients: its value is empty", "leave the option out"),
    BadCommand(
        ("plan", "satellite/medium", "--clients", "ngtcp2,ngtcp2"),
        "'ngtcp2' is named twice for the clients",
        "leave one",
    ),
    BadCommand(
        ("run", "satellite/medium", "--clients", "ngtcp2", "--servers", "quiche,quinn,quiche"),
        "'quiche' is named twice for the servers",
        "leave one",
    ),
    BadCommand(("plan", "satellite/medium", "--clients", "NGTCP2"), "no implementation 'NGTCP2'", ""),
    BadCommand(("plan", "satellite/medium", "--clients", "ngtcp2;quiche"), "no implementation 'ngtcp2;quiche'", ""),
    BadCommand(("plan", "satellite/medium", "--clients", "[bold]"), "no implementation '[bold]'", ""),
    BadCommand(("report", "--clients", "ngtcp"), "no implementation 'ngtcp'", "'ngtcp2'"),
    BadCommand(("judge", "--servers", "quice"), "no implementation 'quice'", "'quiche'"),
    BadCommand(("compare", "--clients", "quice"), "no implementation 'quice'", "'quiche'"),
    BadCommand(("check", "quice"), "no implementation 'quice'", "'quiche'"),
    BadCommand(("images", "quice"), "no implementation 'quice'", "'quiche'"),
    BadCommand(("lab", "satellite/medium", "{tmp}/x", "--client", "ngtcp"), "no implementation 'ngtcp'", "'ngtcp2'"),
    BadCommand(("divergence", "satellite/medium", "--client", "ngtcp"), "no implementation 'ngtcp'", "'ngtcp2'"),
    # --- a proxy that nobody needs
    *(
        BadCommand(
            (command, "{split}", *who),
            "/split.yaml:7:12: a proxy that splits TCP, and nobody asked for is TCP",
            "https",
        )
        for command in ("plan", "run")
        for who in ((), ("--clients", "picoquic", "--servers", "ngtcp2"), ("--clients", "https", "--servers", "ngtcp2"))
    ),
    BadCommand(_plan("--manifest", "{tmp}/none.yaml"), "no such file", "check the name"),
    BadCommand(_plan("--manifest", "{tmp}"), "not a file", "YAML"),
    BadCommand(_plan("--manifest", "{file}"), "expected a mapping", "see scenarios/"),
    BadCommand(_plan("--manifest", "{case}"), "unknown key", ""),
    # --- parameters
    BadCommand(
        _plan("--set", "server.congestion=bbr"), "nothing is called 'server.congestion'", "'server.congestion_control'"
    ),
    BadCommand(_plan("--set", "bbr"), "expected NAME=VALUE", "server.congestion_control=bbr"),
    BadCommand(_plan("--set", "server.pacing="), "expected NAME=VALUE", ""),
    BadCommand(_plan("--set", "=on"), "nothing is called ''", ""),
    BadCommand(
        _plan("--set", "server.congestion_control=bbrr"), "nobody here has the congestion control 'bbrr'", "'bbr'"
    ),
    BadCommand(
        _run("--set", "server.congestion_control=bbrr"), "nobody here has the congestion control 'bbrr'", "'bbr'"
    ),
    BadCommand(
        _plan("--vary", "server.congestion_control=reno,bbrr"), "nobody here has the congestion control 'bbrr'", "'bbr'"
    ),
    BadCommand(_plan("--set", "server.initial_rtt=100"), "has no unit", "300 ms"),
    BadCommand(_plan("--set", "server.initial_rtt=1e999999999s"), "out of all proportion", ""),
    BadCommand(_plan("--set", "server.initial_cwnd=ten"), "'ten' is not a whole number", "digits"),
    BadCommand(_plan("--set", f"server.initial_cwnd={'9' * 5000}"), "is not a whole number", ""),
    BadCommand(_plan("--set", "server.initial_cwnd=²"), "is not a whole number", ""),
    BadCommand(_plan("--set", "server.pacing=perhaps"), "neither on nor off", "on or off"),
    BadCommand(_plan("--set", "server.initial_rtt=100ms,200ms"), "", "--vary"),
    BadCommand(_plan("--set", "server.pacing=on", "--set", "server.pacing=off"), "given twice", "--vary"),
    BadCommand(
        _plan("--set", "server.pacing=on", "--vary", "server.pacing=on,off"), "both set and varied", "leave one"
    ),
    BadCommand(_plan("--vary", "pacing=on", "--vary", "pacing=off"), "given twice", "separated by commas"),
    BadCommand(_plan("--vary", "server.initial_rtt=100ms,100ms"), "'100ms' is given twice", "leave one"),
    BadCommand(_plan("--vary", "server.initial_rtt=100ms,0.1s"), "two points of the sweep are the same", "leave one"),
    BadCommand(_run("--vary", "server.initial_rtt=100ms,100ms"), "'100ms' is given twice", "leave one"),
    BadCommand(_plan("--vary", "server.initial_rtt=100ms,,200ms"), "a value is missing", "comma"),
    BadCommand(_plan("--vary", "server.initial_rtt=,"), "a value is missing", "comma"),
    BadCommand(_plan("--vary", "path.down.los=1%"), "nothing is called 'path.down.los'", "'path.down.loss'"),
    BadCommand(_plan("--vary", "path.down.loss=1%,1"), "has no unit", "1 %"),
    BadCommand(_plan("--vary", "path.down.loss=1%,200%"), "more than the whole", ""),
    BadCommand(_plan("--vary", "path.down.rate=0bit/s"), "at least 1 kbit/s", ""),
    BadCommand(_plan("--vary", "path.down.rate=100Gbit/s"), "tc has no rate beyond", ""),
    BadCommand(_plan("--vary", "path.down.queue=10B"), "less than one frame", "1514 B"),
    BadCommand(_plan("--vary", "path.down.queue=RED"), "is not a queue size", "1 BDP"),
    BadCommand(_plan("--vary", "path.down.jitter=10s"), "exceeds the delay", ""),
    BadCommand(_plan("--vary", "path.down.burst=1B"), "below one frame", ""),
    BadCommand(_plan("--vary", "flow7.server=quiche"), "there are 1 flows", "flow0"),
    BadCommand(_plan("--vary", "flow99999999999999999999.server=quiche"), "nothing is called", ""),
    BadCommand(_plan("--vary", "flow0.serv=quiche"), "'flow0.serv' is not a property of a flow", "server"),
    BadCommand(_plan("--vary", "flow0.server=quice"), "nobody here has the implementation 'quice'", "'quiche'"),
    BadCommand(_plan("--vary", "flow0.server=Qui Che"), "is not a name of lowercase letters", ""),
    BadCommand(
        _plan("--set", "flow0.server.congestion_control=cubik"),
        "nobody here has the congestion control 'cubik'",
        "'cubic'",
    ),
    BadCommand(_plan("--zip", "--vary", "path.down.loss=1%,2%", "--vary", "server.pacing=on"), "as many", "zip"),
    BadCommand(
        _plan("--vary", "server.initial_cwnd=" + ",".join(map(str, range(2, 1500)))),
        "a sweep of 1498 points",
        "vary less",
    ),
    BadCommand(
        ("lab", "satellite/medium", "{tmp}/x", "--set", "server.pace=on"),
        "nothing is called 'server.pace'",
        "'server.pacing'",
    ),
    # --- numbers
    BadCommand(_plan("--repeat", "1000000000"), "1000 repetitions are the most", "auto"),
    BadCommand(_run("--repeat", "1000000000"), "1000 repetitions are the most", "auto"),
    BadCommand(_plan("--repeat", "9" * 5000), "1000 repetitions are the most", ""),
    BadCommand(_plan("--repeat", "0"), "expected a number", "--repeat 5"),
    BadCommand(_plan("--repeat", "-1"), "expected a number", "--repeat 5"),
    BadCommand(_plan("--repeat", "1.5"), "expected a number", ""),
    BadCommand(_plan("--repeat", "1e3"), "expected a number", ""),
    BadCommand(_plan("--repeat", "many"), "expected a number", ""),
    BadCommand(_plan("--repeat", "auto:"), "expected a number", ""),
    BadCommand(_plan("--repeat", "auto:3"), "no interval of fewer", "auto:6"),
    BadCommand(_plan("--repeat", "auto:1000000000"), "1000 repetitions are the most", ""),
    BadCommand(_plan("--repeat", "Auto"), "expected a number", ""),
    BadCommand(_plan("--repeat", "٣"), "expected a number", ""),
    BadCommand(("plan", "satellite", "--repeat", "1000"), "are the most at once", "fewer"),
    BadCommand(_plan("--seed", "-1"), "--seed -1: it is at least 0, not '-1'", "limit"),
    BadCommand(_plan("--seed", "99999999999999999999"), "it is at most 2147483647", "limit"),
    BadCommand(_plan("--seed", "one"), "--seed one: expected a whole number, not 'one'", "digits"),
    BadCommand(_run("--jobs", "0"), "--jobs 0: it is at least 1", "limit"),
    BadCommand(_run("--jobs", "2"), "runs in real time would measure each other", "--engine virtual"),
    BadCommand(_run("--jobs", "1000000", "--engine", "virtual"), "it is at most 1024", "limit"),
    BadCommand(("divergence", "satellite/medium", "--times", "1"), "--times 1: it is at least 2", "limit"),
    # --- choices
    BadCommand(_run("--retry", "exploded"), "--retry exploded: there is no 'exploded'", "known"),
    BadCommand(_run("--retry", "crashd"), "there is no 'crashd'", "'crashed'"),
    BadCommand(_run("--retry", "crashed,timedout"), "there is no 'timedout'", "'timed_out'"),
    BadCommand(
        _plan("--engine", "vitual"), "--engine vitual: 'vitual' is not one of 'compose', 'virtual'", "'virtual'"
    ),
    BadCommand(_plan("--sim-kernel", "mine"), "'mine' is not one of 'auto', 'host', 'lab'", "known: auto, host, lab"),
    BadCommand(
        _plan("--engine", "virtual", "--sim-kernel", "host"), "virtual time needs the lab kernel", "--engine compose"
    ),
    BadCommand(("compare", "--within", "lots"), "--within lots", "3%"),
    BadCommand(("compare", "--within", "3"), "has no unit", "3%"),
    BadCommand(("compare", "--within", "200%"), "more than the whole", ""),
    BadCommand(("plot", "--formats", "gif"), "there is no 'gif'", "png"),
    BadCommand(("plot", "--only", "congestion"), "there is no 'congestion'", "congestion_window"),
    BadCommand(("plot", "--detail", "5-1"), "expected FROM-TO", "21-24"),
    BadCommand(("plot", "--detail", "nan-nan"), "expected FROM-TO", ""),
    BadCommand(("plot", "--detail", "1-inf"), "expected FROM-TO", ""),
    BadCommand(("explode",), "explode", ""),
    BadCommand(("run",), "Missing argument", ""),
    BadCommand(_plan("--colour"), "--colour", ""),
    BadCommand(("report", "parameters", "--grid"), "--grid", ""),
    BadCommand(("verify", "nothing", "--reference", "{tmp}"), "no run of virtual time there", "make reference"),
    BadCommand(("verify", "--sample", "0"), "--sample 0: it is at least 1", "limit"),
    BadCommand(("verify", "x", "--sample", "1"), "cells and --sample", ""),
    # --- places
    BadCommand(_plan("--store", "{file}"), "not a folder", "folder of results"),
    # Releases.
    BadCommand(
        ("run", "satellite/medium", "--servers", "quic-go@0.54.0"),
        "quic-go@0.54.0 is not supported by this endpoint, whose oldest release is",
    ),
    BadCommand(("run", "satellite/medium", "--servers", "quic-go@0.58"), "nobody published quic-go@0.58"),
    BadCommand(("run", "satellite/medium", "--servers", "quic-go@newest"), "quic-go@newest: 'newest' is no version"),
    BadCommand(("run", "satellite/medium", "--servers", "caddy@all"), "caddy has no releases here"),
    BadCommand(("plan", "satellite/medium", "--expect", "milestone_10MB 8 s"), "expected METRIC at_most VALUE"),
    BadCommand(("history", "nobody", "satellite/medium"), "no implementation 'nobody'"),
    BadCommand(("history", "caddy", "satellite/medium"), "caddy has no releases here"),
    BadCommand(("history", "haproxy", "satellite/medium"), "haproxy is a server alone", "--client quinn"),
    BadCommand(("bisect", "curl@8.14.1..8.22.0", "satellite/medium"), "curl is a client alone", "--server quinn"),
    BadCommand(("history", "quic-go@0.58.0", "satellite/medium"), "quic-go@0.58.0 is one release"),
    BadCommand(("history", "quic-go", "satellite/medium", "--since", "2024"), "--since 2024: no day"),
    BadCommand(
        ("history", "quic-go", "satellite/medium", "--since", "2099-01-01"), "quic-go has no release since 2099-01-01"
    ),
    BadCommand(
        ("history", "quic-go", "satellite/medium", "--client", "quiche", "--server", "quiche"),
        "leave no place for a release",
    ),
    BadCommand(("history", "quic-go", "dumbbell/alone"), "dumbbell/alone names its servers"),
    BadCommand(("bisect", "quic-go", "satellite/medium"), "quic-go: expected NAME@OLDEST..NEWEST"),
    BadCommand(("bisect", "quic-go@0.65.0..0.58.0", "satellite/medium"), "0.65.0 is not older than 0.58.0"),
    BadCommand(("bisect", "quic-go@0.54.0..0.58.0", "satellite/medium"), "quic-go@0.54.0 is not supported"),
    BadCommand(("bisect", "quic-go@0.58.0..0.99.0", "satellite/medium"), "nobody published quic-go@0.99.0"),
    BadCommand(
        ("bisect", "quic-go@0.58.0..0.65.0", "satellite/medium", "satellite/large"),
        "2 scenarios are named, and one decides",
    ),
    BadCommand(
        ("bisect", "quic-go@0.58.0..0.65.0", "satellite/medium", "--metric", "speed"),
        "--metric speed: there is no such metric",
    ),
    BadCommand(
        ("bisect", "quic-go@0.58.0..0.65.0", "satellite/medium", "--metric", "completion", "--changed"),
        "--changed goes by every byte",
    ),
    BadCommand(("bisect", "quic-go@0.58.0..0.65.0", "satellite/medium", "--worse", "much"), "--worse much"),
]

#: Variables that cannot be: name, value, words.
VARIABLES = [
    ("HARNESS_CPU", "amd", "'amd' is neither 'lab' nor 'host'"),
    ("HARNESS_ENTRY", "door", "HARNESS_ENTRY: 'door' is none of host, trap, inproc, unprotected"),
    ("HARNESS_STALL", "long", "HARNESS_STALL: 'long' is no number of seconds"),
    ("HARNESS_STALL", "nan", "HARNESS_STALL: 'nan' is no number of seconds"),
    ("HARNESS_STALL", "inf", "HARNESS_STALL: 'inf' is no number of seconds"),
    ("HARNESS_STALL", "-1", "HARNESS_STALL: '-1' is no number of seconds"),
    ("HARNESS_PATIENCE", "5", "HARNESS_PATIENCE: '5' has no unit"),
    ("HARNESS_PATIENCE", "-5 s", "HARNESS_PATIENCE: a duration cannot be negative"),
    ("HARNESS_LOG_LIMIT", "2", "HARNESS_LOG_LIMIT: '2' has no unit"),
    ("HARNESS_ENDPOINT_MEMORY", "4", "HARNESS_ENDPOINT_MEMORY: '4' has no unit"),
    ("HARNESS_ENDPOINT_MEMORY", "6 MB", "HARNESS_ENDPOINT_MEMORY: 6 MB is too little for an endpoint"),
    ("HARNESS_LOG_LIMIT", "1e999999999 B", "HARNESS_LOG_LIMIT: '1e999999999 B' is out of all proportion"),
]
