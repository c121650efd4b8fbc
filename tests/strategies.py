"""Any scenario, manifest, run and measurement that the model admits, for properties that hold of all of them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, get_args

from hypothesis import strategies as st

from harness.outcome import (
    Absence,
    Better,
    Cell,
    Contestant,
    DirectionProof,
    Image,
    LinkProof,
    MeasuredRun,
    Measurement,
    Observation,
    Outcome,
    RandomBytes,
    Run,
    Status,
    Transfer,
)
from harness.scenario.metric_names import TransferName
from harness.scenario.parameters import PARAMETERS, ROLES, Parameter, ParameterValue
from harness.scenario.schema import (
    MTU,
    Bulk,
    Change,
    ClientMove,
    ConstantRate,
    DropTail,
    Flow,
    GilbertElliott,
    Implementation,
    Link,
    LinkChange,
    Move,
    Objective,
    Path,
    Poisson,
    PoissonService,
    Protocol,
    Queue,
    Rebinding,
    Red,
    Scenario,
    UniformGaps,
)
from harness.units import Duration, Percentage, QueueSize, Rate, Size

#: What people and programs write: any characters but the halves of surrogate pairs, which no UTF-8 file holds.
TEXT = st.text(max_size=6)
NAMES = st.sampled_from(["alpha", "b-2", "0.x_y"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**40)
DURATIONS = st.integers(0, 10**13).map(Duration)
SIZES = st.integers(0, 10**12).map(Size)
RATES = st.integers(1000, 10**11).map(Rate)
SHARES = st.integers(0, 10**9).map(Percentage)
MOMENTS = st.integers(1, 10**6)
QUEUE_SIZES = st.one_of(
    st.builds(QueueSize, st.integers(10**4, 10**9).map(Fraction), st.just("B")),
    st.builds(QueueSize, st.integers(1, 10**5).map(Fraction), st.just("packets")),
    st.builds(QueueSize, st.integers(10**7, 10**12).map(Fraction), st.just("ns")),
    st.builds(QueueSize, st.decimals("0.1", "9", places=18).map(Fraction), st.just("BDP")),
)


@st.composite
def reds(draw: st.DrawFn) -> Red:
    """RED with thresholds of any kind that tc takes, on any link."""
    packet = draw(st.integers(100, MTU))
    low = draw(st.integers(2, 100)) * packet
    high = low * draw(st.integers(2, 4))
    limit = high * draw(st.integers(2, 9))
    # What tc demands of a burst, in packets (red(8)).
    burst = draw(st.none() | st.integers(0, 50).map(lambda more: math.ceil((2 * low + high) / (3 * packet)) + more))
    weight = draw(st.floats(0.001, 0.1)) if burst is None else None
    hard, least, queue_size = (QueueSize(Fraction(size), "B") for size in (limit, low, high))
    return Red(
        discipline="red", limit=hard, min=least, max=queue_size,
        probability=draw(st.integers(10**7, 9 * 10**8).map(Percentage)), wq=weight, burst=burst,
        average_packet=Size(packet), ecn=draw(st.booleans()),
    )  # fmt: skip


QUEUES: st.SearchStrategy[Queue] = st.builds(DropTail, size=QUEUE_SIZES) | reds()
LOSSES = SHARES | st.builds(
    GilbertElliott, good_to_bad=SHARES, bad_to_good=SHARES, loss_in_bad=SHARES, loss_in_good=SHARES
)


@st.composite
def services(draw: st.DrawFn) -> PoissonService:
    cold, more = draw(DURATIONS), draw(st.none() | MOMENTS)
    return PoissonService(
        process="poisson", cold_start=cold, period=None if more is None else Duration(cold.value + more)
    )


@st.composite
def links(draw: st.DrawFn) -> Link:
    """One direction, with a queue, a loss and a service of any kind."""
    delay, service = draw(DURATIONS), draw(st.none() | services())
    content: dict[str, Any] = {
        "rate": draw(RATES), "service": service, "delay": delay, "loss": draw(LOSSES),
        "jitter": Duration(draw(st.integers(0, delay.value))),
    }  # fmt: skip
    if service is None:
        content |= {"queue": draw(QUEUES), "burst": draw(st.none() | st.integers(2000, 10**7).map(Size))}
    else:
        content["queue"] = DropTail(size=draw(QUEUE_SIZES.filter(lambda size: size.unit == "packets")))
    return Link.model_validate(content)


@st.composite
def paths(draw: st.DrawFn) -> Path:
    """A path, with changes in order."""
    sides = [draw(links()) for _ in range(2)]
    rates = st.none() if any(side.service is not None for side in sides) else st.none() | RATES
    changes = st.builds(LinkChange, rate=rates, delay=DURATIONS, loss=st.none() | LOSSES)
    times = sorted(draw(st.sets(MOMENTS, max_size=3)))
    path_changes = [
        Change.model_validate(
            {"at": Duration(at * 10**6), "forward": draw(changes), "return": draw(st.none() | changes)}
        )
        for at in times
    ]
    return Path.model_validate(
        {
            "forward": sides[0], "return": sides[1], "terminal": draw(st.sampled_from(ROLES)),
            "mtu": draw(st.integers(1280, MTU)), "changes": tuple(path_changes),
        }
    )  # fmt: skip


def _valid_value(parameter: Parameter) -> st.SearchStrategy[ParameterValue]:
    if parameter.bounds is not None:
        least, most = (parameter.number(parameter.canonical(bound)) or 0.0 for bound in parameter.bounds)
        if parameter.kind == "duration":
            return st.integers(round(least * 1e9), round(most * 1e9)).map(Duration).map(str)
        numbers = st.integers(int(least), int(most))
        return numbers.map(Size).map(str) if parameter.kind == "size" else numbers
    kinds: dict[str, st.SearchStrategy[ParameterValue]] = {
        "word": st.sampled_from(["reno", "off", "careful-resume", "5"]),
        "switch": st.sampled_from(["on", "off"]),
        "size": SIZES.map(str),
        "duration": DURATIONS.map(str),
        "count": COUNTS,
    }
    if parameter.bounds is None:
        return kinds[parameter.kind]
    least, most = (parameter.number(parameter.canonical(bound)) for bound in parameter.bounds)
    assert least is not None and most is not None
    between: dict[str, st.SearchStrategy[ParameterValue]] = {
        "size": st.integers(int(least), min(int(most), 10**12)).map(Size).map(str),
        "duration": st.integers(math.ceil(least * 1e9), int(most * 1e9)).map(Duration).map(str),
        "count": st.integers(int(least), int(most)),
    }
    return between[parameter.kind]


@st.composite
def parameter_values(draw: st.DrawFn) -> dict[str, ParameterValue]:
    """role.NAME → a canonical value."""
    names = draw(st.sets(st.sampled_from(sorted(PARAMETERS)), max_size=3))
    roles = st.sampled_from(ROLES)
    return {f"{draw(roles)}.{name}": draw(_valid_value(PARAMETERS[name])) for name in sorted(names)}


GENERATED = st.one_of(
    st.builds(ConstantRate, model=st.just("cbr"), rate=st.integers(1, 10**6).map(Rate)),
    st.builds(Poisson, model=st.just("poisson"), rate=st.integers(1, 10**6).map(Rate)),
    st.builds(
        UniformGaps, model=st.just("uniform"), packet=st.just((Size(100), Size(1200))),
        gap=st.tuples(st.integers(10**6, 10**9), st.integers(1, 10**9)).map(
            lambda gap: (Duration(gap[0]), Duration(gap[0] + gap[1]))
        ),
    ),
)  # fmt: skip


@st.composite
def moves(draw: st.DrawFn) -> tuple[Move, ...]:
    """Moves in order, of any kind, each over before the next."""
    drawn_moves = []
    for number in range(draw(st.integers(0, 2))):
        how = draw(st.sampled_from(get_args(ClientMove) + get_args(Rebinding)))
        content: dict[str, Any] = {"at": Duration((number + 1) * 10**9), "how": how}
        search_strategy = st.none() | st.integers(1, 10**9 - 1).map(Duration)
        content[{"interface": "gap", "migrate": "overlap"}.get(how, "every")] = draw(search_strategy)
        if how in get_args(ClientMove):
            content["to"] = draw(st.sampled_from(["a", "b-2"]))
        drawn_moves.append(Move.model_validate(content))
    return tuple(drawn_moves)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """A flow of any kind: a download, a repeat, one with a stop; QUIC, TCP, UDP."""
    kind = draw(st.sampled_from(["quic", "quic", "tcp", "udp"]))
    start = draw(DURATIONS)
    content: dict[str, Any] = {
        "kind": kind, "start": start, "client": draw(st.none() | NAMES), "server": draw(st.none() | NAMES),
        "access_delay": draw(st.sampled_from([Duration(0), Duration(5), Duration(10**9)])),
        "parameters": draw(parameter_values()),
    }  # fmt: skip
    if kind == "udp" or draw(st.booleans()):
        content["stop"] = Duration(start.value + draw(MOMENTS))
    else:
        content["download"] = draw(st.integers(1, 10**12).map(Size))
        content["repeat_after"] = draw(st.none() | DURATIONS) if kind == "quic" else None
    if kind == "udp":
        content["traffic"] = draw(GENERATED)
    elif kind == "tcp":
        content["traffic"] = draw(
            st.just(Bulk()) | GENERATED.filter(lambda generated: isinstance(generated, ConstantRate))
        )
    if kind == "quic" and not start.value and not content.get("repeat_after"):
        content |= {"path": draw(st.none() | st.just("a")), "moves": draw(moves())}
    if kind != "quic":
        content["direction"] = draw(st.sampled_from(["to_client", "to_server"]))
    return Flow.model_validate(content)


BOUNDS = st.builds(Duration, st.integers(0, 10**13)) | RATES | NUMBERS
OBJECTIVES = st.builds(Objective, metric=st.sampled_from(["completion", "goodput"]), at_most=BOUNDS) | st.builds(
    Objective, metric=st.just("jain_shared"), at_least=BOUNDS
)
_SCENARIOS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict, name=st.sampled_from(["a/b", "x.y_z-0"]), title=TEXT, description=TEXT,
    references=st.lists(TEXT, max_size=2).map(tuple),
    flows=st.lists(flows(), min_size=1, max_size=3).map(tuple), clients=st.lists(NAMES, max_size=2).map(tuple),
    servers=st.lists(NAMES, max_size=2).map(tuple), protocol=st.sampled_from(["auto", "h3", "hq-interop"]),
    ip_version=st.sampled_from([4, 6]), timeout=DURATIONS.map(lambda duration: Duration(duration.value + 10**7)),
    repetitions=st.integers(1, 1000), milestones=st.lists(SIZES, max_size=3).map(tuple),
    objectives=st.lists(OBJECTIVES, max_size=2).map(tuple), parameters=parameter_values(),
    vary=st.dictionaries(
        st.sampled_from(["server.initial_cwnd", "client.ack_ratio"]),
        st.lists(st.integers(1, 1000), min_size=1, max_size=3).map(tuple), max_size=2,
    ),
    draw=st.dictionaries(st.just("path.forward.rate"), st.just(("1 Mbit/s", "2 Mbit/s")), max_size=1),
    combine=st.sampled_from(["product", "zip"]),
)  # fmt: skip


#: What stands between two segments: nothing, or a proxy.
_BETWEEN: st.SearchStrategy[list[dict[str, Any]]] = st.just([]) | st.fixed_dictionaries(
    {
        "proxy": st.just("tcp-split"), "tcp_wmem_max": st.integers(16384, 2**31 - 1).map(Size),
        "initial_cwnd": st.integers(1, 65535), "congestion_control": st.sampled_from(["cubic", "bbr"]),
    }
).map(lambda proxy: [proxy])  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A scenario with one path, or several of one MTU, one beside the other or in a row."""
    path = draw(paths())
    form = draw(st.sampled_from(["one", "several", "in a row"]))
    if form == "one":
        return Scenario.model_validate({**draw(_SCENARIOS), "path": path})
    if form == "in a row":
        first = {**path.model_dump(mode="json", by_alias=True), "terminal": "client"}
        steps = [{**first, "name": "a"}, *draw(_BETWEEN), {**first, "name": "b-2", "changes": []}]
        return Scenario.model_validate({**draw(_SCENARIOS), "path": steps})
    # One whole path is drawn: of several the document would become too large.
    file = path.model_copy(update={"terminal": draw(st.sampled_from(ROLES)), "changes": ()})
    return Scenario.model_validate({**draw(_SCENARIOS), "paths": {"a": path, "b-2": file}})


