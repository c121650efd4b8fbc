"""Configuration of a guest in virtual time: its memory, its folders and the endpoints in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.engine.images.rootfs_export import RootFs
from harness.engine.run_dir import plan_path
from harness.engine.virtual.uml_guest import guest_path
from harness.netem.bounds import FRAME
from harness.topology import CLIENT_END, PROXY_COMMAND, Host, Lab, ProxyHost, proxy_environment

#: Memory of a guest beside that of its queues, MiB: kernel, init and page cache; processes of each endpoint.
BASE_MEMORY, ENDPOINT_MEMORY = 384, 160
#: Beyond so many endpoints each further one gets less: not all need the most at the same time, and the kernel's list of
#: pages takes a 64th of a guest's memory.
MANY_ENDPOINTS, FURTHER_ENDPOINT_MEMORY = 100, 32
#: What a guest and each of its endpoints use at least, MiB. The memory file is sparse: what nobody writes takes none.
USED_BASE, USED_ENDPOINT = 128, 4
#: The kernel limits TCP's buffers once they take this fraction of its memory, 1/TCP_SHARE (tcp_init_mem,
#: net/ipv4/tcp.c).
TCP_SHARE = 16


def guest_memory_mib(lab: Lab, images: Mapping[str, RootFs]) -> int:
    """Memory of a lab's guest, MiB: that of the simulators' own kernels, and room for the endpoints.

    Files of an endpoint that does not run as root are in memory: its downloads, and as much again for logs. Requested
    TCP buffers must not exceed the kernel's memory for TCP.
    """
    written_bytes = 0
    for host in lab.hosts:
        if not _runs_as_root(images[host.name]):
            flow = lab.flows[host.flow]
            written_bytes += 2 * flow.size * (1 if flow.repeat_after is None else 2)
    nodes: tuple[Host | ProxyHost, ...] = (*lab.hosts, *lab.proxies)
    texts = (text for node in nodes for text in node.sysctls.values())
    buffers = sum(int(text.split()[-1]) for text in texts if text.split()[-1].isdecimal())
    buffered_mib = (written_bytes + TCP_SHARE * buffers) // 2**20
    simulators = sum(simulator.memory_mib for simulator in lab.simulators)
    many, further = min(len(nodes), MANY_ENDPOINTS), max(0, len(nodes) - MANY_ENDPOINTS)
    endpoints = ENDPOINT_MEMORY * many + FURTHER_ENDPOINT_MEMORY * further
    return simulators + BASE_MEMORY + endpoints + buffered_mib


def used_memory_mib(lab: Lab, memory_mib: int) -> int:
    """Memory that a lab's guest uses at least, MiB. `memory_mib`: all that it has."""
    return min(memory_mib, USED_BASE + memory_mib // 64 + USED_ENDPOINT * (len(lab.hosts) + len(lab.proxies)))


def _runs_as_root(image: RootFs) -> bool:
    return image.user.partition(":")[0] in ("", "root", "0")


def roots_of(images: Mapping[str, RootFs]) -> dict[str, Path]:
    """Name in the guest → root file system of an image. Names are numbered in the lab's order: no path of this host."""
    places = dict.fromkeys(image.rootfs for image in images.values())
    return {f"image{number}": Path(place) for number, place in enumerate(places)}


def world_document(lab: Lab, images: dict[str, RootFs], log_limit: int) -> dict[str, Any]:
    """world.json: the endpoints of a lab and their settings (images/sim/simulator/world.py reads it).

    It names no folder of this machine, so that the guest reads the same everywhere.
    """
    roots = {str(place): guest_path(name) for name, place in roots_of(images).items()}
    return {
        "schema": 1,
        "folders": {name: guest_path(name) for name in ("www", "certs")},
        "client_end": CLIENT_END,
        "log_limit": log_limit,
        "sample_ns": sample_ns(lab),
        "mtu": lab.mtu,
        "hosts": [_host(lab, host, images[host.name], roots) for host in lab.hosts],
        **_simulators(lab),
        **({"proxies": [_proxy(proxy, images[proxy.name], roots) for proxy in lab.proxies]} if lab.proxies else {}),
    }


def _simulators(lab: Lab) -> dict[str, Any]:
    """The simulators of a lab that has several, and their networks; empty for one alone, whose plan has them."""
    if len(lab.simulators) == 1:
        return {}
    return {
        "simulators": [
            {
                "name": simulator.name,
                "plan": plan_path(lab, simulator),
                "networks": {side: interface.network for side, interface in simulator.interfaces.items()},
            }
            for simulator in lab.simulators
        ]
    }


def sample_ns(lab: Lab) -> int:
    """Period of the samples of file sizes, ns: transmission time of four frames to the client, within 2 and 10 ms.

    A file cannot grow faster than its frames arrive, and every sample costs wall time.
    """
    # Data that passes several segments arrives at the rate of the slowest.
    rate = max(
        rate
        for program in (lab.programs if lab.whole is None else (lab.whole,))
        for rate in (
            program.links["to_client"].rate_bps,
            *(change.to_client.rate_bps or 0 for change in program.timeline if change.to_client is not None),
        )
    )
    return min(max(4 * FRAME * 8 * 10**9 // rate, 2_000_000), 10_000_000)


def _image_entry(image: RootFs, roots: Mapping[str, str]) -> dict[str, Any]:
    described = asdict(image) | {"rootfs": roots[image.rootfs]}
    del described["id"], described["identity"]
    if not described["set_ids"] or _runs_as_root(image):
        # To root these bits give nothing, so a layer with copies of these files would be useless.
        del described["set_ids"]
    return described


def _proxy(proxy: ProxyHost, image: RootFs, roots: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": proxy.name,
        "networks": {interface.network: interface.prefixed for interface in proxy.interfaces.values()},
        "environment": proxy_environment(proxy),
        "sysctls": proxy.sysctls,
        "image": _image_entry(image, roots) | {"command": list(PROXY_COMMAND)},
    }


def _host(lab: Lab, host: Host, image: RootFs, roots: Mapping[str, str]) -> dict[str, Any]:
    flow = lab.flows[host.flow]
    several = len(lab.simulators) > 1
    networks = {"networks": {interface.network: interface.prefixed for interface in host.interfaces}} if several else {}
    return {
        "name": host.name,
        "role": host.role,
        "flow": host.flow,
        "addresses": [address for interface in host.interfaces for address in interface.prefixed],
        **networks,
        "hosts": {name: list(addresses) for name, addresses in host.hosts.items()},
        "environment": host.environment,
        **({"sysctls": host.sysctls} if host.sysctls else {}),
        **({"cpu_ps": list(host.cpu.costs)} if host.cpu is not None else {}),
        "image": _image_entry(image, roots),
        "as_root": _runs_as_root(image),
        "start": flow.start if host.role == "client" else 0.0,
        "repeat_after": flow.repeat_after if host.role == "client" else None,
        "cut_after": flow.stop if flow.cut_off and host.role == "client" else None,
        "time_limit": lab.time_limit(flow),
        "patience": lab.patience(flow),
        "file": flow.file,
        **({"folder": flow.folder} if flow.folder else {}),
        **({"sender": flow.sender} if flow.uploads else {}),
        "size": flow.size,
    }
