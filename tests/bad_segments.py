"""Paths of several segments that cannot be: what is wrong, where, and the words that must say so."""

from __future__ import annotations

from tests.bad_files import Bad

SEQUENCE = """\
schema: 1
title: Three segments
path:
  - name: internet
    forward: {rate: 1 Gbit/s, delay: 10 ms}
    return: {rate: 1 Gbit/s, delay: 10 ms}
  - proxy: tcp-split
    tcp_wmem_max: 33 MB
    initial_cwnd: 100
  - name: satellite
    forward: {rate: 50 Mbit/s, delay: 300 ms}
    return: {rate: 10 Mbit/s, delay: 300 ms}
  - {name: wifi, forward: {rate: 100 Mbit/s, delay: 2 ms}, return: {rate: 100 Mbit/s, delay: 2 ms}, mtu: 1500}
flows:
  - {kind: tcp, download: 10 MB}
vary:
  path.proxy.initial_rwnd: [10, 100]
  path.satellite.forward.loss: [0 %, 1 %]
"""
_WIFI = (
    "  - {name: wifi, forward: {rate: 100 Mbit/s, delay: 2 ms}, return: {rate: 100 Mbit/s, delay: 2 ms}, mtu: 1500}\n"
)
_FLOW = "  - {kind: tcp, download: 10 MB}"
_RWND = "path.proxy.initial_rwnd: [10, 100]"
_LOSS = "path.satellite.forward.loss: [0 %, 1 %]"

SEQUENCES = [
    # --- what stands where
    Bad("path:\n", "path:\n  - ▸proxy: tcp-split\n", "path.0: a proxy stands between two segments", "between two"),
    Bad(_WIFI, _WIFI + "  - ▸proxy: tcp-split\n", "path.4: a proxy stands between two segments", "between two"),
    Bad("  - proxy: tcp-split\n", "  - ▸{proxy: tcp-split}\n  - proxy: tcp-split\n", "beside another", "leave it out"),
    Bad("name: wifi", "▸nam: wifi", "unknown key 'path.3.nam'", "'name'"),
    Bad("{name: wifi, ", "▸{", "'name' is missing in path.3", "name"),
    Bad("  - {name: wifi", "  - ▸{name: internet", "two segments are called internet", "a name of its own"),
    Bad("name: wifi", "name: ▸The Wi-Fi", "is not the name of a path", "campus"),
    Bad("  - {name: wifi, forward: {rate: 100 Mbit/s, delay: 2 ms}, return: {rate: 100 Mbit/s, delay: 2 ms}, mtu: 1500",
        "  - ▸{name: wifi, forward: {rate: 100 Mbit/s, delay: 2 ms}, return: {rate: 100 Mbit/s, delay: 2 ms}, mtu: 1400",
        "an MTU of 1400 B behind one of 1500 B", "the same mtu"),
    Bad("mtu: 1500", "terminal: ▸server", "expected 'client', not 'server'", "client"),
    Bad("rate: 50 Mbit/s", "rate: ▸50", "has no unit", "Mbit/s"),
    # --- the proxy
    Bad("proxy: tcp-split", "proxy: ▸tcp", "expected 'tcp-split', not 'tcp'", "tcp-split"),
    Bad("initial_cwnd: 100", "▸inital_cwnd: 100", "unknown key 'path.1.inital_cwnd'", "'initial_cwnd'"),
    Bad("initial_cwnd: 100", "initial_cwnd: ▸0", "at least 1, not 0", "1"),
    Bad("initial_cwnd: 100", "initial_cwnd: ▸100 packets", "expected a whole number", "digits"),
    Bad("tcp_wmem_max: 33 MB", "tcp_wmem_max: ▸33 GB", "the kernel's buffers grow to", "4 MB"),
    Bad("tcp_wmem_max: 33 MB", "tcp_wmem_max: ▸4 kB", "the kernel's buffers grow to", "4 MB"),
    Bad("initial_cwnd: 100", "congestion_control: ▸vegas", "expected 'cubic', 'reno' or 'bbr', not 'vegas'", ""),
    # --- the ends
    Bad(_FLOW, "  - {kind: tcp, download: 10 MB, parameters: ▸{server.tcp_wmem_max: 33 GB}}", "33 GB is no tcp_wmem_max",
        "send buffer"),
    Bad(_FLOW, "  - {kind: tcp, download: 10 MB, parameters: {client.tcp_rmem_max: ▸64 KiB}}", "nobody here has the tcp_rmem",
        "they take it from"),
    # --- who is on it
    Bad(_FLOW, "  - {kind: tcp, download: 10 MB, path: ▸wifi}", "one path, which has no name", "leave it out"),
    Bad(_FLOW, "  - {kind: tcp, download: 10 MB, access_delay: ▸5 ms}", "an access delay of one flow", "longer delay"),
    # --- sweeps
    Bad(_RWND, "▸path.proxy.initial_window: [10, 100]", "not a setting of a proxy", "'initial_cwnd'"),
    Bad(_RWND, "path.proxy.initial_rwnd: [10, ▸many]", "expected a whole number", ""),
    Bad(_LOSS, "▸path.satelite.forward.loss: [0 %, 1 %]", "there is no segment 'satelite'", "'satellite'"),
    Bad(_LOSS, "▸path.forward.loss: [0 %, 1 %]", "the scenario has several segments", "path.wifi.forward.loss"),
    Bad(_LOSS, "▸paths.wifi.forward.loss: [0 %, 1 %]", "the scenario has several segments", "path.wifi.forward.loss"),
    Bad(_LOSS, "path.satellite.forward.loss: [0 %, ▸110 %]", "more than the whole", "1 %"),
]  # fmt: skip