SCENARIOS = scenarios()


@st.composite
def implementations(draw: st.DrawFn) -> Implementation:
    """A manifest, built or published, with settings of any kind of parameter."""
    settings = {}
    for name in sorted(draw(st.sets(st.sampled_from(sorted(PARAMETERS)), max_size=3))):
        parameter = PARAMETERS[name]
        content: dict[str, Any] = {
            "flag": draw(st.none() | st.just("--x={value}")),
            "default": draw(_valid_value(parameter)),
        }
        if parameter.kind == "word":
            content["values"] = draw(st.just(["reno", "off"]) | st.just({"reno": "newreno", "off": "none"}))
            content["default"] = "reno"
        settings[name] = draw(st.just(content) | st.fixed_dictionaries({role: st.just(content) for role in ROLES}))
    source = draw(st.sampled_from([{"image": "example/x:1"}, {"build": ".", "upstream_image": "example/y:1"}]))
    return Implementation.model_validate(
        {
            **source, "name": draw(NAMES), "title": draw(TEXT), "version": draw(TEXT), "notes": draw(TEXT),
            "build_time": draw(DURATIONS), "tested": draw(st.booleans()), "session": draw(st.booleans()),
            "protocols": draw(st.lists(st.sampled_from(get_args(Protocol)), min_size=1, max_size=2)),
            "moves": draw(st.sampled_from([[], ["migrate"], ["interface", "migrate"]])),
            "refuses": draw(st.sampled_from([[], [{"testcases": ["v2", "ecn"], "roles": ["client"], "why": "no"}]])),
            "parameters": settings, "extensions": draw(st.sampled_from([[], ["ack_frequency"]])),
        }
    )  # fmt: skip


