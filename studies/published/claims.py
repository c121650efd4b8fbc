"""Figures that others published, each with where it stands and why ours may differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SOURCE = "Publications on QUIC over satellites, on sharing a link, and on acknowledgements"

#: How much of the source was read: the whole part that has the figure, or an abstract or excerpt that states it.
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
    """Why ours is another; the page has it only where ours is."""
    command: str
    """What makes the runs, after `harness run`."""
    value: float | None = None
    """Theirs as a number in the unit of ours; None where it is none."""
    is_bound: bool = False
    """Whether theirs is the most that is allowed, and not a measurement."""


_FAU = (
    "S. Endres, J. Deutschmann et al., Performance of QUIC Implementations Over Geostationary Satellite Links "
    "(arXiv 2202.08228)"
)
_RUNNER = "QUIC interop runner, issue 307"
_PICOQUIC = "C. Huitema, picoquic, picoquictest/satellite_test.c"
_RFC = "RFC 8312, CUBIC for Fast Long-Distance Networks, table 1, which RFC 9438's draft keeps"
_LAB_OF_PICOQUIC = (
    "its simulator counts no headers, its sender begins half a round trip sooner ([all bounds](picoquic.md))"
)
_ITSELF = "--clients picoquic --servers picoquic"
_REMEMBERED = "remembered/same-250-100mb --clients picoquic --servers picoquic --set server.bdp_seed=jump-start"
_LOSS = "loss/response-100ms --clients quinn --servers quinn,ngtcp2 --set server.congestion_control="


def _bound(test: str, path: str, seconds: float) -> Published:
    """The longest time that one of picoquic's tests allows, s."""
    scenario = f"picoquic/{test.replace('_', '-')}"
    return Published(
        scenario,
        _PICOQUIC,
        path,
        f"{test}: 100 MB",
        f"at most {seconds:g} s",
        "read",
        _LAB_OF_PICOQUIC,
        f"{scenario} {_ITSELF}",
        seconds,
        is_bound=True,
    )


def _window(controller: str, name: str, loss: str, packets: int) -> Published:
    """The window of a response function, packets."""
    return Published(
        f"window {controller} {loss}",
        _RFC,
        f"100 ms, {loss.replace('.0%', '%').replace('%', ' %')} lost",
        f"{name}'s window on average",
        f"{packets} packets",
        "read",
        "the table has evenly spaced losses, and not every stack follows the RFC ([windows by stack](response.md))",
        f"{_LOSS}{controller}",
        packets,
    )


