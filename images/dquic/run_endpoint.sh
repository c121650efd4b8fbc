#!/bin/sh
# dquic takes no Retry, negotiates no version, marks no datagram (ECN), and has no call to update keys. Handshakes over a
# lossy path may end in nothing (multiconnect). As a server it takes whichever cipher suite is offered alone.
case ${TESTCASE:-}:${ROLE:-} in
  retry:* | multiconnect:* | zerortt:client)
    echo "unsupported test case: ${TESTCASE:-}" >&2
    exit 127
    ;;
  chacha20:server | keyupdate:server) export TESTCASE=transfer ;;
esac
exec /run_program.sh dquic-endpoint