IMAGES = st.builds(Image, reference=TEXT, identity=TEXT, id=TEXT)
CELLS = st.builds(
    Cell, key=st.just("0123456789abcdef"), scenario=SCENARIOS, client=implementations(), server=implementations(),
    client_image=IMAGES, server_image=IMAGES, sim_image=IMAGES, engine=st.sampled_from(["compose", "virtual"]),
    sim_kernel=st.sampled_from(["auto", "host", "lab"]), parameters=parameter_values(), seed=COUNTS, compiled=TEXT,
    engine_code=TEXT, host_cpu=st.booleans(),
    others=st.dictionaries(NAMES, st.builds(Contestant, implementation=implementations(), image=IMAGES), max_size=1),
)  # fmt: skip
WHO = st.none() | st.sampled_from(["client", "server", "sim", "harness"])
RUNS = st.builds(
    Run, cell=CELLS, repetition=st.just(0),
    outcome=st.builds(
        Outcome, status=st.sampled_from(get_args(Status)), role=WHO, exit_code=st.none() | st.integers(-9, 255),
        reason=TEXT, detail=TEXT, log_tail=st.lists(TEXT, max_size=2).map(tuple),
    ),
    started_at=TEXT,
    transfers=st.lists(
        st.builds(Transfer, flow=st.integers(0, 49), index=st.integers(0, 1), size=COUNTS, received=COUNTS,
                  intact=st.booleans(), started_ns=COUNTS, ended_ns=COUNTS, exit_code=st.none() | st.integers(-9, 255),
                  cut_off=st.booleans()),
        max_size=2,
    ).map(tuple),
    phases=st.dictionaries(TEXT, NUMBERS, max_size=2), wall=NUMBERS, virtual=st.none() | NUMBERS, sim_kernel=TEXT,
    cpu=st.sampled_from([None, "lab", "host"]), lab_kernel=TEXT,
    captures=st.dictionaries(st.sampled_from(["left", "right", "sim-far left"]), TEXT, max_size=2),
    trail=TEXT, random=st.dictionaries(TEXT, st.builds(RandomBytes, bytes=COUNTS, digest=TEXT), max_size=1),
    effective=st.dictionaries(TEXT, TEXT | COUNTS, max_size=2), image_ids=st.dictionaries(TEXT, TEXT, max_size=1),
    contents=st.dictionaries(TEXT, st.from_regex(r"[0-9a-z][0-9a-z-]{0,9}", fullmatch=True), max_size=1), commit=TEXT,
    host=st.dictionaries(TEXT, st.none() | TEXT | COUNTS | NUMBERS, max_size=2),
    warnings=st.lists(TEXT, max_size=2).map(tuple),
)  # fmt: skip
#: What was measured may be infinite: a transfer that never ended.
FIGURES = st.floats(allow_nan=False)
TRANSFERS = st.none() | st.sampled_from(get_args(TransferName))
DIRECTIONS = st.builds(
    DirectionProof, packets=COUNTS, min_delay_ms=st.none() | NUMBERS, burst_bytes=st.none() | COUNTS,
    rate_mbps=st.none() | NUMBERS, lateness_p99_ms=st.none() | NUMBERS,
)  # fmt: skip
MEASURED = st.builds(
    MeasuredRun, version=st.integers(0, 99),
    measurements=st.lists(
        st.builds(Measurement, name=TEXT, value=FIGURES, unit=TEXT, direction=st.sampled_from(get_args(Better)),
                  vantage=TEXT, flow=st.none() | st.integers(0, 49), transfer=TRANSFERS,
                  phase=st.none() | st.integers(1, 9)),
        max_size=3,
    ).map(tuple),
    absent=st.lists(
        st.builds(Absence, metric=TEXT, why=TEXT, flows=st.lists(st.integers(0, 49), max_size=2).map(tuple),
                  transfer=TRANSFERS, samples=st.none() | st.tuples(COUNTS, COUNTS)),
        max_size=2,
    ).map(tuple),
    observed=st.lists(
        st.builds(Observation, role=st.sampled_from(ROLES), parameter=TEXT, value=NUMBERS | TEXT, unit=TEXT, source=TEXT),
        max_size=2,
    ).map(tuple),
    link=st.none() | st.builds(
        LinkProof, valid=st.booleans(), problems=st.lists(TEXT, max_size=2).map(tuple), kernel=TEXT,
        to_client=DIRECTIONS, to_server=DIRECTIONS,
        further=st.dictionaries(st.sampled_from(["a to_client", "b-2 to_server"]), DIRECTIONS, max_size=2), capture_drops=COUNTS,
        changes_late_ms=st.lists(NUMBERS, max_size=2).map(tuple), steal=st.none() | NUMBERS, idle=st.none() | NUMBERS,
    ),
    warnings=st.lists(TEXT, max_size=2).map(tuple),
)  # fmt: skip
