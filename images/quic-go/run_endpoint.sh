#!/bin/sh
# quic-go marks its datagrams (ECN) unless told not to, and as a server takes whichever cipher suite is offered alone. It
# has no interface for key updates and cipher suites.
case ${TESTCASE:-}:${ROLE:-} in
  ecn:* | chacha20:server | versionnegotiation:server) export TESTCASE=transfer ;;
esac
exec /run_program.sh quic-go-endpoint
