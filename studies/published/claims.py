"""Figures that others published, each with where it stands and why ours may differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SOURCE = "Publications on QUIC over satellites, on sharing a link, and on acknowledgements"

#: How much of the source was read: the whole, or its abstract or an excerpt.
Read = Literal["read", "abstract"]


@dataclass(frozen=True)
class Published:
    """One figure."""

    key: str
    """What our figure is called in `studies.published.compared`."""
    source: str
    """Authors, title, number or year."""
    path: str
    figure: str
    theirs: str
    read: Read
    why: str
    """Why ours may be another; empty where nothing is known to differ."""


_FAU = "S. Endres, J. Deutschmann et al., Performance of QUIC Implementations Over Geostationary Satellite Links (2022)"

FIGURES = (
    Published(
        "satl",
        _FAU,
        "20/2 Mbit/s, 600 ms, 1 % loss, a queue of 25 packets",
        "10 MiB, picoquic with itself",
        "just over 7 s",
        "abstract",
        "their simulator's queue is up to 125 packets, and their picoquic is of 2022",
    ),
    Published(
        "satl-deep",
        _FAU,
        "the same with a queue of 125 packets",
        "10 MiB, picoquic with itself",
        "just over 7 s",
        "abstract",
        "their picoquic is of 2022",
    ),
    Published(
        "satl-timeouts",
        _FAU,
        "20/2 Mbit/s, 600 ms, 1 % loss",
        "pairs that do not end within 360 s",
        "36",
        "read",
        "other stacks, of 2022; ours are the pairs that are stored",
    ),
    Published(
        "goodput",
        "QUIC interop runner, issue 307 (a sample of its measurement G)",
        "10 Mbit/s, 30 ms",
        "goodput of 10 MiB",
        "9.56 Mbit/s",
        "read",
        "the runner counts from the first to the last packet with data, we the whole transfer",
    ),
    Published(
        "crosstraffic",
        "QUIC interop runner, issue 307 (a sample of its measurement C)",
        "10 Mbit/s, 30 ms, beside TCP CUBIC",
        "goodput of 25 MiB",
        "6.11 Mbit/s",
        "read",
        "another pair, and the runner's way of counting",
    ),
    Published(
        "lossy-cubic",
        "C. Huitema, picoquic, pull request 1222",
        "a satellite path of a high rate, with random loss",
        "100 MB by an unmodified CUBIC",
        "more than 2000 s",
        "abstract",
        "ours is cut off at the scenario's timeout",
    ),
    Published(
        "page-split",
        "L. Thomas et al., Google QUIC performance over a public SATCOM access (2019)",
        "a public GEO access",
        "page load by QUIC to that by TCP with proxies",
        "about 2 times",
        "abstract",
        "gQUIC and the pages of 2018; ours is the middle of the pairs of HTTP/3",
    ),
    Published(
        "share",
        "A. M. Kakhki et al., Taking a Long Look at QUIC (IMC 2017)",
        "one bottleneck, one flow of TCP CUBIC",
        "QUIC's throughput to its fair share",
        "more than 2 times",
        "abstract",
        "gQUIC emulated two connections; no stack of today does (docs/coexistence.md)",
    ),
    Published(
        "ack-packets",
        "A. Custura, T. Jones, R. Secchi, G. Fairhurst, Reducing the acknowledgement frequency in IETF QUIC (2022)",
        "50/10 Mbit/s, 650 ms",
        "100 MB with a tenth of the acknowledgements of ratio 1",
        "no loss of throughput",
        "abstract",
        "",
    ),
)

#: What the lab has nothing to hold against, and why.
NOT_COMPARED = (
    (
        "M. Kosek et al., Exploring Proxying QUIC and HTTP/3 for Satellite Communication (2022): slow start ends up to "
        "2 s sooner, pages load up to 7 s sooner",
        "no stack that can be built here is a proxy that terminates QUIC",
    ),
    (
        "A. Mishra, B. Leong, QUICbench (conformance of congestion control)",
        "its figures were not read; [windows under random loss](response.md) show each controller beside its RFC",
    ),
    (
        "N. Kuhn et al., Feedback from using QUIC's 0-RTT-BDP extension over SATCOM public access (2021)",
        "its figures were not read; [what a second connection remembers](remembered.md) has BDP frames of picoquic",
    ),
    ("Starlink", "no measured link of it is stored beside the profile of [low orbits](leo.md)"),
)