FIGURES = (
    Published(
        "satl",
        _FAU,
        "20/2 Mbit/s, 600 ms, 1 % loss, a queue of 25 packets",
        "10 MiB, picoquic with itself",
        "just over 7 s",
        "abstract",
        "their simulator's queue is up to 125 packets, theirs is one run, and their picoquic is of 2022",
        f"satellite/fau-satl {_ITSELF}",
        7.0,
    ),
    Published(
        "satl-deep",
        _FAU,
        "the same with a queue of 125 packets",
        "10 MiB, picoquic with itself",
        "just over 7 s",
        "abstract",
        "theirs is one run, and their picoquic is of 2022",
        f"satellite/fau-satl-deep {_ITSELF}",
        7.0,
    ),
    Published(
        "sat-timeouts",
        _FAU,
        "20/2 Mbit/s, 600 ms",
        "pairs with a run that does not end within 120 s",
        "10",
        "read",
        "other stacks, of 2022, and other pairs: ours are those that are stored",
        "satellite/fau-sat --pairs itself",
    ),
    Published(
        "satl-timeouts",
        _FAU,
        "20/2 Mbit/s, 600 ms, 1 % loss",
        "pairs with a run that does not end within 360 s",
        "36",
        "read",
        "other stacks, of 2022, and other pairs: ours are those that are stored",
        "satellite/fau-satl --pairs itself",
    ),
    Published(
        "goodput",
        f"{_RUNNER} (a sample of its measurement G)",
        "10 Mbit/s, 30 ms",
        "goodput of 10 MiB",
        "9.56 Mbit/s",
        "read",
        "the runner counts from the first to the last packet with data, we the whole transfer",
        "interop/goodput",
        9.559,
    ),
    Published(
        "crosstraffic",
        f"{_RUNNER} (a sample of its measurement C)",
        "10 Mbit/s, 30 ms, beside TCP CUBIC",
        "goodput of 25 MiB",
        "6.11 Mbit/s",
        "read",
        "another pair, and the runner's way of counting",
        "interop/crosstraffic",
        6.113,
    ),
    Published(
        "lossy-cubic",
        "C. Huitema, picoquic, pull request 1222",
        "a satellite path of a high rate, with random loss; ours 250/3 Mbit/s, 650 ms, 1 % lost",
        "100 MB by an unmodified CUBIC",
        "more than 2000 s",
        "abstract",
        "ours is cut off at the scenario's timeout",
        "satellite/large-lossy --clients quinn --servers quinn --set server.congestion_control=cubic",
    ),
    Published(
        "lossy-filter",
        "C. Huitema, picoquic, pull request 1222",
        "a satellite path of a high rate, with random loss; ours 250/3 Mbit/s, 600 ms, 1 in 64 lost",
        "100 MB by picoquic's CUBIC, which ignores single losses",
        "less than 11 s",
        "abstract",
        "their rate and loss are not stated where it was read",
        f"picoquic/satellite-cubic-loss {_ITSELF}",
        11.0,
        is_bound=True,
    ),
    _bound("satellite_basic", "250/3 Mbit/s, 600 ms, BBR", 5.5),
    _bound("satellite_loss", "250/3 Mbit/s, 600 ms, 1 in 64 lost, BBR", 8.0),
    _bound("satellite_cubic", "250/3 Mbit/s, 600 ms, CUBIC", 6.5),
    _bound("satellite_medium", "50/10 Mbit/s, 600 ms, BBR", 18.2),
    _bound("satellite_small", "10/2 Mbit/s, 600 ms, BBR", 81.5),
    Published(
        "first",
        "C. Huitema, picoquic, pull request 1204",
        "a satellite, 250 Mbit/s; ours 250/3 Mbit/s, 650 ms",
        "100 MB by picoquic, on a first connection",
        "just under 6 s",
        "abstract",
        "their round trip and way of counting are not stated where it was read",
        _REMEMBERED,
        6.0,
    ),
    Published(
        "remembered",
        "C. Huitema, picoquic, pull request 1204",
        "a satellite, 250 Mbit/s; ours 250/3 Mbit/s, 650 ms",
        "the same, where round trip and window are remembered",
        "just under 4.8 s",
        "abstract",
        "their round trip and way of counting are not stated where it was read",
        _REMEMBERED,
        4.8,
    ),
    Published(
        "careful-resume",
        "Experiments cited by draft-ietf-tsvwg-careful-resume (RFC 9959)",
        "a satellite; ours 50/10 Mbit/s, 650 ms",
        "time of a transfer with Careful Resume to that without",
        "4 s to 9 s (5.3 MB)",
        "abstract",
        "ours is of 10 MB, of which more comes at the line's rate",
        "remembered/same-50-10mb --clients quinn --servers quinn --set server.bdp_seed=careful-resume",
        4 / 9,
    ),
    Published(
        "page-split",
        "L. Thomas et al., Google QUIC performance over a public SATCOM access (2019)",
        "a public GEO access; ours 50/10 Mbit/s, 650 ms",
        "page load by QUIC to that by TCP with proxies",
        "about 2 times",
        "abstract",
        "gQUIC and the pages of 2018; ours is the middle of the pairs of HTTP/3",
        "web/geo web/geo-split",
        2.0,
    ),
    Published(
        "share",
        "A. M. Kakhki et al., Taking a Long Look at QUIC (IMC 2017)",
        "a bottleneck that QUIC shares with TCP CUBIC; ours 10 Mbit/s, one flow of each",
        "QUIC's throughput to its fair share",
        "more than 2 times",
        "abstract",
        "gQUIC can emulate several connections of TCP; beside one flow, as here, 2 times is all there is",
        "dumbbell/beside-tcp --clients quinn --servers all",
    ),
    Published(
        "share-quic-go",
        "quic-go, issue 1385 (2018)",
        "100 Mbit/s, beside TCP; ours 10 Mbit/s",
        "quic-go's part of what both carry",
        "21% (20 of 95 Mbit/s)",
        "read",
        "quic-go of 2018, on another path",
        "dumbbell/beside-tcp --clients quinn --servers quic-go",
        20 / 95,
    ),
    Published(
        "ack-packets",
        "A. Custura, T. Jones, R. Secchi, G. Fairhurst, Reducing the acknowledgement frequency in IETF QUIC (2022)",
        "satellite paths; ours 50/10 Mbit/s, 650 ms",
        "100 MB with a tenth of the acknowledgements of ratio 1",
        "no loss of throughput",
        "abstract",
        "",
        "studies/ack-ratio-50-10 --clients ngtcp2 --servers ngtcp2",
    ),
    Published(
        "leo-rtt",
        "UCLouvain, University of Trieste, Politecnico di Torino, Fact checking Starlink's performance figures (APNIC, "
        "28 November 2022)",
        "Starlink in Belgium to servers in Europe, early 2022",
        "round trip of an idle link",
        "50 ms in the middle, 20 ms at least",
        "abstract",
        "the [profile](leo.md) is synthetic; ours are handshakes, which take one round trip",
        "leo/steady --pairs itself",
        50.0,
    ),
    Published(
        "leo-reconfigured",
        "N. Mohan et al., A Multifaceted Look at Starlink Performance (WWW 2024)",
        "Starlink, another configuration of the link every 15 s",
        "goodput to that of a link that stays",
        "substantial variation",
        "abstract",
        "the profile draws other rates at each reconfiguration, and the link that stays has the first",
        "leo --pairs itself",
    ),
    _window("reno", "Reno", "1.0%", 12),
    _window("reno", "Reno", "0.1%", 38),
    _window("cubic", "CUBIC", "1.0%", 12),
    _window("cubic", "CUBIC", "0.1%", 38),
)

