"""Lab → Compose file. Pure; golden-tested; the file works by hand from the run's folder."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import yaml

from harness.engines.docker import OWNER_LABEL
from harness.engines.kernels import OWN
from harness.lab import PROXY_COMMAND, Host, Interface, Lab, Network, Proxy, Simulator, proxy_environment
from harness.model import MTU

#: What the file leaves open, and cell.env answers: where served files, certificates and output are.
VARIABLES = ("LAB_WWW", "LAB_CERTS", "LAB_OUT", "LAB_PLAN", "LAB_OWNER")

#: What runs a simulator that stays up, in its image.
STANDING_COMMAND = ("python3", "-m", "simulator.standing")

#: Processor time of an endpoint against what else the daemon runs, which has 1024; the most is 262,144.
SHARES = 32768

#: Folder, below the run's, in which simulators of one lab tell each other when it begins.
CLOCK = "clock"
#: Where simulators that stay up see all runs' folders.
RUNS = PurePosixPath("/runs")
_LOGGING = {"driver": "json-file", "options": {"max-size": "8m", "max-file": "1"}}


def _variable(name: str) -> str:
    return "${" + name + ":?see cell.env}"


def _endpoint(host: Host, folder: str) -> dict[str, Any]:
    """`folder`: of several files that a server serves the one that has them; else empty."""
    out = _variable("LAB_OUT")
    volumes = [f"{out}/flow{host.flow}/{host.role}:/logs", f"{_variable('LAB_CERTS')}:/certs:ro"]
    if host.role == "server":
        www = _variable("LAB_WWW") + (f"/{folder}" if folder else "")
        volumes.append(f"{www}:/www:ro")
    else:
        volumes.append(f"{out}/flow{host.flow}/downloads:/downloads")
    return {
        "image": host.image,
        "pull_policy": "never",
        "cpu_shares": SHARES,
        "environment": dict(sorted(host.environment.items())),
        "cap_add": ["NET_ADMIN"],
        "volumes": volumes,
        "extra_hosts": [f"{name}:{address}" for name, addresses in host.hosts.items() for address in addresses],
        **({"sysctls": dict(sorted(host.sysctls.items()))} if host.sysctls else {}),
        "networks": _places(*host.interfaces),
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
        "logging": _LOGGING,
        # The engine ends the endpoints; time to write the last of a log, for those that heed SIGTERM.
        "stop_grace_period": "2s",
    }


def _places(*interfaces: Interface) -> dict[str, Any]:
    return {one.network: {"ipv4_address": one.ipv4, "ipv6_address": one.ipv6} for one in interfaces}


def _simulator(lab: Lab, simulator: Simulator) -> dict[str, Any]:
    plan = _variable("LAB_PLAN")
    if simulator is not lab.simulators[0]:
        plan += f"/{simulator.name}"
    clock = [f"{_variable('LAB_OUT')}/{CLOCK}:/clock"] if len(lab.simulators) > 1 else []
    servers = [host for host in lab.hosts if host.role == "server"]
    return {
        "image": lab.sim_image,
        "pull_policy": "never",
        # Of the lab kernel, where that has the queues (see `harness.engines.kernels`).
        "environment": OWN.settings,
        # Where cores are short the path comes first: a late queue would be everybody's fault but its own.
        "cpu_shares": 8 * SHARES,
        "cap_drop": ["ALL"],
        "cap_add": ["NET_ADMIN", "NET_RAW"],
        # /proc/sys is read-only inside: what the path needs of it is set here.
        "sysctls": {
            "net.ipv4.ip_forward": "1",
            "net.ipv4.conf.all.rp_filter": "0",
            "net.ipv6.conf.all.disable_ipv6": "0",
            "net.ipv6.conf.all.forwarding": "1",
        },
        "tmpfs": [f"/run/lab:exec,size={simulator.memory_mib + 64}m"],
        "volumes": [f"{_variable('LAB_OUT')}/{simulator.name}:/logs", f"{plan}:/sim:ro", *clock],
        "extra_hosts": [f"server:{servers[0].ipv4}"],
        "networks": _places(simulator.left, simulator.right),
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
        "logging": _LOGGING,
        "stop_grace_period": "10s",
    }


def _proxy(lab: Lab, proxy: Proxy) -> dict[str, Any]:
    return {
        "image": lab.sim_image,
        "pull_policy": "never",
        "entrypoint": list(PROXY_COMMAND),
        "cpu_shares": 8 * SHARES,
        "environment": proxy_environment(proxy),
        "cap_drop": ["ALL"],
        # To answer in others' names (IP_TRANSPARENT), and to bind whatever port a client has.
        "cap_add": ["NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW"],
        "sysctls": proxy.sysctls,
        "networks": _places(proxy.left, proxy.right),
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
        "logging": _LOGGING,
        "stop_grace_period": "2s",
    }


def _network(network: Network, mtu: int) -> dict[str, Any]:
    options = {"com.docker.network.bridge.enable_ip_masquerade": "false"}
    if mtu != MTU:
        # Of the bridge and of both ends of every wire to it.
        options["com.docker.network.driver.mtu"] = str(mtu)
    return {
        "driver": "bridge",
        "enable_ipv6": True,
        "driver_opts": options,
        "ipam": {"config": [{"subnet": network.ipv4}, {"subnet": network.ipv6}]},
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
    }


def compose_document(lab: Lab) -> dict[str, Any]:
    """The Compose file of a lab, as plain data."""
    return {
        "services": {**{simulator.name: _simulator(lab, simulator) for simulator in lab.simulators}, **services(lab)},
        "networks": {name: _network(network, lab.mtu) for name, network in lab.networks.items()},
    }


def services(lab: Lab) -> dict[str, Any]:
    """What is made for each run: proxies and endpoints, by their names."""
    return {
        **{proxy.name: _proxy(lab, proxy) for proxy in lab.proxies},
        **{host.name: _endpoint(host, lab.flows[host.flow].folder) for host in lab.hosts},
    }


def paths_document(lab: Lab) -> dict[str, Any]:
    """The Compose file of what stays up from run to run, as plain data: networks, and simulators that await orders."""
    runs = _variable("LAB_RUNS")
    return {
        "services": {
            simulator.name: {
                **_simulator(lab, simulator),
                # Runs' folders may be for their owner's eyes alone.
                "cap_add": ["DAC_OVERRIDE", "NET_ADMIN", "NET_RAW"],
                "volumes": [f"{runs}:{RUNS}"],
                "entrypoint": [*STANDING_COMMAND, f"{_variable('LAB_ORDERS')}/{simulator.name}"],
            }
            for simulator in lab.simulators
        },
        "networks": {name: _network(network, lab.mtu) for name, network in lab.networks.items()},
    }


def paths_text(lab: Lab) -> str:
    """The Compose file of what stays up from run to run, as text."""
    return yaml.safe_dump(paths_document(lab), sort_keys=False, width=120)


def compose_text(lab: Lab) -> str:
    """The Compose file of a lab, as text."""
    head = (
        f"# {lab.name}\n"
        "# By hand, from this folder:\n"
        "#   docker compose --env-file cell.env up --abort-on-container-exit; docker compose --env-file cell.env down\n"
    )
    return head + yaml.safe_dump(compose_document(lab), sort_keys=False, width=120)
