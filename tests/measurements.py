"""Measurements by the names that people write, for tests."""

from __future__ import annotations

import re

from harness.evaluation.missing_metrics import absence_sentences
from harness.outcome import MeasuredRun, Measurement
from harness.scenario.metric_names import MetricName

#: Metrics of the run, the link or all flows together. Of these a bare name is no flow's.
_OF_THE_RUN = re.compile(
    r"(?:queue|loss|early|limit)_drops_to_(?:client|server)|drop_rate|mean_queue_(?:length|packets|delay)|"
    r"mean_link_rate|agg_.*|(?:jain|entropy|product)(?:_.*)?|utilisation_shared"
)
#: Metrics of one transfer.
_OF_A_TRANSFER = re.compile(
    r"completion|goodput|milestone_.*|first_byte|handshake|(?:wire|packets)_to_(?:client|server)|ack_(?:packets|ratio)|"
    r"zero_rtt|queue_delay_(?:p50|p95|max)_to_client|retransmitted_share|cpu_(?:client|server|sim)|udp_receive_drops|"
    r"(?:queue|loss)_drops_to_(?:client|server)"
)


def measurement(text: str, value: float, unit: str = "", **overrides: object) -> Measurement:
    """A measurement by a short name: flow1_repeat_completion; the only flow is not named."""
    of = _resolved(text)
    name = {"name": of.metric, "flow": of.flow, "transfer": of.transfer, "phase": of.phase, "move": of.move}
    return Measurement.model_validate({**name, "value": value, "unit": unit, **overrides})


def _resolved(text: str) -> MetricName:
    parsed = MetricName.parse(text)
    if parsed.phase is not None:
        return parsed
    # The only flow of a run was not named.
    flow = 0 if parsed.flow is None and not _OF_THE_RUN.fullmatch(parsed.metric) else parsed.flow
    transfer = parsed.transfer or ("first" if _OF_A_TRANSFER.fullmatch(parsed.metric) else None)
    return parsed._replace(flow=flow, transfer=transfer)


def by_name(measured: MeasuredRun, flows: int = 1) -> dict[str, float]:
    """What was measured of a run of so many flows, by what people call it."""
    values = {figure.named.text(flows): figure.value for figure in measured.measurements}
    assert len(values) == len(measured.measurements), "two figures of one name"
    return values


def warning_texts(measured: MeasuredRun, flows: int = 1) -> list[str]:
    """Its warnings, and why metrics are absent."""
    return [*measured.warnings, *absence_sentences(measured.absent, flows)]
