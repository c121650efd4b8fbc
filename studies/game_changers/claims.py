"""What N. Kuhn's slides ask, and the studies that answer it."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = (
    "N. Kuhn, Updates on QUIC Over In-sequence Paths with Different Characteristics (CNES slides): "
    "which parameters are game changers?"
)
#: Of the time at the better level: a factor whose worse level takes so much longer changes the game. The bound is ours.
GAME = 0.1
#: Paths of the studies: the ending of their scenarios' names → what it is, and its like of 20 ms.
PATHS = {
    "50-10": "50/10 Mbit/s",
    "250-3": "250/3 Mbit/s",
    "250-3-lossy": "250/3 Mbit/s with 1 % loss",
}
NEAR = "near-"
#: Sweeps that were there before studies were, with the question that they are about.
SWEEPS = {
    "studies/start": "Initial window × initial RTT, 50/10 Mbit/s",
    "studies/ack-ratio-50-10": "ACK ratio, 50/10 Mbit/s",
    "studies/ack-ratio-250-3": "ACK ratio, 250/3 Mbit/s",
    "studies/ack-ratio-50-0.5": "ACK ratio, 50/0.5 Mbit/s",
    "studies/ack-delay-50-10": "ACK delay, 50/10 Mbit/s",
    "studies/ack-delay-250-3": "ACK delay, 250/3 Mbit/s",
    "studies/ack-delay-50-0.5": "ACK delay, 50/0.5 Mbit/s",
}


@dataclass(frozen=True)
class Question:
    """One question of the document."""

    text: str
    """As it stands there."""
    factors: tuple[str, ...]
    """What it is about; empty for all."""
    near: bool = False
    """Whether it is about other paths than the satellite's."""


QUESTIONS = (
    Question(
        "Impact of other parameters (e.g. INITIAL_CWND or INITIAL_RTT)?",
        (
            "server.initial_cwnd",
            "server.initial_rtt",
        ),
    ),
    Question("On going investigations to assess what parameters are game changers", ()),
    Question(
        "PICOQUIC can still do better by increasing flow control limits for high BDP use-cases",
        (
            "client.stream_window",
            "client.connection_window",
        ),
    ),
    Question(
        "Are they relevant for other cases? (e.g. ACK management)",
        (
            "client.ack_ratio",
            "client.max_ack_delay",
            "client.ack_delay_exponent",
        ),
        near=True,
    ),
)
