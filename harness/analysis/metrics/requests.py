"""What the user of a page, of an interactive program and of a video player sees: figures of a client's schedule.

They come from the client's own log of its requests (`capture.request_log`), as a browser's Resource Timing does. Zero
is the client's first datagram at the simulator's client side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.analysis.metric_registry import Finding, Metric, declare, measures
from harness.analysis.metrics.kinds import transfer_absences, transfer_measurement
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.capture.request_log import RequestTimes, request_times
from harness.scenario.schema import Page, RepeatedRequests, Video

Floats = npt.NDArray[np.float64]

_LOG = "client's requests.csv"
PAGE_LOAD = declare(
    "page_load",
    layer="flow",
    unit="s",
    better="lower",
    title="time until all objects of a page were whole",
    formula="max of the objects' ends - the client's first datagram",
    source=f"{_LOG}; as the load event of a browser without scripts",
)
LOADED = declare(
    "loaded_*",
    layer="flow",
    unit="s",
    better="lower",
    title="time until all objects of this name were whole",
    formula="max of their ends - the client's first datagram",
    source=_LOG,
)
FIRST_BYTE_OF = declare(
    "first_byte_of_*",
    layer="flow",
    unit="s",
    better="lower",
    title="time from the request of an object of this name to its first byte: the median of them",
    formula="median of first byte - request",
    source=f"{_LOG}; Resource Timing's responseStart - requestStart",
)
BYTE_INDEX = declare(
    "byte_index",
    layer="flow",
    unit="s",
    better="lower",
    title="how long a page is missing, its bytes on average",
    formula="Σ size · (end - the client's first datagram) / Σ size over the objects: the area above the share of the "
    "page that is there, where an object counts once it is whole",
    source=f"{_LOG}; ByteIndex of Bocchi, De Cicco and Rossi, Measuring the Quality of Experience of Web users (2016)",
)
RESPONSE_TIME = {
    label: declare(
        f"response_time_{label}",
        layer="flow",
        unit="ms",
        better="lower",
        title=f"time from a request to the end of its response, {statistic}",
        formula="end - request, over all requests of the flow; one that was never answered counts as longest",
        source=_LOG,
    )
    for label, statistic in (("p50", "median"), ("p95", "95th percentile"), ("max", "longest"))
}
RESPONSES_PER_MINUTE = declare(
    "responses_per_minute",
    layer="flow",
    unit="1/min",
    better="higher",
    title="how many requests in a row a minute has room for",
    formula="60 s / median response time",
    source=f"{_LOG}; the RPM of draft-ietf-ippm-responsiveness is of other probes, this of the flow's requests",
)
UNANSWERED = declare(
    "unanswered_requests",
    layer="flow",
    unit="requests",
    better="lower",
    title="requests whose response was not whole at the end",
    formula="count",
    source=_LOG,
)
STARTUP = declare(
    "startup_time",
    layer="flow",
    unit="s",
    better="lower",
    title="time until a video begins: its first segment is whole",
    formula="end of the first segment - the client's first datagram",
    source=_LOG,
)
STALLS = declare(
    "stalls",
    layer="flow",
    unit="stalls",
    better="lower",
    title="how often a video stands still after it began",
    formula="segments that are not whole when the one before them has been played",
    source=_LOG,
)
STALLED_TIME = declare(
    "stalled_time",
    layer="flow",
    unit="s",
    better="lower",
    title="how long a video stands still in all",
    formula="Σ (end of a segment - end of the play of the one before it), where that is positive",
    source=_LOG,
)


@measures
def requests(view: RunView) -> Iterator[Finding]:
    """Yield the figures of pages, of repeated requests and of videos."""
    for window in view.windows:
        flow = window.flow
        source = flow.page or flow.requests or flow.video
        if source is None:
            continue
        names = _NAMES[type(source)]
        frame = view.requests(window.transfer.flow)
        if frame is None or window.zero_ns is None:
            why = (
                "the client left no log of its requests" if frame is None else "no datagram of the client was captured"
            )
            yield from transfer_absences(names, window, why)
            continue
        times = request_times(frame, len(flow.schedule), window.zero_ns)
        if isinstance(source, Page):
            yield from _page(window, source, times)
        elif isinstance(source, RepeatedRequests):
            yield from _repeated(window, times)
        else:
            yield from _video(window, source, times)


#: What each kind of schedule has at least.
_NAMES: dict[type, tuple[Metric, ...]] = {
    Page: (PAGE_LOAD, BYTE_INDEX),
    RepeatedRequests: (*RESPONSE_TIME.values(), RESPONSES_PER_MINUTE, UNANSWERED),
    Video: (STARTUP, STALLS, STALLED_TIME),
}


def _page(window: TransferWindow, page: Page, times: RequestTimes) -> Iterator[Finding]:
    schedule = page.schedule()
    names = np.array([request.name for request in schedule])
    sizes = np.array([request.size.bytes for request in schedule], np.float64)
    for item in page.objects:
        own = names == item.name
        # Names of an archive's objects have no meaning.
        if page.har and item is not page.objects[0]:
            continue
        if not np.isnan(times.complete[own]).any():
            yield transfer_measurement(LOADED, window, float(times.complete[own].max()), _LOG, item.name)
        waits = (times.first_byte - times.asked)[own]
        if not np.isnan(waits).any():
            yield transfer_measurement(FIRST_BYTE_OF, window, float(np.median(waits)), _LOG, item.name)
    if np.isnan(times.complete).any():
        why = "not every object came"
        yield from transfer_absences(_NAMES[Page], window, why)
        return
    yield transfer_measurement(PAGE_LOAD, window, float(times.complete.max()), _LOG)
    yield transfer_measurement(BYTE_INDEX, window, float((sizes * times.complete).sum() / sizes.sum()), _LOG)


def _repeated(window: TransferWindow, times: RequestTimes) -> Iterator[Finding]:
    asked = ~np.isnan(times.asked)
    durations = np.where(np.isnan(times.complete), np.inf, times.complete - times.asked)[asked]
    yield transfer_measurement(UNANSWERED, window, float(np.isnan(times.complete).sum()), _LOG)
    if not len(durations):
        return
    for label, share in (("p50", 50), ("p95", 95), ("max", 100)):
        # Of two neighbours the longer one: no mean with one that was never answered.
        value = float(np.percentile(durations, share, method="higher"))
        if math.isfinite(value):
            yield transfer_measurement(RESPONSE_TIME[label], window, value * 1e3, _LOG)
            if label == "p50" and value > 0:
                yield transfer_measurement(RESPONSES_PER_MINUTE, window, 60 / value, _LOG)


def _video(window: TransferWindow, video: Video, times: RequestTimes) -> Iterator[Finding]:
    if np.isnan(times.complete[0]):
        return
    yield transfer_measurement(STARTUP, window, float(times.complete[0]), _LOG)
    stalls = stall_times(times.complete, video.segment.seconds)
    if np.isnan(stalls).any():
        why = "not every segment came"
        yield from transfer_absences((STALLS, STALLED_TIME), window, why)
        return
    yield transfer_measurement(STALLS, window, float((stalls > 0).sum()), _LOG)
    yield transfer_measurement(STALLED_TIME, window, float(stalls.sum()), _LOG)


def stall_times(complete: Floats, segment: float) -> Floats:
    """How long a video waits for each of its segments after the first, s; NaN from one that never came.

    `complete`: when each segment was whole; `segment`: the play time of each. A video plays from the end of its first
    segment, and goes on as soon as the one that it waits for is whole.
    """
    stalls = np.zeros(len(complete) - 1)
    played = complete[0] + segment
    for number, end in enumerate(complete[1:]):
        stalls[number] = max(0.0, end - played) if not math.isnan(end) else math.nan
        played += stalls[number] + segment
    return stalls
