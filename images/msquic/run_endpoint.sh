#!/bin/sh
# MsQuic marks its datagrams (ECN) where it is told to. The program reads ASKED.
export ASKED="${TESTCASE:-}"
case ${TESTCASE:-}:${ROLE:-} in
  ecn:*)
    export TESTCASE=transfer CLIENT_PARAMS="--ecn=on ${CLIENT_PARAMS:-}" SERVER_PARAMS="--ecn=on ${SERVER_PARAMS:-}"
    ;;
  chacha20:* | versionnegotiation:server) export TESTCASE=transfer ;;
esac
exec /run_program.sh msquic-endpoint
