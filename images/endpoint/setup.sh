#!/bin/bash
# Points a container of the interop networks (193.167.0.0/16, fd00:cafe:cafe::/48) at the simulator, which is
# host 2 of the container's own network, and closes the direct way. Elsewhere it leaves the network alone.
set -u

mkdir -p /logs/qlog

# One line per address: "2: eth0    inet 193.167.100.100/24 ...".
read -r _ interface _ address _ < <(ip -oneline -4 address show scope global | grep -F ' inet 193.167.') || exit 0
address=${address%/*}

# The simulator reads whole packets from the wire, so their checksums must be real.
if ! ethtool -K "$interface" tx off >/dev/null 2>&1; then
  echo "setup: cannot turn off checksum offload on $interface; a simulator may drop every packet" >&2
fi

# What has left this interface has left its sender, as with a network card. Where the emulated path is in the same
# kernel, what waits in its queues would else count against the sender's socket until it is forwarded, and hold it back
# (SO_SNDBUF; tcp_small_queue_check, net/ipv4/tcp_output.c). netem lets go of what it delays (skb_orphan_partial,
# net/sched/sch_netem.c). A kernel without netem has the path in another one, and the lab's own kernel needs no help.
if [ ! -e /proc/lab ]; then
  tc qdisc replace dev "$interface" root netem delay 1us limit 1000000 2>/dev/null
fi

# A second run finds the routes in place and the way to the simulator's address no longer on-link.
network=${address%.*}
if [ -z "$(ip -4 route show exact 193.167.0.0/16)" ]; then
  ip -4 route add 193.167.0.0/16 via "$network.2" dev "$interface" || exit 1
fi
ip -4 route delete "$network.0/24" dev "$interface" proto kernel 2>/dev/null

# The kernel prints the on-link network as "fd00:cafe:cafe:100::/64", so appending a digit makes an address of it.
if read -r network _ < <(ip -6 route show dev "$interface" proto kernel 2>/dev/null | grep '^fd00:cafe:cafe.*::/64 '); then
  ip -6 route add fd00:cafe:cafe::/48 via "${network%/64}2" dev "$interface" || exit 1
  ip -6 route delete "$network" dev "$interface" proto kernel 2>/dev/null
fi
exit 0
