#!/bin/sh
# s2n-quic marks its datagrams (ECN) by itself, and as a server takes whichever cipher suite is offered alone.
case ${TESTCASE:-}:${ROLE:-} in
  ecn:* | chacha20:server | versionnegotiation:server) export TESTCASE=transfer ;;
esac
exec /run_program.sh s2n-quic-endpoint
