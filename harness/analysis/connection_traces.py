"""Which of an endpoint's qlog files are of a transfer's connection. Here and nowhere else."""

from __future__ import annotations

from pathlib import Path

from harness.capture import qlog
from harness.capture.artefacts import Artefacts, Window
from harness.capture.files import content_size
from harness.scenario.parameters import Role

#: What is read of a trace to tell whose it is, bytes.
_HEAD = 1 << 16


def traces_of(view: Artefacts, window: Window, role: Role) -> list[Path]:
    """The traces of one endpoint of a transfer's connection: those that name it first, else the largest first.

    A trace is of a connection that it names by the destination of the client's first Initial packet (RFC 9000 §7.2), or
    in whose time it begins; where the flow has one transfer, all of the endpoint's are of that. Raises OSError.
    """
    flow = window.transfer.flow
    alone = sum(other.transfer.flow == flow for other in view.windows) == 1
    name = b""
    if view.left is not None:
        name = view.left.between(window.start_ns, window.end_ns, flow, to_client=False).first_destination()
    found = []
    for path in view.qlogs(flow, role):
        summary = qlog.summary_of(path.name, qlog.read_head(path, _HEAD))
        named = summary.names(name)
        begins = summary.start_ns is not None and window.start_ns <= summary.start_ns < window.end_ns
        if named or begins or alone:
            found.append((not named, -content_size(path), path))
    return [path for _, _, path in sorted(found)]
