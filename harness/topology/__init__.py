"""Cell → Lab: hosts, addresses, simulator plan, flows. Pure; both engines build the lab from it.

Addresses and names are those of the published network simulator (quic-network-simulator): client
193.167.0.100, server 193.167.100.100, the simulator at .2 of both networks. Further flows count up from
there. A second lab on the same machine takes another slot, with the third byte shifted.
"""

from harness.topology.build import build_lab, flow_label, run_seed, server_of
from harness.topology.run_files import (
    PROXY_COMMAND,
    digest_content,
    lab_summary,
    plan_folder,
    proxy_environment,
    sim_plan,
)
from harness.topology.spec import (
    CLIENT_END,
    CLIENT_START,
    LOADED_WAIT,
    SERVER_PORT,
    SERVER_WAIT,
    Host,
    Interface,
    Lab,
    LabFlow,
    LabMove,
    Network,
    ProxyHost,
    Simulator,
)

__all__ = [
    "CLIENT_END",
    "CLIENT_START",
    "LOADED_WAIT",
    "PROXY_COMMAND",
    "SERVER_PORT",
    "SERVER_WAIT",
    "Host",
    "Interface",
    "Lab",
    "LabFlow",
    "LabMove",
    "Network",
    "ProxyHost",
    "Simulator",
    "build_lab",
    "digest_content",
    "flow_label",
    "lab_summary",
    "plan_folder",
    "proxy_environment",
    "run_seed",
    "server_of",
    "sim_plan",
]
