"""The queue of a bottleneck: how much it holds, and which packets its discipline drops or marks."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError, did_you_mean
from harness.formatting import format_value
from harness.scenario.schema.base import Part
from harness.units import Duration, Percentage, QueueSize, Size

#: The IP MTU of every emulated link unless a path says another, bytes.
MTU = 1500
#: The least MTU of an interface: each has an IPv6 address (RFC 8200 §5). And the most that a path may ask for, bytes.
SMALLEST_MTU, LARGEST_MTU = 1280, 9000
#: Bytes that tc counts in addition to the IP packet: the Ethernet header.
FRAME_HEADER = 14

#: The kernel counts the times of these disciplines in microseconds, in 32 bits (include/net/codel.h, sch_pie.c).
_MIN_TIME, _MAX_TIME = Duration.parse("10 us"), Duration.parse("1000 s")


class Discipline(Part):
    """What all disciplines have in common."""

    title: ClassVar[str]
    """Its name, as papers write it."""
    draws: ClassVar[bool] = False
    """Whether it draws random numbers."""
    separates_flows: ClassVar[bool] = False
    """Whether it has a queue for each flow, so that packets of different flows overtake each other."""
    drops_early: ClassVar[bool] = False
    """Whether it drops packets though it is not full."""
    drops_at_dequeue: ClassVar[bool] = False
    """Whether it drops them when it is their turn to leave, and not when they arrive."""
    holds: ClassVar[bool] = True
    """Whether packets wait in it; a policer has no queue."""
    main_size: ClassVar[str] = "limit"
    """The key of the size that may stand behind its name in its short form."""

    @property
    def capacity(self) -> QueueSize:
        """The hard limit of the queue."""
        raise NotImplementedError

    @property
    def may_mark(self) -> bool:
        """Whether it marks packets Congestion Experienced (RFC 3168)."""
        return False


class DropTail(Discipline):
    """A first-in first-out queue that drops what does not fit."""

    title: ClassVar[str] = "DropTail"
    discipline: Literal["droptail"] = "droptail"
    size: QueueSize
    """How much it holds: '50 kB', '25 packets', '100 ms' or '1 BDP'."""

    @property
    def capacity(self) -> QueueSize:
        """The hard limit of the queue."""
        return self.size


class Limited(Discipline):
    """A discipline that drops what does not fit below its `limit`."""

    limit: QueueSize
    """Hard limit of the queue; a size in another unit than packets counts full frames."""

    @property
    def capacity(self) -> QueueSize:
        """The hard limit of the queue."""
        return self.limit


class Aqm(Limited):
    """Active queue management (RFC 7567): it drops, or marks, before the queue is full."""

    ecn: bool = False
    """Mark instead of dropping where the packet allows it."""

    @property
    def may_mark(self) -> bool:
        """Whether it marks packets Congestion Experienced (RFC 3168)."""
        return self.ecn


class Red(Aqm):
    """Random Early Detection as Linux's sch_red does it (Floyd & Jacobson 1993; net/sched/sch_red.c)."""

    title: ClassVar[str] = "RED"
    draws: ClassVar[bool] = True
    drops_early: ClassVar[bool] = True

    discipline: Literal["red"]
    limit: QueueSize
    """Hard limit of the queue."""
    min: QueueSize
    """Average queue below which nothing is dropped."""
    max: QueueSize
    """Average queue above which everything is dropped (sch_red is not gentle)."""
    probability: Percentage
    """Drop probability when the average reaches `max`; below 100 %, which tc cannot express."""
    wq: Annotated[float, Field(gt=0, le=0.5, allow_inf_nan=False)] | None = None
    """Weight of the moving average; the nearest power of two is used."""
    burst: Annotated[int, Field(strict=True, gt=0)] | None = None
    """tc's burst in packets, instead of `wq`."""
    average_packet: Size = Size.parse("1000 B")
    """Mean packet size (tc avpkt)."""

    @field_validator("probability")
    @classmethod
    def _below_one(cls, value: Percentage) -> Percentage:
        if not 0 < value.fraction < 1:
            raise UnfitError("must be above 0 % and below 100 %: tc wraps 1.0 to 0 (use 99.9 %)", "write '10 %', say")
        return value

    @model_validator(mode="after")
    def _one_weight(self) -> Self:
        if (self.wq is None) == (self.burst is None):
            raise UnfitError("give exactly one of wq and burst", "write wq: 0.002, and no burst")
        return self


