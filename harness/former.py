"""What was measured of a run, as former schemas wrote it, in today's form. Pure: JSON in, JSON out.

Schema 1 had flow, transfer and phase in the names of metrics, and why a metric is absent as an English sentence. It is
read here and nowhere else; what schema 1 called things will not change any more.
"""

from __future__ import annotations

import re
from typing import Any

from harness.metric_names import MetricName

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
_LEFT_OUT = re.compile(r"(?P<metric>\w+) of flows? (?P<flows>[\d, ]+): left out, (?P<why>.*)", re.DOTALL)
_WANTING = re.compile(r"(?P<metrics>\w+ and \w+), for want of (?P<what>\w+) of flows? (?P<flows>[\d, ]+): left out, .*")
_SAMPLES = re.compile(
    r"(?P<metrics>\w+ and \w+) leave out (?P<left>\d+) of (?P<of>\d+) samples (?P<why>in which nothing arrived)"
)
_TIME = re.compile(
    r"(?P<metric>(?:flow\d+_)?(?:repeat_)?(?:completion|milestone_\w+)) is left out: (?P<why>.*)", re.DOTALL
)


def measured(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a measured.json of any schema in the form of schema 2; that of a later one as it is."""
    if content.get("schema", 1) >= 2:
        return content
    absent: list[dict[str, Any]] = []
    warnings: list[str] = []
    for warning in content.get("warnings", ()):
        found = _absences(warning)
        absent += found
        warnings += [] if found else [warning]
    measurements = [{**one, **_name(one["name"])} for one in content.get("measurements", ())]
    return {**content, "schema": 2, "measurements": measurements, "absent": absent, "warnings": warnings}


def _name(text: str) -> dict[str, Any]:
    """The fields that a name of schema 1 held."""
    found = _resolved(text)
    return {
        "name": found.metric,
        "flow": found.flow,
        "transfer": found.transfer,
        "phase": found.phase,
        "move": found.move,
    }


def _resolved(text: str) -> MetricName:
    found = MetricName.parse(text)
    if found.phase is not None:
        return found
    # The only flow of a run was not named.
    flow = 0 if found.flow is None and not _OF_THE_RUN.fullmatch(found.metric) else found.flow
    transfer = found.transfer or ("first" if _OF_A_TRANSFER.fullmatch(found.metric) else None)
    return found._replace(flow=flow, transfer=transfer)


def _absences(warning: str) -> list[dict[str, Any]]:
    """Why metrics are absent, of a warning that says so; else nothing."""
    if match := _WANTING.fullmatch(warning):
        flows = match["flows"]
        why = f"the sender of {'flows' if ',' in flows else 'flow'} {flows} does not tell {match['what']}"
        return [{"metric": metric, "why": why} for metric in match["metrics"].split(" and ")]
    if match := _LEFT_OUT.fullmatch(warning):
        flows = [int(number) for number in match["flows"].split(", ")]
        return [{"metric": match["metric"], "flows": flows, "why": match["why"]}]
    if match := _SAMPLES.fullmatch(warning):
        samples, names = [int(match["left"]), int(match["of"])], map(_resolved, match["metrics"].split(" and "))
        return [{"metric": one.metric, "flows": [one.flow], "samples": samples, "why": match["why"]} for one in names]
    if match := _TIME.fullmatch(warning):
        one = _resolved(match["metric"])
        return [{"metric": one.metric, "flows": [one.flow], "transfer": one.transfer, "why": match["why"]}]
    return []
