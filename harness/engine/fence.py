"""What keeps this machine out of a lab's networks, and them from it: nothing but the lab can be reached from there.

Docker's own way, `internal` networks, is none for a lab. It refuses what is not between two addresses of one network,
which is all that endpoints send each other by way of a simulator, wherever bridged frames pass iptables (br_netfilter,
which Docker loads until version 27, and others do; moby/libnetwork issue 2260); and the machine's own address in such
a network answers. So the networks are ordinary bridges, and a container beside them, in the machine's network
namespace, takes that address away, and all others, and lets no frame from a lab's bridge in:

* addresses: the bridge has none and answers no ARP, so that nobody there learns whom to send to;
* frames: what is sent to the bridge itself all the same, by its MAC address or to all, is dropped before anything
  sees it (nf_tables, hook ingress of family netdev).

It holds the rules: they go when it ends (flag owner, Linux 5.12), and the bridges with their networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

#: Its service, and the file in which it says what it could not do.
FENCE, SAID = "fence", "said"
#: How bridges are called, with a number behind it. A name of an interface has no more than 15 characters.
BRIDGE = "quic-lab"
#: Its last line.
DONE = "closed"

#: `sh -c SCRIPT fence FILE BRIDGE…`. A line for each layer that is not there, and DONE.
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
    """Network → its bridge on the machine: on one machine there is one lab at a time."""
    return {name: f"{BRIDGE}{number}" for number, name in enumerate(networks)}


def fence_command(report_file: str, interfaces: Iterable[str]) -> list[str]:
    """The command that runs the fence, in the simulator's image.

    `report_file`: where it writes what it could not do; `interfaces`: the bridges.
    """
    return ["sh", "-c", SCRIPT, FENCE, report_file, *interfaces]


def missing(file: Path) -> tuple[str, ...] | None:
    """What a fence could not do, 'layer: why'; None while it is not done."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return tuple(lines[:-1]) if lines[-1:] == [DONE] else None