class HashedFlows(Aqm):
    """A queue for each flow, by a hash, served in turn."""

    separates_flows: ClassVar[bool] = True

    limit: QueueSize = QueueSize.parse("10240 packets")
    """Hard limit of all queues together; a size in another unit than packets counts full frames."""
    flows: Annotated[int, Field(strict=True, ge=1, le=65536)] = 1024
    """Number of queues; flows are distributed by a hash of addresses and ports."""
    quantum: Size = Size(MTU + FRAME_HEADER)
    """Bytes that a flow may send in its turn."""


def _kernel_time(value: Duration) -> Duration:
    if not _MIN_TIME <= value <= _MAX_TIME:
        raise UnfitError(f"the kernel has {_MIN_TIME} to {_MAX_TIME}, not {value}", "write '5 ms', say")
    return value


def _kernel_time_or_none(value: Duration | None) -> Duration | None:
    return None if value is None else _kernel_time(value)


class Codel(Aqm):
    """Controlled Delay (RFC 8289; net/sched/sch_codel.c): it drops from the head while packets wait too long."""

    title: ClassVar[str] = "CoDel"
    drops_early: ClassVar[bool] = True
    drops_at_dequeue: ClassVar[bool] = True
    discipline: Literal["codel"]
    limit: QueueSize = QueueSize.parse("1000 packets")
    """Hard limit of the queue; a size in another unit than packets counts full frames."""
    target: Duration = Duration.parse("5 ms")
    """Wait that is acceptable for good."""
    interval: Duration = Duration.parse("100 ms")
    """For so long packets may wait longer than `target` before one is dropped; about the longest round trip."""
    ce_threshold: Duration | None = None
    """Packets that waited longer are marked, whatever CoDel's own decision (a step, as for DCTCP)."""

    _times = field_validator("target", "interval")(_kernel_time)
    _threshold = field_validator("ce_threshold")(_kernel_time_or_none)

    @property
    def may_mark(self) -> bool:
        """Whether it marks packets Congestion Experienced (RFC 3168)."""
        return self.ecn or self.ce_threshold is not None


class FqCodel(HashedFlows, Codel):
    """A queue with CoDel for each flow, served in turn (RFC 8290; net/sched/sch_fq_codel.c)."""

    title: ClassVar[str] = "FQ-CoDel"
    discipline: Literal["fq_codel"]  # type: ignore[assignment]


class Pie(Aqm):
    """Proportional Integral controller Enhanced (RFC 8033; net/sched/sch_pie.c): it drops by chance, for a delay."""

    title: ClassVar[str] = "PIE"
    draws: ClassVar[bool] = True
    drops_early: ClassVar[bool] = True

    discipline: Literal["pie"]
    limit: QueueSize = QueueSize.parse("1000 packets")
    """Hard limit of the queue; a size in another unit than packets counts full frames."""
    target: Duration = Duration.parse("15 ms")
    """Delay that the drop probability is controlled for."""
    tupdate: Duration = Duration.parse("15 ms")
    """How often the drop probability is computed."""
    alpha: Annotated[int, Field(strict=True, ge=0, le=32)] = 2
    """Weight of the delay's difference from `target`, 1/16 Hz (tc alpha)."""
    beta: Annotated[int, Field(strict=True, ge=0, le=32)] = 20
    """Weight of the delay's growth, 1/16 Hz (tc beta)."""

    _times = field_validator("target", "tupdate")(_kernel_time)


class FqPie(HashedFlows, Pie):
    """A queue with PIE for each flow, served in turn (net/sched/sch_fq_pie.c)."""

    title: ClassVar[str] = "FQ-PIE"
    discipline: Literal["fq_pie"]  # type: ignore[assignment]


