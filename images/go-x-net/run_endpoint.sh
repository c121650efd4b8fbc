#!/bin/sh
# golang.org/x/net has no HTTP/3 over its QUIC, no early data, and no session tickets from a server, which takes whichever
# cipher suite is offered alone.
case ${ROLE:-}:${TESTCASE:-} in
  *:http3 | *:zerortt | server:resumption)
    echo "unsupported test case: ${TESTCASE:-}" >&2
    exit 127
    ;;
  server:chacha20 | server:versionnegotiation) export TESTCASE=transfer ;;
esac
exec /run_program.sh go-x-net-endpoint
