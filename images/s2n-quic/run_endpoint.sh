#!/bin/sh
# s2n-quic has no early data. It marks its datagrams (ECN) by itself, and as a server takes whichever cipher suite is offered
# alone.
case ${TESTCASE:-}:${ROLE:-} in
  zerortt:*)
    echo "unsupported test case: ${TESTCASE:-}" >&2
    exit 127
    ;;
  ecn:* | chacha20:server | versionnegotiation:server) export TESTCASE=transfer ;;
esac
exec /run_program.sh s2n-quic-endpoint