class Cake(Discipline):
    """Common Applications Kept Enhanced (Høiland-Jørgensen, Täht & Morton 2018; net/sched/sch_cake.c), unshaped.

    The link behind it is the bottleneck. It marks what allows ECN, and drops other packets.
    """

    title: ClassVar[str] = "CAKE"
    separates_flows: ClassVar[bool] = True
    drops_early: ClassVar[bool] = True
    drops_at_dequeue: ClassVar[bool] = True

    discipline: Literal["cake"]
    limit: Size = Size.parse("4 MB")
    """Memory of the waiting packets as the kernel counts it, which is more than their bytes (tc memlimit)."""
    rtt: Duration = Duration.parse("100 ms")
    """Round trip that CoDel's interval is chosen for; its target is a twentieth of it."""
    isolation: Literal["flowblind", "flows", "hosts", "srchost", "dsthost", "triple-isolate"] = "flows"
    """What has a queue of its own (tc-cake(8))."""
    priorities: Literal["besteffort", "diffserv3", "diffserv4", "diffserv8"] = "besteffort"
    """Classes by the packets' DiffServ field (tc-cake(8))."""
    ack_filter: bool = False
    """Drop TCP acknowledgements that later ones replace."""

    _times = field_validator("rtt")(_kernel_time)

    @property
    def capacity(self) -> QueueSize:
        """The hard limit of the queue."""
        return QueueSize.parse(str(self.limit))

    @property
    def may_mark(self) -> bool:
        """Whether it marks packets Congestion Experienced (RFC 3168)."""
        return True


class Sfq(Limited):
    """Stochastic Fairness Queueing (McKenney 1990; net/sched/sch_sfq.c): flows in turn, and the longest is cut."""

    title: ClassVar[str] = "SFQ"
    separates_flows: ClassVar[bool] = True

    discipline: Literal["sfq"]
    limit: QueueSize = QueueSize.parse("127 packets")
    """Hard limit of all queues together; a size in another unit than packets counts full frames."""
    depth: Annotated[int, Field(strict=True, ge=1, le=127)] = 127
    """The most packets of a flow that wait."""
    quantum: Size = Size.parse("1514 B")
    """Bytes that a flow may send in its turn."""


class DualPi2(Limited):
    """The coupled queues of L4S (RFC 9332; net/sched/sch_dualpi2.c): ECT(1) and CE in one, other packets in another."""

    title: ClassVar[str] = "DualPI2"
    draws: ClassVar[bool] = True
    separates_flows: ClassVar[bool] = True
    drops_early: ClassVar[bool] = True

    discipline: Literal["dualpi2"]
    limit: QueueSize = QueueSize.parse("10000 packets")
    """Hard limit of both queues together; a size in another unit than packets counts full frames."""
    target: Duration = Duration.parse("15 ms")
    """Delay of the classic queue that the probability is controlled for."""
    tupdate: Duration = Duration.parse("16 ms")
    """How often the probability is computed."""
    step_threshold: Duration = Duration.parse("1 ms")
    """Wait above which the low-latency queue marks every packet."""
    coupling: Annotated[int, Field(strict=True, ge=1, le=255)] = 2
    """The low-latency queue's probability over the classic one's root (RFC 9332's k)."""
    classic_protection: Percentage = Percentage.parse("10 %")
    """Least share of turns of the classic queue, in whole percent."""

    _times = field_validator("target", "tupdate", "step_threshold")(_kernel_time)

    @field_validator("classic_protection")
    @classmethod
    def _whole(cls, value: Percentage) -> Percentage:
        if value.value % 10**7 or value.fraction > 1:
            raise UnfitError(f"the kernel has whole percents up to 100, not {value}", "write '10 %', say")
        return value

    @property
    def may_mark(self) -> bool:
        """Whether it marks packets Congestion Experienced (RFC 3168)."""
        return True


class StepMarker(Limited):
    """A first-in first-out queue that marks what waited longer than a threshold, as DCTCP's (RFC 8257)."""

    title: ClassVar[str] = "step marker"
    discipline: Literal["step"]
    limit: QueueSize = QueueSize.parse("1000 packets")
    """Hard limit of the queue; a size in another unit than packets counts full frames."""
    threshold: Duration
    """Wait above which a packet that allows ECN is marked."""

    _times = field_validator("threshold")(_kernel_time)

    @property
    def may_mark(self) -> bool:
        """Whether it marks packets Congestion Experienced (RFC 3168)."""
        return True


