#!/bin/sh
# quic-go marks its datagrams (ECN) unless told not to, and as a server takes whichever cipher suite is offered alone. It
# has no interface for key updates and cipher suites.
case ${TESTCASE:-}:${ROLE:-} in
  ecn:* | chacha20:server | versionnegotiation:server) export TESTCASE=transfer ;;
  # The lab's own: no early data after the first connection. The program reads ASKED.
  zerortt-rejected:server) export ASKED="$TESTCASE" TESTCASE=zerortt ;;
esac
exec /run_program.sh quic-go-endpoint
