#!/bin/sh
# What qh3 does beyond the test cases that every program takes, and what it does not do (image.yaml says why); the
# program reads ASKED. It marks no datagrams.
export ASKED="${TESTCASE:-}"
case $ASKED:${ROLE:-} in
  retry:client | v2:* | zerortt:server)
    echo "unsupported test case: $ASKED" >&2
    exit 127
    ;;
  chacha20:* | versionnegotiation:* | keyupdate:client) export TESTCASE=transfer ;;
esac
exec /run_program.sh qh3-endpoint
