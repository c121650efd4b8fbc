#!/bin/bash
# Points a container of the interop networks (193.167.0.0/16, fd00:cafe:cafe::/48) at the simulator, which is
# host 2 of the container's own network, and closes the direct way. Elsewhere it leaves the network alone.
#
# A client on several paths is told its addresses, ADDRESSES=IPV4,IPV6;IPV4,IPV6 …, that of the path it starts on first:
# each leaves by its own interface, and what is bound to none by the first. A server is told which simulators lead to
# the clients of further paths, ROUTES=NETWORK,SIMULATOR;NETWORK,SIMULATOR …
set -u

[ -d /logs/qlog ] || mkdir -p /logs/qlog

# In the lab's own kernel a process takes milliseconds to start, and a system call its time, too: a few programs have it
# all to do, and nothing is read by "read", which takes a call for every byte.
set -f
IFS=$'\n'
# One line per address: "2: eth0    inet 193.167.100.100/24 ...".
lines=($(ip -oneline address show scope global))
unset IFS
first=${ADDRESSES:-}
first=${first%%,*}
interface=
for line in ${lines[@]+"${lines[@]}"}; do
  words=($line)
  if [[ ${words[2]} = inet && ${words[3]} = 193.167.* && (-z $first || ${words[3]} = "$first"/*) ]]; then
    interface=${words[1]} address=${words[3]%/*}
    break
  fi
done
[ -n "$interface" ] || exit 0

prepare() { # INTERFACE
  # The lab's own kernel was told so before, and needs no more.
  [ ! -e /proc/lab ] || return 0

  # The simulator reads whole packets from the wire, so their checksums must be real.
  if ! ethtool -K "$1" tx off >/dev/null 2>&1; then
    echo "setup: cannot turn off checksum offload on $1; a simulator may drop every packet" >&2
  fi

  # What has left this interface has left its sender, as with a network card. Where the emulated path is in the same
  # kernel, what waits in its queues would else count against the sender's socket until it is forwarded, and hold it
  # back (SO_SNDBUF; tcp_small_queue_check, net/ipv4/tcp_output.c). netem lets go of what it delays
  # (skb_orphan_partial, net/sched/sch_netem.c). A kernel without netem has the path in another one.
  tc qdisc replace dev "$1" root netem delay 1us limit 1000000 2>/dev/null
}

leave() { # TABLE ADDRESS INTERFACE WAY EVERYTHING: what has this address leaves by this interface
  local family=-4
  [[ $2 != *:* ]] || family=-6
  # A second run finds it done.
  [ -z "$(ip "$family" rule show from "$2" lookup "$1")" ] || return 0
  ip "$family" route replace "$5" via "$4" dev "$3" onlink table "$1" || exit 1
  ip "$family" rule add from "$2" lookup "$1" || exit 1
}

prepare "$interface"

# A second run finds the way to the simulator's address no longer on-link.
network=${address%.*}
ways="route replace 193.167.0.0/16 via $network.2 dev $interface onlink"
direct="route delete $network.0/24 dev $interface proto kernel"
for line in "${lines[@]}"; do
  words=($line)
  if [[ ${words[1]} = "$interface" && ${words[2]} = inet6 && ${words[3]} = fd00:cafe:cafe*::*/64 ]]; then
    network=${words[3]%::*}
    ways+=$'\n'"route replace fd00:cafe:cafe::/48 via $network::2 dev $interface onlink"
    direct+=$'\n'"route delete $network::/64 dev $interface proto kernel"
    break
  fi
done
ip -batch - <<<"$ways" || exit 1
ip -force -batch - <<<"$direct" 2>/dev/null

table=100
IFS=';'
pairs=(${ADDRESSES:-}) paths=(${ROUTES:-})
unset IFS
for pair in ${pairs[@]+"${pairs[@]}"}; do
  ipv4=${pair%,*} ipv6=${pair#*,}
  table=$((table + 1))
  read -r _ device _ < <(ip -oneline -4 address show to "$ipv4")
  [ "$device" = "$interface" ] || prepare "$device"
  leave "$table" "$ipv4" "$device" "${ipv4%.*}.2" 193.167.0.0/16
  leave "$table" "$ipv6" "$device" "${ipv6%::*}::2" fd00:cafe:cafe::/48
  ip -4 route delete "${ipv4%.*}.0/24" dev "$device" proto kernel 2>/dev/null
  ip -6 route delete "${ipv6%::*}::/64" dev "$device" proto kernel 2>/dev/null
done

for way in ${paths[@]+"${paths[@]}"}; do
  ip route replace "${way%,*}" via "${way#*,}" dev "$interface" onlink || exit 1
done
exit 0
