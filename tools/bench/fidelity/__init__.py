"""What queues must do to a known stream of packets, by the rules of the kernel's queueing disciplines.

Predictions that measurements are held against (tests/lab/test_virtual_links.py, tools.bench.links), and the
statistics they are compared by. Times are ns, sizes layer-2 bytes, rates layer-2 bit/s, as tc counts them.
"""

from tools.bench.fidelity.bottleneck import ceiling_ns, gap_change, tail_drop
from tools.bench.fidelity.losses import gilbert_elliott, loss_runs, netem_losses, run_length_probabilities
from tools.bench.fidelity.path import Crossing, changes_ns, crossing
from tools.bench.fidelity.prediction import Prediction
from tools.bench.fidelity.red import IdleDecay, RedParameters, red, red_parameters

__all__ = [
    "Crossing",
    "IdleDecay",
    "Prediction",
    "RedParameters",
    "ceiling_ns",
    "changes_ns",
    "crossing",
    "gap_change",
    "gilbert_elliott",
    "loss_runs",
    "netem_losses",
    "red",
    "red_parameters",
    "run_length_probabilities",
    "tail_drop",
]
