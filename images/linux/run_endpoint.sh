#!/bin/bash
# A generator of background traffic, not an endpoint of QUIC: it plays one end of the flow that TRAFFIC describes.
set -u

if [ "${TESTCASE:-}" != traffic ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi

/setup.sh || exit 1
# What has left this interface has left its sender, as with a network card. Without this, where the emulated path is in
# the same kernel, what waits in its queue counts as the sender's own until it is forwarded: TCP holds back at two
# packets (tcp_small_queue_check, net/ipv4/tcp_output.c), UDP at SO_SNDBUF, and no queue ever fills. netem lets go of
# what it delays (skb_orphan_partial, net/sched/sch_netem.c). A kernel without netem has the path in another kernel.
while read -r _ interface _; do
  tc qdisc replace dev "$interface" root netem delay 1us limit 100000 2>/dev/null
done < <(ip -oneline -4 address show scope global)
case ${ROLE:-} in
  client) /wait-for-sim || exit 1 ;;
  server) ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
exec python3 -m traffic "$ROLE"
