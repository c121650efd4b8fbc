"""Response functions: the window that a congestion controller has on average under random loss, by its RFC."""

from __future__ import annotations

import math

SOURCE = "RFC 5681, RFC 9002 §7.3 (Reno); RFC 9438 §5.1 (CUBIC)"
SCENARIOS = ("loss/response-100ms", "loss/response-600ms")
#: RFC 9438 §4.1 and §4.6: CUBIC's constant in packets/s³, and what its window falls to.
CUBIC_C, CUBIC_DECREASE = 0.4, 0.7
#: What (RTT/p)^¾ is multiplied by, RTT in seconds (RFC 9438 §5.1).
CUBIC_FACTOR = math.pow(CUBIC_C * (3 + CUBIC_DECREASE) / (4 * (1 - CUBIC_DECREASE)), 0.25)

#: (server, controller) → why its window is another, where that is known; read in the sources that are named.
WHY = {
    ("caddy", "reno"): "as quic-go, which it is made of.",
    ("msquic", "cubic"): (
        "it counts acknowledged bytes for its Reno-friendly window in a number without a sign, and takes that window "
        "from them after it has grown. Where they are fewer they wrap around to 4 GB, and from then on each "
        "acknowledgement adds a packet (src/core/cubic.c, AimdAccumulator)."
    ),
    ("nginx", "reno"): "it grows by 65,527 bytes a round trip, whatever its window (images/nginx/image.yaml).",
    ("picoquic", "cubic"): "it leaves isolated losses out (its pull request 1222).",
    ("quic-go", "reno"): "it falls to 0.7 of its window, as its CUBIC does, and grows as Reno.",
    ("quiche", "cubic"): (
        "it takes a congestion event back as spurious when fewer than a fifth of the window's packets were lost in it "
        "(recovery/congestion/cubic.rs, ROLLBACK_THRESHOLD_PERCENT). Random loss hardly ever is more."
    ),
}


def reno_window(loss: float, decrease: float = 0.5) -> float:
    """Packets of a window that grows by one a round trip, and falls to `decrease` of itself at each loss.

    √((1 + β) / (2·(1 - β)·p)): RFC 9438 §5.1.1 for α = 1; √(3 / 2p) with β = 0.5.
    """
    return math.sqrt((1 + decrease) / (2 * (1 - decrease) * loss))


def cubic_window(loss: float, rtt: float) -> float:
    """Packets by RFC 9438: the larger of CUBIC's own window (§5.1, equation 5) and that of its Reno-friendly region.

    `rtt` in seconds. The second is Reno's (§4.3 chooses α so).
    """
    return max(CUBIC_FACTOR * math.pow(rtt / loss, 0.75), reno_window(loss))
