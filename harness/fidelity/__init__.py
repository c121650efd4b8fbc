"""What queues must do to a known stream of packets, by the rules of the kernel's queueing disciplines.

Predictions that measurements are held against (tests/lab/test_virtual_links.py, harness.bench.links), and the
statistics they are compared by. Times are ns, sizes layer-2 bytes, rates layer-2 bit/s, as tc counts them.
"""

from harness.fidelity.bottleneck import ceiling_ns, first_other_gap, tail_drop
from harness.fidelity.losses import gilbert_elliott, loss_runs, netem_losses, run_length_probabilities
from harness.fidelity.path import Crossing, changes_ns, crossing
from harness.fidelity.prediction import Prediction
from harness.fidelity.red import RedParameters, red, red_parameters

__all__ = [
    "Crossing",
    "Prediction",
    "RedParameters",
    "ceiling_ns",
    "changes_ns",
    "crossing",
    "first_other_gap",
    "gilbert_elliott",
    "loss_runs",
    "netem_losses",
    "red",
    "red_parameters",
    "run_length_probabilities",
    "tail_drop",
]
