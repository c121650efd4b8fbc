"""Checks that a lab can run a scenario: limits of times, sizes and counts. Pure.

`harness.netem.limits` has the limits of queues and links.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from harness.formatting import format_value
from harness.netem import ideal_time
from harness.netem.mobility import flow_paths, flow_timeline
from harness.scenario.schema import Blackhole, Flow, Path, Scenario
from harness.scenario.validation_errors import Location, Mistake
from harness.topology.build import request_urls, schedule_text, served_files
from harness.units import Duration

#: Longest duration or delay in a run: a working day. Waiting is free in virtual time, but nobody waits longer in real
#: time.
MAX_DURATION = Duration.parse("8 h")
#: Maximum length of a client's list of files, characters: an environment variable, with its name and terminator, has at
#: most 32 pages (MAX_ARG_STRLEN, include/uapi/linux/binfmts.h).
_MAX_REQUESTS = 32 * 4096 - len("REQUESTS=") - 1


#: How long a client waits for the simulator to report that the path is up (images/endpoint/wait-for-sim), less the time
#: between two checks. During an outage nothing reaches the simulator.
GATE_TIMEOUT = Duration.parse("50 s")


def mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """The mistakes of a scenario that no lab can run."""
    yield from one_line(("title",), scenario.title)
    yield from not_blank(("title",), scenario.title or " ", "say in a line what the case is")
    for index, reference in enumerate(scenario.references):
        yield from not_blank(("references", index), reference or " ", "leave it out, or fill it in")
    yield from _unused_keys(scenario)
    yield from _duplicates(("clients",), scenario.clients)
    yield from _duplicates(("servers",), scenario.servers)
    yield from _duplicates(("milestones",), scenario.milestones)
    if not scenario.timeout.value:
        yield Mistake(("timeout",), "no transfer ends in no time", "write '120 s', say")
    elif scenario.timeout < (longest := max(path.rtt for path in _whole(scenario).values())):
        text = f"a round trip alone takes {longest}, longer than the timeout of {scenario.timeout}"
        yield Mistake(("timeout",), text, "is the unit of each delay the one you meant?")
    yield from _too_long(("timeout",), scenario.timeout)
    for index, size in enumerate(scenario.milestones):
        if not size.bytes:
            yield Mistake(("milestones", index), "nothing has arrived before anything is sent", "write '2 MB', say")
    for name, path in scenario.every_path.items():
        for index, change in enumerate(path.changes):
            yield from _too_long((*path_location(scenario, name), "changes", index, "at"), change.at)
        for owner, blackhole in (
            ((), path.blackhole),
            (("forward",), path.forward.blackhole),
            (("return",), path.return_.blackhole),
        ):
            if blackhole is not None:
                yield from _blackhole((*path_location(scenario, name), *owner, "blackhole"), blackhole, scenario)
    yield from _sequence(scenario)
    yield from _duplication(scenario)
    yield from _flows(scenario)
    # With `zip` a value may occur in several pairs; the sweep itself rejects equal pairs.
    for name, values in scenario.vary.items() if scenario.combine == "product" else ():
        yield from _duplicates(("vary", name), values)


def path_location(scenario: Scenario, name: str) -> Location:
    """Location of a path in its file, by its name in `Scenario.every_path`."""
    if scenario.in_sequence:
        return "path", scenario.steps.index(scenario.every_path[name])
    return ("paths", name) if name else ("path",)


def _whole(scenario: Scenario) -> dict[str, Path]:
    """The end-to-end paths, by name."""
    return {"": scenario.path} if scenario.in_sequence else scenario.every_path


def _sequence(scenario: Scenario) -> Iterator[Mistake]:
    """Keys that several segments in a row do not support."""
    if not scenario.in_sequence:
        return
    for index, flow in enumerate(scenario.flows):
        if flow.moves:
            text = "a client behind segments in a row stays where it is"
            yield Mistake(("flows", index, "moves"), text, "write one path, or several: paths: {NAME: …}", named=False)
        if flow.access_delay.value:
            text = "an access delay of one flow on segments in a row"
            yield Mistake(("flows", index, "access_delay"), text, "give a segment a longer delay", named=False)


def _duplication(scenario: Scenario) -> Iterator[Mistake]:
    """Access delays on a path with a link that duplicates: a netem each, and one that duplicates must be alone."""
    if not any(link.duplicate.value for path in scenario.every_path.values() for link in (path.forward, path.return_)):
        return
    for index, flow in enumerate(scenario.flows):
        if flow.access_delay.value:
            text = "a flow has no access delay of its own where a link duplicates packets: the kernel refuses that"
            hint = "leave out access_delay, or duplicate; or give the flow a path of its own, with a longer delay"
            yield Mistake(("flows", index, "access_delay"), text, hint, named=False)


def _unused_keys(scenario: Scenario) -> Iterator[Mistake]:
    """Keys that apply to nothing in the scenario."""
    if scenario.study is not None and scenario.combine == "zip":
        yield Mistake(("combine",), "a study's design says what goes with what", "leave out combine")
    if all(flow.kind != "quic" for flow in scenario.flows):
        for name, is_set in (("testcase", scenario.testcase is not None), ("protocol", scenario.protocol != "auto")):
            if is_set:
                text = f"{name} is for downloads, and every flow is a generator's"
                yield Mistake((name,), text, f"leave out {name}, or give a flow kind: quic")


def _blackhole(location: Location, blackhole: Blackhole, scenario: Scenario) -> Iterator[Mistake]:
    for name, time in (("after", blackhole.after), ("lasts", blackhole.longest)):
        yield from _too_long((*location, name), time)
    if max(blackhole.after, blackhole.longest) > MAX_DURATION:
        return
    _, end = blackhole.times[-1]
    if end > MAX_DURATION:
        text = f"the last of {blackhole.repeat} times ends at {end}, and a run lasts {MAX_DURATION} at most"
        yield Mistake((*location, "repeat"), text, "write fewer, or shorter ones")
    yield from _after_end((*location, "after"), blackhole.after, scenario)


def _after_end(location: Location, time: Duration, scenario: Scenario) -> Iterator[Mistake]:
    """A time after the end of all flows."""
    end = scenario.horizon
    if time >= end:
        yield Mistake(location, f"it comes at {time}, and by {end} every flow has ended", "write an earlier time")


def not_blank(location: Location, text: str, hint: str) -> Iterator[Mistake]:
    """A text that is given must not be blank."""
    if text and not text.strip():
        yield Mistake(location, "it is blank", hint)


def one_line(location: Location, text: str) -> Iterator[Mistake]:
    """A text that tables show in one line must be one line."""
    if "\n" in text:
        yield Mistake(location, f"{format_value(text)} is not one line of text", "description and notes may have more")


def _flows(scenario: Scenario) -> Iterator[Mistake]:
    """The mistakes of flows, each by itself."""
    path_names = set(scenario.every_path)
    paths_exist = scenario.in_sequence or all(
        path_names.issuperset(flow_paths(scenario, flow)) for flow in scenario.flows
    )
    for index, flow in enumerate(scenario.flows):
        yield from _flow(("flows", index), flow, scenario)
        if paths_exist:  # without, there is another mistake
            yield from _carried(("flows", index), flow, scenario)


def _flow(location: Location, flow: Flow, scenario: Scenario) -> Iterator[Mistake]:
    for name in ("start", "stop", "repeat_after", "access_delay"):
        if (time := getattr(flow, name)) is not None:
            yield from _too_long((*location, name), time)
    for number, move in enumerate(flow.moves):
        for name in ("at", "gap", "overlap", "every"):
            if (time := getattr(move, name)) is not None:
                yield from _too_long((*location, "moves", number, name), time)
        if MAX_DURATION > move.at >= (end := scenario.latest_end(flow)):
            text = f"it moves at {move.at}, and by {end} the flow has ended"
            yield Mistake((*location, "moves", number, "at"), text, "write an earlier time")
    path = _whole(scenario).get(scenario.start(flow), scenario.path)
    rtt = path.rtt + flow.access_delay + flow.access_delay
    if MAX_DURATION >= flow.access_delay > Duration(0) and rtt > scenario.timeout:
        text = f"a round trip takes {rtt} with it, longer than the timeout of {scenario.timeout}"
        yield Mistake((*location, "access_delay"), text, "is the unit the one you meant?")
    yield from _starts((*location, "start"), flow, scenario)


def _starts(location: Location, flow: Flow, scenario: Scenario) -> Iterator[Mistake]:
    """A client that starts during an outage must not wait longer for the path than it can."""
    path = _whole(scenario).get(scenario.start(flow), scenario.path)
    if path.blackhole is None or not path.is_plain or not flow.start.value:
        return  # outages of a direction let a client's questions to the simulator pass
    for begin, end in path.blackhole.times:
        if begin <= flow.start < end and end.value - flow.start.value > GATE_TIMEOUT.value:
            text = (
                f"the path is dark from {begin} to {end}, and no client waits longer than {GATE_TIMEOUT} for "
                "it to be up"
            )
            yield Mistake(location, text, f"start it before {begin}, or in the last {GATE_TIMEOUT} before {end}")


def _carried(location: Location, flow: Flow, scenario: Scenario) -> Iterator[Mistake]:
    """Sizes that a flow cannot transfer."""
    if flow.carried is None:
        return
    sources = ("files", "page", "requests", "video", "upload")
    key = (*location, next((name for name in sources if getattr(flow, name)), "download"))
    if not flow.carried.bytes:
        yield Mistake(key, "a flow with a size transfers something", "write '1 MB', say")
        return
    seconds = ideal_time(flow_timeline(scenario, flow), flow.carried)
    if math.isinf(seconds):
        text = f"the path never carries {flow.carried}"
        yield Mistake(key, text, "let its rate rise again, or write a smaller size")
    elif seconds > MAX_DURATION.seconds:
        payload = f"files of {flow.carried} in all" if flow.groups else f"{flow.carried}"
        text = (
            f"{payload} take {seconds:.0f} s at the rate of the line, and a run lasts "
            f"{MAX_DURATION.seconds:.0f} s at most"
        )
        less = "fewer files, or smaller ones" if flow.groups else "a smaller size"
        yield Mistake(key, text, f"write {less}, or a faster path")
    elif flow.groups:
        files = served_files(flow)
        length = len(request_urls((file.name for file in files), scenario.ip_version))
        if length > _MAX_REQUESTS:
            text = f"the addresses of its files are {length} characters, and a client takes {_MAX_REQUESTS}"
            yield Mistake(key, text, "write fewer files, or shorter names")
        for file in files:
            if len(file.text) > file.size:
                text = f"{file.name} names its objects in {len(file.text)} B, and has {file.size} B"
                yield Mistake(key, text, "write a larger size")
        if (length := len(schedule_text(flow.schedule))) > _MAX_REQUESTS:
            text = f"the schedule of its requests is {length} characters, and a client takes {_MAX_REQUESTS}"
            yield Mistake(key, text, "write fewer requests")


def _too_long(location: Location, time: Duration) -> Iterator[Mistake]:
    if time.value > MAX_DURATION.value:
        yield Mistake(
            location, f"{time} is longer than any run may last ({MAX_DURATION})", "is the unit the one you meant?"
        )


def _duplicates(location: Location, entries: Sequence[object]) -> Iterator[Mistake]:
    for index, entry in enumerate(entries):
        if entry in entries[:index]:
            yield Mistake((*location, index), f"'{entry}' is given twice", "leave one of the two out")
