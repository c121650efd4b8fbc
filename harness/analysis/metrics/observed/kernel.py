"""Evidence from the endpoints' kernels: counters (in virtual time, where each endpoint has its own) and TCP's
buffers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl

from harness.analysis.connection import TransferConnection
from harness.analysis.run_view import RunView
from harness.analysis.tcp_split import is_split
from harness.capture import artefacts
from harness.capture.artefacts import TransferWindow
from harness.capture.files import MAX_RECORD_SIZE, read_bytes
from harness.capture.tcp_info import read_algorithm
from harness.outcome import Observation
from harness.scenario.parameters import ROLES, Role, peer_role


def gso(connection: TransferConnection) -> Iterator[Observation]:
    """Yield gso: datagrams on the wire per datagram given to the kernel (UDP_SEGMENT, udp(7)); 1 without.

    From the simulator's udp.json, {host: {"out_datagrams": n}}, which counts over all the flow's connections. Nothing
    if the file is absent. Raises ValueError if its content has another form.
    """
    path = connection.view.path(artefacts.SENDS)
    counted = {} if path is None else json.loads(read_bytes(path, MAX_RECORD_SIZE))
    flow = connection.window.transfer.flow
    for role in ROLES:
        side = connection.view.left if role == "client" else connection.view.right
        submitted = int(counted.get(f"{role}{flow}", {}).get("out_datagrams", 0))
        if side is None or not submitted:
            continue
        on_wire = int(((side.flow == flow) & (side.to_client == (role == "server"))).sum())
        yield Observation(
            role=role,
            parameter="gso",
            value=on_wire / submitted,
            unit="datagrams per send",
            source=f"{on_wire:,} datagrams in the capture at its side, {submitted:,} given to its kernel",
        )


# --- The report of a TCP flow's generator, and its sender's kernel on windows and buffers (tcp_info, every 20 ms).


#: The source of a generated flow's congestion control.
RECORD = "iperf3's report at its sender"


def algorithm(view: RunView, window: TransferWindow) -> Iterator[Observation]:
    """Yield congestion_control of the sender of a flow over TCP, as its generator read it from the socket."""
    word = recorded_algorithm(view, window.transfer.flow, window.flow.sender)
    if word is not None:
        yield Observation(
            role=window.flow.sender, parameter="congestion_control", value=word, unit="a name", source=RECORD
        )


def recorded_algorithm(view: RunView, flow: int, sender: Role) -> str | None:
    """The congestion control in the report of a generated flow's sender; None where it has none. Raises OSError."""
    path = view.path(f"{artefacts.endpoint_path(flow, sender)}/{artefacts.IPERF3}")
    return None if path is None else read_algorithm(path)


def windows_and_buffers(view: RunView, window: TransferWindow) -> Iterator[Observation]:
    """Yield initial_cwnd, initial_rwnd, tcp_wmem_max and tcp_rmem_max of a flow over TCP.

    The buffers show only by their effect: the share of time in which the sender's had no unsent data, and the largest
    window that the receiver's allowed. If a proxy splits the connection, the sender's kernel knows only the proxy's
    windows, and nothing is reported of the receiver's.
    """
    rows = view.tcp(window.transfer.flow)
    if rows is None or not len(rows):
        return
    sender: Role = window.flow.sender
    first = rows.row(0, named=True)
    yield Observation(
        role=sender, parameter="initial_cwnd", value=first["cwnd"], unit="packets", source="tcp_info, first sample"
    )
    sending = rows.filter(pl.col("bytes_sent") < pl.col("bytes_sent").max())
    if len(sending):
        empty = len(sending.filter(pl.col("notsent_bytes") == 0))
        yield Observation(
            role=sender,
            parameter="tcp_wmem_max",
            value=empty / len(sending),
            unit="of the time nothing to send",
            source="tcp_info, while it sends",
        )
    if first["snd_wnd"] is None or is_split(view):
        return
    yield Observation(
        role=peer_role(sender),
        parameter="initial_rwnd",
        value=first["snd_wnd"] / first["mss"],
        unit="packets",
        source="tcp_info of the sender, first sample",
    )
    yield Observation(
        role=peer_role(sender),
        parameter="tcp_rmem_max",
        value=float(rows.select(pl.col("snd_wnd").max()).item()),
        unit="bytes",
        source="tcp_info of the sender, the largest window",
    )
