"""What the endpoints' kernels counted (virtual time only: there each endpoint has counters of its own)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from harness.analysis.connection import Connection
from harness.capture import artefacts
from harness.capture.files import MOST_RECORD, read_bytes
from harness.outcome import Observation
from harness.scenario.parameters import ROLES


def gso(connection: Connection) -> Iterator[Observation]:
    """Yield gso: datagrams on the wire per datagram the kernel was given (UDP_SEGMENT, udp(7)); 1 without.

    From the simulator's udp.json, {host: {"out_datagrams": n}}, which counts over all the flow's connections. Nothing
    where the file is absent. Raises ValueError where it does not say that.
    """
    path = connection.view.path(artefacts.SENDS)
    counted = {} if path is None else json.loads(read_bytes(path, MOST_RECORD))
    flow = connection.window.transfer.flow
    for role in ROLES:
        side = connection.view.left if role == "client" else connection.view.right
        given = int(counted.get(f"{role}{flow}", {}).get("out_datagrams", 0))
        if side is None or not given:
            continue
        on_wire = int(((side.flow == flow) & (side.to_client == (role == "server"))).sum())
        yield Observation(
            role=role, parameter="gso", value=on_wire / given, unit="datagrams per send",
            source=f"{on_wire:,} datagrams in the capture at its side, {given:,} given to its kernel",
        )  # fmt: skip
