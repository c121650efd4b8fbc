"""Lab → Compose file. Pure; golden-tested. You can use the file by hand, from the run's folder."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import yaml

from harness.engine import confinement
from harness.engine.confinement import NO_DNS, Confinement, endpoint_confinement, tmpfs_entry
from harness.engine.docker_cli import OWNER_LABEL
from harness.engine.fence import FENCE, REPORT_FILE, bridges, fence_command
from harness.engine.kernel import OWN
from harness.scenario.schema import MTU
from harness.topology import (
    PROXY_COMMAND,
    Host,
    Interface,
    Lab,
    LabFlow,
    Network,
    ProxyHost,
    Simulator,
    proxy_environment,
)

#: Variables of the file, set in cell.env: places of served files, certificates, output and plan; the owner.
VARIABLES = ("LAB_WWW", "LAB_CERTS", "LAB_OUT", "LAB_PLAN", "LAB_OWNER")

#: Command of a simulator that stays up between runs, in its image.
PERSISTENT_COMMAND = ("python3", "-m", "simulator.standing")

#: CPU shares of an endpoint. Other containers of the daemon have 1024; the maximum is 262,144.
SHARES = 32768

#: Folder below the run's folder through which simulators of one lab agree on its start.
CLOCK = "clock"
#: Where simulators that stay up have the folders of all runs mounted.
RUNS = PurePosixPath("/runs")
_LOGGING = {"driver": "json-file", "options": {"max-size": "8m", "max-file": "1"}}


#: Folder in which a fence that stays up reports what it could not do.
_REPORT_FOLDER = PurePosixPath("/said")


def _variable(name: str) -> str:
    return "${" + name + ":?see cell.env}"


def _endpoint(host: Host, flow: LabFlow) -> dict[str, Any]:
    out = _variable("LAB_OUT")
    volumes = [f"{out}/flow{host.flow}/{host.role}:/logs", f"{_variable('LAB_CERTS')}:/certs:ro"]
    if host.role == "server" or flow.uploads:
        www = _variable("LAB_WWW") + (f"/{flow.folder}" if flow.folder else "")
        volumes.append(f"{www}:/www:ro")
    if host.role == ("server" if flow.uploads else "client"):
        received = "/uploads" if flow.uploads else "/downloads"
        volumes.append(f"{out}/flow{host.flow}/downloads:{received}")
    if host.container.read_only and (place := host.environment.get("SESSION_DIR")):
        # A container that is started again must find its sessions. A folder in memory would be a new one.
        volumes.append(place)
    return {
        "image": host.image,
        "pull_policy": "never",
        "cpu_shares": SHARES,
        "environment": dict(sorted(host.environment.items())),
        **endpoint_confinement(host.container).keys,
        **NO_DNS,
        "volumes": volumes,
        "extra_hosts": [f"{name}:{address}" for name, addresses in host.hosts.items() for address in addresses],
        **({"sysctls": dict(sorted(host.sysctls.items()))} if host.sysctls else {}),
        "networks": _addresses(*host.interfaces),
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
        "logging": _LOGGING,
        # The engine ends the endpoints. Those that handle SIGTERM have time to finish their logs.
        "stop_grace_period": "2s",
    }


def _addresses(*interfaces: Interface) -> dict[str, Any]:
    return {
        interface.network: {"ipv4_address": interface.ipv4, "ipv6_address": interface.ipv6} for interface in interfaces
    }


def _simulator(lab: Lab, simulator: Simulator, capabilities: tuple[str, ...] = confinement.SIMULATOR) -> dict[str, Any]:
    plan = _variable("LAB_PLAN")
    if simulator is not lab.simulators[0]:
        plan += f"/{simulator.name}"
    clock = [f"{_variable('LAB_OUT')}/{CLOCK}:/clock"] if len(lab.simulators) > 1 else []
    servers = [host for host in lab.hosts if host.role == "server"]
    return {
        "image": lab.sim_image,
        "pull_policy": "never",
        # Settings of the lab kernel, where that has the queues (see `harness.engine.kernel`).
        "environment": OWN.settings,
        # Where cores are short the path comes first: a late queue would distort the results of all endpoints.
        "cpu_shares": 8 * SHARES,
        **Confinement(capabilities, f"{2 * simulator.memory_mib + confinement.SIMULATOR_MEMORY}m").keys,
        **NO_DNS,
        # /proc/sys is read-only inside, so the sysctls that the path needs are set here.
        "sysctls": {
            "net.ipv4.ip_forward": "1",
            "net.ipv4.conf.all.rp_filter": "0",
            "net.ipv6.conf.all.disable_ipv6": "0",
            "net.ipv6.conf.all.forwarding": "1",
        },
        "tmpfs": [f"/run/lab:exec,size={simulator.memory_mib + 64}m", tmpfs_entry("/root"), tmpfs_entry("/tmp")],
        "volumes": [f"{_variable('LAB_OUT')}/{simulator.name}:/logs", f"{plan}:/sim:ro", *clock],
        "extra_hosts": [f"server:{servers[0].ipv4}"],
        "networks": _addresses(simulator.left, simulator.right),
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
        "logging": _LOGGING,
        "stop_grace_period": "10s",
    }


def _proxy(lab: Lab, proxy: ProxyHost) -> dict[str, Any]:
    return {
        "image": lab.sim_image,
        "pull_policy": "never",
        "entrypoint": list(PROXY_COMMAND),
        "cpu_shares": 8 * SHARES,
        "environment": proxy_environment(proxy),
        **Confinement(confinement.PROXY, f"{confinement.PROXY_MEMORY}m").keys,
        **NO_DNS,
        "sysctls": proxy.sysctls,
        "networks": _addresses(proxy.left, proxy.right),
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
        "logging": _LOGGING,
        "stop_grace_period": "2s",
    }


def _fence(lab: Lab, report_file: str, *volumes: str) -> dict[str, Any]:
    """`report_file`: where the fence reports what it could not do."""
    return {
        "image": lab.sim_image,
        "pull_policy": "never",
        # In a Compose file a single dollar sign begins a variable.
        "entrypoint": [
            word.replace("$", "$$") for word in fence_command(report_file, bridges(list(lab.networks)).values())
        ],
        **Confinement(confinement.FENCE, f"{confinement.FENCE_MEMORY}m", writes=()).keys,
        # The bridges are in the host's network namespace.
        "network_mode": "host",
        # With user namespace remapping a container has no rights in the host's network namespace.
        "userns_mode": "host",
        **({"volumes": list(volumes)} if volumes else {}),
        "labels": {OWNER_LABEL: _variable("LAB_OWNER")},
        "logging": _LOGGING,
        # A shell that waits reacts to no other signal.
        "stop_signal": "SIGKILL",
    }


def _network(network: Network, bridge: str, mtu: int) -> dict[str, Any]:
    options = {
        "com.docker.network.bridge.enable_ip_masquerade": "false",
        # The fence finds the bridge by this name.
        "com.docker.network.bridge.name": bridge,
    }
    if mtu != MTU:
        # MTU of the bridge and of both ends of every veth pair on it.
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
    fenced_services = {name: {**service, "depends_on": [FENCE]} for name, service in services(lab).items()}
    return {
        "services": {
            FENCE: _fence(lab, "/dev/stdout"),
            **{simulator.name: _simulator(lab, simulator) for simulator in lab.simulators},
            **fenced_services,
        },
        "networks": _networks(lab),
    }


def _networks(lab: Lab) -> dict[str, Any]:
    names = bridges(list(lab.networks))
    return {name: _network(network, names[name], lab.mtu) for name, network in lab.networks.items()}


def services(lab: Lab) -> dict[str, Any]:
    """Services that are made for each run: proxies and endpoints, by name."""
    return {
        **{proxy.name: _proxy(lab, proxy) for proxy in lab.proxies},
        **{host.name: _endpoint(host, lab.flows[host.flow]) for host in lab.hosts},
    }


def paths_document(lab: Lab) -> dict[str, Any]:
    """The Compose file of networks, fence and simulators, which stay up between runs, as plain data."""
    runs = _variable("LAB_RUNS")
    return {
        "services": {
            FENCE: _fence(lab, str(_REPORT_FOLDER / REPORT_FILE), f"{_variable('LAB_FENCE')}:{_REPORT_FOLDER}"),
            **{
                simulator.name: {
                    **_simulator(lab, simulator, confinement.PERSISTENT_SIMULATOR),
                    "volumes": [f"{runs}:{RUNS}"],
                    "entrypoint": [*PERSISTENT_COMMAND, f"{_variable('LAB_ORDERS')}/{simulator.name}"],
                }
                for simulator in lab.simulators
            },
        },
        "networks": _networks(lab),
    }


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def to_yaml(document: dict[str, Any]) -> str:
    """A Compose file as text."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)


def compose_text(lab: Lab) -> str:
    """The Compose file of a lab, as text."""
    head = (
        f"# {lab.name}\n"
        "# By hand, from this folder:\n"
        "#   docker compose --env-file cell.env up --abort-on-container-exit\n"
        "#   docker compose --env-file cell.env down --volumes\n"
    )
    return head + to_yaml(compose_document(lab))