class Remark(Part):
    """The treatment of packets beyond the rate of a policer, instead of dropping them."""

    dscp: Annotated[int, Field(strict=True, ge=0, le=63)]
    """Their new Differentiated Services codepoint (RFC 2474 §3); 8 is CS1."""


class Policer(Discipline):
    """A token bucket without a queue (RFC 2475 §2.3.3.4; net/sched/act_police.c): it drops or remarks what exceeds it.

    The bucket fills at the link's rate, and is full at first. A packet that finds too few tokens takes none.
    """

    title: ClassVar[str] = "policer"
    holds: ClassVar[bool] = False
    main_size: ClassVar[str] = "burst"

    discipline: Literal["policer"]
    burst: Size
    """Bytes that the bucket holds: so much passes at once after a rest."""
    exceed: Literal["drop"] | Remark = "drop"
    """What becomes of packets that find too few tokens: 'drop', or {dscp: 8} to give them another DSCP. A policer that
    remarks limits nothing: everything passes at once."""

    @field_validator("exceed", mode="before")
    @classmethod
    def _action(cls, value: object) -> object:
        if isinstance(value, str) and value != "drop":
            raise UnfitError(
                f"{format_value(value)} is not what a policer does: it drops, or gives another DSCP",
                "write exceed: drop, or exceed: {dscp: 8}",
            )
        return value

    @property
    def drops(self) -> bool:
        """Whether it drops packets, and does not only remark them."""
        return self.exceed == "drop"

    @property
    def capacity(self) -> QueueSize:
        """Nothing waits."""
        return QueueSize(Fraction(0), "B")


Queue = Annotated[
    DropTail | Red | Codel | FqCodel | Pie | FqPie | Cake | Sfq | DualPi2 | StepMarker | Policer,
    Field(discriminator="discipline"),
]
DisciplineName = Literal[
    "droptail", "red", "codel", "fq_codel", "pie", "fq_pie", "cake", "sfq", "dualpi2", "step", "policer"
]

#: Name of a discipline → its class.
DISCIPLINES: Mapping[DisciplineName, type[Discipline]] = {
    "droptail": DropTail,
    "red": Red,
    "codel": Codel,
    "fq_codel": FqCodel,
    "pie": Pie,
    "fq_pie": FqPie,
    "cake": Cake,
    "sfq": Sfq,
    "dualpi2": DualPi2,
    "step": StepMarker,
    "policer": Policer,
}

#: RED in its short form ("RED 1 BDP"): thresholds as fractions of the limit (as in scenarios/queue), the largest
#: probability and the weight (Floyd & Jacobson 1993, and Floyd's notes on it).
RED_MIN, RED_MAX, RED_PROBABILITY, RED_WQ = Decimal("0.3"), Decimal("0.8"), "10 %", 0.002


def short_red(text: str) -> dict[str, object]:
    """RED from its limit alone. Raises ValueError."""
    limit = QueueSize.parse(text)
    return {
        "discipline": "red",
        "limit": limit,
        "min": limit.part(RED_MIN),
        "max": limit.part(RED_MAX),
        "probability": RED_PROBABILITY,
        "wq": RED_WQ,
        "average_packet": f"{MTU} B",
    }


def read_queue(value: object) -> object:
    """A queue's keys from its short form: a size, 'RED' and a limit, or the name of a discipline. Raises ValueError."""
    if isinstance(value, str):
        word, _, limit = value.partition(" ")
        if word.lower() == "red":
            value = short_red(limit)
        elif word in DISCIPLINES:
            value = {
                "discipline": word,
                **({DISCIPLINES[cast(DisciplineName, word)].main_size: limit} if limit else {}),
            }
        elif word.isidentifier():
            names = did_you_mean(word.lower(), DISCIPLINES)
            raise UnfitError(f"{format_value(value)} is neither a size ('1 BDP') nor a discipline", names)
        else:
            value = {"size": value}
    if not isinstance(value, dict | Part):
        raise UnfitError(f"{format_value(value)} is not a queue: write its size, or its keys", "for example '1 BDP'")
    return {"discipline": "droptail", **value} if isinstance(value, dict) else value
