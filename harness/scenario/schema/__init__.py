"""What a person writes down: scenarios, paths, links, queues, flows, objectives, implementations.

Everything here is frozen and validated, and does no I/O. The JSON Schema that editors use is generated
from these classes (`harness schema`), so their docstrings are its documentation.
"""

from harness.scenario.schema.base import FORMS, NAME, PATH_NAME, Part
from harness.scenario.schema.faults import Blackhole, Corrupt, Drop
from harness.scenario.schema.flow import (
    GENERATOR,
    GENERATOR_LIMIT,
    ONE_SIDED,
    TESTCASES,
    Bulk,
    ConstantRate,
    Files,
    Flow,
    FlowKind,
    LabFlowKind,
    Poisson,
    Refusal,
    TestcaseName,
    Traffic,
    UniformGaps,
    asked_of,
)
from harness.scenario.schema.implementation import Container, Implementation, Protocol
from harness.scenario.schema.mobility import ClientMove, Move, MoveKind, Rebinding
from harness.scenario.schema.objective import Objective
from harness.scenario.schema.path import (
    FRAME_HEADER,
    MTU,
    Change,
    DropTail,
    GilbertElliott,
    Link,
    LinkChange,
    Path,
    Queue,
    Red,
    Service,
)
from harness.scenario.schema.scenario import (
    MAXIMUM_ACCESS_DELAYS,
    MAXIMUM_DRAWN,
    MAXIMUM_FLOWS,
    MAXIMUM_PATHS,
    MAXIMUM_REPETITIONS,
    Scenario,
)
from harness.scenario.schema.segments import MAXIMUM_SEGMENTS, Proxy, Segment
from harness.scenario.schema.study import LEAST_RESOLUTION, DesignKind, Experiment

__all__ = [
    "FORMS",
    "FRAME_HEADER",
    "GENERATOR",
    "GENERATOR_LIMIT",
    "LEAST_RESOLUTION",
    "MAXIMUM_ACCESS_DELAYS",
    "MAXIMUM_DRAWN",
    "MAXIMUM_FLOWS",
    "MAXIMUM_PATHS",
    "MAXIMUM_REPETITIONS",
    "MAXIMUM_SEGMENTS",
    "MTU",
    "NAME",
    "ONE_SIDED",
    "PATH_NAME",
    "TESTCASES",
    "Blackhole",
    "Bulk",
    "Change",
    "ClientMove",
    "ConstantRate",
    "Container",
    "Corrupt",
    "DesignKind",
    "Drop",
    "DropTail",
    "Experiment",
    "Files",
    "Flow",
    "FlowKind",
    "GilbertElliott",
    "Implementation",
    "LabFlowKind",
    "Link",
    "LinkChange",
    "Move",
    "MoveKind",
    "Objective",
    "Part",
    "Path",
    "Poisson",
    "Protocol",
    "Proxy",
    "Queue",
    "Rebinding",
    "Red",
    "Refusal",
    "Scenario",
    "Segment",
    "Service",
    "TestcaseName",
    "Traffic",
    "UniformGaps",
    "asked_of",
]
