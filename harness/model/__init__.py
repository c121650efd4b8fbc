"""What a person writes down: scenarios, paths, links, queues, flows, objectives, implementations.

Everything here is frozen and validated, and does no I/O. The JSON Schema that editors use is generated
from these classes (`harness schema`), so their docstrings are its documentation.
"""

from harness.model.container import Container
from harness.model.experiment import LEAST_RESOLUTION, DesignKind, Experiment
from harness.model.fault import Blackhole, Corrupt, Drop
from harness.model.files import Files
from harness.model.flow import GENERATOR, Flow, FlowKind, LabFlowKind
from harness.model.frame import FRAME_HEADER, MTU
from harness.model.implementation import Implementation, Protocol
from harness.model.loss import GilbertElliott
from harness.model.move import ClientMove, Move, MoveKind, Rebinding
from harness.model.objective import Objective
from harness.model.part import FORMS, NAME, PATH_NAME, Part
from harness.model.path import Change, Link, LinkChange, Path, Service
from harness.model.queue import DropTail, Queue, Red
from harness.model.scenario import (
    MAXIMUM_ACCESS_DELAYS,
    MAXIMUM_DRAWN,
    MAXIMUM_FLOWS,
    MAXIMUM_PATHS,
    MAXIMUM_REPETITIONS,
    Scenario,
)
from harness.model.sequence import MAXIMUM_SEGMENTS, Proxy, Segment
from harness.model.testcase import ONE_SIDED, TESTCASES, Refusal, TestcaseName, asked_of
from harness.model.traffic import GENERATOR_LIMIT, Bulk, ConstantRate, Poisson, Traffic, UniformGaps

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