#: The same with downloads, which are TCP where those who are named speak HTTPS over it.
DOWNLOADS = SEQUENCE.replace("kind: tcp, ", "")
_DOWNLOAD = "  - {download: 10 MB}\n"
#: In which nobody can be TCP.
UNSPLIT = {
    "clients of QUIC": DOWNLOADS + "clients: [picoquic, ngtcp2]\n",
    "servers of QUIC": DOWNLOADS + "clients: [picoquic, https]\nservers: [ngtcp2]\n",
    "a protocol of QUIC": DOWNLOADS + "protocol: h3\n",
    "a test case of QUIC": DOWNLOADS + "testcase: transfer\n",
    "a flow of QUIC": DOWNLOADS.replace(_DOWNLOAD, "  - {download: 10 MB, client: quinn, server: quinn}\n"),
    "a flow of UDP": DOWNLOADS.replace(
        _DOWNLOAD,
        "  - {kind: udp, stop: 10 s, traffic: {model: uniform, packet: [500 B, 1000 B], gap: [10 ms, 20 ms]}}\n",
    ),
}
NO_TCP = Bad("- proxy: tcp-split", "- proxy: ▸tcp-split", "a proxy that splits TCP, and no flow is TCP", "kind: tcp")
#: And in which somebody is, or may be.
SPLIT = {
    "whoever is named": DOWNLOADS,
    "one of those whom it names": DOWNLOADS + "clients: [picoquic, https]\nservers: [picoquic, https]\n",
    "a protocol over TCP": DOWNLOADS + "protocol: h2\n",
    "one of its flows": DOWNLOADS.replace(_DOWNLOAD, _DOWNLOAD + "  - {download: 10 MB, client: https, server: https}\n")
    + "clients: [picoquic]\nservers: [picoquic]\n",
    "one point of its sweep": DOWNLOADS.replace(_DOWNLOAD, "  - {download: 10 MB, client: https, server: quinn}\n")
    .replace("vary:\n", "vary:\n  flow0.server: [quinn, https]\n"),
}  # fmt: skip