#: The pairs, client and server, that FAU's list of time-outs has of stacks that this lab has, too
#: (sedrubal/quic-interop-runner, timeouts-paper-2022-03-15.csv).
TIMED_OUT = {
    "satellite/fau-sat": frozenset(
        {
            ("aioquic", "nginx"),
            ("ngtcp2", "nginx"),
            ("picoquic", "haproxy"),
            ("picoquic", "kwik"),
            ("quiche", "nginx"),
        }
    ),
    "satellite/fau-satl": frozenset(
        {
            *((client, "aioquic") for client in ("aioquic", "ngtcp2", "picoquic", "quic-go", "quiche")),
            *((client, "kwik") for client in ("aioquic", "ngtcp2", "picoquic", "quic-go", "quiche")),
            ("ngtcp2", "quic-go"),
            ("picoquic", "haproxy"),
            ("picoquic", "s2n-quic"),
        }
    ),
}

#: FAU's cases with the queue that the paper states, and with that of their simulator.
GRID = {
    "SAT, 25 packets": "satellite/fau-sat",
    "SAT, 125 packets": "satellite/fau-sat-deep",
    "SATL, 25 packets": "satellite/fau-satl",
    "SATL, 125 packets": "satellite/fau-satl-deep",
}

#: What the lab has nothing to hold against, and why.
NOT_COMPARED = (
    (
        "M. Kosek, H. Cech, V. Bajpai, J. Ott, Exploring Proxying QUIC and HTTP/3 for Satellite Communication (arXiv "
        "2205.01554) †: slow start ends up to 2 s sooner, pages load up to 7 s sooner",
        "no stack that can be built here is a proxy that terminates QUIC; [proxies of TCP](in-sequence.md) are there",
    ),
    (
        "A. Mishra, B. Leong, QUICbench, on the conformance of congestion control",
        "no figure of theirs could be read: the tool's README states none; [windows under random "
        "loss](response.md) show each controller beside its RFC",
    ),
    (
        "N. Kuhn, F. Simo, D. Pradas, E. Stephan, Evaluating BDP FRAME extension for QUIC (arXiv 2112.05450)",
        "no figure of theirs could be read: the abstract states none; [what a second connection "
        "remembers](remembered.md) has picoquic's BDP frames",
    ),
    (
        "S. Endres, J. Deutschmann et al.: efficiency of each pair",
        "their table could not be read; ours is below",
    ),
)
