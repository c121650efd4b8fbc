"""What TCP Reno reaches under random loss, by two formulas that measurements are held against.

M. Mathis et al., The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm (CCR 27(3), 1997); J. Padhye et
al., Modeling TCP Throughput: A Simple Model and its Empirical Validation (SIGCOMM 1998). Both count segments that are
sent, retransmissions included, with a loss per segment and a round trip that does not depend on the window.
"""

from __future__ import annotations

import math


def mathis(segment_bytes: float, rtt: float, loss: float, acked: float = 1.0) -> float:
    """bit/s: MSS/RTT · sqrt(3 / (2·b·p)). `rtt` in s; `acked`: b, segments that one ACK counts as one for the window.

    Without timeouts: for losses of a few per cent at most.
    """
    return 8 * segment_bytes / rtt * math.sqrt(3 / (2 * acked * loss))


def padhye(segment_bytes: float, rtt: float, timeout: float, loss: float, acked: float = 1.0) -> float:
    """bit/s by the full model (equation 32, for a window that no receiver limits): with timeouts and their backoff.

    `timeout`: the first one, s. The window at a loss is W = (2+b)/3b + sqrt(8(1-p)/3bp + ((2+b)/3b)²),
    the chance that a loss ends in a timeout Q = min(1, 3/W) as the paper approximates it, and the mean length of a
    timeout's backoff f(p) = 1 + p + 2p² + 4p³ + 8p⁴ + 16p⁵ + 32p⁶.
    """
    share = (2 + acked) / (3 * acked)
    window = share + math.sqrt(8 * (1 - loss) / (3 * acked * loss) + share**2)
    chance = min(1.0, 3 / window)
    backoff = 1 + sum(float(2 ** (power - 1)) * loss**power for power in range(1, 7))
    sent = (1 - loss) / loss + window + chance / (1 - loss)
    took = rtt * (acked / 2 * window + 1) + chance * timeout * backoff / (1 - loss)
    return 8 * segment_bytes * sent / took
