"""The fence separates a lab's networks from this machine: from there only the lab can be reached.

Docker's `internal` networks do not work for a lab. They refuse packets that are not between two addresses of one
network, wherever bridged frames pass iptables (br_netfilter, which Docker loads until version 27, and others do;
moby/libnetwork issue 2260). All packets between endpoints are such packets, since they pass a simulator. And the host's
own address in such a network answers. So the networks are ordinary bridges. A container in the host's network namespace
removes the bridge's addresses, and drops frames from it:

* addresses: the bridge has none and answers no ARP, so nobody there learns where to send;
* frames: those that are sent to the bridge itself all the same, by its MAC address or by broadcast, are dropped before
  anything sees them (nf_tables, hook ingress of family netdev).

The container owns the rules: they are removed when it ends (flag owner, Linux 5.12). The bridges are removed with their
networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

#: Its service, and the file in which it reports what it could not do.
FENCE, REPORT_FILE = "fence", "said"
#: Bridges are called this, and a number. An interface name has at most 15 characters.
BRIDGE = "quic-lab"
#: The last line of its report.
DONE = "closed"

#: `sh -c SCRIPT fence FILE BRIDGE…`. It writes a line for each layer that is missing, and DONE.
SCRIPT = r"""set -u
said=$1
shift
rules='table netdev quic-lab { flags owner;'
addresses= frames=
for bridge; do
  # A kernel without IPv6 knows no second word.
  ip link set dev "$bridge" addrgenmode none 2>/dev/null
  why=$(ip address flush dev "$bridge" 2>&1 && ip link set dev "$bridge" arp off 2>&1) || addresses=$why
  rules="$rules chain $bridge { type filter hook ingress device $bridge priority -500; policy drop; };"
done
rules="$rules }"
holder=
if frames=$(echo "$rules" | nft --check --file - 2>&1); then
  { echo "$rules"; exec sleep infinity; } | nft --interactive >/dev/null 2>&1 &
  holder=$!
  tries=0
  until nft list table netdev quic-lab >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 250 ] || { frames='no rules came of it'; break; }
    sleep 0.02
  done
fi
{
  [ -z "$addresses" ] || echo "addresses: $(echo "$addresses" | head -n 1)"
  [ -z "$frames" ] || echo "frames: $(echo "$frames" | head -n 1)"
  echo closed
} >>"$said"
[ -z "$frames" ] || exec sleep infinity
wait "$holder"
"""


def bridges(networks: Sequence[str]) -> dict[str, str]:
    """Network → its bridge on this machine. A machine has one lab in real time at a time."""
    return {name: f"{BRIDGE}{number}" for number, name in enumerate(networks)}


def fence_command(report_file: str, interfaces: Iterable[str]) -> list[str]:
    """The command that runs the fence, in the simulator's image.

    `report_file`: where it writes what it could not do; `interfaces`: the bridges.
    """
    return ["sh", "-c", SCRIPT, FENCE, report_file, *interfaces]


def missing_layers(file: Path) -> tuple[str, ...] | None:
    """Layers that a fence could not set up, as 'layer: why'; None while it is not done."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return tuple(lines[:-1]) if lines[-1:] == [DONE] else None
